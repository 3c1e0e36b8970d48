"""Routes for hosts, machines that fetch their own jobs, and for the servers on them."""

from functools import partial
from operator import attrgetter
from uuid import UUID

from fastapi import APIRouter

from atlas.api.access.roles import MANAGERS, READERS
from atlas.api.http.etags import IfMatch
from atlas.api.models.common import Body, Flag, Id, Name
from atlas.api.paging import IdCursor, Limit, list_page, read_page
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.db.pool import Connection
from atlas.engine.hosts.hosts import add_host, edit_host, find_host, list_hosts, remove_host
from atlas.engine.hosts.server_instances import (
    add_server_instance,
    edit_server_instance,
    find_server_instance,
    list_server_instances,
    remove_server_instance,
)
from atlas.models import Page
from atlas.models.hosts import Host, ServerInstance

router = APIRouter(prefix=f"{PREFIX}/hosts", route_class=GuardedRoute, tags=["hosts"])


class NewName(Body):
    """A name that is not taken yet."""

    name: Name


class HostChange(Body):
    """Whether a host may fetch jobs, or another name for it; what is not sent stays as it is."""

    is_active: Flag | None = None
    name: Name | None = None


class InstanceChange(Body):
    """Another name for a server, or another host; what is not sent stays as it is."""

    name: Name | None = None
    host_id: Id | None = None


@router.get("", operation_id="list_hosts", summary="List the hosts, oldest first")
@requires(*READERS)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[Host]:
    """With the names of their servers."""
    contents = attrgetter("instances")
    return await list_page(call, list_hosts, cursor, limit, contents=contents, tenant_id=call.tenant_id)


@router.post(
    "",
    operation_id="create_host",
    status_code=201,
    summary="Add a host; it authenticates with a token of the role host",
)
@requires(*MANAGERS, etag=True)
async def create(body: NewName, call: Calling) -> Host:
    """`POST /tokens` makes its token, with the scope `host_id`."""
    async with call.transaction() as conn:
        host = await add_host(conn, tenant_id=call.home, name=body.name, actor=call.actor)
    return call.tagged(host)


@router.get("/{host_id:uuid}", operation_id="get_host", summary="One host")
@requires(*READERS, etag=True)
async def show_one(host_id: Id, call: Calling) -> Host:
    """With the names of its servers, and when it was seen last."""
    async with call.transaction(read_only=True) as conn:
        return await _with_servers(conn, call.tagged(await _find(conn, host_id, call)))


@router.patch("/{host_id:uuid}", operation_id="edit_host", summary="Let a host fetch jobs, or not, or rename it")
@requires(*MANAGERS, etag=True)
async def edit(host_id: Id, body: HostChange, call: Calling, if_match: IfMatch) -> Host:
    """Its running job continues."""
    async with call.transaction() as conn:
        host = await _find(conn, host_id, call)
        changed = await edit_host(
            conn, host, is_active=body.is_active, name=body.name, actor=call.actor, if_match=if_match
        )
        return await _with_servers(conn, call.tagged(changed))


@router.delete(
    "/{host_id:uuid}",
    operation_id="remove_host",
    status_code=204,
    summary="Remove a host that has no servers and no queued or running jobs",
)
@requires(*MANAGERS)
async def remove(host_id: Id, call: Calling, if_match: IfMatch) -> None:
    """Its tokens are revoked. While it has servers or open jobs it is 409; ended jobs stay, and cannot be retried."""
    async with call.transaction() as conn:
        await remove_host(conn, await _find(conn, host_id, call), actor=call.actor, if_match=if_match)
    call.after_commit(call.api.callers.forget)


@router.get(
    "/{host_id:uuid}/instances", operation_id="list_servers", summary="List the servers of a host, oldest first"
)
@requires(*READERS)
async def show_instances(
    host_id: Id, call: Calling, limit: Limit = 50, cursor: IdCursor = None
) -> Page[ServerInstance]:
    """Their ids are what jobs name as `server_instance_id`."""
    async with call.transaction(read_only=True) as conn:
        host = await _find(conn, host_id, call)
        return await read_page(partial(list_server_instances, conn, host.id), cursor, limit)


@router.post(
    "/{host_id:uuid}/instances", operation_id="create_server", status_code=201, summary="Add a server of a host"
)
@requires(*MANAGERS, etag=True)
async def add_instance(host_id: Id, body: NewName, call: Calling) -> ServerInstance:
    """Jobs that name it are run by its host."""
    async with call.transaction() as conn:
        host = await _find(conn, host_id, call)
        added = await add_server_instance(conn, host, name=body.name, actor=call.actor)
    return call.tagged(added)


@router.get("/{host_id:uuid}/instances/{instance_id:uuid}", operation_id="get_server", summary="One server of a host")
@requires(*READERS, etag=True)
async def show_instance(host_id: Id, instance_id: Id, call: Calling) -> ServerInstance:
    """404 if it is on another host."""
    async with call.transaction(read_only=True) as conn:
        return call.tagged(await _find_instance(conn, host_id, instance_id, call))


@router.patch(
    "/{host_id:uuid}/instances/{instance_id:uuid}",
    operation_id="edit_server",
    summary="Rename a server, or move it to another host",
)
@requires(*MANAGERS, etag=True)
async def edit_instance(
    host_id: Id, instance_id: Id, body: InstanceChange, call: Calling, if_match: IfMatch
) -> ServerInstance:
    """Its queued jobs move with it. While one of its jobs runs, a move is 409."""
    async with call.transaction() as conn:
        instance = await _find_instance(conn, host_id, instance_id, call)
        changed = await edit_server_instance(
            conn, instance, name=body.name, host_id=body.host_id, actor=call.actor, if_match=if_match
        )
    return call.tagged(changed)


@router.delete(
    "/{host_id:uuid}/instances/{instance_id:uuid}",
    operation_id="remove_server",
    status_code=204,
    summary="Remove a server that has no queued or running jobs",
)
@requires(*MANAGERS)
async def remove_instance(host_id: Id, instance_id: Id, call: Calling, if_match: IfMatch) -> None:
    """While jobs of it are queued or run it is 409. Those that have ended stay, and cannot be retried."""
    async with call.transaction() as conn:
        instance = await _find_instance(conn, host_id, instance_id, call)
        await remove_server_instance(conn, instance, actor=call.actor, if_match=if_match)


async def _find(conn: Connection, host_id: UUID, call: RequestContext) -> Host:
    return await find_host(conn, str(host_id), tenant_id=call.tenant_id)


async def _find_instance(conn: Connection, host_id: UUID, instance_id: UUID, call: RequestContext) -> ServerInstance:
    return await find_server_instance(conn, str(instance_id), tenant_id=call.tenant_id, host_id=host_id)


async def _with_servers(conn: Connection, host: Host) -> Host:
    return (await list_hosts(conn, id=host.id, limit=1))[0]
