"""The `atlas` command: runs a subcommand, and turns its error into a message and an exit status."""

import errno
import gc
import sys
from typing import Any

import typer

from atlas.cli.command_table import CommandTable
from atlas.cli.terminal.output import print_json, report
from atlas.cli.terminal.stdio import discard_stdout, prepare_streams
from atlas.errors import AtlasError
from atlas.version import __version__

app = typer.Typer(
    name="atlas",
    cls=CommandTable,
    help="Runs jobs and workflows on Postgres, and keeps an audit log that can be verified.",
    epilog="Groups are found in the singular and in the plural: `atlas job list` is `atlas jobs list`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Defined by Typer or by click, which depends on the version.
_WrongUsage: Any = typer.BadParameter.__base__


def main() -> None:
    """Run one command. Exit status: 0 done, 1 refused with a reason, 2 wrong usage, 130 interrupted."""
    # What a command imports is no garbage: looking for some while it starts and ends would take a fifth of its time.
    gc.set_threshold(200_000, 20, 50)
    try:
        _run()
    finally:
        gc.freeze()


def _run() -> None:
    prepare_streams()
    arguments = sys.argv[1:]
    json = "--json" in arguments
    try:
        _check_encoding(arguments)
        # Typer prints wrong usage by itself. For --json it must raise it instead.
        status = app(arguments, prog_name="atlas", standalone_mode=not json)
    except AtlasError as error:
        report(error, json=json)
        raise SystemExit(1) from None
    except _WrongUsage as error:
        error.show()
        if json:
            print_json({"error": {"type": "Usage", "message": error.format_message(), "remedy": _help_of(error)}})
        raise SystemExit(2) from None
    except BrokenPipeError:
        discard_stdout()
        raise SystemExit(1) from None
    except OSError as error:
        report(_file_error(error), json=json)
        raise SystemExit(1) from None
    except typer.Abort:
        raise SystemExit(130) from None
    raise SystemExit(status if isinstance(status, int) else 0)


def _check_encoding(arguments: list[str]) -> None:
    """Refuse arguments that are not UTF-8: neither the database nor a JSON document can hold them."""
    for position, text in enumerate(arguments, 1):
        try:
            text.encode()
        except UnicodeEncodeError:
            printable = text.encode(errors="replace").decode()
            raise typer.BadParameter(f"argument {position}, {printable!r}, is not text in UTF-8.") from None


def _file_error(error: OSError) -> AtlasError:
    where = f"{error.filename}: " if error.filename else ""
    full = error.errno == errno.ENOSPC
    return AtlasError(
        f"{where}{error.strerror or error}.",
        remedy="Free space on that disk." if full else "Check the folder, its disk and its permissions.",
    )


def _help_of(error: Any) -> str:
    return f"See `{'atlas' if error.ctx is None else error.ctx.command_path} --help`."


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        print(__version__)
        raise typer.Exit


if __name__ == "__main__":
    main()
