"""Audit rows committed between two polls, and the jobs that run now: the same in every process.

Polls use the audit log's windows of snapshots, so that a row that commits late is in the next window. A place in the
log is the pair of an epoch and a snapshot; sent back by a client, it says what that client has missed, whichever
process it connects to.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from atlas.audit.find import LogPosition, log_position
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement

CHANGES = statement("api/live/sql/changes.sql")
SIZE = statement("api/live/sql/size.sql")
RUNNING = statement("api/live/sql/running.sql")

# A window of more rows is not read: its watchers are sent a refetch instead.
MOST_ROWS = 5000
MOST_RUNNING = 500
_PLACE = re.compile(r"(\d{1,9})\.(\d{1,20}:\d{1,20}:[\d,]{0,2000})")


@dataclass(frozen=True, slots=True)
class JobChanges:
    """What happened by tenant. `more` counts what is not in `rows`, by tenant and action; None: too much to send."""

    place: LogPosition
    rows: list[Mapping[str, Any]]
    more: dict[tuple[UUID | None, str], int] | None


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs, as far as frames show it."""

    tenant_id: UUID
    attempt: int
    progress: str | None
    row: Mapping[str, Any]


async def read_place(conn: Connection) -> LogPosition:
    """The present place in the audit log."""
    return await log_position(conn)


async def read_window(conn: Connection, since: LogPosition, actions: list[str], *, most_each: int) -> JobChanges:
    """Everything since a place: the newest of each tenant and kind whole, the rest as counts."""
    now = await read_place(conn)
    bounds = {"prev": since.snapshot, "cur": now.snapshot, "most": MOST_ROWS + 1}
    epochs = range(since.epoch, now.epoch + 1)
    rows: list[Mapping[str, Any]] = []
    more: dict[tuple[UUID | None, str], int] = {}
    for epoch in epochs:
        size = await fetch_row(conn, SIZE, epoch=epoch, **bounds)
        assert size is not None
        if size["rows"] > MOST_ROWS:
            return JobChanges(now, [], None)
        if size["rows"]:
            rows += await fetch(conn, CHANGES, epoch=epoch, **bounds, actions=actions, most_each=most_each)
    for row in rows:
        hidden = row["of_kind"] - most_each
        if hidden > 0:
            more[row["tenant_id"], row["action"]] = hidden
    return JobChanges(now, rows, more)


async def read_running(conn: Connection) -> dict[UUID, Running]:
    """The jobs that run now, at most some hundred."""
    rows = await fetch(conn, RUNNING, most=MOST_RUNNING)
    return {row["job_id"]: Running(row["tenant_id"], row["attempt_count"], row["progress"], row) for row in rows}


def write_place(place: LogPosition) -> str:
    """A place as text, for clients."""
    return f"{place.epoch}.{place.snapshot}"


def place_of(text: str) -> LogPosition | None:
    """The place that a client sends back; None if it is not one."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    low, high, running = found[2].split(":")
    ids = [int(one) for one in running.split(",") if one]
    ordered = sorted(set(ids)) == ids and all(int(low) <= one < int(high) for one in ids)
    if not 0 < int(low) <= int(high) < 2**63 or not ordered:
        return None
    return LogPosition(int(found[1]), found[2])
