"""`atlas workflow approve` and `approvals`: decide approvals and list them."""

from typing import Annotated
from uuid import UUID

import typer

from atlas.cli.ids import id_range, ids_between, only_one
from atlas.cli.output import Json, hint_at_more, say, table
from atlas.cli.runtime import caller, connected, execute
from atlas.cli.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.workflow.arguments import Before, Limit, Tenant, find_before
from atlas.db.pool import Connection
from atlas.engine.workflows.approvals import ApprovalRow, decide_approval, list_approvals, record_refusal
from atlas.errors import Conflict, NotFound, Refused
from atlas.ids import as_id
from atlas.settings import Settings


def approve(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="The approval's id, or that of the run that asks, or its beginning.")
    ],
    reject: Annotated[bool, typer.Option("--reject", help="Say no.")] = False,
    comment: Annotated[str | None, typer.Option(help="Why, for everyone who looks.")] = None,
    json: Json = False,
) -> None:
    """Approve what a run or a request asks, or reject it. Who asked for it may not."""

    async def work(settings: Settings) -> tuple[ApprovalRow, str]:
        async with connected(settings, checks_inputs=False) as conn:
            asked = await _find(conn, id)
            # The hash binds the decision to what was looked up here.
            try:
                status = await decide_approval(
                    conn, asked.id, not reject, actor=caller(), comment=comment, input_hash=asked.input_hash
                )
            except Refused as refusal:
                await record_refusal(conn, asked.id, caller(), refusal)
                raise
            return asked, status

    asked, status = execute(work)
    say({"id": asked.id, "run_id": asked.run_id, "status": status}, f"{asked.title!r} is {status}.", json=json)


def approvals(
    tenant: Tenant = None,
    all_: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False,
    limit: Limit = 50,
    before: Before = None,
    json: Json = False,
) -> None:
    """List the approvals that are pending, newest first."""

    async def work(settings: Settings) -> tuple[list[ApprovalRow], TenantNames]:
        async with connected(settings, checks_inputs=False) as conn:
            owner, last = await tenant_id(conn, tenant), await find_before(conn, "approval", before)
            status = None if all_ else "pending"
            found = await list_approvals(conn, tenant_id=owner, before=last, status=status, limit=limit)
            return found, await names_of(conn, found)

    found, names = execute(work)
    rows = [
        (one.status, names.slug(one.tenant_id), one.title, one.id, one.requested_by, one.expires_at) for one in found
    ]
    columns = ("STATUS", "TENANT", "QUESTION", "ID", "REQUESTED BY", "EXPIRES")
    text = table(columns, rows) if rows else "No approval is pending."
    say({"approvals": [names.document(one) for one in found]}, text, json=json)
    if len(found) == limit:
        hint_at_more("--before", found[-1].id)


async def _find(conn: Connection, text: str) -> ApprovalRow:
    wanted = await _id(conn, text)
    pending = await list_approvals(conn, run_id=wanted, status="pending")
    if len(pending) > 1:
        named = ", ".join(str(one.id) for one in pending)
        raise Conflict(f"Run {text} asks {len(pending)} questions.", remedy=f"Name one of them: {named}.")
    if pending:
        return pending[0]
    found = await list_approvals(conn, id=wanted, limit=1)
    if not found:
        raise NotFound("approval", text, remedy="`atlas workflow approvals` shows those that are open.")
    return found[0]


async def _id(conn: Connection, text: str) -> UUID:
    """The id of an approval or a run."""
    whole = as_id(text)
    if whole is not None:
        return whole
    low, high = id_range("ID", text)
    ids = {*await ids_between(conn, "approval", low, high), *await ids_between(conn, "run", low, high)}
    return only_one("approval", text, sorted(ids))
