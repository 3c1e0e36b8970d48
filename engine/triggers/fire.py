"""Firing: one statement records a set of firings, starts their jobs and workflows, and moves their triggers on.

The unique keys of the record, (trigger, due time) and (trigger, event), make a firing single. The statement is guarded
by what was read before it: a trigger that someone has changed or fired since is left out. So any number of schedulers
may try at any time, and none of them holds a lock between two statements.
"""

import asyncio
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import orjson

from atlas.actors import Actor, system
from atlas.db.pg_json import stored_text
from atlas.db.pool import UNREACHABLE, Connection
from atlas.db.statements import fetch_row, statement
from atlas.engine.admission import Admission, admitted, load_admissions
from atlas.engine.helper_process import HelperFailed, Run, run_here
from atlas.engine.jobs.enqueue import job_row
from atlas.engine.jobs.local_wakeup import wake_local_workers
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.new_jobs.refusals import refusals
from atlas.engine.templates import MAX_WORK, Budget, compile_in_turns, render
from atlas.engine.workflows.intents import NewIntent, intent_row
from atlas.errors import AtlasError, Conflict, NotFound, no_tenant
from atlas.ids import new_id
from atlas.models.triggers import Trigger
from atlas.tracing import active_tracer, continued, current_traceparent, span

FIRE = statement("engine/triggers/sql/fire.sql")

SCHEDULER = system("scheduler")
MAX_ERROR_LENGTH = 1000
# Other triggers wait while templates are rendered. The firings of one event or schedule go together: those that are
# rendered after this time may do only little work each, which is enough for an ordinary template.
RENDERING_SECONDS = 1.0
LITTLE_WORK = MAX_WORK // 16
# Firings between two turns of the other tasks of the event loop.
TURN = 20
# Errors of one firing, which do not stop the others.
UNUSABLE = (AtlasError, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)
# Errors of the database, which concern all firings.
OF_ALL = (*UNREACHABLE, asyncpg.PostgresError)


@dataclass(slots=True)
class Firing:
    """One firing of a trigger: for a due time, for an event, or by a person. `job_id` is what it starts."""

    trigger: Trigger
    source: str
    input: dict[str, Any] | None = None
    due_at: datetime | None = None
    event_id: UUID | None = None
    correlation_id: str | None = None
    payload_hash: bytes | None = None
    result: str = "fired"
    error: str | None = None
    id: UUID = field(default_factory=new_id)
    job_id: UUID | None = field(default_factory=new_id)
    # The rows of what it starts.
    job: dict[str, Any] | None = None
    intent: dict[str, Any] | None = None
    secrets: list[dict[str, Any]] = field(default_factory=list)

    def fail(self, error: BaseException) -> None:
        """Mark the firing as failed, for this reason."""
        self.result, self.job_id, self.job, self.intent, self.secrets = "failed", None, None, None, []
        self.error = stored_text(str(error).strip() or type(error).__name__)[:MAX_ERROR_LENGTH]

    def swallow(self, job_id: UUID | None) -> None:
        """Start nothing: an equal firing of the same trigger has started this."""
        self.result, self.job_id, self.job, self.intent, self.secrets = "swallowed", job_id, None, None, []


@dataclass(slots=True)
class FiringBatch:
    """Firings that go together, and what becomes of their triggers and events."""

    now: datetime
    triggers: dict[UUID, Trigger]
    firings: list[Firing]
    # The next due times of schedules; a trigger that is not among them keeps its own.
    next_times: dict[UUID, datetime | None] = field(default_factory=dict)
    # Why schedules cannot be computed.
    broken: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    # Audit events beside those of the firings.
    audit: list[dict[str, Any]] = field(default_factory=list)
    # Events that are handled with these firings.
    events: Collection[UUID] = ()

    def without(self, gone: Collection[UUID], repeated: Collection[UUID]) -> None:
        """Leave out these triggers and these firings."""
        for id in gone:
            del self.triggers[id]
        self.firings = [
            firing for firing in self.firings if firing.id not in repeated and firing.trigger.id in self.triggers
        ]
        self.audit = [event for event in self.audit if event["trigger_id"] in self.triggers]


async def render_inputs(asked: Sequence[tuple[Firing, dict[str, Any]]]) -> float:
    """Render the inputs of firings that go together. Returns how many seconds it took."""
    took = 0.0
    for number, (firing, scope) in enumerate(asked, 1):
        began = time.monotonic()
        await compile_in_turns(firing.trigger.payload_template)
        await render_input(firing, scope, work=MAX_WORK if took < RENDERING_SECONDS else LITTLE_WORK)
        took += time.monotonic() - began
        if number % TURN == 0:
            await asyncio.sleep(0)
    return took


async def render_input(firing: Firing, scope: dict[str, Any], *, work: int = MAX_WORK, run: Run = run_here) -> None:
    """Render the trigger's template, or mark the firing as failed."""
    trigger = firing.trigger
    context = {"trigger": {"id": str(trigger.id), "label": trigger.label}, **scope}
    try:
        template = trigger.payload_template
        firing.input = await run(render, template, context, path="payload_template", budget=Budget(work))
    except HelperFailed:
        raise
    except Exception as error:
        # A tenant's template: whatever it raises fails this firing alone, and other triggers fire.
        firing.fail(error)


async def prepare(conn: Connection, firings: Sequence[Firing], actor: Actor) -> None:
    """Check what the firings are to start and make its rows. A firing that cannot start is marked as failed."""
    starting = [firing for firing in firings if firing.result == "fired"]
    jobs = [firing for firing in starting if firing.trigger.workflow is None]
    published = await load_admissions(conn, {(_type_of(job), job.trigger.tenant_id) for job in jobs}) if jobs else {}
    with _traced(starting):
        for number, firing in enumerate(starting, 1):
            try:
                if firing.trigger.workflow is None:
                    job = _job(firing, published.get((_type_of(firing), firing.trigger.tenant_id)))
                    firing.job, firing.secrets = await job_row(conn, job, actor)
                else:
                    firing.intent = _intent(firing, actor)
            except Exception as error:
                if isinstance(error, OF_ALL) and not isinstance(error, UNUSABLE):
                    raise
                firing.fail(error)
            if number % TURN == 0:
                await asyncio.sleep(0)


async def fire_batch(conn: Connection, batch: FiringBatch) -> list[Firing] | None:
    """Fire what `prepare` has prepared. Returns the firings that are recorded now.

    None: Atlas is offline, or others were at it, and nothing was changed.
    """
    try:
        return await _fire(conn, batch)
    except UNUSABLE:
        # One of them cannot be stored. Each goes alone, and that one fails. What they are for is open until the next
        # poll, which finds them recorded.
        alone = [firing for firing in batch.firings if firing.result != "swallowed"]
        return [firing for firing in alone if await _fire_alone(conn, batch.now, firing)]


async def fire_one(conn: Connection, firing: Firing, *, now: datetime, actor: Actor) -> UUID:
    """Fire by request. Returns what was started. One that cannot start is a Conflict, which records nothing."""
    await prepare(conn, [firing], actor)
    if firing.job_id is not None:
        try:
            await _send(conn, FiringBatch(now, {firing.trigger.id: firing.trigger}, [firing]), actor)
        except UNUSABLE as error:
            firing.fail(error)
    if firing.job_id is None:
        raise Conflict(f"Trigger {firing.trigger.id} could not fire: {firing.error}", remedy="Nothing was changed.")
    return firing.job_id


async def _fire(conn: Connection, batch: FiringBatch) -> list[Firing] | None:
    while batch.triggers or batch.events:
        row = await _send(conn, batch, SCHEDULER)
        if row["outcome"] == "fired":
            if batch.firings:
                wake_local_workers(conn)
            return batch.firings
        # An event is handled with all its triggers, or later.
        if row["outcome"] == "closed" or (batch.events and row["gone"]) or not (row["gone"] or row["repeated"]):
            return None
        batch.without(row["gone"], row["repeated"])
    return batch.firings


async def _fire_alone(conn: Connection, now: datetime, firing: Firing) -> bool:
    def alone() -> FiringBatch:
        return FiringBatch(now, {firing.trigger.id: firing.trigger}, [firing])

    try:
        return bool(await _fire(conn, alone()))
    except UNUSABLE as error:
        firing.fail(error)
        return bool(await _fire(conn, alone()))


async def _send(conn: Connection, batch: FiringBatch, actor: Actor) -> Any:
    recorded = {firing.trigger.id: firing for firing in batch.firings if firing.result in ("fired", "failed")}
    with refusals():
        return await fetch_row(
            conn,
            FIRE,
            triggers=_text([_trigger_row(batch, trigger, recorded.get(id)) for id, trigger in batch.triggers.items()]),
            firings=_text([_firing_row(firing) for firing in batch.firings]),
            jobs=_text([firing.job for firing in batch.firings if firing.job is not None]),
            intents=_text([firing.intent for firing in batch.firings if firing.intent is not None]),
            secrets=_text([secret for firing in batch.firings for secret in firing.secrets]),
            audit=_text([*batch.audit, *filter(None, (_audit_row(firing, actor) for firing in batch.firings))]),
            events=list(batch.events),
            by_scheduler=actor is SCHEDULER,
            actor_type=actor.type,
            actor_id=actor.id,
        )


def _type_of(firing: Firing) -> str:
    return firing.trigger.job_type or firing.trigger.definition_key or ""


def _job(firing: Firing, published: Admission | None) -> NewJob:
    trigger = firing.trigger
    assert firing.job_id is not None
    if published is None:
        raise no_tenant(trigger.tenant_id)
    job = NewJob(
        _type_of(firing),
        firing.input or {},
        trigger.tenant_id,
        source=firing.source,
        source_ref=str(trigger.id),
        correlation_id=firing.correlation_id,
        id=firing.job_id,
        allow_unknown=True,
    )
    job = admitted(job, published)
    if trigger.definition_key is not None and job.definition_id is None:
        raise NotFound("definition", trigger.definition_key, remedy="Choose a definition that exists.")
    return job


def _intent(firing: Firing, actor: Actor) -> dict[str, Any]:
    trigger = firing.trigger
    assert firing.job_id is not None
    # On behalf of the person who fired it, or else who last changed the trigger: they may not approve the run.
    requester = actor if firing.source == "manual" else system(trigger.arranged_by)
    intent = NewIntent(
        trigger.workflow or "",
        firing.input or {},
        source=firing.source,
        source_ref=str(trigger.id),
        correlation_id=firing.correlation_id,
        id=firing.job_id,
        allow_unknown=True,
    )
    return intent_row(intent, trigger.tenant_id, requester)


@contextmanager
def _traced(firings: Sequence[Firing]) -> Iterator[None]:
    """In a process that traces, what the firings start goes on with a span of theirs."""
    going_on = [firing for firing in firings if active_tracer() is not None and continued(firing.correlation_id)]
    if not going_on:
        yield
        return
    attributes = {"messaging.system": "atlas", "messaging.batch.message_count": len(firings)}
    with span("fire triggers", "PRODUCER", attributes=attributes):
        for firing in going_on:
            firing.correlation_id = current_traceparent()
        yield


def _trigger_row(batch: FiringBatch, trigger: Trigger, last: Firing | None) -> dict[str, Any]:
    """How it was read, for the guard, and what becomes of it: `last` is its last firing, if it has one now.

    Its error is that of its last firing; one that worked clears it. What was open when its schedule could not be
    computed stays until it can be.
    """
    advances = trigger.id in batch.next_times
    kept = trigger.last_error
    if advances and kept is not None and "open_since" in kept:
        kept = None
    elif last is not None and (kept is None or "open_since" not in kept):
        kept = None if last.error is None else _error_of(last, batch.now)
    return {
        "id": trigger.id,
        "updated_at": trigger.updated_at,
        "next_fire_at": trigger.next_fire_at,
        "advances": advances,
        "next": batch.next_times.get(trigger.id),
        "last_fire_at": None if last is None or last.error is not None else last.due_at or batch.now,
        "last_error": batch.broken.get(trigger.id, kept),
    }


def _firing_row(firing: Firing) -> dict[str, Any]:
    return {
        "id": firing.id,
        "trigger_id": firing.trigger.id,
        "tenant_id": firing.trigger.tenant_id,
        "due_at": firing.due_at,
        "event_id": firing.event_id,
        "result": firing.result,
        "job_id": firing.job_id,
        "payload_hash": None if firing.payload_hash is None else firing.payload_hash.hex(),
        "window": firing.trigger.dedupe_window_seconds,
        "error": firing.error,
    }


def audit_row(trigger: Trigger, action: str, message: str, *, level: str = "warn", **facts: Any) -> dict[str, Any]:
    """An audit event about a trigger."""
    meta = {"label": trigger.label, **{name: value for name, value in facts.items() if value is not None}}
    event = {"action": action, "level": level, "message": message, "meta": meta}
    return {"trigger_id": trigger.id, "tenant_id": trigger.tenant_id, **event}


def _audit_row(firing: Firing, actor: Actor) -> dict[str, Any] | None:
    if firing.result not in ("fired", "failed"):
        return None
    kind, name = firing.trigger.target
    facts: dict[str, Any] = {
        "source": firing.source,
        kind: name,
        "due_at": None if firing.due_at is None else str(firing.due_at),
        "event_id": firing.event_id,
        "intent_id" if kind == "workflow" else "job_id": firing.job_id,
        **actor.meta,
    }
    if firing.error is not None:
        return audit_row(firing.trigger, "TRIGGER_FAILED", firing.error, **facts)
    return audit_row(firing.trigger, "TRIGGER_FIRED", firing.trigger.label, level="info", **facts)


def _error_of(firing: Firing, now: datetime) -> dict[str, Any]:
    document = {"message": firing.error, "at": now, "due_at": firing.due_at, "event_id": firing.event_id}
    return {key: value for key, value in document.items() if value is not None}


def _text(rows: Sequence[dict[str, Any]]) -> str:
    return orjson.dumps(rows, default=str).decode()
