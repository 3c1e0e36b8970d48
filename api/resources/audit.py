"""The account: read it, prove a row of it, take a part of it along."""

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import StringConstraints
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from atlas.api.models.common import Document, Limit, Timestamp
from atlas.api.problems import Forbidden
from atlas.api.request_context import Calling, RequestContext
from atlas.api.roles import READERS
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.audit import Extract, export, find, prove
from atlas.audit import Query as AuditQuery
from atlas.audit.keys import public_key_files
from atlas.client.models import ApiModel, Page
from atlas.db.statements import fetch, statement
from atlas.errors import NotFound
from atlas.logs import get_logger

router = APIRouter(prefix=f"{PREFIX}/audit", route_class=GuardedRoute, tags=["audit"])

SEALS = statement("api/sql/seals.sql")
CHECKPOINTS = statement("api/sql/checkpoints.sql")
NEWEST = 2**63 - 1
# A reader that takes no part of an export for so long has left; so has one that falls so far behind the least rate, in
# bytes a second. Few can export at the same time.
TAKE_SECONDS = 60.0
LEAST_RATE = 64 * 1024

log = get_logger("api")

Words = Annotated[str | None, Query(max_length=200)]
Action = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]
Number = Annotated[int | None, Query(ge=1, le=NEWEST, description="The `next_cursor` of the page before.")]


class EntryShown(ApiModel):
    """One row of the account."""

    id: int
    created_at: datetime
    tenant_id: UUID | None
    actor_type: Literal["user", "agent", "system"]
    actor_id: str
    level: Literal["info", "warn", "error"]
    action: str
    entity_type: str
    entity_id: str
    message: str
    meta: Document


class SealShown(ApiModel):
    """A batch of rows that became leaves of the tree, and the tree's root after it."""

    n: int
    epoch: int
    first_index: int
    count: int
    size: int
    sealed_at: datetime
    root: str


class CheckpointShown(ApiModel):
    """The tree's size and root, signed; anyone with the public key can check it."""

    size: int
    key_name: str
    epoch: int
    signed_at: datetime
    note: str


@router.get("", summary="What happened, newest first")
@requires(*READERS)
async def show_list(
    call: Calling,
    actor_id: Words = None,
    action: Annotated[list[Action] | None, Query(max_length=50)] = None,
    entity_type: Words = None,
    entity_id: Words = None,
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


@router.get("/seals", summary="The seals, newest first")
@requires("operator", "auditor", whole=True)
async def show_seals(call: Calling, limit: Limit = 50, cursor: Number = None) -> Page[SealShown]:
    async with call.transaction(read_only=True) as conn:
        rows = await fetch(conn, SEALS, before=cursor or NEWEST, limit=limit)
    items = [SealShown.model_validate(dict(row)) for row in rows]
    return Page(items=items, next_cursor=str(items[-1].n) if len(items) == limit else None)


@router.get("/checkpoints", summary="The signed checkpoints, newest first")
@requires(*READERS, by_tenant=False)
async def show_checkpoints(call: Calling, limit: Limit = 50, cursor: Number = None) -> Page[CheckpointShown]:
    """They say nothing about what is in the account, only how large it is and that it has not changed."""
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        rows = await fetch(conn, CHECKPOINTS, before=cursor or NEWEST, limit=limit)
    items = [CheckpointShown.model_validate(dict(row)) for row in rows]
    return Page(items=items, next_cursor=str(items[-1].size) if len(items) == limit else None)


@router.get(
    "/key",
    response_class=PlainTextResponse,
    summary="The public keys that checkpoints are checked with, a line each",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
@requires(*READERS, by_tenant=False)
async def show_key(call: Calling) -> str:
    """The newest first, then those that it took the place of: what they signed is checked with them.

    A machine without any has none to show; they are where the account is signed.
    """
    files = public_key_files(call.api.settings)
    if not files:
        raise NotFound("public key", "on this machine", remedy="Copy audit.pub here from the machine that signs.")
    return "".join(f"{path.read_text().strip()}\n" for path in files)


@router.get(
    "/export",
    response_model=None,
    summary="The account, or a tenant's part of it, as lines that verify offline",
    responses={
        200: {
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
            "description": "One JSON object a line.",
        }
    },
)
@requires(*READERS)
async def take_along(
    call: Calling,
    since: Annotated[Timestamp | None, Query(description="By the time of sealing.")] = None,
    until: Timestamp | None = None,
    personal: Annotated[bool, Query(description="With personal values that were not erased; for operators.")] = False,
) -> Response:
    """That it was made is an event itself. `atlas audit verify --export` checks it without a database."""
    if personal and call.caller.role != "operator":
        raise Forbidden("Personal values are exported by operators only.")
    lines = _lines(call, Extract(call.tenant_id, since, until, personal))
    # The first line before the answer begins, so that a refusal is told as one.
    first = await anext(lines)
    headers = {"Content-Disposition": 'attachment; filename="audit.ndjson"'}
    return _Export(first, lines, headers)


@router.get("/{row_id}/proof", summary="A proof that one row is in the signed tree, for anyone with the public key")
@requires(*READERS)
async def show_proof(row_id: Annotated[int, Path(ge=1, le=NEWEST)], call: Calling) -> Document:
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        return await prove(conn, row_id, tenant_id=call.tenant_id)


async def _lines(call: RequestContext, extract: Extract) -> AsyncGenerator[bytes, None]:
    # No transaction around it: the event that tells of the export stands, however the reading ends.
    with call.api.exports.taken(call.caller.share):
        async with call.api.db.connection(watched=False, share=call.caller.share) as conn:
            async for line in export(conn, extract, actor=call.actor):
                yield line


class _StandsStill(Exception):
    """The reader takes nothing more; a statement that takes too long is another matter."""


class _Export(StreamingResponse):
    """Lines as they are read. They keep a connection, which is given back when the reader has left or is too slow."""

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None], headers: dict[str, str]) -> None:
        super().__init__(_chained(first, rest), media_type="application/x-ndjson", headers=headers)
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._rest.aclose()

    async def stream_response(self, send: Send) -> None:
        patience = TAKE_SECONDS

        async def send_in_time(message: Any) -> None:
            nonlocal patience
            began = time.monotonic()
            try:
                async with asyncio.timeout(patience):
                    await send(message)
            except TimeoutError as error:
                raise _StandsStill from error
            earned = len(message.get("body", b"")) / LEAST_RATE
            patience = min(TAKE_SECONDS, patience - (time.monotonic() - began) + earned)

        try:
            await super().stream_response(send_in_time)
        except _StandsStill:
            # What was sent has no end, and so cannot pass for a whole export.
            log.warning("an export was cut off: its reader stands still or is too slow")


async def _chained(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes]:
    yield first
    async for line in rest:
        yield line
