"""Server instances: the servers on hosts, which jobs name, and which are renamed, moved to another host and removed."""

from typing import TYPE_CHECKING
from uuid import UUID

import asyncpg

from atlas.actors import Actor
from atlas.audit.changes import Values, values_of
from atlas.audit.record import record
from atlas.db.pool import Connection
from atlas.db.prisma import page_filter, prisma_on
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.access.quotas import require_room
from atlas.engine.etags import Precondition, require_match
from atlas.engine.hosts.hosts import check_new_name, host_event
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import as_id, new_id
from atlas.models.hosts import Host, ServerInstance
from atlas.models.rows import from_row, from_rows

if TYPE_CHECKING:
    from atlas.generated.types import ServerInstanceWhereInput

HOLD = statement("engine/hosts/sql/hold_server_instance.sql")
HOLD_JOBS = statement("engine/hosts/sql/hold_server_jobs.sql")
MOVE = statement("engine/hosts/sql/move_server_instance.sql")


async def add_server_instance(conn: Connection, host: Host, *, name: str, actor: Actor) -> ServerInstance:
    """Add a server of a host, so that jobs can name it."""
    check_new_name(name)
    async with conn.transaction():
        await require_room(conn, "servers_of_a_host", host.tenant_id, of=str(host.id))
        try:
            row = await prisma_on(conn).serverinstance.create(
                {"id": str(new_id()), "tenantId": str(host.tenant_id), "hostId": str(host.id), "name": name}
            )
        except asyncpg.UniqueViolationError:
            raise _taken(name) from None
        instance = from_row(ServerInstance, row)
        await _record(conn, "SERVER_INSTANCE_ADDED", instance, actor)
    return instance


async def edit_server_instance(
    conn: Connection,
    instance: ServerInstance,
    *,
    name: str | None = None,
    host_id: UUID | None = None,
    actor: Actor,
    if_match: Precondition | None = None,
) -> ServerInstance:
    """Rename a server instance, or move it to another host of its tenant; what is None stays as it is.

    Its queued jobs go with it, and so do failed and canceled ones, which a retry would queue. While one of its jobs
    runs it is not moved.
    """
    if name is not None:
        check_new_name(name)
    async with conn.transaction():
        if host_id not in (None, instance.host_id):
            # Before the rows are held: a request that adds a server holds the quota and waits for rows.
            await require_room(conn, "servers_of_a_host", instance.tenant_id, of=str(host_id))
        held = await _hold(conn, instance, if_match)
        values = await values_of(conn, "server_instance", held.id)
        facts: dict[str, str] = {}
        if name not in (None, held.name):
            facts["former_name"] = held.name
            await _rename(conn, held, str(name))
        if host_id is not None and host_id != held.host_id:
            moved = await _move(conn, held, host_id)
            facts |= {"former_host_id": str(held.host_id), "jobs_moved": str(moved)}
        edited = await find_server_instance(conn, str(held.id), tenant_id=held.tenant_id)
        if facts:
            await _record(conn, "SERVER_INSTANCE_EDITED", edited, actor, values, **facts)
    return edited


async def remove_server_instance(
    conn: Connection, instance: ServerInstance, *, actor: Actor, if_match: Precondition | None = None
) -> ServerInstance:
    """Remove a server instance of which no job is queued or runs. Its ended jobs stay, and cannot be retried."""
    async with conn.transaction():
        held = await _hold(conn, instance, if_match)
        await _require_none(conn, held, "queued", "running")
        values = await values_of(conn, "server_instance", held.id)
        await prisma_on(conn).serverinstance.delete({"id": str(held.id)})
        await _record(conn, "SERVER_INSTANCE_REMOVED", held, actor, values)
    return held


async def find_server_instance(
    conn: Connection, name_or_id: str, *, tenant_id: UUID | None = None, host_id: UUID | None = None
) -> ServerInstance:
    """Return the instance of this id, or of this name in a tenant; raises NotFound where there is none."""
    instances, id = prisma_on(conn).serverinstance, as_id(name_or_id)
    row = None
    if id is not None:
        row = await instances.find_unique({"id": str(id)})
    elif tenant_id is not None:
        row = await instances.find_unique({"tenantId_name": {"tenantId": str(tenant_id), "name": name_or_id}})
    instance = None if row is None else from_row(ServerInstance, row)
    if instance is None or tenant_id not in (None, instance.tenant_id) or host_id not in (None, instance.host_id):
        raise _unknown(name_or_id)
    return instance


async def list_server_instances(
    conn: Connection, host_id: UUID, *, after: UUID | None = None, limit: int | None = None
) -> list[ServerInstance]:
    """Return the server instances of a host, oldest first; with `limit`, one page."""
    where: ServerInstanceWhereInput = page_filter(tenant_id=None, host_id=host_id, after=after)
    rows = await prisma_on(conn).serverinstance.find_many(limit, where=where, order={"id": "asc"})
    return from_rows(ServerInstance, rows)


async def _hold(conn: Connection, instance: ServerInstance, if_match: Precondition | None) -> ServerInstance:
    await fetch_value(conn, HOLD, id=instance.id)
    held = await find_server_instance(conn, str(instance.id))
    require_match(held, if_match, "server instance", held.name)
    return held


async def _rename(conn: Connection, held: ServerInstance, name: str) -> None:
    try:
        async with conn.transaction():
            await prisma_on(conn).serverinstance.update({"name": name}, {"id": str(held.id)})
    except asyncpg.UniqueViolationError:
        raise _taken(name) from None


async def _move(conn: Connection, held: ServerInstance, host_id: UUID) -> int:
    """Returns how many queued jobs went to the host."""
    await _require_none(conn, held, "running")
    moved: int | None = await fetch_value(conn, MOVE, id=held.id, host_id=host_id)
    if moved is None:
        raise InvalidInput("The server instance", [FieldError("host_id", f"there is no host {host_id}")])
    return moved


async def _require_none(conn: Connection, held: ServerInstance, *statuses: str) -> None:
    """Raise Conflict if the instance has jobs in one of these states; the others stay in theirs."""
    counts = {row["status"]: row["count"] for row in await fetch(conn, HOLD_JOBS, id=held.id)}
    texts = [f"{counts[status]:,} {status}" for status in statuses if status in counts]
    if texts:
        raise Conflict(
            f"The server instance {held.name} has jobs: {' and '.join(texts)}.",
            remedy="Wait until they have ended, or cancel them.",
        )


async def _record(
    conn: Connection, action: str, instance: ServerInstance, actor: Actor, before: Values | None = None, **facts: str
) -> None:
    facts = {"name": instance.name, "host_id": str(instance.host_id), **facts}
    event = host_event(action, "server_instance", instance.id, instance.tenant_id, actor, **facts)
    await record(conn, event, before=before)


def _taken(name: str) -> Conflict:
    return Conflict(f"There is already a server instance {name}.", remedy="Choose another name.")


def _unknown(name_or_id: object) -> NotFound:
    return NotFound("server instance", name_or_id, remedy="`atlas host list` lists the server instances.")
