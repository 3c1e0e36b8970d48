"""`atlas usage`: the attempts, times and cost of a tenant's jobs."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from atlas.cli.connection.client_lists import all_of, with_names
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.terminal.parameters import AGO, read_time
from atlas.models.system import Usage

DEFAULT_PERIOD = timedelta(days=30)


def usage(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant, by slug or id.")] = None,
    from_: Annotated[
        str | None,
        typer.Option("--since", "--from", metavar="TIME", help=f"The first hour, {AGO}; 30 days ago by default."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--until", "--to", metavar="TIME", help="The hour after the last; now if not given."),
    ] = None,
    hourly: Annotated[bool, typer.Option("--hourly", help="One row per hour.")] = False,
    json: Json = False,
) -> None:
    """Show finished attempts, their outcomes, times and cost, by job type."""
    end = None if to is None else read_time("--until", to)
    start = _default_start(end or datetime.now(UTC)) if from_ is None else read_time("--since", from_)
    usages, names = with_names(
        lambda atlas: all_of(atlas.list_usage(start=start, end=end, by_hour=hourly)), tenant=tenant
    )
    columns = [
        *(["HOUR"] if hourly else []),
        *(["TENANT"] if tenant is None else []),
        *("JOB TYPE", "RUNS", "OK", "FAILED", "TIMEOUT", "CANCELED", "LOST", "RUN S", "QUEUE S", "COST"),
    ]
    rows = [
        (*([row.hour] if hourly else []), *([names.slug(row.tenant_id)] if tenant is None else []), *_row(row))
        for row in usages
    ]
    document = {"from": start, "to": end, "usage": [names.document(row) for row in usages]}
    say(document, table(columns, rows) if usages else "There is no usage in that time.", json=json)


def _default_start(end: datetime) -> datetime | None:
    try:
        return end - DEFAULT_PERIOD
    except OverflowError:
        # Before the year 1: there is nothing to leave out.
        return None


def _row(usage: Usage) -> tuple[object, ...]:
    outcomes = (usage.runs, usage.succeeded, usage.failed, usage.timed_out, usage.canceled, usage.lost)
    measures = (
        f"{usage.run_seconds:,.1f}",
        f"{usage.queue_seconds:,.1f}",
        f"{usage.cost_cents / 100:,.2f} {usage.currency}",
    )
    return (usage.job_type, *outcomes, *measures)
