"""Hosts: machines that fetch their own jobs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from atlas.actors import Actor
from atlas.audit.changes import values_of
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.prisma import page_filter, prisma_on
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.access.quotas import require_room
from atlas.engine.access.tokens import revoke_token
from atlas.engine.etags import Precondition, require_match
from atlas.engine.validation import check_name
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import as_id, new_id
from atlas.models.hosts import Host
from atlas.models.rows import from_row

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import HostWhereInput

EXISTS = statement("engine/hosts/sql/host_exists.sql")
HOLD = statement("engine/hosts/sql/hold_host.sql")
WORK = statement("engine/hosts/sql/host_work.sql")
BLOCKERS = statement("engine/hosts/sql/host_blockers.sql")
TOKENS = statement("engine/hosts/sql/host_tokens.sql")

# The work of a host that has none, or whose work was not read.
IDLE: Mapping[str, Any] = {"running_job_id": None, "waiting_count": 0}


async def add_host(conn: Connection, *, tenant_id: UUID, name: str, actor: Actor) -> Host:
    """Add a host. It fetches jobs with a token of the role `host` of its tenant."""
    check_new_name(name)
    async with conn.transaction():
        await require_room(conn, "hosts", tenant_id)
        try:
            row = await prisma_on(conn).host.create({"id": str(new_id()), "tenantId": str(tenant_id), "name": name})
        except asyncpg.UniqueViolationError:
            raise _taken(name) from None
        host = _host(row)
        await record(conn, host_event("HOST_ADDED", "host", host.id, tenant_id, actor, name=name))
    return host


async def edit_host(
    conn: Connection,
    host: Host,
    *,
    is_active: bool | None = None,
    name: str | None = None,
    actor: Actor,
    if_match: Precondition | None = None,
) -> Host:
    """Allow a host to fetch jobs, or not, or give it another name. Its running job goes on."""
    if name is not None:
        check_new_name(name)
    async with conn.transaction():
        held = await _hold(conn, host, if_match)
        if is_active is not None:
            await prisma_on(conn).host.update({"isActive": is_active}, {"id": str(host.id)})
            action = "HOST_ENABLED" if is_active else "HOST_DISABLED"
            event = host_event(action, "host", host.id, host.tenant_id, actor, name=held.name)
            await record(conn, event, before={"is_active": held.is_active})
        if name is not None and name != held.name:
            await _rename(conn, host, name)
            facts = {"name": name, "before": held.name}
            event = host_event("HOST_RENAMED", "host", host.id, host.tenant_id, actor, **facts)
            await record(conn, event, before={"name": held.name})
        return await find_host(conn, str(host.id))


async def remove_host(conn: Connection, host: Host, *, actor: Actor, if_match: Precondition | None = None) -> None:
    """Remove a host without servers, queued and running jobs, and revoke its tokens. Its ended jobs stay."""
    async with conn.transaction():
        held = await _hold(conn, host, if_match)
        row = await fetch_row(conn, BLOCKERS, id=held.id, tenant_id=held.tenant_id)
        assert row is not None
        counts = [f"{count:,} {what}" for what, count in row.items() if count]
        if counts:
            raise Conflict(
                f"The host {held.name} has {' and '.join(counts)}.",
                remedy="Remove its servers, and wait for its jobs or cancel them.",
            )
        for token in await fetch(conn, TOKENS, tenant_id=held.tenant_id, host_id=str(held.id)):
            await revoke_token(conn, str(token["id"]), actor=actor)
        values = await values_of(conn, "host", held.id)
        await prisma_on(conn).host.delete({"id": str(held.id)})
        event = host_event("HOST_REMOVED", "host", held.id, held.tenant_id, actor, name=held.name)
        await record(conn, event, before=values)


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
    return NotFound("host", name_or_id, remedy="`atlas host list` lists the hosts.")


async def list_hosts(
    conn: Connection,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    after: UUID | None = None,
    limit: int | None = None,
) -> list[Host]:
    """Return the hosts of one tenant, or all, with their instances, oldest first; with `limit`, one page."""
    where: HostWhereInput = page_filter(tenant_id=tenant_id, id=id, after=after)
    rows = await prisma_on(conn).host.find_many(
        limit, where=where, include={"instances": {"order_by": {"name": "asc"}}}, order={"id": "asc"}
    )
    work = {
        str(host["id"]): {name: host[name] for name in IDLE}
        for host in await fetch(conn, WORK, ids=[row.id for row in rows])
    }
    return [_host(row, work.get(row.id, IDLE)) for row in rows]


async def _hold(conn: Connection, host: Host, if_match: Precondition | None) -> Host:
    await fetch_value(conn, HOLD, id=host.id)
    row = await prisma_on(conn).host.find_unique({"id": str(host.id)})
    if row is None:
        raise NotFound("host", host.id)
    held = _host(row)
    require_match(held, if_match, "host", held.name)
    return held


async def _rename(conn: Connection, host: Host, name: str) -> None:
    try:
        async with conn.transaction():
            await prisma_on(conn).host.update({"name": name}, {"id": str(host.id)})
    except asyncpg.UniqueViolationError:
        raise _taken(name) from None


def _taken(name: str) -> Conflict:
    return Conflict(f"There is already a host {name}.", remedy="Choose another name.")


def _host(row: "models.Host", work: Mapping[str, Any] = IDLE) -> Host:
    return from_row(Host, row, instances=[instance.name for instance in row.instances or []], **work)


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
