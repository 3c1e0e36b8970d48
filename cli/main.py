"""The `atlas` command: its subcommands, and how an error leaves the program."""

import sys

import typer

from atlas import __version__
from atlas.errors import AtlasError
from cli.commands import Commands
from cli.output import print_json, report

app = typer.Typer(
    name="atlas",
    cls=Commands,
    help="Runs jobs and workflows on Postgres, and can prove afterwards what happened.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run one command. Exit status: 0 done, 1 refused with a reason, 2 wrong usage, 130 interrupted."""
    json = "--json" in sys.argv[1:]
    try:
        app(prog_name="atlas")
    except AtlasError as error:
        report(error, json=json)
        raise SystemExit(1) from None
    except SystemExit as end:
        if end.code == 2 and json:
            print_json({"error": {"type": "Usage", "message": "Wrong usage.", "remedy": "See `atlas --help`."}})
        raise


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    if version:
        print(__version__)
        raise typer.Exit


if __name__ == "__main__":
    main()
