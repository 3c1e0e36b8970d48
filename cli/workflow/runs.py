"""`atlas workflow list` and `atlas workflow show`: the runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.connection.connect import either
from atlas.cli.connection.over_http_rows import row_of, tenant_names
from atlas.cli.runtime import connected
from atlas.cli.terminal.output import Json, last_id, say, say_page, shown_age, table
from atlas.cli.workflow.arguments import (
    Before,
    Limit,
    RunId,
    Tenant,
    find_before,
    find_cursor,
    find_listed_run,
    find_run,
)
from atlas.cli.workflow.over_http import details_of
from atlas.cli.workflow.render_run import as_document, draw
from atlas.engine.workflows.find_runs import RunDetails, get_details, list_runs
from atlas.models.workflows import WorkflowRun
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient


def show_list(
    status: Annotated[str | None, typer.Option(help="queued, waiting, running, succeeded, failed, canceled")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only runs of this workflow.")] = None,
    tenant: Tenant = None,
    only_workflows: Annotated[
        bool, typer.Option("--workflows", help="The workflows there are, not their runs.")
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

    async def work(settings: Settings) -> tuple[list[WorkflowRun], TenantNames]:
        async with connected(settings) as conn:
            owner, last = await tenant_id(conn, tenant), await find_before(conn, "run", before)
            found = await list_runs(conn, tenant_id=owner, status=status, workflow=workflow, before=last, limit=limit)
            return found, await names_of(conn, found)

    async def over_http(atlas: "AtlasClient") -> tuple[list[WorkflowRun], TenantNames]:
        listing = atlas.list_runs(status=status, workflow=workflow)
        page = await listing.page(limit=limit, cursor=await find_cursor(atlas, "run", before))
        return [row_of(WorkflowRun, one) for one in page.items], await tenant_names(atlas)

    found, names = either(work, over_http, tenant=tenant)
    rows = [
        (
            *(one.status, names.slug(one.tenant_id), one.workflow, one.id, one.requested_by),
            shown_age(one.created_at),
        )
        for one in found
    ]
    columns = ("STATUS", "TENANT", "WORKFLOW", "ID", "REQUESTED BY", "AGE")
    text = table(columns, rows) if rows else "No run fits. Ask for one with `atlas workflow run`."
    documents = [names.document(row) for row in found]
    say_page("runs", documents, text, next_before=last_id(found, limit), json=json)


def show(run_id: RunId, json: Json = False) -> None:
    """Show a run with its steps, and what it waits for."""

    async def work(settings: Settings) -> tuple[RunDetails, TenantNames]:
        async with connected(settings) as conn:
            found = await get_details(conn, await find_run(conn, run_id))
            return found, await names_of(conn, found.rows)

    async def over_http(atlas: "AtlasClient") -> tuple[RunDetails, TenantNames]:
        return await details_of(atlas, await find_listed_run(atlas, run_id)), await tenant_names(atlas)

    details, names = either(work, over_http)
    say(as_document(details, names), draw(details, names), json=json)
