"""Events as they are read: a list, newest first, and one by its id."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from atlas.db.pool import Queryable
from atlas.db.prisma import older_than, page_filter, prisma_on
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
    conn: Queryable, *, query: EventQuery, after: EventPosition | None = None, limit: int = 50
) -> list[EventRecord]:
    """Events, newest first, or those that follow one."""
    where: EventWhereInput = _filter(query) | older_than("createdAt", after)
    rows = await prisma_on(conn).event.find_many(limit, where=where, order=[{"createdAt": "desc"}, {"id": "desc"}])
    return from_rows(EventRecord, rows)


async def find_event(conn: Queryable, event_id: UUID, *, tenant_id: UUID | None = None) -> EventRecord:
    """One event; `NotFound` if there is none, or if it is another tenant's."""
    row = await prisma_on(conn).event.find_first(where=page_filter(tenant_id=tenant_id, id=event_id))
    if row is None:
        raise NotFound("event", event_id)
    return from_row(EventRecord, row)


def _filter(query: EventQuery) -> Any:
    name: Any = query.name
    if name is not None and name.endswith(".*"):
        name = {"startswith": name.removesuffix("*")}
    times = {"gte": query.since, "lt": query.until}
    return page_filter(
        tenant_id=query.tenant_id,
        name=name,
        created_by=query.created_by,
        correlation_id=query.correlation_id,
        run_id=query.run_id,
        created_at={operator: time for operator, time in times.items() if time is not None} or None,
    )
