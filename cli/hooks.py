"""`atlas hooks`: addresses that others post signed messages to, which become events."""

from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.connect import either
from atlas.cli.facts import facts_table
from atlas.cli.ids import find_id
from atlas.cli.output import Json, say, table
from atlas.cli.over_http_rows import find_id_over_http, row_of, rows_of, tenant_names
from atlas.cli.runtime import caller, connected
from atlas.cli.tenant_names import TenantNames, names_of, tenant_id
from atlas.engine.webhooks.inbound import add_hook, find_hook, list_hooks, remove_hook
from atlas.models.webhooks import InboundHook
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="Receive signed messages as events.", no_args_is_help=True, add_completion=False)

HookId = Annotated[str, typer.Argument(metavar="ID", help="The hook's id, or its beginning.")]
NO_HOOKS = "There are no hooks. Add one with `atlas hooks add EVENT --tenant SLUG`."


@app.command("add")
def add(
    event: Annotated[str, typer.Argument(help="The name of the event that a message becomes.")],
    tenant: Annotated[str, typer.Option(help="Whose event it is, by slug or id.")],
    description: Annotated[str, typer.Option(help="Who sends the messages.")] = "",
    json: Json = False,
) -> None:
    """Add an address and print its signing secret once."""

    async def work(settings: Settings) -> tuple[InboundHook, str, TenantNames]:
        async with connected(settings) as conn:
            owner = await tenant_id(conn, tenant)
            hook, clear = await add_hook(conn, owner, event, description=description, actor=caller())
            return hook, clear, await names_of(conn, [hook])

    async def over_http(atlas: "AtlasClient") -> tuple[InboundHook, str, TenantNames]:
        made = await atlas.create_inbound_hook(event, description=description)
        return row_of(InboundHook, made), made.secret, await tenant_names(atlas)

    hook, clear, names = either(work, over_http, tenant=tenant)
    message = f"Hook {hook.id} is added at {hook.path} of the API. Its secret is not shown again:\n{clear}"
    say({**names.document(hook), "secret": clear}, message, json=json)


@app.command("list")
def show(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")] = None, json: Json = False
) -> None:
    """List the addresses, without their secrets."""

    async def work(settings: Settings) -> tuple[list[InboundHook], TenantNames]:
        async with connected(settings) as conn:
            owner = await tenant_id(conn, tenant)
            found: list[InboundHook] = []
            while page := await list_hooks(conn, tenant_id=owner, after=found[-1].id if found else None):
                found += page
            return found, await names_of(conn, found)

    async def over_http(atlas: "AtlasClient") -> tuple[list[InboundHook], TenantNames]:
        return await rows_of(InboundHook, atlas.list_inbound_hooks()), await tenant_names(atlas)

    found, names = either(work, over_http, tenant=tenant)
    rows = [(one.id, names.slug(one.tenant_id), one.path, one.event_name, one.description) for one in found]
    columns = ("ID", "TENANT", "PATH", "EVENT", "DESCRIPTION")
    say({"hooks": [names.document(one) for one in found]}, table(columns, rows) if rows else NO_HOOKS, json=json)


@app.command("show")
def show_one(hook_id: HookId, json: Json = False) -> None:
    """Show an address, the event that its messages become, and who added it; without its secret."""

    async def work(settings: Settings) -> tuple[InboundHook, TenantNames]:
        async with connected(settings) as conn:
            found = await find_hook(conn, await find_id(conn, "hook", hook_id))
            return found, await names_of(conn, [found])

    async def over_http(atlas: "AtlasClient") -> tuple[InboundHook, TenantNames]:
        found = await atlas.get_inbound_hook(await find_id_over_http(atlas, "hook", hook_id))
        return row_of(InboundHook, found), await tenant_names(atlas)

    hook, names = either(work, over_http)
    document = names.document(hook)
    fields = ("id", "tenant", "path", "event_name", "description", "created_by", "created_at")
    say(document, facts_table(document, *fields), json=json)


@app.command("remove")
def remove(hook_id: HookId, json: Json = False) -> None:
    """Remove an address. The events that came by it stay."""

    async def work(settings: Settings) -> tuple[InboundHook, TenantNames]:
        async with connected(settings) as conn:
            removed = await remove_hook(conn, await find_id(conn, "hook", hook_id), actor=caller())
            return removed, await names_of(conn, [removed])

    async def over_http(atlas: "AtlasClient") -> tuple[InboundHook, TenantNames]:
        found = await atlas.get_inbound_hook(await find_id_over_http(atlas, "hook", hook_id))
        await atlas.remove_inbound_hook(found.id)
        return row_of(InboundHook, found), await tenant_names(atlas)

    removed, names = either(work, over_http)
    say(names.document(removed), f"Hook {removed.id} at {removed.path} is removed.", json=json)
