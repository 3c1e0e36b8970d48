"""`atlas effects reconcile`: compares the effect ledger with a provider, both ways."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.audit.verifier.format import counted
from atlas.cli.connection.needs_database import require_database
from atlas.cli.runtime import caller, execute, open_atlas
from atlas.cli.terminal.durations import parse_duration
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.terminal.parameters import AGO, read_time
from atlas.models.effect_reports import EffectReport

if TYPE_CHECKING:
    from atlas.cli.terminal.output import Printable
    from atlas.engine.effects.reconcile import Progress
    from atlas.settings import Settings

# What each kind of difference means, in the order in which they are shown.
MEANINGS = {
    "twice": "made more than once by the provider",
    "not_there": "done here, not at the provider",
    "not_here": "at the provider, not in the ledger",
    "found": "unknown here, made by the provider",
    "refused_here": "not made by the ledger, made by the provider",
    "other_reference": "made by the provider under another reference",
}


def reconcile_effects(
    provider: Annotated[str, typer.Argument(help="The part of the effects' names before the dot, such as stripe.")],
    since: Annotated[str, typer.Option(metavar="TIME", help=f"Compare effects since then, {AGO}.")] = "1d",
    app: Annotated[list[str] | None, typer.Option("--app", help="A module that registers the adapter.")] = None,
    grace: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How late the provider may list an effect; by default what the adapter says.",
        ),
    ] = None,
    settle: Annotated[
        bool, typer.Option("--settle", help="Settle unknown effects that the provider made once as done.")
    ] = False,
    rows: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of differences of each kind.")] = 100,
    json: Json = False,
) -> None:
    """Compare the effects of a provider with what the provider lists. Exits with 1 if they differ."""
    start = read_time("--since", since)
    delay = None if grace is None else parse_duration(grace)

    async def work(settings: "Settings") -> EffectReport:
        from atlas.engine.effects.adapters import find_adapter
        from atlas.engine.effects.reconcile import ReconcileOptions, reconcile
        from atlas.workers.user_modules import load_apps

        require_database(settings)
        load_apps(app or [])
        adapter = find_adapter(provider)
        options = ReconcileOptions(provider, start, grace=delay, settle=settle, max_rows=rows)
        async with open_atlas(settings, size=1) as atlas:
            with _progress(json=json) as progress:
                return await reconcile(atlas.pool, adapter, options, actor=caller(), progress=progress)

    report = execute(work)
    say(report, _report_lines(report), json=json)
    if report.differences:
        raise typer.Exit(1)


def _report_lines(report: EffectReport) -> "list[Printable]":
    entries = counted(report.entries, "entry", "entries")
    compared = f"Compared {counted(report.effects, 'effect')} with {entries} of {report.provider}"
    lines: list[Printable] = [f"{compared} since {report.since:%Y-%m-%d %H:%M:%S} UTC."]
    if report.settled:
        lines.append(f"Settled {report.settled:,} as done.")
    if report.in_doubt:
        lines.append(f"Unknown here and not listed by the provider: {counted(report.in_doubt, 'effect')}.")
    if not report.differences:
        return [*lines, "They agree."]
    counts = [(MEANINGS.get(kind, kind), count) for kind, count in report.counts.items()]
    differences = [
        (row.kind, row.key, row.name, row.reference, ", ".join(row.provider_references), row.job_id)
        for row in report.rows
    ]
    columns = ("KIND", "KEY", "EFFECT", "REFERENCE", "AT THE PROVIDER", "JOB")
    lines += [table(("DIFFERENCE", "COUNT"), counts), "", table(columns, differences)]
    if report.counts.get("found"):
        lines.append("With --settle, those that were found and made once are settled as done.")
    return lines


@contextmanager
def _progress(*, json: bool) -> "Iterator[Progress]":
    """Counts on stderr if it is a terminal."""
    if json or not sys.stderr.isatty():
        yield lambda entries, effects: None
        return
    from rich.console import Console

    with Console(stderr=True).status("listing") as status:
        yield lambda entries, effects: status.update(f"{entries:,} entries, {effects:,} effects")
