"""Bulk actions: retry, cancel, delete or discard many jobs, by their ids or by the filter of a list.

An action is a record that says how far it is. Each step is a short transaction that changes some jobs, records each in
the audit log with the reason, and moves the record on. So anyone can go on with an action whose process died: the API
takes the first step, a scheduler the others. A rate spreads them over time.

A filter is followed as its list is read, from the newest job on, and past each job once: one that is retried and fails
again is not retried twice. What was created after the action began is not touched.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import UUID

import orjson
from pydantic import TypeAdapter

from atlas.actors import Actor, ActorType
from atlas.audit.record import Event, record
from atlas.bounds import LARGEST_PAGE
from atlas.db.pool import Connection, Queryable
from atlas.db.prisma import as_json, page_filter, prisma_on
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.jobs.cancel import cancel_many
from atlas.engine.jobs.delete import delete_many, discard_many
from atlas.engine.jobs.job_list import JobFilter, list_page
from atlas.engine.jobs.retry import retry_many
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound, Refused
from atlas.ids import new_id

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import BulkActionCreateInput, BulkActionWhereInput

HOLD = statement("engine/jobs/sql/hold_bulk_action.sql")
ADVANCE = statement("engine/jobs/sql/advance_bulk_action.sql")
CANCEL = statement("engine/jobs/sql/cancel_bulk_action.sql")
DUE = statement("engine/jobs/sql/due_bulk_actions.sql")
FORGET = statement("engine/jobs/sql/forget_bulk_actions.sql")

BulkVerb = Literal["retry", "cancel", "delete", "discard"]
BulkStatus = Literal["running", "done", "canceled"]

# The statuses that each can change, and the verdicts that say that it did.
APPLIES_TO: Mapping[BulkVerb, tuple[str, ...]] = {
    "retry": ("failed", "dead_letter", "canceled"),
    "cancel": ("queued", "waiting", "running"),
    "delete": ("queued", "waiting", "succeeded", "failed", "dead_letter", "canceled"),
    "discard": ("dead_letter",),
}
VERBS: Mapping[BulkVerb, Callable[..., Awaitable[Mapping[UUID, str]]]] = {
    "retry": retry_many,
    "cancel": cancel_many,
    "delete": delete_many,
    "discard": discard_many,
}
DONE = frozenset({"retried", "canceled", "requested", "deleted", "discarded"})
MOST_IDS = 1000
MOST_RUNNING = 20
LONGEST_REASON = 500
# Of a status, in a step.
MOST_READ = 5000

_FILTER = TypeAdapter(JobFilter)


@dataclass(frozen=True, slots=True)
class BulkAction:
    """What is done to many jobs, and how far it is. `verdicts` counts what became of them."""

    id: UUID
    tenant_id: UUID | None
    action: BulkVerb
    status: BulkStatus
    reason: str
    filter: JobFilter | None
    # How many jobs are named by their ids; None for a filter.
    total: int | None
    rate_per_second: float | None
    changed: int
    passed_over: int
    verdicts: dict[str, int]
    created_by: str
    canceled_by: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


async def begin_bulk_action(
    conn: Connection,
    action: BulkVerb,
    *,
    actor: Actor,
    ids: Sequence[UUID] | None = None,
    wanted: JobFilter | None = None,
    tenant_id: UUID | None = None,
    rate_per_second: float | None = None,
    reason: str = "",
) -> BulkAction:
    """Begin an action on the jobs with these ids, or on those that pass a filter, and take its first step."""
    selection: dict[str, Any]
    if action == "discard" and not reason:
        raise Refused("Dead letters are discarded with a reason.", remedy="Say why: the audit log keeps it.")
    if wanted is not None:
        selection = {"filter": _stored(_narrowed(action, wanted))}
    else:
        chosen = list(dict.fromkeys(ids or ()))
        if not 1 <= len(chosen) <= MOST_IDS:
            raise InvalidInput("The action", [FieldError("ids", f"must be 1 to {MOST_IDS:,} ids")])
        selection = {"ids": [str(id) for id in chosen]}
    async with conn.transaction():
        await _require_room(conn, tenant_id)
        id = new_id()
        data = {
            "id": str(id),
            "tenantId": None if tenant_id is None else str(tenant_id),
            "action": action,
            "reason": reason,
            "selection": as_json(selection),
            "total": None if wanted is not None else len(selection["ids"]),
            "ratePerSecond": rate_per_second,
            "actorType": actor.type,
            "createdBy": actor.id,
            "request": as_json(actor.meta),
        }
        await prisma_on(conn).bulkaction.create(cast("BulkActionCreateInput", data))
        facts = {"action": action, "reason": reason, "rate_per_second": rate_per_second, **selection}
        await record(conn, _event("BULK_ACTION_BEGAN", id, tenant_id, actor, facts))
        await take_step(conn, id)
        return await find_bulk_action(conn, id)


async def take_step(conn: Connection, id: UUID) -> bool:
    """Take the next step of an action in a transaction, if it is due and no other process is at it."""
    async with conn.transaction():
        held = await fetch_row(conn, HOLD, id=id)
        if held is None:
            return False
        # A plan for each filter, as the lists of the API have.
        await conn.execute("set local plan_cache_mode = 'force_custom_plan'")
        rate: float | None = held["rate_per_second"]
        most = LARGEST_PAGE if rate is None else max(1, min(LARGEST_PAGE, ceil(rate)))
        selection = orjson.loads(held["selection"])
        if "ids" in selection:
            step = _step_of_ids(selection["ids"], held["position"], most)
        else:
            step = await _step_of_filter(conn, held, _FILTER.validate_python(selection["filter"]), most)
        await _apply(conn, held, step, rate)
    return True


async def cancel_bulk_action(conn: Connection, id: UUID, *, actor: Actor, tenant_id: UUID | None = None) -> BulkAction:
    """Stop an action where it is. What it has done stays done."""
    async with conn.transaction():
        stopped = await fetch_value(conn, CANCEL, id=id, tenant_id=tenant_id, actor_id=actor.id)
        found = await find_bulk_action(conn, id, tenant_id=tenant_id)
        if stopped is None:
            raise Conflict(f"Bulk action {id} is {found.status}.", remedy="Only one that is running can be canceled.")
        facts = {"action": found.action, "verdicts": found.verdicts}
        await record(conn, _event("BULK_ACTION_CANCELED", id, found.tenant_id, actor, facts))
    return found


async def find_bulk_action(conn: Connection, id: UUID, *, tenant_id: UUID | None = None) -> BulkAction:
    """One action; NotFound if there is none, or if it is another tenant's."""
    found = await list_bulk_actions(conn, tenant_id=tenant_id, id=id, limit=1)
    if not found:
        raise NotFound("bulk action", id)
    return found[0]


async def list_bulk_actions(
    conn: Connection,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    before: UUID | None = None,
    limit: int = LARGEST_PAGE,
) -> list[BulkAction]:
    """The newest first. Without a tenant those of all, and of operators over all."""
    where: BulkActionWhereInput = page_filter(tenant_id=tenant_id, id=id, before=before)
    rows = await prisma_on(conn).bulkaction.find_many(min(limit, LARGEST_PAGE), where=where, order={"id": "desc"})
    return [_bulk_action(row) for row in rows]


async def due_bulk_actions(conn: Queryable, *, limit: int = LARGEST_PAGE) -> list[UUID]:
    """The actions whose next step is due."""
    return [row["id"] for row in await conn.fetch(DUE.sql, *DUE.bind({"limit": limit}))]


async def forget_bulk_actions(conn: Connection) -> None:
    """Remove the records of actions that ended long ago."""
    await fetch(conn, FORGET)


@dataclass(frozen=True, slots=True)
class _BulkStep:
    """The jobs of a step, those that it leaves alone with the reason, and where the next one begins."""

    ids: list[UUID]
    position: int
    before_id: UUID | None
    is_last: bool
    # Of a filter: their state has been read. An id may be of no job.
    left_alone: Mapping[UUID, str]


def _step_of_ids(ids: Sequence[str], position: int, most: int) -> _BulkStep:
    chosen = [UUID(id) for id in ids[position : position + most]]
    end = position + len(chosen)
    return _BulkStep(chosen, end, None, end >= len(ids), {})


async def _step_of_filter(conn: Connection, held: Any, wanted: JobFilter, most: int) -> _BulkStep:
    began: datetime = held["created_at"]
    cursor: str | None = held["list_cursor"]
    before = began if wanted.created_before is None else min(began, wanted.created_before)
    wanted = replace(wanted, tenant_id=held["tenant_id"], created_before=before)
    page = await list_page(
        conn, wanted, before=None if cursor is None else UUID(cursor), limit=most, most_read=MOST_READ, whole=False
    )
    # A retry may do again what was done already: such a job is retried by its id.
    unsure = {
        job.id: "unknown_outcome"
        for job in page.jobs
        if held["action"] == "retry" and job.error.get("outcome") == "unknown"
    }
    ids = [job.id for job in page.jobs if job.id not in unsure]
    return _BulkStep(ids, held["position"] + len(page.jobs), page.next_before, page.next_before is None, unsure)


async def _apply(conn: Connection, held: Any, step: _BulkStep, rate: float | None) -> None:
    request = orjson.loads(held["request"])
    kind: ActorType = held["actor_type"]
    actor = Actor(kind, held["created_by"], request.get("ip"), request.get("request_id"), request.get("token"))
    facts = {"bulk_action": str(held["id"]), **({"reason": held["reason"]} if held["reason"] else {})}
    found = await VERBS[held["action"]](conn, step.ids, actor=actor, tenant_id=held["tenant_id"], facts=facts)
    verdicts = Counter([found.get(id, "missing") for id in step.ids] + list(step.left_alone.values()))
    changed = sum(count for verdict, count in verdicts.items() if verdict in DONE)
    row = await fetch_row(
        conn,
        ADVANCE,
        id=held["id"],
        position=step.position,
        list_cursor=None if step.before_id is None else str(step.before_id),
        changed=changed,
        passed_over=verdicts.total() - changed,
        verdicts=orjson.dumps(verdicts).decode(),
        is_last=step.is_last,
        rest=0.0 if rate is None else verdicts.total() / rate,
    )
    assert row is not None
    if step.is_last:
        ended = {"action": held["action"], "verdicts": orjson.loads(row["verdicts"])}
        await record(conn, _event("BULK_ACTION_ENDED", held["id"], held["tenant_id"], actor, ended))


def _narrowed(action: BulkVerb, wanted: JobFilter) -> JobFilter:
    """The filter of what the action can change; refuses one that is empty, or that matches nothing of that."""
    if wanted == JobFilter(wanted.tenant_id):
        raise Refused(
            "The filter names nothing: it would be every job.", remedy="Name a status, a type or another value."
        )
    statuses = APPLIES_TO[action] if wanted.statuses is None else wanted.statuses
    fit = tuple(status for status in statuses if status in APPLIES_TO[action])
    if not fit:
        possible = ", ".join(APPLIES_TO[action])
        raise Refused(
            f"No job that passes the filter can be changed by {action}.", remedy=f"It applies to: {possible}."
        )
    return replace(wanted, statuses=fit)


def _stored(wanted: JobFilter) -> dict[str, Any]:
    values = {name: value for name, value in asdict(wanted).items() if value is not None and name != "tenant_id"}
    found: dict[str, Any] = orjson.loads(orjson.dumps(values, default=str))
    return found


async def _require_room(conn: Connection, tenant_id: UUID | None) -> None:
    where: BulkActionWhereInput = {"status": "running", "tenantId": None if tenant_id is None else str(tenant_id)}
    if await prisma_on(conn).bulkaction.count(where=where) >= MOST_RUNNING:
        raise Conflict(f"{MOST_RUNNING} bulk actions are running.", remedy="Wait for the end of one, or cancel one.")


def _event(action: str, id: UUID, tenant_id: UUID | None, actor: Actor, facts: Mapping[str, Any]) -> Event:
    return Event(action, "bulk_action", str(id), actor, tenant_id, level="warn", meta=facts)


def _bulk_action(row: "models.BulkAction") -> BulkAction:
    selection = cast("dict[str, Any]", row.selection)
    kept = selection.get("filter")
    return BulkAction(
        UUID(row.id),
        None if row.tenantId is None else UUID(row.tenantId),
        cast("BulkVerb", row.action),
        cast("BulkStatus", row.status),
        row.reason,
        None if kept is None else _FILTER.validate_python(kept),
        row.total,
        row.ratePerSecond,
        row.changed,
        row.passedOver,
        cast("dict[str, int]", row.verdicts),
        row.createdBy,
        row.canceledBy,
        row.createdAt,
        row.updatedAt,
        row.finishedAt,
    )
