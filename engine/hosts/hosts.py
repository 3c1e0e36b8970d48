"""Hosts: machines that fetch their own jobs."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from atlas.actors import Actor
from atlas.audit import Event, record
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch_row, statement
from atlas.engine.etags import etag_of, require_match
from atlas.engine.quotas import require_room
from atlas.engine.validation import check_name
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import as_id, new_id

ADD = statement("engine/hosts/sql/add_host.sql")
EDIT = statement("engine/hosts/sql/edit_host.sql")
HOLD = statement("engine/hosts/sql/hold_host.sql")
FIND = statement("engine/hosts/sql/find_host.sql")
LIST = statement("engine/hosts/sql/list_hosts.sql")


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
        row = await fetch_row(conn, ADD, id=new_id(), tenant_id=tenant_id, name=name)
        if row is None:
            raise Conflict(f"There is already a host {name}.", remedy="Choose another name.")
        host = Host(**row)
        await record(conn, host_event("HOST_ADDED", "host", host.id, tenant_id, actor, name=name))
    return host


async def edit_host(
    conn: Connection, host: Host, *, is_active: bool, actor: Actor, if_match: Collection[str] | None = None
) -> Host:
    """Allow a host to fetch jobs, or not. Its running job goes on."""
    async with conn.transaction():
        if if_match is not None:
            held = await fetch_row(conn, HOLD, id=host.id)
            require_match(held and Host(**held).etag, if_match, "host", host.name)
        row = await fetch_row(conn, EDIT, id=host.id, is_active=is_active)
        if row is None:
            raise NotFound("host", host.id)
        action = "HOST_ENABLED" if is_active else "HOST_DISABLED"
        await record(conn, host_event(action, "host", host.id, host.tenant_id, actor, name=host.name))
    return Host(**row)


async def find_host(conn: Connection, name_or_id: str, *, tenant_id: UUID | None = None) -> Host:
    """Return the host of this id, or of this name in a tenant; raises NotFound where there is none."""
    row = await fetch_row(conn, FIND, id=as_id(name_or_id), name=name_or_id, tenant_id=tenant_id)
    if row is None:
        raise NotFound("host", name_or_id, remedy="`atlas host list` shows the hosts there are.")
    return Host(**row)


async def list_hosts(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    after: UUID | None = None,
    limit: int | None = None,
) -> list[Host]:
    """Return the hosts of one tenant, or all, oldest first; or so many of them after one."""
    values = {"tenant_id": tenant_id, "id": id, "after": after, "limit": limit}
    return [Host(**row) for row in await conn.fetch(LIST.sql, *LIST.bind(values))]


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
