"""Webhooks: the subscriptions of tenants to events. Each change is audited; the signing secret is shown once."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from atlas.actors import Actor
from atlas.audit.changes import bare_url, values_of
from atlas.audit.record import Event, record
from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Connection
from atlas.db.prisma import data_of, page_filter, prisma_on
from atlas.db.statements import fetch, fetch_value, statement
from atlas.engine.access.quotas import require_room
from atlas.engine.access.tokens import require_valid_creator
from atlas.engine.etags import Precondition, require_match
from atlas.engine.validation import check_name
from atlas.engine.webhooks.address import check_address, check_reachable
from atlas.engine.webhooks.events import check_events
from atlas.engine.webhooks.signing_secrets import make_secret, rotate_secret
from atlas.errors import FieldError, InvalidInput, NotFound
from atlas.ids import new_id
from atlas.models.rows import from_row, from_rows
from atlas.models.webhooks import Webhook
from atlas.settings import load_settings

if TYPE_CHECKING:
    from atlas.generated.types import WebhookWhereInput

EDIT = statement("engine/webhooks/sql/edit_webhook.sql")
HOLD = statement("engine/webhooks/sql/hold_webhook.sql")


async def add_webhook(
    conn: Connection, tenant_id: UUID, url: str, events: Sequence[str], *, description: str = "", actor: Actor
) -> tuple[Webhook, str]:
    """Subscribe to what happens from now on. Returns the webhook and its signing secret, which is not shown again."""
    _check({"url": url, "events": events, "description": description})
    id = new_id()
    clear, sealed = make_secret(tenant_id, id)
    async with conn.transaction():
        await require_valid_creator(conn, actor)
        await require_room(conn, "webhooks", tenant_id)
        values = {"url": url, "events": list(events), "description": description}
        data = data_of(id=id, tenant_id=tenant_id, **values, **sealed, created_by=actor.id)
        webhook = from_row(Webhook, await prisma_on(conn).webhook.create(data))
        await record(conn, _event("WEBHOOK_ADDED", webhook, actor))
    return webhook, clear


async def edit_webhook(
    conn: Connection,
    webhook_id: UUID,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Precondition | None = None,
) -> Webhook:
    """Change some fields. Enabled again, it gets what happens from now on."""
    _check(changes)
    async with conn.transaction():
        # Its next messages may go to another address.
        await require_valid_creator(conn, actor)
        before = await _hold(conn, webhook_id, tenant_id, if_match)
        values = await values_of(conn, "webhook", webhook_id)
        edited = {name: changes.get(name, getattr(before, name)) for name in Webhook.editable}
        await fetch(conn, EDIT, id=webhook_id, **edited)
        webhook = await find_webhook(conn, webhook_id)
        changed = sorted(name for name in Webhook.editable if getattr(webhook, name) != getattr(before, name))
        await record(conn, _event("WEBHOOK_EDITED", webhook, actor, changed=changed), before=values)
    return webhook


async def rotate_webhook_secret(
    conn: Connection, webhook_id: UUID, *, actor: Actor, tenant_id: UUID | None = None, overlap_seconds: float
) -> tuple[Webhook, str]:
    """Make another secret and return it, once. Messages are signed with the old one too for some time more."""
    async with conn.transaction():
        await require_valid_creator(conn, actor)
        rotated = await rotate_secret(conn, "webhook", webhook_id, tenant_id, overlap_seconds)
        if rotated is None:
            raise _unknown(webhook_id)
        webhook = await find_webhook(conn, webhook_id)
        event = _event("WEBHOOK_SECRET_ROTATED", webhook, actor, overlap_seconds=overlap_seconds)
        await record(conn, event, before=rotated[1])
    return webhook, rotated[0]


async def remove_webhook(
    conn: Connection,
    webhook_id: UUID,
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Precondition | None = None,
) -> Webhook:
    """Remove a webhook and its secret. Deliveries that wait fail; the jobs stay."""
    async with conn.transaction():
        webhook = await _hold(conn, webhook_id, tenant_id, if_match)
        values = await values_of(conn, "webhook", webhook_id)
        await prisma_on(conn).webhook.delete({"id": str(webhook_id)})
        await record(conn, _event("WEBHOOK_REMOVED", webhook, actor), before=values)
    return webhook


async def find_webhook(conn: Connection, webhook_id: UUID, *, tenant_id: UUID | None = None) -> Webhook:
    """One webhook; NotFound if there is none, or if it is another tenant's."""
    webhooks = await list_webhooks(conn, tenant_id=tenant_id, id=webhook_id, limit=1)
    if not webhooks:
        raise _unknown(webhook_id)
    return webhooks[0]


async def list_webhooks(
    conn: Connection,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    after: UUID | None = None,
    limit: int = MAX_PAGE_SIZE,
) -> list[Webhook]:
    """A page of webhooks, oldest first."""
    where: WebhookWhereInput = page_filter(tenant_id=tenant_id, id=id, after=after)
    rows = await prisma_on(conn).webhook.find_many(min(limit, MAX_PAGE_SIZE), where=where, order={"id": "asc"})
    return from_rows(Webhook, rows)


async def _hold(conn: Connection, webhook_id: UUID, tenant_id: UUID | None, if_match: Precondition | None) -> Webhook:
    if await fetch_value(conn, HOLD, id=webhook_id, tenant_id=tenant_id) is None:
        raise _unknown(webhook_id)
    webhook = await find_webhook(conn, webhook_id)
    require_match(webhook, if_match, "webhook", webhook_id)
    return webhook


def _check(values: Mapping[str, Any]) -> None:
    wrong: list[FieldError] = []
    if "url" in values:
        try:
            check_address(values["url"])
            check_reachable(values["url"], load_settings().atlas_http_allowed_networks or ())
        except ValueError as error:
            wrong.append(FieldError("url", str(error)))
    if "events" in values:
        wrong += check_events(values["events"])
    if values.get("description"):
        wrong += check_name("description", values["description"])
    if wrong:
        raise InvalidInput("The webhook", wrong)


def _unknown(webhook_id: UUID) -> NotFound:
    return NotFound("webhook", webhook_id, remedy="`atlas webhooks list` lists the webhooks.")


def _event(action: str, webhook: Webhook, actor: Actor, **facts: Any) -> Event:
    document = {"url": bare_url(webhook.url), "events": webhook.events, "is_enabled": webhook.is_enabled}
    return Event(action, "webhook", str(webhook.id), actor, webhook.tenant_id, meta={**document, **facts})
