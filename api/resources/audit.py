"""Routes for the audit log: search it, prove a row, export a part."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import StringConstraints
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from atlas.api.models.common import Document, Timestamp
from atlas.api.paging import Limit, NumberCursor, read_page
from atlas.api.problems import Forbidden
from atlas.api.request_context import Calling, RequestContext
from atlas.api.roles import READERS
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.audit.export import Extract, export
from atlas.audit.find import Query as AuditQuery
from atlas.audit.find import find
from atlas.audit.keys import public_key_files
from atlas.audit.proof import prove
from atlas.client.models import Page
from atlas.client.models.audit import CheckpointShown, EntryShown, SealShown
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, statement
from atlas.errors import NotFound
from atlas.logs import get_logger

router = APIRouter(prefix=f"{PREFIX}/audit", route_class=GuardedRoute, tags=["audit"])

SEALS = statement("api/sql/seals.sql")
NEWEST = 2**63 - 1
# An export ends when its reader takes nothing for so long, or falls so far behind the least rate, in bytes a second.
# Few can export at the same time.
READ_SECONDS = 60.0
LEAST_RATE = 64 * 1024

log = get_logger("api")

Text = Annotated[str | None, Query(max_length=200)]
Action = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]


@router.get("", operation_id="list_audit_rows", summary="What happened, newest first")
@requires(*READERS)
async def show_list(
    call: Calling,
    actor_id: Text = None,
    action: Annotated[list[Action] | None, Query(max_length=50)] = None,
    entity_type: Text = None,
    entity_id: Text = None,
    since: Timestamp | None = None,
    until: Timestamp | None = None,
    text: Annotated[
        str | None, Query(max_length=200, description="Searched in action, entity, actor, message and meta.")
    ] = None,
    limit: Limit = 50,
    cursor: Annotated[
        str | None, Query(pattern=r"^\d{1,9}\.\d{1,19}\.\d{1,18}$", description="The `next_cursor` of the page before.")
    ] = None,
) -> Page[EntryShown]:
    """Of the caller's tenant; those that belong to none are for callers without a tenant."""
    wanted = AuditQuery(
        call.tenant_id,
        actor_id,
        None if action is None else tuple(action),
        entity_type,
        entity_id,
        since,
        until,
        text,
    )
    async with call.transaction(read_only=True) as conn:
        found = await find(conn, wanted, limit=limit, cursor=cursor)
    return Page(items=[EntryShown.model_validate(one) for one in found.entries], next_cursor=found.cursor)


@router.get("/seals", operation_id="list_seals", summary="The seals, newest first")
@requires("operator", "auditor", whole=True)
async def show_seals(call: Calling, limit: Limit = 50, cursor: NumberCursor = None) -> Page[SealShown]:
    """Within a second new rows become leaves of the tree, a batch at a time."""
    async with call.transaction(read_only=True) as conn:
        return await read_page(
            lambda before, limit: fetch(conn, SEALS, before=before or NEWEST, limit=limit),
            lambda row: SealShown.model_validate(dict(row)),
            after=cursor,
            limit=limit,
            key=lambda row: row["n"],
        )


@router.get("/checkpoints", operation_id="list_checkpoints", summary="The signed checkpoints, newest first")
@requires(*READERS, by_tenant=False)
async def show_checkpoints(call: Calling, limit: Limit = 50, cursor: NumberCursor = None) -> Page[CheckpointShown]:
    """They show the size of the audit log and that it has not changed, nothing of its content."""
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        return await read_page(
            lambda before, limit: prisma_on(conn).auditcheckpoint.find_many(
                limit, where={"size": {"lt": before or NEWEST}}, order=[{"size": "desc"}, {"keyName": "desc"}]
            ),
            lambda row: CheckpointShown(
                size=row.size, key_name=row.keyName, epoch=row.epoch, signed_at=row.signedAt, note=row.note
            ),
            after=cursor,
            limit=limit,
            key=lambda row: row.size,
        )


@router.get(
    "/key",
    operation_id="get_audit_key",
    response_class=PlainTextResponse,
    summary="The public keys that verify checkpoints, one per line",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
@requires(*READERS, by_tenant=False)
async def show_key(call: Calling) -> str:
    """The newest first, then the older ones, which verify what they signed.

    A machine without keys has none to show; they are where the audit log is signed.
    """
    files = public_key_files(call.api.settings)
    if not files:
        raise NotFound("public key", "on this machine", remedy="Copy audit.pub here from the machine that signs.")
    return "".join(f"{path.read_text().strip()}\n" for path in files)


@router.get(
    "/export",
    operation_id="export_audit_log",
    response_model=None,
    summary="The audit log, or a tenant's part of it, as lines that verify offline",
    responses={
        200: {
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
            "description": "One JSON object a line.",
        }
    },
)
@requires(*READERS, own_pages=True)
async def export_rows(
    request: Request,
    call: Calling,
    since: Annotated[Timestamp | None, Query(description="By the time of sealing.")] = None,
    until: Timestamp | None = None,
    personal: Annotated[bool, Query(description="With personal values that were not erased; for operators.")] = False,
) -> Response:
    """Each export is recorded as an event. `atlas audit verify --export` checks one without a database."""
    if personal and call.caller.role != "operator":
        raise Forbidden("Personal values are exported by operators only.")
    headers = {"Content-Disposition": 'attachment; filename="audit.ndjson"'}
    if request.method == "HEAD":
        return Response(headers=headers, media_type="application/x-ndjson")
    lines = _lines(call, Extract(call.tenant_id, since, until, personal))
    # The first line before the response begins, so that a refusal still has its own status.
    first = await anext(lines)
    return _Export(first, lines, headers)


@router.get(
    "/{row_id}/proof",
    operation_id="get_audit_proof",
    summary="A proof that one row is in the signed tree, for anyone with the public key",
)
@requires(*READERS)
async def show_proof(row_id: Annotated[int, Path(ge=1, le=NEWEST)], call: Calling) -> Document:
    """404 until the row is sealed and a checkpoint over it is signed, a few seconds after it was written."""
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        return await prove(conn, row_id, tenant_id=call.tenant_id)


async def _lines(call: RequestContext, extract: Extract) -> AsyncGenerator[bytes, None]:
    # Without a transaction: the event about the export is kept, however the reading ends.
    with call.api.exports.taken(call.caller.share):
        async with call.api.db.connection(watched=False, share=call.caller.share) as conn:
            async for line in export(conn, extract, actor=call.actor):
                yield line


class _ReaderTooSlow(Exception):
    """The reader takes nothing more. Not a TimeoutError, which a slow statement raises."""


class _Export(StreamingResponse):
    """Streams the lines. It holds a connection, which is released when the reader has left or is too slow."""

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None], headers: dict[str, str]) -> None:
        super().__init__(_chained(first, rest), media_type="application/x-ndjson", headers=headers)
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._rest.aclose()

    async def stream_response(self, send: Send) -> None:
        allowance = READ_SECONDS

        async def send_in_time(message: Any) -> None:
            nonlocal allowance
            began = time.monotonic()
            try:
                async with asyncio.timeout(allowance):
                    await send(message)
            except TimeoutError as error:
                raise _ReaderTooSlow from error
            earned = len(message.get("body", b"")) / LEAST_RATE
            allowance = min(READ_SECONDS, allowance - (time.monotonic() - began) + earned)

        try:
            await super().stream_response(send_in_time)
        except _ReaderTooSlow:
            # What was sent lacks its last line, and so cannot pass for a whole export.
            log.warning("an export was ended: its reader is too slow")


async def _chained(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes]:
    yield first
    async for line in rest:
        yield line
