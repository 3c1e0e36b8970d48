"""Hosts: machines that fetch their own jobs."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.prisma import page_filter, prisma_on
from atlas.db.statements import fetch_value, statement
from atlas.engine.etags import etag_of, require_match
from atlas.engine.quotas import require_room
from atlas.engine.validation import check_name
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import as_id, new_id

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import HostWhereInput, HostWhereUniqueInput

EXISTS = statement("engine/hosts/sql/host_exists.sql")
HOLD = statement("engine/hosts/sql/hold_host.sql")


@dataclass(frozen=True, slots=True)
class Host:
    """A machine of a tenant that fetches its own jobs."""

    id: UUID
    tenant_id: UUID
    name: str
    is_active: bool
    last_seen_at: datetime | None
    created_at: datetime
    instances: list[str] = field(default_factory=list)

    @property
    def etag(self) -> str:
        """The tag of what an edit can change."""
        return etag_of(self.id, self.is_active)


async def add_host(conn: Connection, *, tenant_id: UUID, name: str, actor: Actor) -> Host:
    """Add a host. It fetches jobs with a token of the role `host` of its tenant."""
    check_new_name(name)
    async with conn.transaction():
        await require_room(conn, "hosts", tenant_id)
        try:
            row = await prisma_on(conn).host.create({"id": str(new_id()), "tenantId": str(tenant_id), "name": name})
        except asyncpg.UniqueViolationError:
            raise Conflict(f"There is already a host {name}.", remedy="Choose another name.") from None
        host = _host(row)
        await record(conn, host_event("HOST_ADDED", "host", host.id, tenant_id, actor, name=name))
    return host


async def edit_host(
    conn: Connection, host: Host, *, is_active: bool, actor: Actor, if_match: Collection[str] | None = None
) -> Host:
    """Allow a host to fetch jobs, or not. Its running job goes on."""
    where: HostWhereUniqueInput = {"id": str(host.id)}
    async with conn.transaction():
        hosts = prisma_on(conn).host
        if if_match is not None:
            await fetch_value(conn, HOLD, id=host.id)
            held = await hosts.find_unique(where)
            require_match(None if held is None else _host(held).etag, if_match, "host", host.name)
        row = await hosts.update({"isActive": is_active}, where)
        if row is None:
            raise NotFound("host", host.id)
        action = "HOST_ENABLED" if is_active else "HOST_DISABLED"
        await record(conn, host_event(action, "host", host.id, host.tenant_id, actor, name=host.name))
    return _host(row)


async def find_host(conn: Connection, name_or_id: str, *, tenant_id: UUID | None = None) -> Host:
    """Return the host of this id, or of this name in a tenant; raises NotFound where there is none."""
    hosts, id = prisma_on(conn).host, as_id(name_or_id)
    row = None
    if id is not None:
        row = await hosts.find_unique({"id": str(id)})
    elif tenant_id is not None:
        row = await hosts.find_unique({"tenantId_name": {"tenantId": str(tenant_id), "name": name_or_id}})
    if row is None or tenant_id not in (None, UUID(row.tenantId)):
        raise unknown_host(name_or_id)
    return _host(row)


async def require_host(conn: Connection, host_id: UUID, *, tenant_id: UUID | None = None) -> None:
    """Raise NotFound where there is no such host, or not in that tenant."""
    if not await fetch_value(conn, EXISTS, id=host_id, tenant_id=tenant_id):
        raise unknown_host(host_id)


def unknown_host(name_or_id: str | UUID) -> NotFound:
    """There is no such host for the caller."""
    return NotFound("host", name_or_id, remedy="`atlas host list` shows the hosts there are.")


async def list_hosts(
    conn: Connection,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    after: UUID | None = None,
    limit: int | None = None,
) -> list[Host]:
    """Return the hosts of one tenant, or all, with their instances, oldest first; or so many of them after one."""
    where: HostWhereInput = page_filter(tenant_id=tenant_id, id=id, after=after)
    rows = await prisma_on(conn).host.find_many(
        limit, where=where, include={"instances": {"order_by": {"name": "asc"}}}, order={"id": "asc"}
    )
    return [_host(row) for row in rows]


def _host(row: "models.Host") -> Host:
    return Host(
        id=UUID(row.id),
        tenant_id=UUID(row.tenantId),
        name=row.name,
        is_active=row.isActive,
        last_seen_at=row.lastSeenAt,
        created_at=row.createdAt,
        instances=[one.name for one in row.instances or []],
    )


def check_new_name(name: str) -> None:
    """Raise InvalidInput if a host or a server instance cannot have this name."""
    errors = check_name("name", name)
    if as_id(name) is not None:
        errors.append(FieldError("name", "must not look like an id"))
    if errors:
        raise InvalidInput("The name", errors)


def host_event(action: str, kind: str, id: UUID, tenant_id: UUID, actor: Actor, **facts: str) -> Event:
    """What happened to a host or to a server instance."""
    return Event(action=action, entity_type=kind, entity_id=str(id), actor=actor, tenant_id=tenant_id, meta=facts)
