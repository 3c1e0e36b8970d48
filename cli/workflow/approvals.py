"""`atlas workflow approve` and `approvals`: decide approvals and list them."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.connection.client_lists import read_page, tenant_names, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.ids import id_range, only_one
from atlas.cli.terminal.output import Json, say, say_page, table
from atlas.cli.terminal.parameters import Limit
from atlas.cli.workflow.arguments import Before, Tenant
from atlas.engine.id_prefixes import IdKind
from atlas.errors import Conflict, NotFound, Refused
from atlas.ids import as_id

if TYPE_CHECKING:
    from atlas.client import Approval, AtlasClient


def approve(
    id: Annotated[
        str,
        typer.Argument(metavar="ID", help="The id of the approval or of the run that waits for it, or its beginning."),
    ],
    reject: Annotated[bool, typer.Option("--reject", help="Reject it.")] = False,
    comment: Annotated[str | None, typer.Option(help="The reason, shown with the decision.")] = None,
    token: Annotated[
        str | None, typer.Option(help="The token of the person who decides, over HTTP; better in ATLAS_TOKEN.")
    ] = None,
    json: Json = False,
) -> None:
    """Approve or reject a request or a step of a run. Requesters cannot decide about their own requests.

    With a token, the API that `atlas up` runs here decides, unless ATLAS_URL names another one.
    """

    async def work(atlas: "AtlasClient") -> "tuple[Approval, str]":
        asked = await _find(atlas, id)
        try:
            decided = await atlas.decide_approval(
                asked.id, approve=not reject, comment=comment, input_hash=asked.input_hash
            )
        except Refused as refusal:
            _name_second_person(refusal, asked, await tenant_names(atlas))
            raise
        return asked, decided.status

    asked, status = on_atlas(work, token=token, by_token=True)
    say({"id": asked.id, "run_id": asked.run_id, "status": status}, f"{asked.title!r} is {status}.", json=json)


def approvals(
    tenant: Tenant = None,
    all_: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False,
    limit: Limit = 50,
    before: Before = None,
    json: Json = False,
) -> None:
    """List the approvals that are pending, newest first."""
    status = None if all_ else "pending"
    page, names = with_names(
        lambda atlas: read_page(atlas, "approval", atlas.list_approvals(status=status), before=before, limit=limit),
        tenant=tenant,
    )
    rows = [
        (
            approval.status,
            names.slug(approval.tenant_id),
            approval.title,
            approval.id,
            approval.requested_by,
            approval.expires_at,
        )
        for approval in page.items
    ]
    columns = ("STATUS", "TENANT", "QUESTION", "ID", "REQUESTED BY", "EXPIRES")
    text = table(columns, rows) if rows else "No approval is pending."
    documents = [names.document(approval) for approval in page.items]
    say_page("approvals", documents, text, next_before=page.next_cursor, json=json)


async def _find(atlas: "AtlasClient", text: str) -> "Approval":
    approval_id = as_id(text)
    if approval_id is None:
        id_range("ID", text)
        kinds: tuple[IdKind, ...] = ("approval", "run")
        ids = {id for kind in kinds for id in (await atlas.find_ids(kind, text)).ids}
        approval_id = only_one("approval", text, sorted(ids))
    pending = [approval async for approval in atlas.list_approvals(run_id=approval_id, status="pending")]
    if not pending:
        with suppress(NotFound):
            pending = [await atlas.get_approval(approval_id)]
    return _one_of(text, pending)


def _one_of(text: str, approvals: "list[Approval]") -> "Approval":
    if len(approvals) > 1:
        named = ", ".join(str(approval.id) for approval in approvals)
        raise Conflict(f"Run {text} has {len(approvals)} open approvals.", remedy=f"Name one of them: {named}.")
    if not approvals:
        raise NotFound("approval", text, remedy="`atlas workflow approvals` shows those that are open.")
    return approvals[0]


def _name_second_person(refusal: Refused, asked: "Approval", names: TenantNames) -> None:
    """Say how another person decides, also on a machine that only one uses."""
    tenant = names.slug(asked.tenant_id)
    refusal.remedy = (
        "Let another person decide, with a token of their own that is made on the machine of the database:"
        f" `atlas token add --subject NAME --role tenant_admin --tenant {tenant}`, then"
        f" `ATLAS_TOKEN=atl_… atlas workflow approve {asked.id}`."
    )
