"""Hosts: machines that fetch their own jobs, the servers they look after, and which host a job belongs to."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from atlas.actors import Actor
from atlas.audit import Event, record
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.jobs.backoff import AGENT
from atlas.engine.validation import as_id, check_name
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import new_id

ADD = statement("engine/hosts/sql/add_host.sql")
ADD_INSTANCE = statement("engine/hosts/sql/add_server_instance.sql")
EDIT = statement("engine/hosts/sql/edit_host.sql")
FIND = statement("engine/hosts/sql/find_host.sql")
LIST = statement("engine/hosts/sql/list_hosts.sql")
LIST_INSTANCES = statement("engine/hosts/sql/list_server_instances.sql")
PLACE = statement("engine/hosts/sql/place.sql")

# What is done to a server instance is done by the host that has it.
SERVER_TYPES = frozenset({"SERVER_START", "SERVER_STOP", "SERVER_RESTART"})


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


@dataclass(frozen=True, slots=True)
class ServerInstance:
    """A server that a host looks after."""

    id: UUID
    tenant_id: UUID
    host_id: UUID
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job runs, and how often it may be retried where neither it nor its type says so."""

    host_id: UUID
    max_retries: int | None


async def add_host(conn: Connection, *, tenant_id: UUID, name: str, actor: Actor) -> Host:
    """Make a host known. It fetches jobs with a token of its tenant's role `host`."""
    _check(name)
    async with conn.transaction():
        row = await fetch_row(conn, ADD, id=new_id(), tenant_id=tenant_id, name=name)
        if row is None:
            raise Conflict(f"There is already a host {name}.", remedy="Choose another name.")
        host = Host(**row)
        await record(conn, _event("HOST_ADDED", "host", host.id, tenant_id, actor, name=name))
    return host


async def add_server_instance(conn: Connection, host: Host, *, name: str, actor: Actor) -> ServerInstance:
    """Make a server of a host known, so that jobs can be about it."""
    _check(name)
    async with conn.transaction():
        row = await fetch_row(conn, ADD_INSTANCE, id=new_id(), host_id=host.id, name=name)
        if row is None:
            raise Conflict(f"There is already a server instance {name}.", remedy="Choose another name.")
        made = ServerInstance(**row)
        facts = {"name": name, "host_id": str(host.id)}
        await record(conn, _event("SERVER_INSTANCE_ADDED", "server_instance", made.id, made.tenant_id, actor, **facts))
    return made


async def edit_host(conn: Connection, host: Host, *, is_active: bool, actor: Actor) -> Host:
    """Let a host fetch jobs, or not. What it runs goes on."""
    async with conn.transaction():
        row = await fetch_row(conn, EDIT, id=host.id, is_active=is_active)
        if row is None:
            raise NotFound("host", host.id)
        word = "HOST_ENABLED" if is_active else "HOST_DISABLED"
        await record(conn, _event(word, "host", host.id, host.tenant_id, actor, name=host.name))
    return Host(**row)


async def find_host(conn: Connection, name_or_id: str, *, tenant_id: UUID | None = None) -> Host:
    """The host of this id, or of this name in a tenant; `NotFound` where there is none."""
    row = await fetch_row(conn, FIND, id=as_id(name_or_id), name=name_or_id, tenant_id=tenant_id)
    if row is None:
        raise NotFound("host", name_or_id, remedy="`atlas host list` shows the hosts there are.")
    return Host(**row)


async def list_hosts(conn: Queryable, *, tenant_id: UUID | None = None) -> list[Host]:
    """The hosts of one tenant, or all."""
    return [Host(**row) for row in await conn.fetch(LIST.sql, *LIST.bind({"tenant_id": tenant_id}))]


async def list_server_instances(conn: Connection, host_id: UUID) -> list[ServerInstance]:
    """What a host looks after."""
    return [ServerInstance(**row) for row in await fetch(conn, LIST_INSTANCES, host_id=host_id)]


async def place(
    conn: Connection, job_type: str, tenant_id: UUID, *, host_id: UUID | None, instance_id: UUID | None
) -> Placement:
    """The host of a job: the one it names, or the one that has its server instance. Both must be the tenant's own."""
    if job_type in SERVER_TYPES and instance_id is None:
        raise InvalidInput("The job", [FieldError("server_instance_id", f"is needed by {job_type}")])
    row = await fetch_row(conn, PLACE, job_type=job_type, tenant_id=tenant_id, host_id=host_id, instance_id=instance_id)
    assert row is not None
    wrong = []
    if instance_id is not None and row["instance_host"] is None:
        wrong.append(FieldError("server_instance_id", f"there is no server instance {instance_id}"))
    elif row["host"] is None:
        wrong.append(FieldError("host_id", f"there is no host {host_id}"))
    elif instance_id is not None and row["instance_host"] != row["host"]:
        wrong.append(FieldError("host_id", "is not the host of the server instance"))
    elif not row["is_active"]:
        wrong.append(FieldError("host_id", f"host {row['host']} is not active"))
    if wrong:
        raise InvalidInput("The job", wrong)
    return Placement(row["host"], None if row["known_type"] else AGENT.max_retries)


def _check(name: str) -> None:
    errors = check_name("name", name)
    if as_id(name) is not None:
        errors.append(FieldError("name", "must not look like an id"))
    if errors:
        raise InvalidInput("The name", errors)


def _event(action: str, kind: str, id: UUID, tenant_id: UUID, actor: Actor, **facts: str) -> Event:
    return Event(action=action, entity_type=kind, entity_id=str(id), actor=actor, tenant_id=tenant_id, meta=facts)
