"""`atlas insights`: usage, outcomes, times and cost over days, by job type, tenant or step, as a table, JSON or CSV."""

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.terminal.parameters import AGO, read_time
from atlas.cli.terminal.stdio import written_out
from atlas.cli.terminal.text_table import TextTable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from atlas.client import AtlasClient
    from atlas.models.insights import Insights, StepTime
    from atlas.models.overview import Flow


def insights(
    days: Annotated[float, typer.Option(min=0.01, max=1100, help="How many days, up to now.")] = 7,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"From this time on, {AGO}; instead of --days.")
    ] = None,
    by: Annotated[Literal["type", "tenant"], typer.Option(help="Compare job types, or tenants.")] = "type",
    tenant: Annotated[str | None, typer.Option(help="Only this tenant, by slug or id.")] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only this job type.")] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Show the slowest steps of workflows instead.")] = False,
    workflow: Annotated[str | None, typer.Option(help="With --steps, only those of this workflow.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, a row for each hour or day.")] = False,
    json: Json = False,
) -> None:
    """Show usage, outcomes, times and cost over days, by job type or tenant, or the slowest steps of workflows."""
    if csv and json:
        raise typer.BadParameter("cannot be combined with --json", param_hint="--csv")
    if csv and steps:
        raise typer.BadParameter("is not available with --steps; use --json", param_hint="--csv")
    if workflow is not None and not steps:
        raise typer.BadParameter("needs --steps", param_hint="--workflow")
    start = datetime.now(UTC) - timedelta(days=days) if since is None else read_time("--since", since)
    if steps:
        _show_steps(start, tenant, workflow, job_type, json=json)
        return

    async def work(atlas: "AtlasClient") -> Any:
        params: dict[str, Any] = {"start": start, "job_type": job_type, "by": by}
        if csv:
            return await _print_csv(atlas.export_insights(**params))
        return await atlas.get_insights(**params)

    report = on_atlas(work, tenant=tenant)
    if not csv:
        say(report, _text(report, by) if report.groups else "Nothing happened in that time.", json=json)


def _show_steps(start: datetime, tenant: str | None, workflow: str | None, job_type: str | None, *, json: bool) -> None:
    page = on_atlas(
        lambda atlas: atlas.get_step_times(start=start, workflow=workflow, job_type=job_type), tenant=tenant
    )
    columns = ["STEP", "WORKFLOW", "KIND", "FINISHED", "FAILED", "P50", "P95", "SHARE"]
    rows = [_step_row(step) for step in page.items]
    sampled = [f"Of the newest {page.runs:,} runs of this time."] if page.is_sampled else []
    say(page, [table(columns, rows), *sampled] if rows else "No step finished in that time.", json=json)


def _step_row(step: "StepTime") -> tuple[object, ...]:
    figures = (step.count, step.failed, _seconds(step.p50), _seconds(step.p95), f"{step.share:.1%}")
    return (step.step, step.workflow, step.kind, *figures)


async def _print_csv(lines: "AsyncIterator[bytes]") -> None:
    async for some in lines:
        with written_out():
            sys.stdout.buffer.write(some)
            sys.stdout.buffer.flush()


def _text(report: "Insights", by: str) -> list[str | TextTable]:
    columns = ["JOB TYPE" if by == "type" else "TENANT", "ENQUEUED", "SUCCEEDED", "FAILED", "DEAD", "CANCELED"]
    columns += ["ATTEMPTS", "RETRIES", "WAIT P50", "WAIT P95", "RUN P50", "RUN P95", f"COST {report.currency}"]
    rows = [_row(group.job_type or group.tenant or group.tenant_id, group) for group in report.groups]
    rows.append(_row("all", report.total))
    period = f"{report.start:%Y-%m-%d %H:%M} to {report.end:%Y-%m-%d %H:%M} UTC"
    return [period, table(columns, rows), *([f"The busiest {len(report.groups)} alone."] if report.is_cut else [])]


def _row(name: object, flow: "Flow") -> tuple[object, ...]:
    counts = (flow.enqueued, flow.succeeded, flow.failed, flow.dead_lettered, flow.canceled, flow.attempts)
    times = (_seconds(seconds) for seconds in (flow.wait_p50, flow.wait_p95, flow.run_p50, flow.run_p95))
    return (name, *counts, _percent(flow.retry_rate), *times, f"{flow.cost_cents / 100:,.2f}")


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:,.3g} s"
