"""Recurring functions in the database: their schedules, which all processes share, and how their last runs ended.

The function itself is in the memory of the processes that registered it. `recurring_runs.py` has its runs.
"""

from datetime import datetime, timedelta
from uuid import UUID

from atlas.actors import Actor, system
from atlas.audit.changes import values_of
from atlas.audit.record import Event, record
from atlas.db.pool import Connection, Queryable
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.jobs.new_jobs.refusals import closed_tenant
from atlas.errors import Conflict, NotFound
from atlas.models.rows import from_rows
from atlas.models.triggers import RecurringFunction

HOLD = statement("engine/schedules/sql/hold_recurring.sql")
SAVE = statement("engine/schedules/sql/save_recurring.sql")
LIST = statement("engine/schedules/sql/list_recurring.sql")
OWNERS = statement("engine/schedules/sql/recurring_owners.sql")

SCHEDULER = system("scheduler")

# The tenant and the id under which a function is registered.
Key = tuple[UUID, str]


class ScheduledFunction(RecurringFunction):
    """A recurring function, and in how many seconds it is due: less than 0 when it is late."""

    due_in: float

    @property
    def key(self) -> Key:
        return self.tenant_id, self.id


async def save_recurring(
    conn: Connection,
    key: Key,
    *,
    start_at: datetime,
    repeat_every: timedelta,
    timeout: timedelta | None = None,
    actor: Actor = SCHEDULER,
) -> bool:
    """Store a schedule, or replace the one that is there. If nothing changed, its next run stays as it is.

    Returns False for one that runs once, and did for this start: it is not stored again.
    """
    seconds = {
        "repeat_seconds": repeat_every.total_seconds(),
        "timeout_seconds": None if timeout is None else timeout.total_seconds(),
    }
    async with conn.transaction():
        if not await prisma_on(conn).tenant.count(where={"id": str(key[0]), "removingAt": None, "movingAt": None}):
            raise await closed_tenant(conn, key[0])
        await fetch(conn, HOLD, tenant_id=key[0], id=key[1])
        values = await values_of(conn, "recurring", key[1], key[0])
        is_new = await fetch_value(conn, SAVE, tenant_id=key[0], id=key[1], start_at=start_at, **seconds)
        if is_new:
            meta = {"start_at": start_at.isoformat(), **seconds}
            event = Event("RECURRING_REGISTERED", "recurring", key[1], actor, key[0], meta=meta)
            await record(conn, event, before=values or None)
    return is_new is not None


async def remove_recurring(conn: Connection, key: Key, *, actor: Actor = SCHEDULER) -> bool:
    """Remove a schedule; the history of its runs stays. Returns False if there was none."""
    async with conn.transaction():
        values = await values_of(conn, "recurring", key[1], key[0])
        count = await prisma_on(conn).recurringjob.delete_many(where={"tenantId": str(key[0]), "id": key[1]}) > 0
        if count:
            await record(conn, Event("RECURRING_REMOVED", "recurring", key[1], actor, key[0]), before=values)
    return count


async def list_recurring(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    id: str | None = None,
    after: Key | None = None,
    limit: int | None = None,
) -> list[ScheduledFunction]:
    """The functions of a tenant, or of all tenants, by tenant and id; with `limit`, one page of them."""
    after_tenant, after_id = after or (None, None)
    values = {"tenant_id": tenant_id, "id": id, "after_tenant": after_tenant, "after_id": after_id, "limit": limit}
    return from_rows(ScheduledFunction, await conn.fetch(LIST.sql, *LIST.bind(values)))


async def find_owner(conn: Connection, id: str, *, tenant_id: UUID | None = None) -> UUID:
    """The tenant that has a function of this id, or the history of one. Without a tenant it is sought in all."""
    owners = await fetch(conn, OWNERS, id=id, tenant_id=tenant_id)
    if not owners:
        raise NotFound("recurring function", id)
    if len(owners) > 1:
        raise Conflict(f"Several tenants have a recurring function {id}.", remedy="Name the tenant.")
    owner: UUID = owners[0]["id"]
    return owner
