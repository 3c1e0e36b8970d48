"""`atlas hooks`: addresses that others post signed messages to, which become events."""

from typing import Annotated

import typer

from atlas.cli.connection.client_lists import all_of, find_row, remove_row, with_names
from atlas.cli.steering.webhooks import OverlapHours, rotate_secret
from atlas.cli.terminal.facts import facts_table
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.terminal.parameters import TenantFilter

app = typer.Typer(help="Receive signed messages as events.", no_args_is_help=True, add_completion=False)

HookId = Annotated[str, typer.Argument(metavar="ID", help="The hook's id, or its beginning.")]
NO_HOOKS = "There are no hooks. Add one with `atlas hooks add EVENT --tenant SLUG`."


@app.command("add")
def add(
    event: Annotated[str, typer.Argument(help="The name of the event that a message becomes.")],
    tenant: Annotated[str, typer.Option(help="The tenant of the event, by slug or id.")],
    description: Annotated[str, typer.Option(help="Who sends the messages.")] = "",
    json: Json = False,
) -> None:
    """Add an inbound hook, and print its address and its signing secret once."""
    hook, names = with_names(lambda atlas: atlas.create_inbound_hook(event, description=description), tenant=tenant)
    message = f"Hook {hook.id} added at {hook.path} of the API. Its secret is not shown again:\n{hook.secret}"
    say(names.document(hook), message, json=json)


@app.command("rotate-secret")
def rotate(hook_id: HookId, overlap_hours: OverlapHours = 24, json: Json = False) -> None:
    """Replace an inbound hook's signing secret and print the new one once."""
    rotate_secret("hook", hook_id, overlap_hours, lambda atlas: atlas.rotate_inbound_hook_secret, json=json)


@app.command("list")
def show(tenant: TenantFilter = None, json: Json = False) -> None:
    """List the inbound hooks, without their secrets."""
    hooks, names = with_names(lambda atlas: all_of(atlas.list_inbound_hooks()), tenant=tenant)
    rows = [(hook.id, names.slug(hook.tenant_id), hook.path, hook.event_name, hook.description) for hook in hooks]
    columns = ("ID", "TENANT", "PATH", "EVENT", "DESCRIPTION")
    say({"hooks": [names.document(hook) for hook in hooks]}, table(columns, rows) if rows else NO_HOOKS, json=json)


@app.command("show")
def show_one(hook_id: HookId, json: Json = False) -> None:
    """Show an inbound hook: its address, its event and who added it, without its secret."""
    hook, names = with_names(lambda atlas: find_row(atlas, "hook", hook_id, atlas.get_inbound_hook))
    document = names.document(hook)
    fields = ("id", "tenant", "path", "event_name", "description", "created_by", "created_at")
    say(document, facts_table(document, *fields), json=json)


@app.command("remove")
def remove(hook_id: HookId, json: Json = False) -> None:
    """Remove an inbound hook. The events that it received stay."""
    removed, names = with_names(
        lambda atlas: remove_row(atlas, "hook", hook_id, atlas.get_inbound_hook, atlas.remove_inbound_hook)
    )
    say(names.document(removed), f"Hook {removed.id} ({removed.path}) removed.", json=json)
