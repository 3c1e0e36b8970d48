"""Routes for webhooks: the subscriptions of a tenant to what happens to its jobs, runs and approvals."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import ConfigDict, Field, StringConstraints

from atlas.api.access.roles import MANAGERS, READERS
from atlas.api.http.etags import IfMatch
from atlas.api.models.common import Body, Flag, Id, Whole
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.webhooks.address import MAX_ADDRESS_LENGTH
from atlas.engine.webhooks.deliver import send_test
from atlas.engine.webhooks.events import PATTERNS
from atlas.engine.webhooks.signing_secrets import DEFAULT_OVERLAP_SECONDS, MAX_OVERLAP_SECONDS
from atlas.engine.webhooks.store import (
    add_webhook,
    edit_webhook,
    find_webhook,
    list_webhooks,
    remove_webhook,
    rotate_webhook_secret,
)
from atlas.models import Page
from atlas.models.webhooks import CreatedWebhook, TestDelivery, Webhook

_PORT = r":(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3})"
_URL = rf"^https?://[A-Za-z0-9._-]+(?:{_PORT})?(?:[/?][!-~]*)?$"

router = APIRouter(prefix=f"{PREFIX}/webhooks", route_class=GuardedRoute, tags=["webhooks"])

Url = Annotated[str, StringConstraints(pattern=_URL, max_length=MAX_ADDRESS_LENGTH)]
EventName = Annotated[str, Field(json_schema_extra={"enum": list(PATTERNS)})]
EventNames = Annotated[list[EventName], Field(min_length=1, max_length=50)]
Description = Annotated[str, StringConstraints(max_length=200)]


class WebhookChange(Body):
    """What to change about a webhook."""

    url: Url | None = None
    events: EventNames | None = None
    description: Description | None = None
    is_enabled: Flag | None = None

    def described(self) -> dict[str, Any]:
        """The fields as the engine reads them. Null changes nothing."""
        return {name: value for name, value in self.given().items() if value is not None}


class NewWebhook(Body):
    """A new subscription: where to send what."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://shop.example/atlas", "events": ["job.failed", "run.*"]}]}
    )

    url: Url
    events: EventNames
    description: Description = ""


class Rotation(Body):
    """For how long the old secret holds beside the new one."""

    overlap_seconds: Annotated[Whole, Field(ge=0, le=MAX_OVERLAP_SECONDS)] = DEFAULT_OVERLAP_SECONDS


@router.get("", operation_id="list_webhooks", summary="List the webhooks, oldest first")
@requires(*READERS)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[Webhook]:
    """Without their secrets."""
    return await list_page(call, list_webhooks, cursor, limit, tenant_id=call.tenant_id)


@router.post("", operation_id="create_webhook", status_code=201, summary="Add a webhook")
@requires(*MANAGERS, etag=True, no_key="a webhook's secret is returned once and never stored in clear")
async def create(body: NewWebhook, call: Calling) -> CreatedWebhook:
    """It gets what happens from now on. The response shows the secret, once."""
    async with call.transaction() as conn:
        webhook, clear = await add_webhook(
            conn, call.home, body.url, body.events, description=body.description, actor=call.actor
        )
    return CreatedWebhook(**dict(call.tagged(webhook)), secret=clear)


@router.get("/{webhook_id:uuid}", operation_id="get_webhook", summary="One webhook")
@requires(*READERS, etag=True)
async def show_one(webhook_id: Id, call: Calling) -> Webhook:
    """With whether its deliveries fail. They are the jobs whose correlation id is `webhook:<id>`."""
    async with call.transaction(read_only=True) as conn:
        webhook = await find_webhook(conn, webhook_id, tenant_id=call.tenant_id)
    return call.tagged(webhook)


@router.patch("/{webhook_id:uuid}", operation_id="edit_webhook", summary="Change a webhook")
@requires(*MANAGERS, etag=True)
async def edit(webhook_id: Id, body: WebhookChange, call: Calling, if_match: IfMatch) -> Webhook:
    """Fields that are not sent stay as they are. Enabled again, it gets what happens from then on."""
    async with call.transaction() as conn:
        webhook = await edit_webhook(
            conn, webhook_id, body.described(), actor=call.actor, tenant_id=call.tenant_id, if_match=if_match
        )
    return call.tagged(webhook)


@router.post(
    "/{webhook_id:uuid}/rotate-secret", operation_id="rotate_webhook_secret", summary="Give a webhook another secret"
)
@requires(*MANAGERS, no_key="a webhook's secret is returned once and never stored in clear")
async def rotate(webhook_id: Id, body: Rotation, call: Calling) -> CreatedWebhook:
    """The response shows the new secret, once. While the old one holds, messages carry a signature of each."""
    async with call.transaction() as conn:
        webhook, clear = await rotate_webhook_secret(
            conn, webhook_id, actor=call.actor, tenant_id=call.tenant_id, overlap_seconds=body.overlap_seconds
        )
    return CreatedWebhook(**dict(webhook), secret=clear)


@router.delete("/{webhook_id:uuid}", operation_id="remove_webhook", status_code=204, summary="Remove a webhook")
@requires(*MANAGERS)
async def remove(webhook_id: Id, call: Calling, if_match: IfMatch) -> None:
    """Deliveries that wait fail. The jobs of earlier ones stay."""
    async with call.transaction() as conn:
        await remove_webhook(conn, webhook_id, actor=call.actor, tenant_id=call.tenant_id, if_match=if_match)


@router.post(
    "/{webhook_id:uuid}/test", operation_id="test_webhook", status_code=201, summary="Send a test to a webhook"
)
@requires(*MANAGERS)
async def send_one(webhook_id: Id, call: Calling) -> TestDelivery:
    """One delivery of the event `webhook.test`, which is not tried again."""
    async with call.transaction() as conn:
        webhook = await find_webhook(conn, webhook_id, tenant_id=call.tenant_id)
        return TestDelivery(job_id=await send_test(conn, webhook, actor=call.actor))
