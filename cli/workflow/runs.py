"""`atlas workflow list` and `atlas workflow show`: the runs."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from atlas.cli.connection.client_lists import read_page, with_names
from atlas.cli.terminal.output import Json, format_age, say, say_page, table
from atlas.cli.terminal.parameters import Limit
from atlas.cli.workflow.arguments import Before, RunId, Tenant, find_run
from atlas.cli.workflow.render_run import as_document, draw
from atlas.cli.workflow.run_details import RunDetails, read_details
from atlas.models.workflows import RunStatus

if TYPE_CHECKING:
    from atlas.client import AtlasClient

NO_RUNS = "There are no runs yet. Start one with `atlas workflow run`."


def show_list(
    status: Annotated[RunStatus | None, typer.Option(help="Only runs with this status.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only runs of this workflow.")] = None,
    tenant: Tenant = None,
    only_workflows: Annotated[
        bool, typer.Option("--workflows", help="List the workflows instead of their runs.")
    ] = False,
    limit: Limit = 50,
    before: Before = None,
    json: Json = False,
) -> None:
    """List runs, newest first, or the workflows."""
    if only_workflows:
        # Imported here: it reads documents, which runs do not need.
        from atlas.cli.workflow.workflows import show_workflows

        show_workflows(tenant, json=json)
        return
    filters: dict[str, Any] = {"status": status, "workflow": workflow}
    page, names = with_names(
        lambda atlas: read_page(atlas, "run", atlas.list_runs(**filters), before=before, limit=limit), tenant=tenant
    )
    rows = [
        (
            *(run.status, names.slug(run.tenant_id), run.workflow, run.id, run.requested_by),
            format_age(run.created_at),
        )
        for run in page.items
    ]
    columns = ("STATUS", "TENANT", "WORKFLOW", "ID", "REQUESTED BY", "AGE")
    empty = "No run matches." if status or workflow or tenant or before else NO_RUNS
    text = table(columns, rows) if rows else empty
    documents = [names.document(row) for row in page.items]
    say_page("runs", documents, text, next_before=page.next_cursor, json=json)


def show(run_id: RunId, json: Json = False) -> None:
    """Show a run with its steps, and what it waits for."""

    async def work(atlas: "AtlasClient") -> RunDetails:
        return await read_details(atlas, await find_run(atlas, run_id))

    details, names = with_names(work)
    say(as_document(details, names), draw(details, names), json=json)
