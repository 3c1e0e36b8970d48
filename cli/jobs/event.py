"""`atlas event`: publishes events."""

from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.connection.connect import on_atlas
from atlas.cli.connection.over_http_rows import row_of
from atlas.cli.terminal.output import Json, say
from atlas.cli.terminal.parameters import OBJECT, read_object
from atlas.engine.workflows.events import Published

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="Publish events.", no_args_is_help=True, add_completion=False)


@app.callback()
def _events() -> None:
    """Publish events."""


@app.command("publish")
def publish(
    name: Annotated[str, typer.Argument(help="The event's name, such as order.paid.")],
    tenant: Annotated[
        str | None,
        typer.Option(help="The tenant of the event, by slug or id; that of the token, or system, if not given."),
    ] = None,
    context: Annotated[str, typer.Option(metavar=OBJECT, help="Facts about the event, a JSON object.")] = "{}",
    correlation_id: Annotated[str | None, typer.Option(help="Passed on to the jobs and runs it starts.")] = None,
    json: Json = False,
) -> None:
    """Publish an event: runs that wait for it wake, and triggers on its name fire."""

    async def work(atlas: "AtlasClient") -> Published:
        facts = read_object("--context", context)
        return row_of(Published, await atlas.publish_event(name, facts, correlation_id=correlation_id))

    published = on_atlas(work, tenant=tenant)
    say(
        {"id": published.id, "name": name, "woken": published.woken},
        f"Event {published.id} is published; {published.woken} waiting runs were woken.",
        json=json,
    )
