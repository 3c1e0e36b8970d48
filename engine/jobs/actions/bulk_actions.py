"""Bulk actions: retry, cancel, delete or discard many jobs, by their ids or by the filter of a list.

An action is a record that says how far it is. Each step is one statement that changes some jobs, records each in the
audit log with the reason, and moves the record on. It is guarded by how far the record was when the step was chosen. So
no process holds an action, and anyone can take its next step: the API takes the first one, any scheduler the others. A
rate spreads them over time.

An action on a preview changes the jobs in its set: see bulk_previews.py. A filter alone is followed as its list is
read, from the newest job on, and past each job once. Jobs that were created, or ended, after the action began are not
touched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Connection, Queryable
from atlas.db.prisma import as_json, data_of, page_filter, prisma_on
from atlas.db.statements import fetch, fetch_row, fetch_value, retry_deadlocks, statement
from atlas.engine.jobs.actions.bulk_previews import (
    APPLIES_TO,
    BY_IDS,
    STORED_FILTER,
    bulk_filter,
    count_arrived,
    distinct_ids,
    find_preview,
    narrowed,
    stored_filter,
)
from atlas.engine.jobs.actions.retry import refused_by_policy
from atlas.engine.jobs.lists.job_list import STATUSES, JobFilter, list_ids
from atlas.errors import Conflict, NotFound, Refused
from atlas.ids import new_id
from atlas.models.jobs import BulkAction, BulkVerb
from atlas.models.rows import from_row

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import BulkActionWhereInput

READ = statement("engine/jobs/actions/sql/read_bulk_action.sql")
STEP = statement("engine/jobs/actions/sql/step_bulk_action.sql")
CANCEL = statement("engine/jobs/actions/sql/cancel_bulk_action.sql")
DUE = statement("engine/jobs/actions/sql/due_bulk_actions.sql")
FORGET = statement("engine/jobs/actions/sql/forget_bulk_actions.sql")

ENDED = {"succeeded", "failed", "dead_letter", "canceled"}
MAX_RUNNING = 20
MAX_REASON_LENGTH = 500
# Jobs of a step, and of the first one, for which a caller waits.
STEP_JOBS = 1000
FIRST_STEP_JOBS = 200
# Jobs that a step compares with a filter.
MAX_EXAMINED = 5000


async def begin_bulk_action(
    conn: Connection,
    action: BulkVerb,
    *,
    actor: Actor,
    ids: Sequence[UUID] | None = None,
    job_filter: JobFilter | None = None,
    digest: str | None = None,
    tenant_id: UUID | None = None,
    rate_per_second: float | None = None,
    reason: str = "",
) -> BulkAction:
    """Begin an action on the jobs with these ids, of a preview, or that pass a filter, and take its first step."""
    if action == "discard" and not reason:
        raise Refused("A reason is required to discard dead letters.", remedy="Say why: the audit log keeps it.")
    selection, total = await _select(conn, action, ids, job_filter, digest, tenant_id)
    async with conn.transaction():
        await _require_room(conn, tenant_id)
        id = new_id()
        order = {"action": action, "reason": reason, "rate_per_second": rate_per_second}
        by = {"actor_type": actor.type, "created_by": actor.id, "request": as_json(actor.meta)}
        data = data_of(id=id, tenant_id=tenant_id, **order, selection=as_json(selection), total=total, **by)
        await prisma_on(conn).bulkaction.create(data)
        facts = {**order, **selection}
        await record(conn, _event("BULK_ACTION_BEGAN", id, tenant_id, actor, facts))
        await take_step(conn, id, most=FIRST_STEP_JOBS)
        return await find_bulk_action(conn, id)


async def _select(
    conn: Connection,
    action: BulkVerb,
    ids: Sequence[UUID] | None,
    job_filter: JobFilter | None,
    digest: str | None,
    tenant_id: UUID | None,
) -> tuple[dict[str, Any], int | None]:
    """The jobs of an action as its record keeps them, and how many there are if that is known."""
    if digest is not None:
        preview = await find_preview(conn, digest, action=action, tenant_id=tenant_id)
        facts = {"digest": digest, "as_of": preview.as_of.isoformat(), "arrived": await count_arrived(conn, preview)}
        if preview.filter is None:
            return {**facts, BY_IDS: True, "previewed_filter": {"statuses": APPLIES_TO[action]}}, preview.count
        # Not under `filter`: programs of the release before would follow that.
        return {**facts, "previewed_filter": stored_filter(preview.filter)}, preview.count
    if job_filter is not None:
        return {"filter": stored_filter(narrowed(action, job_filter))}, None
    chosen = distinct_ids(ids or ())
    return {"ids": [str(id) for id in chosen]}, len(chosen)


async def take_step(conn: Connection, id: UUID, *, most: int | None = None) -> bool:
    """Take the next step of an action, if it is due. False: it is not, or another process took the step."""
    row = await fetch_row(conn, READ, id=id, limit=STEP_JOBS)
    if row is None:
        return False
    rate: float | None = row["rate_per_second"]
    most = most or STEP_JOBS
    most = most if rate is None else max(1, min(most, ceil(rate)))
    selection = orjson.loads(row["selection"])
    if "digest" in selection:
        step = _step_of_preview(row, STORED_FILTER.validate_python(selection["previewed_filter"]), most)
    elif "ids" in selection:
        step = _step_of_ids(selection["ids"], row["position"], most)
    else:
        step = await _step_of_filter(conn, row, STORED_FILTER.validate_python(selection["filter"]), most)
    refused = await refused_by_policy(conn, step.ids, row["tenant_id"]) if row["action"] == "retry" else {}
    kept = orjson.dumps({str(job_id): verdict for job_id, verdict in refused.items()}).decode()
    seen = {"id": id, "position": row["position"], "cursor": row["list_cursor"], "refused": kept}
    # Runs and their children are locked in opposite order when one is canceled while the other ends.
    taken: bool = await retry_deadlocks(conn, lambda: fetch_value(conn, STEP, **seen, **asdict(step)))
    return taken


async def cancel_bulk_action(conn: Connection, id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> BulkAction:
    """Stop an action where it is. What it has done stays done."""
    async with conn.transaction():
        stopped = await fetch_value(conn, CANCEL, id=id, tenant_id=tenant_id, actor_id=actor.id)
        bulk_action = await find_bulk_action(conn, id, tenant_id=tenant_id)
        if stopped is None:
            raise Conflict(
                f"Bulk action {id} is {bulk_action.status}.", remedy="Only one that is running can be canceled."
            )
        facts = {"action": bulk_action.action, "verdicts": bulk_action.verdicts}
        event = _event("BULK_ACTION_CANCELED", id, bulk_action.tenant_id, actor, facts)
        await record(conn, event, before={"status": "running", "canceled_by": None})
    return bulk_action


async def find_bulk_action(conn: Connection, id: UUID, *, tenant_id: UUID | None = None) -> BulkAction:
    """One action; NotFound if there is none, or if it is another tenant's."""
    page = await list_bulk_actions(conn, tenant_id=tenant_id, id=id, limit=1)
    if not page:
        raise NotFound("bulk action", id)
    return page[0]


async def list_bulk_actions(
    conn: Connection,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    after: UUID | None = None,
    limit: int = MAX_PAGE_SIZE,
) -> list[BulkAction]:
    """The newest first. Without a tenant those of all, and of operators over all."""
    where: BulkActionWhereInput = page_filter(tenant_id=tenant_id, id=id, before=after)
    rows = await prisma_on(conn).bulkaction.find_many(min(limit, MAX_PAGE_SIZE), where=where, order={"id": "desc"})
    return [_bulk_action(row) for row in rows]


async def due_bulk_actions(conn: Queryable) -> list[UUID]:
    """The actions whose next step is due."""
    return [row["id"] for row in await conn.fetch(DUE.sql, *DUE.bind({"limit": MAX_PAGE_SIZE}))]


async def forget_bulk_actions(conn: Connection) -> None:
    """Remove the records of actions that ended long ago."""
    await fetch(conn, FORGET)


@dataclass(frozen=True, slots=True)
class _BulkStep:
    """The jobs of a step, where the next one begins, and the statuses that they must still have."""

    ids: list[UUID]
    next_cursor: str | None
    is_last: bool
    statuses: list[str] | None


def _step_of_ids(ids: Sequence[str], position: int, most: int) -> _BulkStep:
    chosen = [UUID(id) for id in ids[position : position + most]]
    return _BulkStep(chosen, None, position + len(chosen) >= len(ids), None)


def _step_of_preview(row: Any, job_filter: JobFilter, most: int) -> _BulkStep:
    chosen: list[UUID] = (row["previewed"] or [])[:most]
    is_last = not chosen or row["position"] + len(chosen) >= row["preview_count"]
    return _BulkStep(chosen, None, is_last, list(job_filter.statuses or ()))


async def _step_of_filter(conn: Connection, row: Any, job_filter: JobFilter, most: int) -> _BulkStep:
    began: datetime = row["created_at"]
    cursor: str | None = row["list_cursor"]
    until = began if job_filter.created_before is None else min(began, job_filter.created_before)
    job_filter = replace(job_filter, tenant_id=row["tenant_id"], created_before=until)
    if set(job_filter.statuses or STATUSES) <= ENDED:
        # A job that ended later was not there when the action began, or has been retried since.
        ended = began if job_filter.finished_before is None else min(began, job_filter.finished_before)
        job_filter = replace(job_filter, finished_before=ended)
    before = None if cursor is None else UUID(cursor)
    page = await list_ids(conn, job_filter, before=before, limit=most, max_examined=MAX_EXAMINED)
    next_cursor = None if page.next_before is None else str(page.next_before)
    return _BulkStep(page.ids, next_cursor, next_cursor is None, list(job_filter.statuses or ()))


async def _require_room(conn: Connection, tenant_id: UUID | None) -> None:
    where: BulkActionWhereInput = {"status": "running", "tenantId": None if tenant_id is None else str(tenant_id)}
    if await prisma_on(conn).bulkaction.count(where=where) >= MAX_RUNNING:
        raise Conflict(f"{MAX_RUNNING} bulk actions are running.", remedy="Wait until one finishes, or cancel one.")


def _event(action: str, id: UUID, tenant_id: UUID | None, actor: Actor, facts: Mapping[str, Any]) -> Event:
    return Event(action, "bulk_action", str(id), actor, tenant_id, level="warn", meta=facts)


def _bulk_action(row: "models.BulkAction") -> BulkAction:
    selection = cast("dict[str, Any]", row.selection)
    kept = None if BY_IDS in selection else selection.get("filter") or selection.get("previewed_filter")
    filter = None if kept is None else bulk_filter(STORED_FILTER.validate_python(kept))
    return from_row(BulkAction, row, filter=filter, digest=selection.get("digest"), arrived=selection.get("arrived"))
