"""Counts active jobs while something holds the xmin horizon.

The partial indexes of active jobs then keep an entry for every job that has ended since, and a count along them takes
longer with each. So the newest jobs are read by their key instead: where work keeps up, all active jobs are among them.
The counts that are kept from the audit log say whether they are.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.xmin_horizon import SLOW_DEAD_ROWS, find_holders

NEWEST = statement("engine/jobs/lists/sql/newest_active.sql")
DEAD_ROWS = statement("engine/jobs/lists/sql/dead_rows.sql")
WINDOW = statement("engine/jobs/lists/sql/newest_window.sql")

MAX_READ = 10_000
STATUSES = ("queued", "waiting", "running")


@dataclass(frozen=True, slots=True)
class ActiveGroup:
    """Active jobs of a tenant, type and status; the oldest was due or created at `since`, `seconds` ago."""

    tenant_id: UUID
    job_type: str
    status: str
    count: int
    since: datetime | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class NewestActive:
    """The active jobs that were found."""

    groups: list[ActiveGroup]

    def of_tenant(self, tenant_id: UUID | None) -> "NewestActive":
        """Those of a tenant; all of them without one."""
        return (
            self
            if tenant_id is None
            else NewestActive([group for group in self.groups if group.tenant_id == tenant_id])
        )

    def of_type(self, job_type: str) -> "NewestActive":
        """Those of a job type."""
        return NewestActive([group for group in self.groups if group.job_type == job_type])

    @property
    def job_types(self) -> set[str]:
        """Their types."""
        return {group.job_type for group in self.groups}

    @property
    def counts(self) -> dict[str, int]:
        """How many are queued, waiting and running."""
        return {status: sum(group.count for group in self.groups if group.status == status) for status in STATUSES}

    @property
    def oldest(self) -> ActiveGroup | None:
        """The group whose oldest due job has waited longest."""
        due = [group for group in self.groups if group.status == "queued"]
        return max(due, key=lambda group: group.seconds or 0.0, default=None)


@dataclass(frozen=True, slots=True)
class NewestWindow:
    """The newest jobs of all tenants: those with a greater id, and when the oldest of them was created.

    Without that there are no others.
    """

    after: UUID
    since: datetime | None


async def find_window(conn: Queryable, before: UUID | None = None) -> NewestWindow | None:
    """Where the newest jobs begin, of those before an id; None unless counting along the indexes is slow.

    The connection sees all tenants. Statements under the row-level security of one read only behind that.
    """
    if not await is_slowed(conn):
        return None
    values = {"before": before or UUID(int=2**128 - 1), "most": MAX_READ}
    row = await fetch_row(conn, WINDOW, **values)
    # Without the random part, so that no tenant is shown the id of another's job.
    return (
        NewestWindow(UUID(int=0), None)
        if row is None
        else NewestWindow(UUID(int=row["id"].int >> 80 << 80), row["created_at"])
    )


async def find_newest_active(conn: Connection) -> NewestActive | None:
    """The active jobs among the newest; None unless the horizon is held and counting along the indexes is slow.

    The connection sees all tenants: under row-level security, the newest jobs of one are not found by the key.
    """
    return await read_newest_active(conn) if await is_slowed(conn) else None


async def is_slowed(conn: Queryable) -> bool:
    """True while something holds the horizon and the table of jobs has many dead rows."""
    return await has_many_dead_rows(conn) and any(not holder.catalogs_only for holder in await find_holders(conn))


async def has_many_dead_rows(conn: Queryable) -> bool:
    """True while the table of jobs has many dead rows. Unlike the holder, a tenant may be shown that."""
    return bool(await conn.fetchval(DEAD_ROWS.sql) >= SLOW_DEAD_ROWS)


async def read_newest_active(conn: Connection) -> NewestActive:
    """The active jobs among the newest."""
    return NewestActive([ActiveGroup(**row) for row in await fetch(conn, NEWEST, most=MAX_READ)])
