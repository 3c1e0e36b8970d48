"""Reads the audit log: pages of events, newest first, and new events as they are committed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Connection, Pool
from atlas.db.statements import fetch, fetch_row, statement
from atlas.errors import FieldError, InvalidInput

FIND_ALL = statement("audit/sql/find_all.sql")
FIND_TENANT = statement("audit/sql/find_tenant.sql")
FIND_ENTITY = statement("audit/sql/find_entity.sql")
HORIZON = statement("audit/sql/find_horizon.sql")
NEW = statement("audit/sql/find_new.sql")

LARGEST_PAGE = 1000
_NEWEST = (2**31 - 1, 2**63 - 1, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Query:
    """Filters of events; None filters nothing. `text` is searched in action, entity, actor, message and meta."""

    tenant_id: UUID | None = None
    actor_id: str | None = None
    actions: tuple[str, ...] | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row of the audit log, without its bytes."""

    id: int
    created_at: datetime
    tenant_id: UUID | None
    actor_type: str
    actor_id: str
    level: str
    action: str
    entity_type: str
    entity_id: str
    message: str
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries, newest first, and where the next page begins; None after the last."""

    entries: tuple[AuditRow, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position to follow the audit log from: what had been committed there."""

    epoch: int
    snapshot: str


async def find(
    conn: Connection, query: Query | None = None, *, limit: int = 50, cursor: str | None = None
) -> AuditPage:
    """One page. A page costs what it holds, however far back it lies."""
    wanted = query or Query()
    epoch, xid, id = _NEWEST if cursor is None else _read_cursor(cursor)
    size = max(1, min(limit, LARGEST_PAGE))
    filters: dict[str, Any] = {
        "actor_id": wanted.actor_id,
        "actions": None if wanted.actions is None else list(wanted.actions),
        "entity_type": wanted.entity_type,
        "since": wanted.since,
        "until": wanted.until,
        "text": wanted.text,
        "limit": size + 1,
    }
    if wanted.entity_id is not None:
        of = {"entity_id": wanted.entity_id, "tenant_id": wanted.tenant_id}
        rows = await fetch(conn, FIND_ENTITY, **filters, **of, before_id=id)
    elif wanted.tenant_id is not None:
        rows = await fetch(conn, FIND_TENANT, **filters, tenant_id=wanted.tenant_id, before_id=id)
    else:
        rows = await fetch(conn, FIND_ALL, **filters, before_epoch=epoch, before_xid=str(xid), before_id=id)
    more = f"{rows[size - 1]['epoch']}.{rows[size - 1]['xid']}.{rows[size - 1]['id']}" if len(rows) > size else None
    return AuditPage(tuple(_entry(row) for row in rows[:size]), more)


async def log_position(conn: Connection) -> LogPosition:
    """The present end of the audit log. Taken before a page is read, it leaves no gap between page and `follow`."""
    row = await fetch_row(conn, HORIZON)
    assert row is not None
    return LogPosition(row["epoch"], row["snapshot"])


async def follow(
    pool: Pool, query: Query | None = None, *, since: LogPosition, every: timedelta
) -> AsyncIterator[AuditRow]:
    """Entries as they are committed after a position, none left out and none twice."""
    wanted = query or Query()
    filters = {
        "tenant_id": wanted.tenant_id,
        "actor_id": wanted.actor_id,
        "actions": None if wanted.actions is None else list(wanted.actions),
        "entity_type": wanted.entity_type,
        "entity_id": wanted.entity_id,
        "text": wanted.text,
    }
    while True:
        async with pool.acquire() as conn:
            now = await log_position(conn)
            window = {"prev": since.snapshot, "cur": now.snapshot}
            epochs = range(since.epoch, now.epoch + 1)
            rows = [row for epoch in epochs for row in await fetch(conn, NEW, epoch=epoch, **window, **filters)]
        since = now
        for row in rows:
            yield _entry(row)
        await asyncio.sleep(every.total_seconds())


def _entry(row: Any) -> AuditRow:
    facts = {name: row[name] for name in AuditRow.__dataclass_fields__ if name not in ("tenant_id", "meta")}
    # The driver's own kind of UUID is not known to JSON writers.
    tenant_id = None if row["tenant_id"] is None else UUID(bytes=row["tenant_id"].bytes)
    return AuditRow(**facts, tenant_id=tenant_id, meta=orjson.loads(row["meta"]))


def _read_cursor(cursor: str) -> tuple[int, int, int]:
    try:
        epoch, xid, id = (int(part) for part in cursor.split("."))
        if not (0 <= epoch < 2**31 and 0 <= xid < 2**64 and 0 <= id < 2**63):
            raise ValueError
    except ValueError:
        raise InvalidInput("The cursor", [FieldError("cursor", "is not one that a page returned")]) from None
    return epoch, xid, id
