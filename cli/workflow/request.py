"""`atlas workflow run` and `requests`: request runs, and list the requests."""

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.connection.client_lists import read_page, tenant_names, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, format_age, say, say_page, table
from atlas.cli.terminal.parameters import OBJECT, Limit, read_object
from atlas.cli.terminal.waiting import looks
from atlas.cli.workflow.arguments import Before, Tenant
from atlas.cli.workflow.render_run import as_document, draw, headline
from atlas.cli.workflow.run_details import RunDetails, read_details
from atlas.models.workflows import IntentStatus

if TYPE_CHECKING:
    from atlas.client import AtlasClient

RUN_ENDED = ("succeeded", "failed", "canceled")
# A request in one of these becomes no run.
TURNED_DOWN = ("blocked", "rejected", "failed")


def run(
    workflow: Annotated[str, typer.Argument(help="The workflow's key.")],
    tenant: Annotated[
        str | None,
        typer.Option(help="The run's tenant, by slug or id; that of the token, or system, if not given."),
    ] = None,
    input_: Annotated[str, typer.Option("--input", metavar=OBJECT, help="The run's input, a JSON object.")] = "{}",
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    spend_cents: Annotated[int, typer.Option(min=0, help="What the run may cost, in cents, for policy.")] = 0,
    correlation_id: Annotated[str | None, typer.Option(help="Carried by the run and its jobs.")] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Accept a workflow that no worker has published yet.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it has finished; exit with 1 unless it succeeded.")
    ] = False,
    json: Json = False,
) -> None:
    """Request a run. The engine applies policy to the request and starts the run.

    An unknown or disabled workflow, and an input that does not match its schema, are refused immediately.
    """
    payload = read_object("--input", input_)

    async def work(atlas: "AtlasClient") -> tuple[UUID, RunDetails | None, TenantNames | None]:
        asked = await atlas.request_run(
            workflow,
            payload,
            priority=priority,
            spend_cents=spend_cents,
            correlation_id=correlation_id,
            allow_unknown=allow_unknown,
            must_be_runnable=True,
        )
        if not wait:
            return asked.id, None, None
        sys.stderr.write(f"Run {asked.id} of {workflow} requested.\n")
        return asked.id, await _wait_for(partial(read_details, atlas, asked.id)), await tenant_names(atlas)

    run_id, ended, names = on_atlas(work, tenant=tenant)
    if ended is None or names is None:
        say({"id": run_id, "workflow": workflow}, f"Run {run_id} of {workflow} requested.", json=json)
        return
    say(as_document(ended, names), draw(ended, names), json=json)
    if ended.run is None or ended.run.status != "succeeded":
        raise typer.Exit(1)


async def _wait_for(look: Callable[[], Awaitable[RunDetails]]) -> RunDetails:
    """The run once it has finished, or its request once that was turned down. On the way it says what it waits for."""
    said = ""
    async for _ in looks():
        details = await look()
        if details.run is not None and details.run.status in RUN_ENDED:
            break
        if details.run is None and details.intent is not None and details.intent.status in TURNED_DOWN:
            break
        now = headline(details)
        if now != said and (details.run is None or details.run.status == "waiting"):
            sys.stderr.write(f"{now}\n")
        said = now
    return details


def requests(
    status: Annotated[IntentStatus | None, typer.Option(help="Only requests with this status.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only requests for this workflow.")] = None,
    tenant: Tenant = None,
    limit: Limit = 50,
    before: Before = None,
    json: Json = False,
) -> None:
    """List requests for runs, newest first, with the reason for those that were blocked or rejected."""
    filters: dict[str, Any] = {"status": status, "workflow": workflow}
    page, names = with_names(
        lambda atlas: read_page(atlas, "run", atlas.list_intents(**filters), before=before, limit=limit), tenant=tenant
    )
    rows = [
        (
            *(intent.status, names.slug(intent.tenant_id), intent.workflow, intent.id, intent.requested_by),
            *(format_age(intent.created_at), intent.reason),
        )
        for intent in page.items
    ]
    columns = ("STATUS", "TENANT", "WORKFLOW", "ID", "REQUESTED BY", "AGE", "REASON")
    text = table(columns, rows) if rows else "No request fits. Make one with `atlas workflow run`."
    documents = [names.document(intent) for intent in page.items]
    say_page("requests", documents, text, next_before=page.next_cursor, json=json)
