"""Recurring functions in the database: the schedule, the process that runs it now, and how the last run ended.

The function itself is in the memory of the processes that registered it. A run is claimed without waiting, under a
lease that its process renews. When the process dies, the lease expires; a process that comes back late may write
nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from atlas.actors import Actor, system
from atlas.audit import Event, record
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch, fetch_value, statement

SAVE = statement("engine/sql/save_recurring.sql")
REMOVE = statement("engine/sql/remove_recurring.sql")
LIST = statement("engine/sql/list_recurring.sql")
CLAIM = statement("engine/sql/claim_recurring.sql")
RENEW = statement("engine/sql/renew_recurring.sql")
FINISH = statement("engine/sql/finish_recurring.sql")

SCHEDULER = system("scheduler")

# The tenant and the id under which a function is registered.
Key = tuple[UUID, str]


@dataclass(frozen=True, slots=True)
class RecurringRow:
    """A recurring function's row. `due_in` is negative when it is late, None when it is done."""

    tenant_id: UUID
    id: str
    start_at: datetime
    repeat_seconds: float
    timeout_seconds: float | None
    next_run_at: datetime | None
    due_in: float | None
    locked_by: str | None
    run_count: int
    last_started_at: datetime | None
    last_finished_at: datetime | None
    last_outcome: str | None
    last_error: str | None

    @property
    def key(self) -> Key:
        return self.tenant_id, self.id


@dataclass(frozen=True, slots=True)
class RecurringRun:
    """A run that this process has claimed; `number` is the fencing token of its writes."""

    key: Key
    number: int
    timeout_seconds: float | None


async def save_recurring(
    conn: Connection,
    key: Key,
    *,
    start_at: datetime,
    repeat_every: timedelta,
    timeout: timedelta | None = None,
    actor: Actor = SCHEDULER,
) -> None:
    """Store a schedule, or replace the one that is there. If nothing changed, its next run stays as it is."""
    seconds = {
        "repeat_seconds": repeat_every.total_seconds(),
        "timeout_seconds": None if timeout is None else timeout.total_seconds(),
    }
    async with conn.transaction():
        is_new = await fetch_value(conn, SAVE, tenant_id=key[0], id=key[1], start_at=start_at, **seconds)
        if is_new:
            meta = {"start_at": start_at.isoformat(), **seconds}
            await record(conn, Event("RECURRING_REGISTERED", "recurring", key[1], actor, key[0], meta=meta))


async def remove_recurring(conn: Connection, key: Key, *, actor: Actor = SCHEDULER) -> bool:
    """Remove a schedule. Returns False if there was none."""
    async with conn.transaction():
        found = await fetch_value(conn, REMOVE, tenant_id=key[0], id=key[1]) is not None
        if found:
            await record(conn, Event("RECURRING_REMOVED", "recurring", key[1], actor, key[0]))
    return found


async def list_recurring(conn: Queryable, *, tenant_id: UUID | None = None) -> list[RecurringRow]:
    """The schedules of a tenant, or of all, with how their last runs ended."""
    return [RecurringRow(**row) for row in await conn.fetch(LIST.sql, *LIST.bind({"tenant_id": tenant_id}))]


async def claim_runs(conn: Connection, by: str, keys: Sequence[Key], *, lease: float) -> list[RecurringRun]:
    """Claim the due runs among these: none while Atlas is offline, and none that another process runs."""
    values: dict[str, Any] = {"tenants": [key[0] for key in keys], "ids": [key[1] for key in keys]}
    rows = await fetch(conn, CLAIM, by=by, lease=lease, **values)
    return [RecurringRun((row["tenant_id"], row["id"]), row["run_count"], row["timeout_seconds"]) for row in rows]


async def renew_run(conn: Connection, by: str, run: RecurringRun, *, lease: float) -> bool:
    """Renew the lease of a run. Returns False if another process has it, or may have it."""
    values = {"tenant_id": run.key[0], "id": run.key[1], "number": run.number}
    ours: bool = await fetch_value(conn, RENEW, by=by, lease=lease, **values)
    return ours


async def finish_run(conn: Connection, by: str, run: RecurringRun, *, outcome: str, error: str | None = None) -> bool:
    """Record how a run ended and set the next one, skipping missed intervals.

    `stopped` leaves the next run where it was: the process is shutting down, and another may claim the run at once.
    """
    values = {"tenant_id": run.key[0], "id": run.key[1], "number": run.number, "outcome": outcome, "error": error}
    return await fetch_value(conn, FINISH, by=by, **values) is not None
