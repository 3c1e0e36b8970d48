"""Moves a tenant to another installation: what happens here before it is exported, and if the move is canceled.

The tenant is paused, and what runs ends. Then it is marked: from that commit on nothing of it changes here. Jobs,
events and requests are refused, schedules and recurring functions do not start, and deadlines do not end its jobs. A
transaction that read the tenant before may still add something, so the move waits for the transactions that are open.

So the exported file and the rows here stay the same until the tenant is removed here, or the move is canceled. Every
step can be repeated by anyone whose process died.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from atlas.actors import Actor
from atlas.audit.changes import bare_url, values_of
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.statements import fetch_row, fetch_value, statement
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.switches.gate import under_gate_lock
from atlas.engine.jobs.switches.pauses import pause, wait_until_paused
from atlas.engine.metering.usage import meter_usage
from atlas.engine.tenants.removal import MAX_COUNTED, WAIT_SECONDS, WORK, wait_for_open_transactions
from atlas.engine.tenants.tenants import find_tenant
from atlas.engine.webhooks.deliver import deliver_events
from atlas.errors import Conflict, Refused
from atlas.models.tenants import Tenant

BEGIN = statement("engine/tenants/sql/begin_move.sql")
CANCEL = statement("engine/tenants/sql/cancel_move.sql")


async def begin_move(
    conn: Connection, tenant: Tenant, *, actor: Actor, to: str | None = None, reason: str | None = None
) -> AsyncIterator[str]:
    """Bring a tenant to where nothing of it changes here any more. Yields what it waits for.

    A tenant that is moving already is left so: the caller exports it again.
    """
    if tenant.id == SYSTEM_TENANT:
        raise Refused(f"The tenant {tenant.slug} is Atlas's own.", remedy="It cannot be moved.")
    if tenant.removing_at is not None:
        raise Conflict(f"Tenant {tenant.slug} is being removed.", remedy="Move another one.")
    if tenant.moving_at is None:
        why = f"it moves to {to or 'another installation'}"
        paused = await pause(conn, "tenant", str(tenant.id), actor=actor, reason=reason or why)
        await wait_until_paused(conn, paused)
        async for waited in _wait_for_ends(conn, tenant.id):
            yield waited
        while await deliver_events(conn):
            yield "the deliveries of its webhooks are made"
        await _mark(conn, tenant, to, reason, actor)
    async for step in wait_for_open_transactions(lambda: _transaction(conn)):
        yield str(step)
    async for waited in _wait_for_ends(conn, tenant.id):
        yield waited
    while await meter_usage(conn):
        yield "its usage is counted"


async def cancel_move(conn: Connection, tenant: Tenant, *, actor: Actor, reason: str | None = None) -> Tenant:
    """Let a tenant that was exported go on here. It stays paused: resuming it is a step of its own."""
    async with conn.transaction():
        before = await values_of(conn, "tenant", tenant.id)
        if await fetch_value(conn, CANCEL, id=tenant.id) is None:
            raise Conflict(f"Tenant {tenant.slug} is not being moved.", remedy="There is nothing to cancel.")
        await record(conn, _event("TENANT_MOVE_CANCELED", tenant, actor, reason=reason), before=before)
    return await find_tenant(conn, tenant.id)


async def record_export(conn: Connection, tenant: Tenant, *, actor: Actor, facts: dict[str, Any]) -> None:
    """Record that a complete file was written, with its digest and counts."""
    await record(conn, _event("TENANT_EXPORTED", tenant, actor, **facts))


async def _mark(conn: Connection, tenant: Tenant, to: str | None, reason: str | None, actor: Actor) -> None:
    async with under_gate_lock(conn, actor=actor):
        if await fetch_value(conn, BEGIN, id=tenant.id, moving_to=to) is None:
            raise Conflict(
                f"Tenant {tenant.slug} was resumed, removed or moved meanwhile.", remedy="Look at it, and try again."
            )
        event = _event("TENANT_MOVE_BEGAN", tenant, actor, to=bare_url(to), reason=reason)
        await record(conn, event, before={"moving_at": None, "moving_to": None})


async def _wait_for_ends(conn: Connection, tenant_id: UUID) -> AsyncIterator[str]:
    """Wait until no job and no recurring function of the tenant runs."""
    while True:
        work = await fetch_row(conn, WORK, tenant_id=tenant_id, limit=MAX_COUNTED)
        assert work is not None
        running = {"running jobs": work["running"], "running recurring functions": work["functions"]}
        if not any(running.values()):
            return
        yield "waits for " + " and ".join(f"{count:,} {name}" for name, count in running.items() if count)
        # The job of a worker that is gone ends when its lease has expired and someone notices.
        await sweep(conn)
        await asyncio.sleep(WAIT_SECONDS)


@asynccontextmanager
async def _transaction(conn: Connection) -> AsyncIterator[Connection]:
    async with conn.transaction():
        yield conn


def _event(action: str, tenant: Tenant, actor: Actor, **facts: Any) -> Event:
    meta = {"slug": tenant.slug, **{name: value for name, value in facts.items() if value is not None}}
    return Event(action, "tenant", str(tenant.id), actor, tenant.id, level="warn", meta=meta)
