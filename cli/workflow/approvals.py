"""`atlas workflow approve` and `approvals`: decide approvals and list them."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.connection.connect import either
from atlas.cli.connection.over_http_rows import tenant_names
from atlas.cli.runtime import caller, connected
from atlas.cli.terminal.ids import id_range, only_one
from atlas.cli.terminal.output import Json, last_id, say, say_page, table
from atlas.cli.workflow.arguments import Before, Limit, Tenant, find_before, find_cursor
from atlas.db.pool import Connection
from atlas.engine.id_prefixes import IdKind, ids_between
from atlas.engine.workflows.approvals import decide_approval, list_approvals, record_refusal
from atlas.errors import Conflict, NotFound, Refused
from atlas.ids import as_id
from atlas.models.approvals import Approval
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient


def approve(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="The approval's id, or that of the run that asks, or its beginning.")
    ],
    reject: Annotated[bool, typer.Option("--reject", help="Say no.")] = False,
    comment: Annotated[str | None, typer.Option(help="Why, for everyone who looks.")] = None,
    token: Annotated[
        str | None, typer.Option(help="The token of the person who decides, over HTTP; better in ATLAS_TOKEN.")
    ] = None,
    json: Json = False,
) -> None:
    """Approve what a run or a request asks, or reject it. Who asked for it may not.

    With a token, the API that `atlas up` runs here decides, unless ATLAS_URL names another one.
    """

    async def work(settings: Settings) -> tuple[Approval, str]:
        async with connected(settings) as conn:
            asked = await _find(conn, id)
            # The hash binds the decision to what was looked up here.
            try:
                status = await decide_approval(
                    conn, asked.id, not reject, actor=caller(), comment=comment, input_hash=asked.input_hash
                )
            except Refused as refusal:
                await record_refusal(conn, asked.id, caller(), refusal)
                _name_second_person(refusal, asked, await names_of(conn, [asked]))
                raise
            return asked, status

    async def over_http(atlas: "AtlasClient") -> tuple[Approval, str]:
        asked = await _find_listed(atlas, id)
        try:
            decided = await atlas.decide_approval(
                asked.id, approve=not reject, comment=comment, input_hash=asked.input_hash
            )
        except Refused as refusal:
            _name_second_person(refusal, asked, await tenant_names(atlas))
            raise
        return asked, decided.status

    asked, status = either(work, over_http, token=token, by_token=True)
    say({"id": asked.id, "run_id": asked.run_id, "status": status}, f"{asked.title!r} is {status}.", json=json)


def approvals(
    tenant: Tenant = None,
    all_: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False,
    limit: Limit = 50,
    before: Before = None,
    json: Json = False,
) -> None:
    """List the approvals that are pending, newest first."""

    async def work(settings: Settings) -> tuple[list[Approval], TenantNames]:
        async with connected(settings) as conn:
            owner, last = await tenant_id(conn, tenant), await find_before(conn, "approval", before)
            status = None if all_ else "pending"
            found = await list_approvals(
                conn, tenant_id=owner, before=last, status=status, limit=limit, decider=caller().id
            )
            return found, await names_of(conn, found)

    async def over_http(atlas: "AtlasClient") -> tuple[list[Approval], TenantNames]:
        listing = atlas.list_approvals(status=None if all_ else "pending")
        page = await listing.page(limit=limit, cursor=await find_cursor(atlas, "approval", before))
        return page.items, await tenant_names(atlas)

    found, names = either(work, over_http, tenant=tenant)
    rows = [
        (one.status, names.slug(one.tenant_id), one.title, one.id, one.requested_by, one.expires_at) for one in found
    ]
    columns = ("STATUS", "TENANT", "QUESTION", "ID", "REQUESTED BY", "EXPIRES")
    text = table(columns, rows) if rows else "No approval is pending."
    documents = [names.document(row) for row in found]
    say_page("approvals", documents, text, next_before=last_id(found, limit), json=json)


async def _find(conn: Connection, text: str) -> Approval:
    wanted = await _id(conn, text)
    pending = await list_approvals(conn, run_id=wanted, status="pending")
    return _one_of(text, pending or await list_approvals(conn, id=wanted, limit=1))


async def _find_listed(atlas: "AtlasClient", text: str) -> Approval:
    wanted = as_id(text)
    if wanted is None:
        id_range("ID", text)
        kinds: tuple[IdKind, ...] = ("approval", "run")
        ids = {id for kind in kinds for id in (await atlas.find_ids(kind, text)).ids}
        wanted = only_one("approval", text, sorted(ids))
    pending = [asked async for asked in atlas.list_approvals(run_id=wanted, status="pending")]
    if not pending:
        with suppress(NotFound):
            pending = [await atlas.get_approval(wanted)]
    return _one_of(text, pending)


def _one_of(text: str, found: list[Approval]) -> Approval:
    if len(found) > 1:
        named = ", ".join(str(one.id) for one in found)
        raise Conflict(f"Run {text} asks {len(found)} questions.", remedy=f"Name one of them: {named}.")
    if not found:
        raise NotFound("approval", text, remedy="`atlas workflow approvals` shows those that are open.")
    return found[0]


def _name_second_person(refusal: Refused, asked: Approval, names: TenantNames) -> None:
    """Say how another person decides, also on a machine that only one uses."""
    tenant = names.slug(asked.tenant_id)
    refusal.remedy = (
        "Let another person decide, with a token of their own that is made on the machine of the database:"
        f" `atlas token add --subject NAME --role tenant_admin --tenant {tenant}`, then"
        f" `ATLAS_TOKEN=atl_… atlas workflow approve {asked.id}`."
    )


async def _id(conn: Connection, text: str) -> UUID:
    """The id of an approval or a run."""
    whole = as_id(text)
    if whole is not None:
        return whole
    low, high = id_range("ID", text)
    ids = {*await ids_between(conn, "approval", low, high), *await ids_between(conn, "run", low, high)}
    return only_one("approval", text, sorted(ids))
