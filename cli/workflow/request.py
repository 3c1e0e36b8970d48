"""`atlas workflow run` and `requests`: ask for runs, and look at what was asked for."""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.connection.connect import either
from atlas.cli.connection.over_http_rows import row_of, tenant_names
from atlas.cli.runtime import caller, connected
from atlas.cli.terminal.output import Json, last_id, say, say_page, shown_age, table
from atlas.cli.terminal.parameters import OBJECT, read_object
from atlas.cli.terminal.waiting import looks
from atlas.cli.workflow.arguments import Before, Limit, Tenant, find_before, find_cursor
from atlas.cli.workflow.over_http import details_of
from atlas.cli.workflow.render_run import as_document, draw, headline
from atlas.db.pool import Connection
from atlas.engine.workflows.find_intents import list_intents
from atlas.engine.workflows.find_runs import RunDetails, get_details
from atlas.models.workflows import Intent
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient

RUN_ENDED = ("succeeded", "failed", "canceled")
# A request in one of these becomes no run.
TURNED_DOWN = ("blocked", "rejected", "failed")


def run(
    workflow: Annotated[str, typer.Argument(help="The workflow's key.")],
    tenant: Annotated[
        str | None,
        typer.Option(help="Whose run it is, by slug or id; of the token, or system, if not given."),
    ] = None,
    input_: Annotated[str, typer.Option("--input", metavar=OBJECT, help="The run's input, a JSON object.")] = "{}",
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    spend_cents: Annotated[int, typer.Option(min=0, help="What it may cost, for policy to see.")] = 0,
    correlation_id: Annotated[str | None, typer.Option(help="Carried by the run and its jobs.")] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept a workflow that no worker has published yet.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it has ended, with 1 unless it succeeded.")] = False,
    json: Json = False,
) -> None:
    """Ask for a run. The engine judges the request and starts it.

    A workflow that is not known or disabled, and an input that does not fit it, are refused at once.
    """
    given = read_object("--input", input_)

    async def ask(conn: Connection) -> UUID:
        # Imported here: a list of requests reads no document.
        from atlas.engine.workflows.intents import request_workflow
        from atlas.engine.workflows.runnable import require_runnable

        owner = await tenant_id(conn, tenant or "system")
        await require_runnable(conn, owner, workflow, given)
        return await request_workflow(
            conn,
            owner,
            workflow,
            given,
            caller(),
            priority=priority,
            spend_cents=spend_cents,
            correlation_id=correlation_id,
            allow_unknown=allow_unknown,
        )

    async def work(settings: Settings) -> tuple[UUID, RunDetails | None, TenantNames | None]:
        async with connected(settings) as conn:
            run_id = await ask(conn)
            if not wait:
                return run_id, None, None
            sys.stderr.write(f"Run {run_id} of {workflow} is asked for.\n")
            ended = await _wait_for(partial(get_details, conn, run_id))
            return run_id, ended, await names_of(conn, ended.rows)

    async def over_http(atlas: "AtlasClient") -> tuple[UUID, RunDetails | None, TenantNames | None]:
        asked = await atlas.request_run(
            workflow,
            given,
            priority=priority,
            spend_cents=spend_cents,
            correlation_id=correlation_id,
            allow_unknown=allow_unknown,
        )
        if not wait:
            return asked.id, None, None
        sys.stderr.write(f"Run {asked.id} of {workflow} is asked for.\n")
        return asked.id, await _wait_for(partial(details_of, atlas, asked.id)), await tenant_names(atlas)

    run_id, ended, names = either(work, over_http, tenant=tenant)
    if ended is None or names is None:
        say({"id": run_id, "workflow": workflow}, f"Run {run_id} of {workflow} is asked for.", json=json)
        return
    say(as_document(ended, names), draw(ended, names), json=json)
    if ended.run is None or ended.run.status != "succeeded":
        raise typer.Exit(1)


async def _wait_for(look: Callable[[], Awaitable[RunDetails]]) -> RunDetails:
    """The run once it has ended, or its request once that was turned down. On the way it says what it waits for."""
    said = ""
    async for _ in looks():
        found = await look()
        if found.run is not None and found.run.status in RUN_ENDED:
            break
        if found.run is None and found.intent is not None and found.intent.status in TURNED_DOWN:
            break
        now = headline(found)
        if now != said and (found.run is None or found.run.status == "waiting"):
            sys.stderr.write(f"{now}\n")
        said = now
    return found


def requests(
    status: Annotated[
        str | None, typer.Option(help="draft, awaiting_human, blocked, rejected, failed, queued or executed")
    ] = None,
    workflow: Annotated[str | None, typer.Option(help="Only requests for this workflow.")] = None,
    tenant: Tenant = None,
    limit: Limit = 50,
    before: Before = None,
    json: Json = False,
) -> None:
    """List requests for runs, newest first, with the reason for those that were blocked or rejected."""

    async def work(settings: Settings) -> tuple[list[Intent], TenantNames]:
        async with connected(settings) as conn:
            owner, last = await tenant_id(conn, tenant), await find_before(conn, "run", before)
            found = await list_intents(
                conn, tenant_id=owner, status=status, workflow=workflow, before=last, limit=limit
            )
            return found, await names_of(conn, found)

    async def over_http(atlas: "AtlasClient") -> tuple[list[Intent], TenantNames]:
        listing = atlas.list_intents(status=status, workflow=workflow)
        page = await listing.page(limit=limit, cursor=await find_cursor(atlas, "run", before))
        return [row_of(Intent, one) for one in page.items], await tenant_names(atlas)

    found, names = either(work, over_http, tenant=tenant)
    rows = [
        (
            *(one.status, names.slug(one.tenant_id), one.workflow, one.id, one.requested_by),
            *(shown_age(one.created_at), one.reason),
        )
        for one in found
    ]
    columns = ("STATUS", "TENANT", "WORKFLOW", "ID", "REQUESTED BY", "AGE", "REASON")
    text = table(columns, rows) if rows else "No request fits. Make one with `atlas workflow run`."
    documents = [names.document(row) for row in found]
    say_page("requests", documents, text, next_before=last_id(found, limit), json=json)
