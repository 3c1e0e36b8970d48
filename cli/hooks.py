"""`atlas hooks`: addresses that others post signed messages to, which become events."""

from dataclasses import asdict
from typing import Annotated

import typer

from atlas.cli.output import Json, say, table
from atlas.cli.parameters import read_id
from atlas.cli.runtime import caller, connected, execute
from atlas.engine.tenants import find_tenant
from atlas.engine.webhooks.inbound import InboundHook, add_hook, list_hooks, remove_hook
from atlas.settings import Settings

app = typer.Typer(help="Receive signed messages as events.", no_args_is_help=True, add_completion=False)


@app.command("add")
def add(
    event: Annotated[str, typer.Argument(help="The name of the event that a message becomes.")],
    tenant: Annotated[str, typer.Option(help="Whose event it is, by slug or id.")],
    description: Annotated[str, typer.Option(help="Who sends the messages.")] = "",
    json: Json = False,
) -> None:
    """Add an address and print its signing secret once."""

    async def work(settings: Settings) -> tuple[InboundHook, str]:
        async with connected(settings) as conn:
            owner = (await find_tenant(conn, tenant)).id
            return await add_hook(conn, owner, event, description=description, actor=caller())

    hook, clear = execute(work)
    message = f"Hook {hook.id} is added at /hooks/{hook.key} of the API. Its secret is not shown again:\n{clear}"
    say({**asdict(hook), "secret": clear}, message, json=json)


@app.command("list")
def show(tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, json: Json = False) -> None:
    """List the addresses, without their secrets."""

    async def work(settings: Settings) -> list[InboundHook]:
        async with connected(settings) as conn:
            owner = None if tenant is None else (await find_tenant(conn, tenant)).id
            found: list[InboundHook] = []
            while page := await list_hooks(conn, tenant_id=owner, after=found[-1].id if found else None):
                found += page
            return found

    found = execute(work)
    rows = [(one.id, f"/hooks/{one.key}", one.event_name, one.description) for one in found]
    say({"hooks": found}, table(("ID", "PATH", "EVENT", "DESCRIPTION"), rows), json=json)


@app.command("remove")
def remove(hook_id: Annotated[str, typer.Argument(metavar="ID", help="The hook's id.")], json: Json = False) -> None:
    """Remove an address. The events that came by it stay."""

    async def work(settings: Settings) -> InboundHook:
        async with connected(settings) as conn:
            return await remove_hook(conn, read_id("ID", hook_id), actor=caller())

    removed = execute(work)
    say(removed, f"Hook {removed.id} at /hooks/{removed.key} is removed.", json=json)
