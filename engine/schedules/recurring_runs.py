"""The runs of recurring functions: each is claimed, holds a lease while it lasts, and leaves a row in the history.

A run is claimed without waiting, under a lease that its process renews. When the process dies, the lease expires, and
the run is ended as lost; a process that comes back late may write nothing. The database's clock decides all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from atlas.db.pool import Connection, Queryable
from atlas.db.prisma import older_than, page_filter, prisma_on
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.schedules.recurring import Key
from atlas.models.rows import from_row
from atlas.models.triggers import RecurringRun

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import RecurringRunWhereInput

CLAIM = statement("engine/schedules/sql/claim_recurring.sql")
RENEW = statement("engine/schedules/sql/renew_recurring.sql")
FINISH = statement("engine/schedules/sql/finish_recurring.sql")
SWEEP = statement("engine/schedules/sql/sweep_recurring.sql")

# How a run ends in its own process; a lost one is ended by others.
Outcome = Literal["succeeded", "failed", "timeout", "stopped"]


@dataclass(frozen=True, slots=True)
class ClaimedRecurringRun:
    """A run that this process has claimed. `attempt` counts the runs for one due time; its id fences its writes."""

    id: UUID
    key: Key
    attempt: int
    worker_id: str
    timeout_seconds: float | None = None

    def log_facts(self) -> dict[str, Any]:
        """What every log line about the run says."""
        facts = {"tenant_id": str(self.key[0]), "recurring_id": self.key[1], "run_id": str(self.id)}
        return {**facts, "attempt_no": self.attempt, "worker_id": self.worker_id}


async def claim_runs(conn: Connection, by: str, keys: Sequence[Key], *, lease: float) -> list[ClaimedRecurringRun]:
    """Claim the due runs among these: none while Atlas is offline, and none that another process runs."""
    values: dict[str, Any] = {"tenants": [key[0] for key in keys], "ids": [key[1] for key in keys]}
    return [
        ClaimedRecurringRun(row["run_id"], (row["tenant_id"], row["id"]), row["attempt_no"], by, row["timeout_seconds"])
        for row in await fetch(conn, CLAIM, by=by, lease=lease, **values)
    ]


async def renew_run(conn: Connection, run: ClaimedRecurringRun, *, lease: float) -> bool:
    """Renew the lease of a run. Returns False if it is over: another process may run the function."""
    return await fetch_value(conn, RENEW, run_id=run.id, lease=lease) is not None


async def finish_run(
    conn: Connection, run: ClaimedRecurringRun, *, outcome: Outcome, error: str | None = None
) -> Literal["kept", "removed"] | None:
    """Record how a run ended, and set the next one, skipping missed intervals. None: it was ended as lost before.

    Returns what became of the schedule: one that runs once is removed. `stopped` leaves the next run where it was: the
    process is shutting down, and another may claim the run immediately.
    """
    became: Literal["kept", "removed"] | None = await fetch_value(
        conn, FINISH, run_id=run.id, outcome=outcome, error=error
    )
    return became


async def sweep_runs(conn: Connection) -> list[ClaimedRecurringRun]:
    """End the runs of lost processes, so that they are due again, and return them."""
    return [
        ClaimedRecurringRun(row["id"], (row["tenant_id"], row["recurring_id"]), row["attempt_no"], row["worker_id"])
        for row in await fetch(conn, SWEEP)
    ]


async def list_runs(
    conn: Queryable, key: Key, *, after: tuple[datetime, UUID] | None = None, limit: int = 50
) -> list[RecurringRun]:
    """The latest runs of a function, newest first, or those that follow one, by its start and id."""
    where: RecurringRunWhereInput = page_filter(tenant_id=key[0], recurring_id=key[1]) | older_than("startedAt", after)
    runs = prisma_on(conn).recurringrun
    rows = await runs.find_many(limit, where=where, order=[{"startedAt": "desc"}, {"id": "desc"}])
    return [from_row(RecurringRun, row, duration_ms=_duration_ms(row)) for row in rows]


def _duration_ms(row: "models.RecurringRun") -> int | None:
    """At least 0, also where the database's clock was set back; None before the run's end."""
    if row.finishedAt is None:
        return None
    return max(0, round((row.finishedAt - row.startedAt) / timedelta(milliseconds=1)))
