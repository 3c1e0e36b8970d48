"""`atlas event`: publishes events, and lists them."""

from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.connection.client_lists import row_of, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, format_age, say, table
from atlas.cli.terminal.parameters import OBJECT, Limit, TenantFilter, read_object
from atlas.engine.workflows.events import Published

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="Publish events, and list them.", no_args_is_help=True, add_completion=False)


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


@app.command("list")
def show_list(
    name: Annotated[str | None, typer.Option(help="Only events of this name; `order.*` for all under it.")] = None,
    correlation_id: Annotated[str | None, typer.Option(help="Only those with this correlation id.")] = None,
    tenant: TenantFilter = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List events, newest first."""
    page, names = with_names(
        lambda atlas: atlas.list_events(name=name, correlation_id=correlation_id).page(limit=limit), tenant=tenant
    )
    rows = [
        (
            *(event.name, names.slug(event.tenant_id), event.id, event.run_id, event.correlation_id),
            *(event.created_by, format_age(event.created_at)),
        )
        for event in page.items
    ]
    columns = ("NAME", "TENANT", "ID", "RUN", "CORRELATION", "BY", "AGE")
    text = table(columns, rows) if rows else "There are no such events."
    documents = [names.document(event) for event in page.items]
    say({"events": documents}, text, json=json)
