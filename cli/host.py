"""`atlas host`: machines that fetch their own jobs."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from atlas.cli.output import Json, say, table
from atlas.cli.runtime import caller, connected, execute
from atlas.engine.hosts.hosts import Host, add_host, find_host, list_hosts
from atlas.engine.hosts.server_instances import (
    ServerInstance,
    add_server_instance,
    edit_server_instance,
    find_server_instance,
    list_server_instances,
    remove_server_instance,
)
from atlas.engine.tenants import find_tenant
from atlas.errors import FieldError, InvalidInput
from atlas.settings import Settings

app = typer.Typer(help="Machines that fetch their own jobs.", no_args_is_help=True, add_completion=False)
instances_app = typer.Typer(help="The server instances on hosts.", no_args_is_help=True, add_completion=False)
app.add_typer(instances_app, name="instance")

Tenant = Annotated[str, typer.Option(help="The host's tenant, by slug or id.")]
Instance = Annotated[str, typer.Argument(metavar="INSTANCE", help="The server instance, by name or id.")]


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="The host's name.")],
    tenant: Tenant = "system",
    instance: Annotated[list[str] | None, typer.Option(help="A server instance on it; may be repeated.")] = None,
    json: Json = False,
) -> None:
    """Add a host, or more server instances to a host that exists."""

    async def work(settings: Settings) -> tuple[Host, list[Any]]:
        async with connected(settings) as conn, conn.transaction():
            tenant_id = (await find_tenant(conn, tenant)).id
            existing = {host.name for host in await list_hosts(conn, tenant_id=tenant_id)}
            if name in existing and instance:
                host = await find_host(conn, name, tenant_id=tenant_id)
            else:
                host = await add_host(conn, tenant_id=tenant_id, name=name, actor=caller())
            for each in instance or []:
                await add_server_instance(conn, host, name=each, actor=caller())
            return host, await list_server_instances(conn, host.id)

    host, instances = execute(work)
    lines = [f"Host {host.name} has the id {host.id}."]
    lines += [f"Its server instance {one.name} has the id {one.id}." for one in instances]
    say({**asdict(host), "instances": instances}, "\n".join(lines), json=json)


@app.command("list")
def show(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant, by slug or id.")] = None,
    json: Json = False,
) -> None:
    """List the hosts."""

    async def work(settings: Settings) -> list[tuple[Host, list[ServerInstance]]]:
        async with connected(settings) as conn:
            hosts = await list_hosts(conn, tenant_id=None if tenant is None else (await find_tenant(conn, tenant)).id)
            return [(host, await list_server_instances(conn, host.id)) for host in hosts]

    found = execute(work)
    rows = [
        (host.name, "yes" if host.is_active else "no", host.last_seen_at, _with_ids(instances), host.id)
        for host, instances in found
    ]
    shown = table(("NAME", "ACTIVE", "LAST SEEN", "INSTANCES", "ID"), rows) if rows else "There are no hosts."
    say({"hosts": [{**asdict(host), "instances": instances} for host, instances in found]}, shown, json=json)


@instances_app.command("edit")
def edit_instance(
    instance: Instance,
    tenant: Tenant = "system",
    name: Annotated[str | None, typer.Option(help="Its new name.")] = None,
    host: Annotated[str | None, typer.Option(help="The host that it moves to, by name or id.")] = None,
    json: Json = False,
) -> None:
    """Rename a server instance, or move it and its queued jobs to another host."""
    if name is None and host is None:
        raise InvalidInput("The command", [FieldError("instance", "give what to change: --name or --host")])

    async def work(settings: Settings) -> tuple[ServerInstance, Host]:
        async with connected(settings) as conn, conn.transaction():
            tenant_id = (await find_tenant(conn, tenant)).id
            found = await find_server_instance(conn, instance, tenant_id=tenant_id)
            its_host = await find_host(conn, host or str(found.host_id), tenant_id=tenant_id)
            return await edit_server_instance(conn, found, name=name, host_id=its_host.id, actor=caller()), its_host

    edited, its_host = execute(work)
    say(edited, f"Server instance {edited.name} is changed. It is on {its_host.name}.", json=json)


@instances_app.command("remove")
def remove_instance(instance: Instance, tenant: Tenant = "system", json: Json = False) -> None:
    """Remove a server instance. It is refused while jobs of it are queued or run."""

    async def work(settings: Settings) -> ServerInstance:
        async with connected(settings) as conn:
            found = await find_server_instance(conn, instance, tenant_id=(await find_tenant(conn, tenant)).id)
            return await remove_server_instance(conn, found, actor=caller())

    removed = execute(work)
    say(removed, f"Server instance {removed.name} is removed.", json=json)


def _with_ids(instances: list[ServerInstance]) -> str:
    return "\n".join(f"{one.name} {one.id}" for one in instances)
