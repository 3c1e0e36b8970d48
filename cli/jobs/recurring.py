"""`atlas recurring`: the functions that programs run at intervals, and their runs."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.bounds import MAX_PAGE_SIZE
from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.connection.client_lists import all_of, tenant_names, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.terminal.parameters import TenantFilter
from atlas.engine.workflows.registry import near
from atlas.errors import NotFound

if TYPE_CHECKING:
    from atlas.client import AtlasClient, RecurringFunction, RecurringRun

app = typer.Typer(
    help="The functions that programs run at intervals, and their runs.", no_args_is_help=True, add_completion=False
)

NONE_YET = (
    "There are no recurring functions. A module that `atlas scheduler --app` loads registers them;"
    " docs/scheduler.md shows how."
)


@app.command("list")
def show_list(tenant: TenantFilter = None, json: Json = False) -> None:
    """List the recurring functions, with how their last runs ended."""
    functions, names = with_names(lambda atlas: all_of(atlas.list_recurring_functions()), tenant=tenant)
    columns = ("TENANT", "ID", "RUNS", "NEXT", "LAST", "OUTCOME", "COUNT")
    rows = [
        (
            *(
                names.slug(function.tenant_id),
                function.id,
                _every(function),
                function.next_run_at,
                function.last_started_at,
            ),
            *(_last_outcome(function), function.run_count),
        )
        for function in functions
    ]
    documents = [names.document(function) for function in functions]
    say({"recurring": documents}, table(columns, rows) if rows else NONE_YET, json=json)


@app.command("show")
def show_one(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id under which it is registered.")],
    tenant: Annotated[
        str | None, typer.Option(help="Its tenant by slug or id, if several have such a function.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of runs.")] = 20,
    json: Json = False,
) -> None:
    """Show one recurring function and its runs, newest first; also one that is no longer registered."""

    async def work(atlas: "AtlasClient") -> "tuple[RecurringFunction | None, list[RecurringRun], TenantNames]":
        functions = [function async for function in atlas.list_recurring_functions()]
        runs = await _runs(atlas, id, limit, [function.id for function in functions])
        return next((function for function in functions if function.id == id), None), runs, await tenant_names(atlas)

    function, runs, names = on_atlas(work, tenant=tenant)
    columns = ("STARTED", "OUTCOME", "SECONDS", "ATTEMPT", "PROCESS", "ERROR")
    history = table(columns, map(_run, runs)) if runs else "It has not run yet."
    document = {
        "function": None if function is None else names.document(function),
        "runs": [names.document(run) for run in runs],
    }
    say(document, [_sentence(id, function), "", history], json=json)


async def _runs(atlas: "AtlasClient", id: str, limit: int, ids: list[str]) -> "list[RecurringRun]":
    """The newest runs of a function. NotFound, with the ids that are near it, if there never was one."""
    runs: list[RecurringRun] = []
    try:
        async for page in atlas.list_recurring_runs(id).pages(limit=min(limit, MAX_PAGE_SIZE)):
            runs += page.items
            if len(runs) >= limit:
                break
    except NotFound as error:
        named = near(id, ids)
        error.remedy = f"Did you mean {' or '.join(named)}?" if named else "`atlas recurring list` shows them."
        raise
    return runs[:limit]


def _sentence(id: str, function: "RecurringFunction | None") -> str:
    if function is None:
        return f"{id} is no longer registered."
    timeout = "" if function.timeout_seconds is None else f", for at most {timedelta(seconds=function.timeout_seconds)}"
    now = f" It runs now, in {function.worker_id}." if function.worker_id is not None else ""
    return (
        f"{id} runs {_every(function)}{timeout}. It is next due at {function.next_run_at:%Y-%m-%d %H:%M:%S} UTC.{now}"
    )


def _every(function: "RecurringFunction") -> str:
    return f"every {timedelta(seconds=function.repeat_seconds)}" if function.repeat_seconds else "once"


def _last_outcome(function: "RecurringFunction") -> str | None:
    return "running" if function.worker_id is not None else function.last_outcome


def _run(run: "RecurringRun") -> tuple[object, ...]:
    seconds = None if run.duration_ms is None else f"{run.duration_ms / 1000:.3f}"
    return run.started_at, run.outcome or "running", seconds, run.attempt_no, run.worker_id, run.error
