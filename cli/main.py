"""The `atlas` command: its subcommands, and how an error leaves the program."""

import sys

import typer

from atlas import __version__
from atlas.errors import AtlasError
from cli import (
    agent,
    api,
    audit,
    bench,
    definition,
    doctor,
    event,
    host,
    jobs,
    migrate,
    outbox,
    scheduler,
    status,
    tenant,
    token,
    trigger,
    up,
    usage,
    worker,
    workflow,
)
from cli.output import print_json, report

app = typer.Typer(
    name="atlas",
    help="Runs jobs and workflows on Postgres, and can prove afterwards what happened.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(up.up)
app.command()(api.api)
app.command()(worker.worker)
app.command()(scheduler.scheduler)
app.command()(agent.agent)
app.command()(migrate.migrate)
app.command()(doctor.doctor)
app.command()(status.status)
app.command()(status.online)
app.command()(status.offline)
app.command()(usage.usage)
app.command()(bench.bench)
app.add_typer(audit.app, name="audit")
app.command("enqueue")(jobs.enqueue_job)
app.add_typer(jobs.app, name="jobs")
app.add_typer(workflow.app, name="workflow")
app.add_typer(outbox.app, name="outbox")
app.add_typer(trigger.app, name="trigger")
app.add_typer(event.app, name="event")
app.add_typer(tenant.app, name="tenant")
app.add_typer(token.app, name="token")
app.add_typer(host.app, name="host")
app.add_typer(definition.app, name="definition")


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
