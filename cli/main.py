"""The `atlas` command: its subcommands, and how an error leaves the program."""

import sys
from typing import Any

import typer

from atlas import __version__
from atlas.cli.command_table import CommandTable
from atlas.cli.output import print_json, report
from atlas.cli.stdio import let_go_of_stdout, prepare_streams
from atlas.errors import AtlasError

app = typer.Typer(
    name="atlas",
    cls=CommandTable,
    help="Runs jobs and workflows on Postgres, and can prove afterwards what happened.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Of Typer or of click, whichever it stands on.
_WrongUsage: Any = typer.BadParameter.__base__


def main() -> None:
    """Run one command. Exit status: 0 done, 1 refused with a reason, 2 wrong usage, 130 interrupted."""
    prepare_streams()
    arguments = sys.argv[1:]
    json = "--json" in arguments
    try:
        _check_encoding(arguments)
        # Typer explains wrong usage to people by itself; for a document we have to hear of it.
        answer = app(arguments, prog_name="atlas", standalone_mode=not json)
    except AtlasError as error:
        report(error, json=json)
        raise SystemExit(1) from None
    except _WrongUsage as error:
        error.show()
        if json:
            print_json({"error": {"type": "Usage", "message": error.format_message(), "remedy": _help_of(error)}})
        raise SystemExit(2) from None
    except BrokenPipeError:
        let_go_of_stdout()
        raise SystemExit(1) from None
    except typer.Abort:
        raise SystemExit(130) from None
    raise SystemExit(answer if isinstance(answer, int) else 0)


def _check_encoding(arguments: list[str]) -> None:
    """Bytes of another encoding than the terminal's are no text: no database holds them, and no document."""
    for place, text in enumerate(arguments, 1):
        try:
            text.encode()
        except UnicodeEncodeError:
            shown = text.encode(errors="replace").decode()
            raise typer.BadParameter(f"argument {place}, {shown!r}, is not text in UTF-8.") from None


def _help_of(error: Any) -> str:
    return f"See `{'atlas' if error.ctx is None else error.ctx.command_path} --help`."


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        print(__version__)
        raise typer.Exit


if __name__ == "__main__":
    main()
