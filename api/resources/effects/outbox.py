"""Routes for the outbox: the mails that this machine wrote as files instead of sending them."""

import asyncio
from email.message import EmailMessage
from operator import attrgetter
from typing import Annotated

from fastapi import APIRouter
from pydantic import AwareDatetime, StringConstraints, TypeAdapter
from starlette.responses import HTMLResponse, Response

from atlas.api.access.roles import PEOPLE, READERS
from atlas.api.http.mail_html import POLICY, safe_document
from atlas.api.models.common import Id
from atlas.api.paging import Cursor, Limit, read_cursor, read_page
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.db.pg_json import stored_text
from atlas.engine.outbox_files import (
    MailPosition,
    MailUnreadable,
    attachments_of,
    body_of,
    list_mails,
    outbox_folder,
    read_mail,
)
from atlas.errors import Conflict, NotFound
from atlas.models import Page
from atlas.models.outbox import MailDetails, MailHeader, MailRoute, OutboxMail

router = APIRouter(prefix=f"{PREFIX}/outbox", route_class=GuardedRoute, tags=["outbox"])

POSITION: TypeAdapter[MailPosition] = TypeAdapter(
    tuple[AwareDatetime, Annotated[str, StringConstraints(max_length=255)]]
)


@router.get("", operation_id="list_mails", summary="List the mails in the outbox, newest first")
@requires(*READERS)
async def show_list(call: Calling, limit: Limit = 50, cursor: Cursor = None) -> Page[OutboxMail]:
    """Those that `outbox` wrote on the machine of this API. A file that cannot be read has a `problem`."""
    folder, tenant = outbox_folder(call.api.settings.home), await _tenant(call)

    async def read(after: MailPosition | None, limit: int) -> list[OutboxMail]:
        return await asyncio.to_thread(list_mails, folder, tenant=tenant, limit=limit, before=after)

    after = read_cursor(cursor, POSITION)
    return await read_page(read, after, limit, key=attrgetter("written_at", "job_id"))


@router.get("/route", operation_id="get_mail_route", summary="How mails leave: as files, or by which providers")
@requires(*PEOPLE)
async def show_route(call: Calling) -> MailRoute:
    """By the settings of this API, which its workers share, unless the tenant has an order of its own."""
    own = None if call.tenant_id is None else (await call.api.tenants.find(call.tenant_id)).limits.get("email")
    providers = (own or {}).get("providers") or call.api.settings.email_order
    return MailRoute(providers=list(providers), is_local=set(providers) == {"outbox"})


@router.get("/{job_id:uuid}", operation_id="get_mail", summary="One mail in the outbox")
@requires(*READERS)
async def show_one(job_id: Id, call: Calling) -> MailDetails:
    """With its headers, its text and the names of its attachments."""
    mail, message, _ = await _read(job_id, call)
    return MailDetails(
        **dict(mail),
        headers=[MailHeader(name=stored_text(name), value=stored_text(str(value))) for name, value in message.items()],
        text=body_of(message, ("plain",)),
        has_html=message.get_body(preferencelist=("html",)) is not None,
        attachments=attachments_of(message),
    )


@router.get(
    "/{job_id:uuid}/html",
    operation_id="show_mail_html",
    summary="The HTML of a mail, safe to show in a frame of Atlas's own pages",
    response_class=HTMLResponse,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
)
@requires(*READERS)
async def show_html(job_id: Id, call: Calling) -> Response:
    """Without scripts, forms and pictures from elsewhere, and with a policy under which nothing runs or is loaded."""
    _, message, _ = await _read(job_id, call)
    html = body_of(message, ("html",))
    if html is None:
        raise NotFound("HTML of mail", job_id, remedy="It has plain text only.")
    document = await asyncio.to_thread(safe_document, html)
    return HTMLResponse(document, headers={"Content-Security-Policy": POLICY})


@router.get(
    "/{job_id:uuid}/source",
    operation_id="download_mail",
    summary="A mail as a file, for any mail program",
    response_class=Response,
    responses={200: {"content": {"message/rfc822": {"schema": {"type": "string"}}}}},
)
@requires(*READERS)
async def download(job_id: Id, call: Calling) -> Response:
    """Unchanged, with its attachments."""
    _, _, content = await _read(job_id, call)
    headers = {"Content-Disposition": f'attachment; filename="{job_id}.eml"'}
    return Response(content, media_type="message/rfc822", headers=headers)


async def _read(job_id: Id, call: RequestContext) -> tuple[OutboxMail, EmailMessage, bytes]:
    folder, tenant = outbox_folder(call.api.settings.home), await _tenant(call)
    try:
        return await asyncio.to_thread(read_mail, folder, job_id, tenant=tenant)
    except MailUnreadable as error:
        # Its message names a path of this machine.
        raise Conflict(f"The mail of job {job_id} cannot be read.", remedy="Look at its file, or remove it.") from error


async def _tenant(call: RequestContext) -> str | None:
    """The folder of the tenant whose mails are meant; None for all."""
    return None if call.tenant_id is None else (await call.api.tenants.find(call.tenant_id)).slug
