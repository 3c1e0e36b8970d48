"""Hosts: machines that fetch their own jobs, and the server instances they run."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from atlas.actors import Actor
from atlas.audit import Event, record
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.etags import etag_of, require_match
from atlas.engine.quotas import require_room
from atlas.engine.validation import check_name
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import as_id, new_id

ADD = statement("engine/hosts/sql/add_host.sql")
ADD_INSTANCE = statement("engine/hosts/sql/add_server_instance.sql")
EDIT = statement("engine/hosts/sql/edit_host.sql")
HOLD = statement("engine/hosts/sql/hold_host.sql")
FIND = statement("engine/hosts/sql/find_host.sql")
LIST = statement("engine/hosts/sql/list_hosts.sql")
LIST_INSTANCES = statement("engine/hosts/sql/list_server_instances.sql")


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


@dataclass(frozen=True, slots=True)
class ServerInstance:
    """A server that runs on a host."""

    id: UUID
    tenant_id: UUID
    host_id: UUID
    name: str
    created_at: datetime


async def add_host(conn: Connection, *, tenant_id: UUID, name: str, actor: Actor) -> Host:
    """Add a host. It fetches jobs with a token of the role `host` of its tenant."""
    _check(name)
    async with conn.transaction():
        await require_room(conn, "hosts", tenant_id)
        row = await fetch_row(conn, ADD, id=new_id(), tenant_id=tenant_id, name=name)
        if row is None:
            raise Conflict(f"There is already a host {name}.", remedy="Choose another name.")
        host = Host(**row)
        await record(conn, _event("HOST_ADDED", "host", host.id, tenant_id, actor, name=name))
    return host


async def add_server_instance(conn: Connection, host: Host, *, name: str, actor: Actor) -> ServerInstance:
    """Add a server of a host, so that jobs can name it."""
    _check(name)
    async with conn.transaction():
        await require_room(conn, "servers_of_a_host", host.tenant_id, of=str(host.id))
        row = await fetch_row(conn, ADD_INSTANCE, id=new_id(), host_id=host.id, name=name)
        if row is None:
            raise Conflict(f"There is already a server instance {name}.", remedy="Choose another name.")
        made = ServerInstance(**row)
        facts = {"name": name, "host_id": str(host.id)}
        await record(conn, _event("SERVER_INSTANCE_ADDED", "server_instance", made.id, made.tenant_id, actor, **facts))
    return made


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
        await record(conn, _event(action, "host", host.id, host.tenant_id, actor, name=host.name))
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


async def list_server_instances(
    conn: Connection, host_id: UUID, *, after: UUID | None = None, limit: int | None = None
) -> list[ServerInstance]:
    """Return the server instances of a host, oldest first; or so many of them after one."""
    rows = await fetch(conn, LIST_INSTANCES, host_id=host_id, after=after, limit=limit)
    return [ServerInstance(**row) for row in rows]


def _check(name: str) -> None:
    errors = check_name("name", name)
    if as_id(name) is not None:
        errors.append(FieldError("name", "must not look like an id"))
    if errors:
        raise InvalidInput("The name", errors)


def _event(action: str, kind: str, id: UUID, tenant_id: UUID, actor: Actor, **facts: str) -> Event:
    return Event(action=action, entity_type=kind, entity_id=str(id), actor=actor, tenant_id=tenant_id, meta=facts)
