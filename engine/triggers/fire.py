"""Firing: inserts the record of a firing, then starts its job or workflow, all in the caller's transaction.

The unique keys of the record, (trigger, due time) and (trigger, event), make a firing single: one that is recorded
already is not recorded again, and only new records start something. So any number of schedulers may try at any time.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import orjson

from atlas.actors import Actor, system
from atlas.db.pg_json import stored_text
from atlas.db.pool import UNREACHABLE, Connection
from atlas.db.statements import fetch, statement
from atlas.engine.admission import admit
from atlas.engine.helper_process import HelperFailed, Run, run_here
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_job import NewJob
from atlas.engine.templates import MOST_WORK, Budget, compile_in_turns, render
from atlas.engine.triggers.find import Trigger
from atlas.engine.workflows.intents import request_workflow
from atlas.errors import AtlasError, Conflict, NotFound
from atlas.ids import new_id

RESERVE = statement("engine/triggers/sql/reserve.sql")
FAIL = statement("engine/triggers/sql/fail.sql")
SETTLE = statement("engine/triggers/sql/settle.sql")

SCHEDULER = system("scheduler")
LONGEST_ERROR = 1000
# Other triggers wait while templates are rendered, and the server ends a transaction that is idle for much longer. The
# firings of one event or schedule share a transaction: those that are rendered after this time may do only little work
# each, which is enough for an ordinary template.
RENDERING_SECONDS = 1.0
LITTLE_WORK = MOST_WORK // 16
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

    def fail(self, error: BaseException) -> None:
        """Mark the firing as failed, for this reason."""
        self.result, self.job_id = "failed", None
        self.error = stored_text(str(error).strip() or type(error).__name__)[:LONGEST_ERROR]


async def render_inputs(asked: Sequence[tuple[Firing, dict[str, Any]]]) -> float:
    """Render the inputs of firings that share a transaction. Returns how many seconds it took."""
    took = 0.0
    for firing, scope in asked:
        began = time.monotonic()
        await compile_in_turns(firing.trigger.spec.payload_template)
        await render_input(firing, scope, work=MOST_WORK if took < RENDERING_SECONDS else LITTLE_WORK)
        took += time.monotonic() - began
        await asyncio.sleep(0)
    return took


async def render_input(firing: Firing, scope: dict[str, Any], *, work: int = MOST_WORK, run: Run = run_here) -> None:
    """Render the trigger's template, or mark the firing as failed."""
    trigger = firing.trigger
    known = {"trigger": {"id": str(trigger.id), "label": trigger.spec.label}, **scope}
    try:
        template = trigger.spec.payload_template
        firing.input = await run(render, template, known, path="payload_template", budget=Budget(work))
    except HelperFailed:
        raise
    except Exception as error:
        # A tenant's template: whatever it raises fails this firing alone, and other triggers fire.
        firing.fail(error)


async def fire_all(conn: Connection, firings: Sequence[Firing], *, now: datetime) -> list[Firing]:
    """Record the firings, start their jobs and workflows, audit each. Returns those that had not fired before."""
    if not firings:
        return []
    fresh = await _reserve(conn, firings, now, SCHEDULER)
    failed_before = {firing.id for firing in fresh if firing.result == "failed"}
    await _start(conn, [firing for firing in fresh if firing.result == "fired"], SCHEDULER)
    late = [firing for firing in fresh if firing.result == "failed" and firing.id not in failed_before]
    if late:
        await fetch(conn, FAIL, ids=[one.id for one in late], errors=[one.error for one in late])
    await _settle(conn, fresh, now, SCHEDULER)
    return fresh


async def fire_one(conn: Connection, firing: Firing, *, now: datetime, actor: Actor) -> UUID:
    """Fire by request. Returns what was started. One that cannot start is a Conflict, which records nothing."""
    if firing.result == "fired":
        await _reserve(conn, [firing], now, actor)
        await _start(conn, [firing], actor)
    if firing.job_id is None:
        raise Conflict(f"Trigger {firing.trigger.id} could not fire: {firing.error}", remedy="Nothing was changed.")
    await _settle(conn, [firing], now, actor)
    return firing.job_id


async def _reserve(conn: Connection, firings: Sequence[Firing], now: datetime, actor: Actor) -> list[Firing]:
    rows = await fetch(
        conn,
        RESERVE,
        ids=[one.id for one in firings],
        triggers=[one.trigger.id for one in firings],
        tenants=[one.trigger.tenant_id for one in firings],
        due_ats=[one.due_at for one in firings],
        events=[one.event_id for one in firings],
        results=[one.result for one in firings],
        jobs=[one.job_id for one in firings],
        hashes=[one.payload_hash for one in firings],
        errors=[one.error for one in firings],
        now=now,
        created_by=actor.id,
    )
    made = {row["id"] for row in rows}
    return [one for one in firings if one.id in made]


async def _start(conn: Connection, firings: Sequence[Firing], actor: Actor) -> None:
    """Enqueue the jobs in one batch and request the workflows. A firing that cannot start is marked as failed."""
    admitted: list[tuple[Firing, NewJob]] = []
    for firing in firings:
        try:
            if firing.trigger.spec.workflow is not None:
                await _request(conn, firing, actor)
            else:
                admitted.append((firing, await _admitted(conn, firing)))
        except Exception as error:
            if isinstance(error, OF_ALL) and not isinstance(error, UNUSABLE):
                raise
            firing.fail(error)
    try:
        async with conn.transaction():
            await enqueue_many(conn, [job for _, job in admitted], actor=actor, coalesce=True)
    except UNUSABLE:
        for firing, job in admitted:
            await _enqueue_alone(conn, firing, job, actor)


async def _enqueue_alone(conn: Connection, firing: Firing, job: NewJob, actor: Actor) -> None:
    try:
        async with conn.transaction():
            await enqueue_many(conn, [job], actor=actor, coalesce=True)
    except UNUSABLE as error:
        firing.fail(error)


async def _admitted(conn: Connection, firing: Firing) -> NewJob:
    trigger, spec = firing.trigger, firing.trigger.spec
    assert firing.job_id is not None
    job = NewJob(
        spec.job_type or spec.definition_key or "",
        firing.input or {},
        trigger.tenant_id,
        source=firing.source,
        source_ref=str(trigger.id),
        correlation_id=firing.correlation_id,
        id=firing.job_id,
        allow_unknown=True,
    )
    job = await admit(conn, job)
    if spec.definition_key is not None and job.definition_id is None:
        raise NotFound("definition", spec.definition_key, remedy="Choose a definition that exists.")
    return job


async def _request(conn: Connection, firing: Firing, actor: Actor) -> None:
    trigger = firing.trigger
    # On behalf of the person who fired it, or else who last changed the trigger: they may not approve the run.
    requester = actor if firing.source == "manual" else system(trigger.arranged_by)
    async with conn.transaction():
        await request_workflow(
            conn,
            trigger.tenant_id,
            trigger.spec.workflow or "",
            firing.input,
            requester,
            source=firing.source,
            source_ref=str(trigger.id),
            correlation_id=firing.correlation_id,
            id=firing.job_id,
            allow_unknown=True,
        )


async def _settle(conn: Connection, fresh: Sequence[Firing], now: datetime, actor: Actor) -> None:
    recorded = [firing for firing in fresh if firing.result != "swallowed"]
    last = {firing.trigger.id: firing for firing in recorded}
    await fetch(
        conn,
        SETTLE,
        actor_type=actor.type,
        actor_id=actor.id,
        triggers=[one.trigger.id for one in recorded],
        tenants=[one.trigger.tenant_id for one in recorded],
        actions=["TRIGGER_FAILED" if one.error else "TRIGGER_FIRED" for one in recorded],
        levels=["warn" if one.error else "info" for one in recorded],
        messages=[one.error or one.trigger.spec.label for one in recorded],
        metas=[_facts(one, actor) for one in recorded],
        changed=list(last),
        fired_ats=[None if one.error else one.due_at or now for one in last.values()],
        last_errors=[_last_error(one, now) for one in last.values()],
    )


def _facts(firing: Firing, actor: Actor) -> str:
    kind, name = firing.trigger.spec.target
    found = {
        "label": firing.trigger.spec.label,
        "source": firing.source,
        kind: name,
        "due_at": firing.due_at,
        "event_id": firing.event_id,
        "intent_id" if kind == "workflow" else "job_id": firing.job_id,
        **actor.meta,
    }
    return orjson.dumps({key: value for key, value in found.items() if value is not None}, default=str).decode()


def _last_error(firing: Firing, now: datetime) -> str | None:
    if firing.error is None:
        return None
    found = {"message": firing.error, "at": now, "due_at": firing.due_at, "event_id": firing.event_id}
    return orjson.dumps({key: value for key, value in found.items() if value is not None}, default=str).decode()
