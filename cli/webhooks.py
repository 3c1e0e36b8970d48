"""`atlas webhooks`: subscriptions of tenants to events, delivered over HTTP."""

from dataclasses import asdict
from typing import Annotated
from uuid import UUID

import typer

from atlas.cli.output import Json, say, table
from atlas.cli.parameters import read_id
from atlas.cli.runtime import caller, connected, execute
from atlas.engine.tenants import find_tenant
from atlas.engine.webhooks.deliver import send_test
from atlas.engine.webhooks.store import Webhook, add_webhook, find_webhook, list_webhooks, remove_webhook
from atlas.settings import Settings

app = typer.Typer(help="Send events to the servers of tenants.", no_args_is_help=True, add_completion=False)

WebhookId = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id.")]


@app.command("add")
def add(
    url: Annotated[str, typer.Argument(help="The address to send to.")],
    tenant: Annotated[str, typer.Option(help="Whose events they are, by slug or id.")],
    event: Annotated[list[str], typer.Option(help="job.failed, job.*, run.succeeded, * …; give it several times.")],
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    json: Json = False,
) -> None:
    """Add a webhook and print its signing secret once."""

    async def work(settings: Settings) -> tuple[Webhook, str]:
        async with connected(settings) as conn:
            owner = (await find_tenant(conn, tenant)).id
            return await add_webhook(conn, owner, url, event, description=description, actor=caller())

    webhook, clear = execute(work)
    message = f"Webhook {webhook.id} is added. Its secret is not shown again:\n{clear}"
    say({**asdict(webhook), "secret": clear}, message, json=json)


@app.command("list")
def show_list(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None, json: Json = False
) -> None:
    """List the webhooks, without their secrets."""

    async def work(settings: Settings) -> list[Webhook]:
        async with connected(settings) as conn:
            owner = None if tenant is None else (await find_tenant(conn, tenant)).id
            found: list[Webhook] = []
            while page := await list_webhooks(conn, tenant_id=owner, after=found[-1].id if found else None):
                found += page
            return found

    found = execute(work)
    rows = [(one.id, one.url, ", ".join(one.events), _state(one)) for one in found]
    say({"webhooks": found}, table(("ID", "URL", "EVENTS", "STATE"), rows), json=json)


@app.command("show")
def show_one(webhook_id: WebhookId, json: Json = False) -> None:
    """Show a webhook. `atlas jobs list` shows its deliveries: jobs of the type HTTP_CALL."""

    async def work(settings: Settings) -> Webhook:
        async with connected(settings) as conn:
            return await find_webhook(conn, read_id("ID", webhook_id))

    webhook = execute(work)
    shown = {name: value for name, value in asdict(webhook).items() if value not in (None, "")}
    say(webhook, table(("", ""), [*shown.items(), ("state", _state(webhook))]), json=json)


@app.command("remove")
def remove(webhook_id: WebhookId, json: Json = False) -> None:
    """Remove a webhook. The jobs of its deliveries stay."""

    async def work(settings: Settings) -> Webhook:
        async with connected(settings) as conn:
            return await remove_webhook(conn, read_id("ID", webhook_id), actor=caller())

    removed = execute(work)
    say(removed, f"Webhook {removed.id} to {removed.url} is removed.", json=json)


@app.command("test")
def send(webhook_id: WebhookId, json: Json = False) -> None:
    """Send the event webhook.test once."""

    async def work(settings: Settings) -> UUID:
        async with connected(settings) as conn:
            return await send_test(conn, await find_webhook(conn, read_id("ID", webhook_id)), actor=caller())

    job_id = execute(work)
    say({"job_id": job_id}, f"Job {job_id} delivers it; `atlas jobs show {job_id}` shows the response.", json=json)


def _state(webhook: Webhook) -> str:
    if not webhook.is_enabled:
        return f"disabled: {webhook.disabled_reason}" if webhook.disabled_reason else "disabled"
    return "enabled" if webhook.failing_since is None else f"failing since {webhook.failing_since:%Y-%m-%d %H:%M:%S}"
