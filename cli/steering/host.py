"""`atlas host`: machines that fetch their own jobs."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.connection.client_lists import find_named, tenant_names, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, say, table
from atlas.errors import FieldError, InvalidInput
from atlas.models.hosts import Host, ServerInstance

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="Machines that fetch their own jobs over HTTP.", no_args_is_help=True, add_completion=False)
instances_app = typer.Typer(help="The server instances on hosts.", no_args_is_help=True, add_completion=False)
app.add_typer(instances_app, name="instance")

Tenant = Annotated[
    str | None, typer.Option(help="The host's tenant, by slug or id; that of the token, or system, if not given.")
]
HostName = Annotated[str, typer.Argument(metavar="HOST", help="The host, by name or id, or the beginning of its id.")]
Instance = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="The server instance, by name or id, or the beginning of its id.")
]


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="The host's name.")],
    tenant: Tenant = None,
    instance: Annotated[list[str] | None, typer.Option(help="A server instance on it; may be repeated.")] = None,
    json: Json = False,
) -> None:
    """Add a host, or more server instances to a host that exists; repeated, it adds those that are missing."""

    async def work(atlas: "AtlasClient") -> tuple[Host, list[Any], TenantNames]:
        existing = [host async for host in atlas.list_hosts() if host.name == name] if instance else []
        host = existing[0] if existing else await atlas.create_host(name)
        there = {server.name for server in await _instances(atlas, host.id)} if existing else set()
        for instance_name in dict.fromkeys(instance or []):
            if instance_name not in there:
                await atlas.create_server(host.id, instance_name)
        return host, await _instances(atlas, host.id), await tenant_names(atlas)

    host, instances, names = on_atlas(work, tenant=tenant)
    lines = [f"Host {host.name} has the id {host.id}."]
    lines += [f"Its server instance {instance.name} has the id {instance.id}." for instance in instances]
    say({**names.document(host), "instances": instances}, "\n".join(lines), json=json)


@app.command("list")
def show(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant, by slug or id.")] = None,
    json: Json = False,
) -> None:
    """List the hosts."""

    async def work(atlas: "AtlasClient") -> tuple[list[tuple[Host, list[ServerInstance]]], TenantNames]:
        hosts = [host async for host in atlas.list_hosts()]
        return [(host, await _instances(atlas, host.id)) for host in hosts], await tenant_names(atlas)

    listed, names = on_atlas(work, tenant=tenant)
    rows = [
        (
            *(host.name, names.slug(host.tenant_id), "yes" if host.is_active else "no", host.last_seen_at),
            *(_with_ids(instances), host.id),
        )
        for host, instances in listed
    ]
    columns = ("NAME", "TENANT", "ACTIVE", "LAST SEEN", "INSTANCES", "ID")
    documents = [{**names.document(host), "instances": instances} for host, instances in listed]
    say({"hosts": documents}, table(columns, rows) if rows else "There are no hosts.", json=json)


@app.command("edit")
def edit(
    host: HostName,
    tenant: Tenant = None,
    name: Annotated[str | None, typer.Option(help="Its new name.")] = None,
    fetch: Annotated[bool | None, typer.Option("--enable/--disable", help="Whether it fetches jobs.")] = None,
    json: Json = False,
) -> None:
    """Rename a host, stop it from fetching jobs, or let it fetch them again."""
    options = {"name": name, "is_active": fetch}
    changes: dict[str, Any] = {field: value for field, value in options.items() if value is not None}
    if not changes:
        raise InvalidInput("The command", [FieldError("host", "give what to change: --name, --enable or --disable")])

    async def work(atlas: "AtlasClient") -> Host:
        return await atlas.edit_host((await find_named("host", host, atlas.list_hosts())).id, **changes)

    edited, names = with_names(work, tenant=tenant)
    state = "fetches jobs" if edited.is_active else "fetches no jobs"
    say(names.document(edited), f"Host {edited.name} updated. It {state}.", json=json)


@app.command("remove")
def remove(host: HostName, tenant: Tenant = None, json: Json = False) -> None:
    """Remove a host. It is refused while the host has server instances, or queued or running jobs."""

    async def work(atlas: "AtlasClient") -> Host:
        row = await find_named("host", host, atlas.list_hosts())
        await atlas.remove_host(row.id)
        return row

    removed, names = with_names(work, tenant=tenant)
    say(names.document(removed), f"Host {removed.name} removed.", json=json)


@instances_app.command("edit")
def edit_instance(
    instance: Instance,
    tenant: Tenant = None,
    name: Annotated[str | None, typer.Option(help="Its new name.")] = None,
    host: Annotated[
        str | None, typer.Option(help="The host that it moves to, by name or id, or the beginning of its id.")
    ] = None,
    json: Json = False,
) -> None:
    """Rename a server instance, or move it and its queued jobs to another host."""
    if name is None and host is None:
        raise InvalidInput("The command", [FieldError("instance", "give what to change: --name or --host")])

    async def work(atlas: "AtlasClient") -> tuple[ServerInstance, Host, TenantNames]:
        row = await _find_listed_instance(atlas, instance)
        changes: dict[str, Any] = {} if name is None else {"name": name}
        if host is not None:
            changes["host_id"] = (await find_named("host", host, atlas.list_hosts())).id
        edited = await atlas.edit_server(row.host_id, row.id, **changes)
        its_host = await atlas.get_host(edited.host_id)
        return edited, its_host, await tenant_names(atlas)

    edited, its_host, names = on_atlas(work, tenant=tenant)
    say(names.document(edited), f"Server instance {edited.name} updated. It is on {its_host.name}.", json=json)


@instances_app.command("remove")
def remove_instance(instance: Instance, tenant: Tenant = None, json: Json = False) -> None:
    """Remove a server instance. It is refused while its jobs are queued or running."""

    async def work(atlas: "AtlasClient") -> tuple[ServerInstance, TenantNames]:
        row = await _find_listed_instance(atlas, instance)
        await atlas.remove_server(row.host_id, row.id)
        return row, await tenant_names(atlas)

    removed, names = on_atlas(work, tenant=tenant)
    say(names.document(removed), f"Server instance {removed.name} removed.", json=json)


async def _instances(atlas: "AtlasClient", host_id: UUID) -> list[ServerInstance]:
    return [server async for server in atlas.list_servers(host_id)]


async def _find_listed_instance(atlas: "AtlasClient", text: str) -> ServerInstance:
    async def all_of_them() -> AsyncIterator[ServerInstance]:
        async for host in atlas.list_hosts():
            for instance in await _instances(atlas, host.id):
                yield instance

    return await find_named("server instance", text, all_of_them())


def _with_ids(instances: list[ServerInstance]) -> str:
    return "\n".join(f"{instance.name} {instance.id}" for instance in instances)
