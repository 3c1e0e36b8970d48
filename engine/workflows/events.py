"""Publishes events, in the transaction in which they happen.

An event wakes the runs that wait for it and is seen by the triggers on its name. A signal is an event for one run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from atlas.actors import Actor, as_actor
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, fetch_value, statement
from atlas.engine.effects.outcomes import SETTLED_EVENT
from atlas.engine.jobs.new_jobs.refusals import refusal
from atlas.engine.validation import check_name
from atlas.engine.workflows.steps.step_values import INPUT_BYTES, object_text
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import new_id

PUBLISH = statement("engine/workflows/sql/publish_event.sql")
RUN_TENANT = statement("engine/workflows/sql/run_tenant.sql")


@dataclass(frozen=True, slots=True)
class Published:
    """An event that is stored, and how many waiting runs it woke. A run at work finds it when it waits."""

    id: UUID
    woken: int


async def publish_event(
    conn: Connection,
    tenant_id: UUID,
    name: str,
    context: Mapping[str, Any] | None = None,
    *,
    actor: Actor | str,
    correlation_id: str | None = None,
    id: UUID | None = None,
    is_own: bool = False,
) -> Published:
    """Store an event in the caller's transaction, with EVENT_PUBLISHED; nothing of it is seen before that commits.

    `is_own`: Atlas itself publishes it. Its own events are refused to everyone else.
    """
    actor = as_actor(actor)
    if not is_own:
        _refuse_own(name)
    async with conn.transaction():
        published = await _publish(conn, tenant_id, name, context or {}, None, actor, correlation_id, id or new_id())
        meta = {"name": name, "woken": published.woken}
        await record(conn, Event("EVENT_PUBLISHED", "event", str(published.id), actor, tenant_id, meta=meta))
    return published


async def signal_run(
    conn: Connection,
    run_id: UUID,
    name: str,
    context: Mapping[str, Any] | None = None,
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
) -> Published:
    """Publish an event for one run alone, also one that has not started. No trigger sees it.

    An ended run is a Conflict. With `tenant_id` only that tenant's runs exist.
    """
    row = await fetch_row(conn, RUN_TENANT, run_id=run_id, tenant_id=tenant_id)
    if row is None:
        raise NotFound("run", run_id, remedy="`atlas workflow list` lists the runs.")
    if not row["is_open"]:
        raise Conflict(f"Run {run_id} is {row['status']} and waits for nothing.", remedy="Retry it first, or fork it.")
    _refuse_own(name)
    async with conn.transaction():
        published = await _publish(conn, row["tenant_id"], name, context or {}, run_id, actor, None, new_id())
        await record(
            conn,
            Event(
                action="RUN_SIGNALED",
                entity_type="run",
                entity_id=str(run_id),
                actor=actor,
                tenant_id=row["tenant_id"],
                meta={"name": name, "event_id": str(published.id)},
            ),
        )
    return published


def _refuse_own(name: str) -> None:
    """Runs replay what they did for each event that wakes them, so a stranger's would fill their history with steps."""
    if name == SETTLED_EVENT:
        raise InvalidInput("The event", [FieldError("name", "is that of an event of Atlas itself")])


async def _publish(
    conn: Connection,
    tenant_id: UUID,
    name: str,
    context: Mapping[str, Any],
    run_id: UUID | None,
    actor: Actor,
    correlation_id: str | None,
    id: UUID,
) -> Published:
    wrong = check_name("name", name)
    if wrong:
        raise InvalidInput("The event", wrong)
    text = object_text("The event", context, field="context", limit=INPUT_BYTES)
    try:
        woken = await fetch_value(
            conn,
            PUBLISH,
            id=id,
            tenant_id=tenant_id,
            name=name,
            context=text,
            run_id=run_id,
            created_by=actor.id,
            correlation_id=correlation_id,
        )
    except asyncpg.UniqueViolationError as error:
        raise InvalidInput("The event", [FieldError("id", "is taken by another event")]) from error
    except asyncpg.PostgresError as error:
        refused = refusal(error)
        if refused is None:
            raise
        raise refused from error
    return Published(id, woken)
