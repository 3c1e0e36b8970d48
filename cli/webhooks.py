"""`atlas webhooks`: subscriptions of tenants to events, delivered over HTTP."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from atlas.cli.connect import either
from atlas.cli.ids import find_id
from atlas.cli.output import Json, say, table
from atlas.cli.over_http_rows import find_id_over_http, row_of, rows_of, tenant_names
from atlas.cli.runtime import caller, connected
from atlas.cli.tenant_names import TenantNames, names_of, tenant_id
from atlas.engine.webhooks.deliver import send_test
from atlas.engine.webhooks.store import add_webhook, find_webhook, list_webhooks, remove_webhook
from atlas.models.webhooks import Webhook
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.client import AtlasClient

app = typer.Typer(help="Send events to the servers of tenants.", no_args_is_help=True, add_completion=False)

WebhookId = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id, or its beginning.")]


@app.command("add")
def add(
    url: Annotated[str, typer.Argument(help="The address to send to.")],
    tenant: Annotated[str, typer.Option(help="Whose events they are, by slug or id.")],
    event: Annotated[list[str], typer.Option(help="job.failed, job.*, run.succeeded, * …; give it several times.")],
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    json: Json = False,
) -> None:
    """Add a webhook and print its signing secret once."""

    async def work(settings: Settings) -> tuple[Webhook, str, TenantNames]:
        async with connected(settings) as conn:
            owner = await tenant_id(conn, tenant)
            webhook, clear = await add_webhook(conn, owner, url, event, description=description, actor=caller())
            return webhook, clear, await names_of(conn, [webhook])

    async def over_http(atlas: "AtlasClient") -> tuple[Webhook, str, TenantNames]:
        made = await atlas.create_webhook(url, event, description=description)
        return row_of(Webhook, made), made.secret, await tenant_names(atlas)

    webhook, clear, names = either(work, over_http, tenant=tenant)
    message = f"Webhook {webhook.id} is added. Its secret is not shown again:\n{clear}"
    say({**names.document(webhook), "secret": clear}, message, json=json)


@app.command("list")
def show_list(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")] = None, json: Json = False
) -> None:
    """List the webhooks, without their secrets."""

    async def work(settings: Settings) -> tuple[list[Webhook], TenantNames]:
        async with connected(settings) as conn:
            owner = await tenant_id(conn, tenant)
            found: list[Webhook] = []
            while page := await list_webhooks(conn, tenant_id=owner, after=found[-1].id if found else None):
                found += page
            return found, await names_of(conn, found)

    async def over_http(atlas: "AtlasClient") -> tuple[list[Webhook], TenantNames]:
        return await rows_of(Webhook, atlas.list_webhooks()), await tenant_names(atlas)

    found, names = either(work, over_http, tenant=tenant)
    rows = [(one.id, names.slug(one.tenant_id), one.url, ", ".join(one.events), _state(one)) for one in found]
    documents = [names.document(one) for one in found]
    say({"webhooks": documents}, table(("ID", "TENANT", "URL", "EVENTS", "STATE"), rows), json=json)


@app.command("show")
def show_one(webhook_id: WebhookId, json: Json = False) -> None:
    """Show a webhook. `atlas jobs list` shows its deliveries: jobs of the type HTTP_CALL."""

    async def work(settings: Settings) -> tuple[Webhook, TenantNames]:
        async with connected(settings) as conn:
            found = await find_webhook(conn, await find_id(conn, "webhook", webhook_id))
            return found, await names_of(conn, [found])

    async def over_http(atlas: "AtlasClient") -> tuple[Webhook, TenantNames]:
        id = await find_id_over_http(atlas, "webhook", webhook_id)
        return row_of(Webhook, await atlas.get_webhook(id)), await tenant_names(atlas)

    webhook, names = either(work, over_http)
    document = names.document(webhook)
    shown = {name: value for name, value in document.items() if value not in (None, "")}
    say(document, table(("", ""), [*shown.items(), ("state", _state(webhook))]), json=json)


@app.command("remove")
def remove(webhook_id: WebhookId, json: Json = False) -> None:
    """Remove a webhook. The jobs of its deliveries stay."""

    async def work(settings: Settings) -> tuple[Webhook, TenantNames]:
        async with connected(settings) as conn:
            removed = await remove_webhook(conn, await find_id(conn, "webhook", webhook_id), actor=caller())
            return removed, await names_of(conn, [removed])

    async def over_http(atlas: "AtlasClient") -> tuple[Webhook, TenantNames]:
        found = await atlas.get_webhook(await find_id_over_http(atlas, "webhook", webhook_id))
        await atlas.remove_webhook(found.id)
        return row_of(Webhook, found), await tenant_names(atlas)

    removed, names = either(work, over_http)
    say(names.document(removed), f"Webhook {removed.id} to {removed.url} is removed.", json=json)


@app.command("test")
def send(webhook_id: WebhookId, json: Json = False) -> None:
    """Send the event webhook.test once."""

    async def work(settings: Settings) -> UUID:
        async with connected(settings, checks_inputs=True) as conn:
            found = await find_webhook(conn, await find_id(conn, "webhook", webhook_id))
            return await send_test(conn, found, actor=caller())

    async def over_http(atlas: "AtlasClient") -> UUID:
        return (await atlas.test_webhook(await find_id_over_http(atlas, "webhook", webhook_id))).job_id

    job_id = either(work, over_http)
    say({"job_id": job_id}, f"Job {job_id} delivers it; `atlas jobs show {job_id}` shows the response.", json=json)


def _state(webhook: Webhook) -> str:
    if not webhook.is_enabled:
        return f"disabled: {webhook.disabled_reason}" if webhook.disabled_reason else "disabled"
    return "enabled" if webhook.failing_since is None else f"failing since {webhook.failing_since:%Y-%m-%d %H:%M:%S}"
