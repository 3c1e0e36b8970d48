"""`atlas tenant`: the customers of this installation."""

from typing import Annotated

import typer

from atlas.settings import Settings
from cli.output import Json, say, table
from cli.runtime import caller, connected, execute
from engine.tenants import Tenant, add_tenant, list_tenants

app = typer.Typer(help="The customers of this installation.", no_args_is_help=True)


@app.command("add")
def add(
    slug: Annotated[str, typer.Argument(help="Its short name: lower-case letters, digits and hyphens.")],
    name: Annotated[str | None, typer.Option(help="Its name for people; the slug where none is given.")] = None,
    timezone: Annotated[str, typer.Option(help="The clock its schedules follow.")] = "UTC",
    json: Json = False,
) -> None:
    """Add a tenant."""

    async def work(settings: Settings) -> Tenant:
        async with connected(settings) as conn:
            return await add_tenant(conn, slug=slug, name=name or slug, timezone=timezone, actor=caller())

    tenant = execute(work)
    say(tenant, f"Tenant {tenant.slug} is added.", json=json)


@app.command("list")
def show(json: Json = False) -> None:
    """List the tenants."""

    async def work(settings: Settings) -> list[Tenant]:
        async with connected(settings) as conn:
            return await list_tenants(conn)

    tenants = execute(work)
    rows = [(tenant.slug, tenant.name, tenant.timezone, tenant.id) for tenant in tenants]
    say({"tenants": tenants}, table(("SLUG", "NAME", "TIMEZONE", "ID"), rows), json=json)
