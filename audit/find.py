"""Reads the audit log: pages of events, newest first, one by its id, and new events as they are committed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import orjson

from atlas.actors import ActorType
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.errors import FieldError, InvalidInput, NotFound
from atlas.models.rows import prisma_name

if TYPE_CHECKING:
    from atlas.generated import enums, models
    from atlas.generated.enums import AuditLevel
    from atlas.generated.types import AuditEntryWhereInput, DateTimeFilter, StringFilter

FIND_ALL = statement("audit/sql/find_all.sql")
SEALS_OF = statement("audit/sql/find_seals.sql")
HORIZON = statement("audit/sql/find_horizon.sql")
WINDOW_SIZE = statement("audit/sql/window_size.sql")
NEW = statement("audit/sql/find_new.sql")

MAX_PAGE_SIZE = 1000
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
    levels: tuple[str, ...] | None = None
    # "user" finds what people did.
    actor_type: ActorType | None = None

    def filters(self) -> dict[str, Any]:
        """The values that every statement of a search takes."""
        return {
            "actor_id": self.actor_id,
            "actor_type": self.actor_type,
            "actions": None if self.actions is None else list(self.actions),
            "levels": None if self.levels is None else list(self.levels),
            "entity_type": self.entity_type,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row of the audit log, without its bytes."""

    id: int
    # The transaction that wrote it, in the epoch's cluster.
    epoch: int
    xid: int
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


# The fields that are as their columns are.
_PLAIN = [name for name in AuditRow.__dataclass_fields__ if name not in ("tenant_id", "meta", "xid")]


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

    @property
    def end(self) -> int:
        """The first transaction that had not begun there."""
        return int(self.snapshot.split(":")[1])


async def find(
    conn: Connection, query: Query | None = None, *, limit: int = 50, cursor: str | None = None
) -> AuditPage:
    """One page. A page costs what it holds, however far back it lies."""
    filters = query or Query()
    before = _NEWEST if cursor is None else _read_cursor(cursor)
    size = max(1, min(limit, MAX_PAGE_SIZE))
    if filters.entity_id is None and filters.tenant_id is None:
        return await _find_all(conn, filters, before, size)
    rows = await prisma_on(conn).auditentry.find_many(
        size + 1, where=_filter(filters, before[-1]), order={"id": "desc"}
    )
    entries = tuple(_typed_entry(row) for row in rows[:size])
    if len(rows) <= size:
        return AuditPage(entries, None)
    last = rows[size - 1]
    return AuditPage(entries, f"{last.epoch}.{last.xid}.{last.id}")


async def _find_all(conn: Connection, filters: Query, before: tuple[int, int, int], size: int) -> AuditPage:
    epoch, xid, id = before
    about = {**filters.filters(), "since": filters.since, "until": filters.until}
    rows = await fetch(conn, FIND_ALL, **about, before_epoch=epoch, before_xid=str(xid), before_id=id, limit=size + 1)
    more = f"{rows[size - 1]['epoch']}.{rows[size - 1]['xid']}.{rows[size - 1]['id']}" if len(rows) > size else None
    return AuditPage(tuple(_entry(row) for row in rows[:size]), more)


async def log_position(conn: Connection) -> LogPosition:
    """The present end of the audit log. Taken before a page is read, it leaves no gap between page and `follow`."""
    row = await fetch_row(conn, HORIZON)
    assert row is not None
    return LogPosition(row["epoch"], row["snapshot"])


async def find_one(conn: Connection, id: int, *, tenant_id: UUID | None = None) -> AuditRow:
    """One row; with a tenant, only one of its own."""
    where: AuditEntryWhereInput = {"id": id} if tenant_id is None else {"id": id, "tenantId": str(tenant_id)}
    row = await prisma_on(conn).auditentry.find_first(where=where, order={"epoch": "asc"})
    if row is None:
        raise NotFound("audit row", id, remedy="Rows of pruned seals are gone.")
    return _typed_entry(row)


async def seals_of(conn: Connection, rows: Sequence[AuditRow]) -> dict[int, int]:
    """The numbers of the seals that these rows are in, by the id of the row; those of no seal are left out.

    The caller sees the seals of the whole installation.
    """
    seals = await fetch(
        conn,
        SEALS_OF,
        ids=[row.id for row in rows],
        epochs=[row.epoch for row in rows],
        xids=[str(row.xid) for row in rows],
        times=[row.created_at for row in rows],
    )
    return {row["id"]: row["n"] for row in seals}


async def find_new(
    conn: Connection, query: Query, *, since: LogPosition, most: int | None = None
) -> tuple[LogPosition, tuple[AuditRow, ...] | None]:
    """What was committed after a position, none left out and none twice, and the position to go on from.

    None in place of the rows where the audit log grew by more than `most` rows, of whomever. The caller sees all rows.
    """
    now = await log_position(conn)
    window = {"prev": since.snapshot, "cur": now.snapshot}
    if most is not None:
        # Snapshots of another cluster, or of one that was restored to an earlier state, say nothing here.
        if since.epoch != now.epoch or since.end > now.end:
            return now, None
        if await fetch_value(conn, WINDOW_SIZE, epoch=now.epoch, **window, most=most + 1) > most:
            return now, None
    about = {**query.filters(), "tenant_id": query.tenant_id, "entity_id": query.entity_id}
    epochs = range(since.epoch, now.epoch + 1)
    rows = [row for epoch in epochs for row in await fetch(conn, NEW, epoch=epoch, **window, **about)]
    return now, tuple(_entry(row) for row in rows)


def _filter(filters: Query, before_id: int) -> "AuditEntryWhereInput":
    where: AuditEntryWhereInput = {"id": {"lt": before_id}}
    if filters.entity_id is not None:
        where["entityId"] = filters.entity_id
    if filters.tenant_id is not None:
        where["tenantId"] = str(filters.tenant_id)
    if filters.actor_id is not None:
        where["actorId"] = filters.actor_id
    if filters.actor_type is not None:
        where["actorType"] = cast("enums.ActorType", filters.actor_type)
    if filters.actions is not None:
        where["action"] = {"in": list(filters.actions)}
    if filters.levels is not None:
        where["AND"] = [{"OR": [{"level": cast("AuditLevel", level)} for level in filters.levels]}]
    if filters.entity_type is not None:
        where["entityType"] = filters.entity_type
    times: DateTimeFilter = {}
    if filters.since is not None:
        times["gte"] = filters.since
    if filters.until is not None:
        times["lt"] = filters.until
    if times:
        where["createdAt"] = times
    if filters.text is not None:
        within: StringFilter = {"contains": filters.text, "mode": "insensitive"}
        where["OR"] = [
            {"action": within},
            {"entityId": within},
            {"actorId": within},
            {"message": within},
            {"metaText": within},
        ]
    return where


def _typed_entry(row: "models.AuditEntry") -> AuditRow:
    facts = {name: getattr(row, prisma_name(name)) for name in _PLAIN}
    tenant_id = None if row.tenantId is None else UUID(row.tenantId)
    return AuditRow(**facts, xid=int(row.xid), tenant_id=tenant_id, meta=orjson.loads(row.metaText))


def _entry(row: Any) -> AuditRow:
    facts = {name: row[name] for name in _PLAIN}
    # The driver's own kind of UUID is not known to JSON writers.
    tenant_id = None if row["tenant_id"] is None else UUID(bytes=row["tenant_id"].bytes)
    return AuditRow(**facts, xid=int(row["xid"]), tenant_id=tenant_id, meta=orjson.loads(row["meta"]))


def _read_cursor(cursor: str) -> tuple[int, int, int]:
    try:
        epoch, xid, id = (int(part) for part in cursor.split("."))
        if not (0 <= epoch < 2**31 and 0 <= xid < 2**64 and 0 <= id < 2**63):
            raise ValueError
    except ValueError:
        raise InvalidInput("The cursor", [FieldError("cursor", "is not one that a page returned")]) from None
    return epoch, xid, id
