"""Reads the audit log: pages of events, newest first, and new events as they are committed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from atlas.db.pool import Connection, Pool
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, fetch_row, statement
from atlas.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import AuditEntryWhereInput, DateTimeFilter, StringFilter

FIND_ALL = statement("audit/sql/find_all.sql")
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
    before = _NEWEST if cursor is None else _read_cursor(cursor)
    size = max(1, min(limit, LARGEST_PAGE))
    if wanted.entity_id is None and wanted.tenant_id is None:
        return await _find_all(conn, wanted, before, size)
    rows = await prisma_on(conn).auditentry.find_many(size + 1, where=_filter(wanted, before[-1]), order={"id": "desc"})
    entries = tuple(_typed_entry(row) for row in rows[:size])
    if len(rows) <= size:
        return AuditPage(entries, None)
    last = rows[size - 1]
    return AuditPage(entries, f"{last.epoch}.{last.xid}.{last.id}")


async def _find_all(conn: Connection, wanted: Query, before: tuple[int, int, int], size: int) -> AuditPage:
    epoch, xid, id = before
    rows = await fetch(
        conn,
        FIND_ALL,
        actor_id=wanted.actor_id,
        actions=None if wanted.actions is None else list(wanted.actions),
        entity_type=wanted.entity_type,
        since=wanted.since,
        until=wanted.until,
        text=wanted.text,
        before_epoch=epoch,
        before_xid=str(xid),
        before_id=id,
        limit=size + 1,
    )
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


def _filter(wanted: Query, before_id: int) -> "AuditEntryWhereInput":
    where: AuditEntryWhereInput = {"id": {"lt": before_id}}
    if wanted.entity_id is not None:
        where["entityId"] = wanted.entity_id
    if wanted.tenant_id is not None:
        where["tenantId"] = str(wanted.tenant_id)
    if wanted.actor_id is not None:
        where["actorId"] = wanted.actor_id
    if wanted.actions is not None:
        where["action"] = {"in": list(wanted.actions)}
    if wanted.entity_type is not None:
        where["entityType"] = wanted.entity_type
    times: DateTimeFilter = {}
    if wanted.since is not None:
        times["gte"] = wanted.since
    if wanted.until is not None:
        times["lt"] = wanted.until
    if times:
        where["createdAt"] = times
    if wanted.text is not None:
        within: StringFilter = {"contains": wanted.text, "mode": "insensitive"}
        where["OR"] = [
            {"action": within},
            {"entityId": within},
            {"actorId": within},
            {"message": within},
            {"metaText": within},
        ]
    return where


def _typed_entry(row: "models.AuditEntry") -> AuditRow:
    return AuditRow(
        id=row.id,
        created_at=row.createdAt,
        tenant_id=None if row.tenantId is None else UUID(row.tenantId),
        actor_type=row.actorType,
        actor_id=row.actorId,
        level=row.level,
        action=row.action,
        entity_type=row.entityType,
        entity_id=row.entityId,
        message=row.message,
        meta=orjson.loads(row.metaText),
    )


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
