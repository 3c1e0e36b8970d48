"""`atlas event`: saying that something happened."""

from typing import Annotated

import typer

from atlas.cli.output import Json, say
from atlas.cli.parameters import OBJECT, read_object
from atlas.cli.runtime import caller, connected, execute
from atlas.engine.tenants import find_tenant
from atlas.engine.workflows import Published, publish_event
from atlas.settings import Settings

app = typer.Typer(help="Say that something happened.", no_args_is_help=True, add_completion=False)


@app.callback()
def _events() -> None:
    """Say that something happened."""


@app.command("publish")
def publish(
    name: Annotated[str, typer.Argument(help="The event's name, such as order.paid.")],
    tenant: Annotated[str, typer.Option(help="Whose event it is.")] = "system",
    context: Annotated[str, typer.Option(metavar=OBJECT, help="What is known about it, a JSON object.")] = "{}",
    correlation_id: Annotated[str | None, typer.Option(help="Carried by what it starts.")] = None,
    json: Json = False,
) -> None:
    """Publish an event: runs that wait for it wake, and triggers on its name fire."""

    async def work(settings: Settings) -> Published:
        async with connected(settings) as conn:
            owner = await find_tenant(conn, tenant)
            return await publish_event(
                conn, owner.id, name, read_object("--context", context), actor=caller(), correlation_id=correlation_id
            )

    told = execute(work)
    say(
        {"id": told.id, "name": name, "woken": told.woken},
        f"Event {told.id} is published; {told.woken} waiting runs were woken.",
        json=json,
    )
