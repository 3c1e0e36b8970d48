"""Audit rows committed between two polls, and the jobs that run now: the same in every process.

Polls use the audit log's windows of snapshots, so that a row that commits late is in the next window. A place in the
log is the pair of an epoch and a snapshot; sent back by a client, it says what that client has missed, whichever
process it connects to.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from atlas.audit.find import LogPosition, log_position
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_value, statement

CHANGES = statement("api/live/sql/changes.sql")
SIZE = statement("audit/sql/window_size.sql")
RUNNING = statement("api/live/sql/running.sql")

# A window of more rows is not read: its watchers are sent a refetch instead.
MAX_ROWS = 5000
# Of each room, those that changed last.
MAX_RUNNING = 500
# Of those, the runs whose steps are looked at.
MAX_RUNS = 50
RUN = "ENGINE_RUN"

# A tenant, or None for all of them.
Room = UUID | None

# How a place is written: an epoch, and a snapshot as Postgres writes it.
PLACE = r"([0-9]{1,9})\.([0-9]{1,20}:[0-9]{1,20}:(?:[0-9]{1,20}(?:,[0-9]{1,20}){0,249})?)"


@dataclass(frozen=True, slots=True)
class JobChanges:
    """What happened by tenant. `more` counts what is not in `rows`, by tenant and action; None: too much to send."""

    place: LogPosition
    rows: list[Mapping[str, Any]]
    more: dict[tuple[UUID | None, str], int] | None


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs, as far as frames show it."""

    attempt: int
    progress: str | None
    started_at: datetime
    updated_at: datetime
    # When a step of it began or ended last, if it is a run.
    stepped_at: datetime | None
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """The jobs of a room that run: all of them, or, with a `floor`, those that changed at that time or later."""

    jobs: Mapping[UUID, Running]
    floor: datetime | None

    def may_hold(self, changed_at: datetime) -> bool:
        """False for a time of which it cannot tell what ran: what changed last then is not among these jobs."""
        return self.floor is None or changed_at > self.floor


async def read_place(conn: Connection) -> LogPosition:
    """The present place in the audit log."""
    return await log_position(conn)


async def read_window(conn: Connection, since: LogPosition, actions: list[str], *, max_each: int) -> JobChanges:
    """Everything since a place: the newest of each tenant and kind whole, the rest as counts."""
    now = await read_place(conn)
    if since.epoch != now.epoch or since.end > now.end:
        # Of another cluster, or of one that was restored to an earlier state: its snapshots say nothing here.
        return JobChanges(now, [], None)
    bounds = {"epoch": now.epoch, "prev": since.snapshot, "cur": now.snapshot, "most": MAX_ROWS + 1}
    size = await fetch_value(conn, SIZE, **bounds)
    if size > MAX_ROWS:
        return JobChanges(now, [], None)
    rows = await fetch(conn, CHANGES, **bounds, actions=actions, max_each=max_each) if size else []
    more: dict[tuple[UUID | None, str], int] = {}
    for row in rows:
        hidden = row["of_kind"] - max_each
        if hidden > 0:
            more[row["tenant_id"], row["action"]] = hidden
    return JobChanges(now, rows, more)


async def read_running(conn: Connection, rooms: Collection[Room]) -> dict[Room, RunningJobs]:
    """The jobs that run now, by room: at most some hundred of each, whatever runs in the others."""
    tenants = [room for room in rooms if room is not None]
    running_jobs: dict[Room, dict[UUID, Running]] = {room: {} for room in rooms}
    bounds = {"most": MAX_RUNNING, "max_runs": MAX_RUNS, "run": RUN}
    for row in await fetch(conn, RUNNING, tenants=tenants, every=None in running_jobs, **bounds):
        times = (row["started_at"], row["updated_at"], row["stepped_at"])
        job = Running(row["attempt_count"], row["progress"], *times, row)
        if row["of_tenant"] <= MAX_RUNNING and row["tenant_id"] in running_jobs:
            running_jobs[row["tenant_id"]][row["job_id"]] = job
        if row["of_all"] <= MAX_RUNNING and None in running_jobs:
            running_jobs[None][row["job_id"]] = job
    return {
        room: RunningJobs(jobs, min(job.updated_at for job in jobs.values()) if len(jobs) == MAX_RUNNING else None)
        for room, jobs in running_jobs.items()
    }


def write_place(place: LogPosition) -> str:
    """A place as text, for clients."""
    return f"{place.epoch}.{place.snapshot}"


def place_of(text: str) -> LogPosition | None:
    """The place that a client sends back; None if it is not one."""
    match = re.fullmatch(PLACE, text)
    if match is None:
        return None
    low, high, running = match[2].split(":")
    ids = [int(part) for part in running.split(",") if part]
    ordered = sorted(set(ids)) == ids and all(int(low) <= job_id < int(high) for job_id in ids)
    if not 0 < int(low) <= int(high) < 2**63 or not ordered:
        return None
    return LogPosition(int(match[1]), match[2])
