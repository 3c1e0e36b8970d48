"""`atlas jobs bulk`: actions on many jobs, which schedulers carry out.

What connects is imported by the command that runs: the help of `atlas jobs` needs none of it.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, format_age, say, table
from atlas.cli.terminal.parameters import Limit, TenantFilter

if TYPE_CHECKING:
    from atlas.client import AtlasClient
    from atlas.models.jobs import BulkAction

app = typer.Typer(help="Bulk actions on jobs: list and cancel them.", no_args_is_help=True, add_completion=False)


@app.command("list")
def show_list(
    tenant: TenantFilter = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List the actions on many jobs, newest first, and how far each is."""
    from atlas.cli.connection.client_lists import with_names

    page, names = with_names(lambda atlas: atlas.list_bulk_actions().page(limit=limit), tenant=tenant)
    rows = [
        (
            *(action.status, action.action, names.slug(action.tenant_id) or "all", action.changed, action.total),
            *(action.created_by, format_age(action.created_at), action.id),
        )
        for action in page.items
    ]
    columns = ("STATUS", "ACTION", "TENANT", "CHANGED", "OF", "BY", "AGE", "ID")
    text = table(columns, rows) if rows else "There are no bulk actions."
    say({"bulk_actions": [names.document(action) for action in page.items]}, text, json=json)


@app.command("cancel")
def cancel(
    action_id: Annotated[str, typer.Argument(metavar="ID", help="The action's id, or its beginning.")],
    json: Json = False,
) -> None:
    """Stop an action on many jobs. The jobs that it has changed stay changed."""

    async def work(atlas: "AtlasClient") -> "BulkAction":
        from atlas.cli.connection.client_lists import find_named

        action = await find_named("bulk action", action_id, atlas.list_bulk_actions(), name=None)
        return await atlas.cancel_bulk_action(action.id)

    action = on_atlas(work)
    say(dict(action), f"Bulk action {action.id} is {action.status}; it has changed {action.changed} jobs.", json=json)
