"""Routes for the audit log: search it, follow it, prove a row, export a part."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import StringConstraints
from starlette.responses import Response

from atlas.actors import ActorType
from atlas.api.access.roles import READERS
from atlas.api.http.export import Export
from atlas.api.live.changes import PLACE, place_of, write_place
from atlas.api.models.common import Document, Timestamp
from atlas.api.paging import Limit
from atlas.api.problems import Forbidden
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.audit.exports.export import Extract, export
from atlas.audit.exports.proof import leaf_position, prove
from atlas.audit.find import AuditRow, find, find_new, find_one, log_position, seals_of
from atlas.audit.find import Query as AuditQuery
from atlas.db.replica import caught_up
from atlas.errors import FieldError, InvalidInput
from atlas.models import Page
from atlas.models.audit import AuditEntry, EntryDetails, NewEntries

router = APIRouter(prefix=f"{PREFIX}/audit", route_class=GuardedRoute, tags=["audit"])

NEWEST = 2**63 - 1
# A follower that is more rows behind, of all tenants together, reads the first page again.
MAX_NEW = 5000
MEDIA_TYPE = "application/x-ndjson"

Text = Annotated[str | None, Query(max_length=200)]
Action = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")]
Level = Literal["info", "warn", "error"]
RowId = Annotated[int, Path(ge=1, le=NEWEST)]


async def _read_filters(
    call: Calling,
    actor_id: Text = None,
    action: Annotated[list[Action] | None, Query(max_length=50)] = None,
    level: Annotated[list[Level] | None, Query(max_length=3)] = None,
    actor_type: Annotated[ActorType | None, Query(description="`user`: only what people did.")] = None,
    entity_type: Text = None,
    entity_id: Text = None,
    text: Annotated[
        str | None, Query(max_length=200, description="Searched in action, entity, actor, message and meta.")
    ] = None,
) -> AuditQuery:
    """What a search and a follower both filter by."""
    return AuditQuery(
        call.tenant_id,
        actor_id,
        None if action is None else tuple(action),
        entity_type,
        entity_id,
        text=text,
        levels=None if level is None else tuple(level),
        actor_type=actor_type,
    )


Filters = Annotated[AuditQuery, Depends(_read_filters)]


@router.get("", operation_id="list_audit_rows", summary="What happened, newest first")
@requires(*READERS, replica=True)
async def show_list(
    call: Calling,
    filters: Filters,
    since: Timestamp | None = None,
    until: Timestamp | None = None,
    limit: Limit = 50,
    cursor: Annotated[
        str | None, Query(pattern=r"^\d{1,9}\.\d{1,19}\.\d{1,18}$", description="The `next_cursor` of the page before.")
    ] = None,
) -> Page[AuditEntry]:
    """Of the caller's tenant; those that belong to none are for callers without a tenant."""
    async with call.transaction(read_only=True) as conn:
        page = await find(conn, replace(filters, since=since, until=until), limit=limit, cursor=cursor)
    return Page(items=await _entries(call, page.entries), next_cursor=page.cursor)


@router.get("/new", operation_id="list_new_audit_rows", summary="What was recorded since a place, to follow the log")
@requires(*READERS)
async def show_new(
    call: Calling,
    filters: Filters,
    place: Annotated[
        str | None,
        Query(
            max_length=2100,
            description="From the response before; none: from now on.",
            json_schema_extra={"pattern": f"^{PLACE}$"},
        ),
    ] = None,
) -> NewEntries:
    """Each row once, also one whose transaction took long. Call it every second or two."""
    since = None if place is None else place_of(place)
    if place is not None and since is None:
        raise InvalidInput("The request", [FieldError("query.place", "is not one that a response named")])
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        if since is None:
            return NewEntries(items=[], place=write_place(await log_position(conn)), is_cut=False)
        now, rows = await find_new(conn, filters, since=since, most=MAX_NEW)
    items = await _entries(call, rows or ())
    return NewEntries(items=items, place=write_place(now), is_cut=rows is None)


@router.get(
    "/export",
    operation_id="export_audit_log",
    response_model=None,
    summary="The audit log, or a tenant's part of it, as lines that verify offline",
    responses={
        200: {
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
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
        return Response(headers=headers, media_type=MEDIA_TYPE)
    lines = _lines(call, Extract(call.tenant_id, since, until, personal))
    # The first line before the response begins, so that a refusal still has its own status.
    first = await anext(lines)
    return Export(first, lines, headers, media_type=MEDIA_TYPE)


@router.get("/{row_id}", operation_id="get_audit_row", summary="One row of the audit log")
@requires(*READERS)
async def show_one(row_id: RowId, call: Calling) -> EntryDetails:
    """With the seal that it is in and its place in the tree. 404 once its seal was pruned."""
    async with call.transaction(read_only=True) as conn:
        row = await find_one(conn, row_id, tenant_id=call.tenant_id)
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        seal, index = await leaf_position(conn, row_id, tenant_id=call.tenant_id) or (None, None)
    return EntryDetails(**_facts(row), seal=seal, index=index)


@router.get(
    "/{row_id}/proof",
    operation_id="get_audit_proof",
    summary="A proof that one row is in the signed tree, for anyone with the public key",
)
@requires(*READERS)
async def show_proof(row_id: RowId, call: Calling) -> Document:
    """404 until the row is sealed and a checkpoint over it is signed, a few seconds after it was written."""
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        return await prove(conn, row_id, tenant_id=call.tenant_id)


async def _entries(call: RequestContext, rows: Sequence[AuditRow]) -> list[AuditEntry]:
    """The rows with the numbers of their seals, which belong to the installation and hold nothing of their rows."""
    if not rows:
        return []
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        seals = await seals_of(conn, rows)
    return [AuditEntry(**_facts(row), seal=seals.get(row.id)) for row in rows]


def _facts(row: AuditRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in AuditEntry.model_fields if name != "seal"}


async def _lines(call: RequestContext, extract: Extract) -> AsyncGenerator[bytes, None]:
    # Without a transaction: the event about the export is kept, however the reading ends.
    with call.api.exports.taken(call.caller.share):
        async with call.api.db.connection(watched=False, share=call.caller.share) as conn:
            reading = partial(caught_up, call.api.settings)
            async with aclosing(export(conn, extract, actor=call.actor, reading=reading)) as lines:
                async for line in lines:
                    yield line
