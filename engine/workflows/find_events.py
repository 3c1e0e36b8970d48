"""Events as they are read: a list, newest first, and one by its id."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from atlas.db.pool import Queryable
from atlas.db.prisma import prisma_on
from atlas.errors import NotFound
from atlas.models.rows import from_row, from_rows
from atlas.models.workflows import EventRecord

if TYPE_CHECKING:
    from atlas.generated.types import EventWhereInput

# Where an event is in the list: its time, and its id among those of the same time.
EventPosition: TypeAlias = tuple[datetime, UUID]


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Filters of events; None filters nothing. A name that ends in `.*` means every name under it."""

    tenant_id: UUID | None = None
    name: str | None = None
    created_by: str | None = None
    correlation_id: str | None = None
    run_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None


async def list_events(
    conn: Queryable, query: EventQuery, *, before: EventPosition | None = None, limit: int = 50
) -> list[EventRecord]:
    """Events, newest first, or those before one."""
    where = _filter(query)
    if before is not None:
        created_at, id = before
        # The first is a bound for the index.
        where["AND"] = [{"createdAt": {"lte": created_at}}]
        where["OR"] = [{"createdAt": {"lt": created_at}}, {"id": {"lt": str(id)}}]
    rows = await prisma_on(conn).event.find_many(limit, where=where, order=[{"createdAt": "desc"}, {"id": "desc"}])
    return from_rows(EventRecord, rows)


async def find_event(conn: Queryable, event_id: UUID, *, tenant_id: UUID | None = None) -> EventRecord:
    """One event; `NotFound` if there is none, or if it is another tenant's."""
    where: EventWhereInput = {"id": str(event_id)}
    if tenant_id is not None:
        where["tenantId"] = str(tenant_id)
    row = await prisma_on(conn).event.find_first(where=where)
    if row is None:
        raise NotFound("event", event_id)
    return from_row(EventRecord, row)


def _filter(query: EventQuery) -> "EventWhereInput":
    where: EventWhereInput = {}
    if query.tenant_id is not None:
        where["tenantId"] = str(query.tenant_id)
    if query.name is not None:
        under = query.name.removesuffix("*")
        where["name"] = {"startswith": under} if query.name.endswith(".*") else query.name
    if query.created_by is not None:
        where["createdBy"] = query.created_by
    if query.correlation_id is not None:
        where["correlationId"] = query.correlation_id
    if query.run_id is not None:
        where["runId"] = str(query.run_id)
    if query.since is not None and query.until is not None:
        where["createdAt"] = {"gte": query.since, "lt": query.until}
    elif query.since is not None:
        where["createdAt"] = {"gte": query.since}
    elif query.until is not None:
        where["createdAt"] = {"lt": query.until}
    return where
