"""Removes a tenant with everything that belongs to it. Its rows of the audit log stay.

A removal begins with a mark on the tenant, which every statement that adds something to a tenant reads. A transaction
that read the tenant before may still add something, so the removal first waits for the transactions that are open. Then
it cancels what is queued or runs, deletes the rest table by table, and at last the tenant.

Each step is a short transaction that looks for what is left. So anyone can go on with a removal whose process died:
the same command again, the API, or a scheduler. Two at once take turns.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from uuid import UUID

import asyncpg
import orjson

from atlas.actors import Actor
from atlas.audit.changes import bare_url
from atlas.audit.record import Event, record
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.etags import Precondition, require_match
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.sweep import sweep
from atlas.engine.tenants.tenants import HOLD, find_tenant
from atlas.errors import Conflict, Refused
from atlas.models.tenants import Tenant

WORK = statement("engine/tenants/sql/tenant_work.sql")
BEGIN = statement("engine/tenants/sql/begin_removal.sql")
OPEN_TRANSACTIONS = statement("engine/tenants/sql/open_transactions.sql")
HOLD_REMOVAL = statement("engine/tenants/sql/hold_removal.sql")
ACTIVE_JOBS = statement("engine/tenants/sql/active_jobs.sql")
REMOVE_ROWS = statement("engine/tenants/sql/remove_tenant_rows.sql")
HOLD_METER = statement("engine/tenants/sql/hold_meter.sql")
REMOVE = statement("engine/tenants/sql/remove_tenant.sql")
REMOVED_ROWS = statement("engine/tenants/sql/removed_rows.sql")
LIST_REMOVALS = statement("engine/tenants/sql/list_removals.sql")

BATCH = 500
# Between two looks at what a removal waits for.
WAIT_SECONDS = 0.25
# Work that has not ended is counted up to this number.
MAX_COUNTED = 1000
# How another transaction that is at the same rows shows itself. The step is repeated.
CROSSED = (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError)

# Opens a transaction.
Transaction: TypeAlias = Callable[[], AbstractAsyncContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class RemovalStep:
    """What a step of a removal did: canceled jobs, removed rows of a table, or waited for something."""

    did: Literal["waited", "canceled", "removed"]
    what: str
    count: int

    def __str__(self) -> str:
        return (
            f"waits for {self.count:,} {self.what}"
            if self.did == "waited"
            else f"{self.did} {self.count:,} {self.what}"
        )


async def begin_removal(
    conn: Connection,
    tenant: Tenant,
    *,
    actor: Actor,
    reason: str | None = None,
    cancel: bool = False,
    if_match: Precondition | None = None,
) -> Tenant:
    """Begin to remove a tenant: from the commit on, nothing can be added to it. A second call changes nothing.

    Raises Conflict while it has work that has not ended, unless that may be canceled.
    """
    if tenant.id == SYSTEM_TENANT:
        raise Refused(f"The tenant {tenant.slug} is Atlas's own.", remedy="It cannot be removed.")
    async with conn.transaction():
        await fetch(conn, HOLD, id=tenant.id)
        held = await find_tenant(conn, tenant.id)
        require_match(held, if_match, "tenant", held.slug)
        if held.removing_at is not None:
            return held
        if not cancel and held.moving_at is None:
            await _require_no_work(conn, held)
        triggers: int = await fetch_value(conn, BEGIN, id=held.id)
        facts = {
            "slug": held.slug,
            "name": held.name,
            "reason": reason,
            "cancel": cancel,
            "moved_to": bare_url(held.moving_to),
        }
        await record(conn, _event("TENANT_REMOVAL_BEGAN", held.id, actor, **facts), before={"removing_at": None})
        if triggers:
            await record(conn, _event("TENANT_ROWS_REMOVED", held.id, actor, kind="job_triggers", rows=triggers))
        return await find_tenant(conn, held.id)


async def continue_removal(
    transaction: Transaction, tenant_id: UUID, *, actor: Actor, batch: int = BATCH
) -> AsyncGenerator[RemovalStep, None]:
    """Go on with a removal that has begun, a transaction a step, until the tenant is gone.

    The caller may stop after any step, and go on later.
    """
    async for waited in wait_for_open_transactions(transaction):
        yield waited
    while (step := await _next(transaction, tenant_id, actor, batch)) is not None:
        yield step
        if step.did == "waited":
            async with transaction() as conn:
                # The job of a worker that is gone ends when its lease has expired and someone notices.
                await sweep(conn)
            await asyncio.sleep(WAIT_SECONDS)


async def removed_rows(conn: Connection, tenant_id: UUID) -> dict[str, int]:
    """How many rows of each table a removal has removed until now, also when it is over."""
    return _rows(await fetch_row(conn, REMOVED_ROWS, tenant_id=tenant_id))


async def list_removals(conn: Queryable) -> list[UUID]:
    """The tenants that are being removed."""
    return [row["id"] for row in await conn.fetch(LIST_REMOVALS.sql)]


async def _require_no_work(conn: Connection, tenant: Tenant) -> None:
    row = await fetch_row(conn, WORK, tenant_id=tenant.id, limit=MAX_COUNTED)
    assert row is not None
    names = {
        "queued": "queued jobs",
        "running": "running jobs",
        "requests": "open requests for workflows",
        "functions": "running recurring functions",
    }
    counts = [
        f"{row[key]:,}{' or more' if row[key] >= MAX_COUNTED else ''} {name}" for key, name in names.items() if row[key]
    ]
    if counts:
        raise Conflict(
            f"Tenant {tenant.slug} has work that has not ended: {', '.join(counts)}.",
            remedy="Wait for its end, or have the removal cancel it (--cancel, ?cancel=true).",
        )


async def wait_for_open_transactions(transaction: Transaction) -> AsyncIterator[RemovalStep]:
    """Wait until the transactions that are open now have ended: one may have read the tenant before it was marked."""
    waits: set[str] | None = None
    while True:
        async with transaction() as conn:
            open_ids = {row["id"] for row in await fetch(conn, OPEN_TRANSACTIONS)}
        waits = open_ids if waits is None else waits & open_ids
        if not waits:
            return
        yield RemovalStep("waited", "transactions that began before it", len(waits))
        await asyncio.sleep(WAIT_SECONDS)


async def _next(transaction: Transaction, tenant_id: UUID, actor: Actor, batch: int) -> RemovalStep | None:
    """The next step; None if the tenant is gone."""
    try:
        async with transaction() as conn:
            return await _step(conn, tenant_id, actor, batch)
    except CROSSED:
        return RemovalStep("waited", "other transaction", 1)


async def _step(conn: Connection, tenant_id: UUID, actor: Actor, batch: int) -> RemovalStep | None:
    held = await fetch_row(conn, HOLD_REMOVAL, id=tenant_id)
    if held is None:
        gone = tenant_id not in await list_removals(conn)
        return None if gone else RemovalStep("waited", "step of another removal", 1)
    ids = [row["id"] for row in await fetch(conn, ACTIVE_JOBS, tenant_id=tenant_id, limit=batch)]
    if ids and not held["is_moved"]:
        await change_many(conn, "cancel", ids, actor=actor, tenant_id=tenant_id)
        return RemovalStep("canceled", "jobs", len(ids))
    row = await fetch_row(conn, REMOVE_ROWS, tenant_id=tenant_id, limit=batch, **actor.arguments())
    if row is None:
        await _remove(conn, held, actor)
        return None
    if row["removed"]:
        return RemovalStep("removed", row["kind"], row["removed"])
    work = await fetch_row(conn, WORK, tenant_id=tenant_id, limit=MAX_COUNTED)
    assert work is not None
    return RemovalStep("waited", "running jobs", work["running"])


async def _remove(conn: Connection, tenant: Any, actor: Actor) -> None:
    """Delete the tenant itself, of which nothing else is left."""
    await fetch_value(conn, HOLD_METER)
    await fetch(conn, REMOVE, id=tenant["id"])
    asked = await fetch_row(conn, REMOVED_ROWS, tenant_id=tenant["id"])
    facts = {
        "slug": tenant["slug"],
        "name": tenant["name"],
        "asked_by": asked and asked["asked_by"],
        "reason": asked and asked["reason"],
        "rows": _rows(asked),
    }
    await record(conn, _event("TENANT_REMOVED", tenant["id"], actor, **facts))


def _rows(row: Any | None) -> dict[str, int]:
    return {} if row is None else orjson.loads(row["rows"])


def _event(action: str, tenant_id: UUID, actor: Actor, **facts: Any) -> Event:
    return Event(action, "tenant", str(tenant_id), actor, tenant_id, level="warn", meta=facts)
