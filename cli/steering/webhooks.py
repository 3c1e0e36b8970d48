"""`atlas webhooks`: subscriptions of tenants to events, delivered over HTTP."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer

from atlas.cli.connection.client_lists import all_of, find_row, remove_row, resolve_id, with_names
from atlas.cli.connection.connect import on_atlas
from atlas.cli.terminal.output import Json, say, table
from atlas.cli.terminal.parameters import TenantFilter
from atlas.models.webhooks import Webhook

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="Send events to the servers of tenants.", no_args_is_help=True, add_completion=False)

OverlapHours = Annotated[int, typer.Option(min=0, max=168, help="How long the old secret stays valid; 0 after a leak.")]
WebhookId = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id, or its beginning.")]
NO_WEBHOOKS = "There are no webhooks. Add one with `atlas webhooks add URL --tenant SLUG --event job.failed`."


@app.command("add")
def add(
    url: Annotated[str, typer.Argument(help="The address to send to.")],
    tenant: Annotated[str, typer.Option(help="The tenant whose events are sent, by slug or id.")],
    event: Annotated[list[str], typer.Option(help="An event or a pattern: job.failed, job.*, *. May be repeated.")],
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    json: Json = False,
) -> None:
    """Add a webhook and print its signing secret once."""
    webhook, names = with_names(lambda atlas: atlas.create_webhook(url, event, description=description), tenant=tenant)
    message = f"Webhook {webhook.id} added. Its secret is not shown again:\n{webhook.secret}"
    say(names.document(webhook), message, json=json)


@app.command("list")
def show_list(tenant: TenantFilter = None, json: Json = False) -> None:
    """List the webhooks, without their secrets."""
    webhooks, names = with_names(lambda atlas: all_of(atlas.list_webhooks()), tenant=tenant)
    rows = [
        (webhook.id, names.slug(webhook.tenant_id), webhook.url, ", ".join(webhook.events), _state(webhook))
        for webhook in webhooks
    ]
    documents = [names.document(webhook) for webhook in webhooks]
    columns = ("ID", "TENANT", "URL", "EVENTS", "STATE")
    say({"webhooks": documents}, table(columns, rows) if rows else NO_WEBHOOKS, json=json)


@app.command("show")
def show_one(webhook_id: WebhookId, json: Json = False) -> None:
    """Show a webhook. `atlas jobs list` shows its deliveries: jobs of the type HTTP_CALL."""
    webhook, names = with_names(lambda atlas: find_row(atlas, "webhook", webhook_id, atlas.get_webhook))
    document = names.document(webhook)
    fields = {name: value for name, value in document.items() if value not in (None, "")}
    say(document, table(("", ""), [*fields.items(), ("state", _state(webhook))]), json=json)


@app.command("edit")
def edit(
    webhook_id: WebhookId,
    url: Annotated[str | None, typer.Option(help="The address to send to.")] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(help="An event or a pattern. Replaces all events of the webhook. May be repeated."),
    ] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Whether events are sent.")] = None,
    json: Json = False,
) -> None:
    """Change a webhook, or enable it again."""
    given = {"url": url, "events": event, "description": description, "is_enabled": enable}
    changes: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("give at least one option to change")
    webhook, names = with_names(
        lambda atlas: find_row(atlas, "webhook", webhook_id, lambda id: atlas.edit_webhook(id, **changes))
    )
    say(names.document(webhook), f"Webhook {webhook.id} updated. It is {_state(webhook)}.", json=json)


@app.command("rotate-secret")
def rotate(webhook_id: WebhookId, overlap_hours: OverlapHours = 24, json: Json = False) -> None:
    """Replace a webhook's signing secret and print the new one once."""
    rotate_secret("webhook", webhook_id, overlap_hours, lambda atlas: atlas.rotate_webhook_secret, json=json)


@app.command("remove")
def remove(webhook_id: WebhookId, json: Json = False) -> None:
    """Remove a webhook. The jobs of its deliveries stay."""
    removed, names = with_names(
        lambda atlas: remove_row(atlas, "webhook", webhook_id, atlas.get_webhook, atlas.remove_webhook)
    )
    say(names.document(removed), f"Webhook {removed.id} ({removed.url}) removed.", json=json)


@app.command("test")
def send(webhook_id: WebhookId, json: Json = False) -> None:
    """Send the event webhook.test once."""

    async def work(atlas: "AtlasClient") -> UUID:
        return (await atlas.test_webhook(await resolve_id(atlas, "webhook", webhook_id))).job_id

    job_id = on_atlas(work)
    say({"job_id": job_id}, f"Job {job_id} delivers it; `atlas jobs show {job_id}` shows the response.", json=json)


def rotate_secret(
    noun: Literal["webhook", "hook"],
    named: str,
    hours: int,
    method: "Callable[[AtlasClient], Callable[..., Any]]",
    *,
    json: bool,
) -> None:
    """Give a webhook or an inbound hook another signing secret by a method of the client, and print it."""
    row, names = with_names(
        lambda atlas: find_row(atlas, noun, named, partial(method(atlas), overlap_seconds=hours * 3600))
    )
    old = f"holds for {hours} h" if hours else "no longer holds"
    message = f"{noun.capitalize()} {row.id} has another secret; the old one {old}. The new one is not shown again:"
    say(names.document(row), f"{message}\n{row.secret}", json=json)


def _state(webhook: Webhook) -> str:
    if not webhook.is_enabled:
        return f"disabled: {webhook.disabled_reason}" if webhook.disabled_reason else "disabled"
    return "enabled" if webhook.failing_since is None else f"failing since {webhook.failing_since:%Y-%m-%d %H:%M:%S}"
