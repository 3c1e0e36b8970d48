"""Webhooks: the subscriptions of tenants to events. Each change is audited; the signing secret is shown once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from atlas.actors import Actor
from atlas.audit import Event, record
from atlas.bounds import LARGEST_PAGE
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.etags import etag_of, require_match
from atlas.engine.quotas import require_room
from atlas.engine.validation import check_name
from atlas.engine.webhooks.address import check_address
from atlas.engine.webhooks.events import check_events
from atlas.engine.webhooks.signing_secrets import make_secret
from atlas.errors import FieldError, InvalidInput, NotFound
from atlas.ids import new_id

ADD = statement("engine/webhooks/sql/add_webhook.sql")
EDIT = statement("engine/webhooks/sql/edit_webhook.sql")
REMOVE = statement("engine/webhooks/sql/remove_webhook.sql")
LIST = statement("engine/webhooks/sql/list_webhooks.sql")
HOLD = statement("engine/webhooks/sql/hold_webhook.sql")

EDITABLE = ("url", "events", "description", "is_enabled")


@dataclass(frozen=True, slots=True)
class Webhook:
    """A subscription. `failing_since` is set from the first failed delivery to the next that succeeds."""

    id: UUID
    tenant_id: UUID
    url: str
    events: tuple[str, ...]
    description: str
    is_enabled: bool
    disabled_reason: str | None
    failing_since: datetime | None
    last_error: str | None
    created_by: str
    created_at: datetime
    updated_at: datetime

    @property
    def etag(self) -> str:
        """The tag of what an edit can change."""
        return etag_of(self.id, *(getattr(self, name) for name in EDITABLE))


async def add_webhook(
    conn: Connection, tenant_id: UUID, url: str, events: Sequence[str], *, description: str = "", actor: Actor
) -> tuple[Webhook, str]:
    """Subscribe to what happens from now on. Returns the webhook and its signing secret, which is not shown again."""
    _check({"url": url, "events": events, "description": description})
    id = new_id()
    clear, sealed = make_secret(tenant_id, id)
    async with conn.transaction():
        await require_room(conn, "webhooks", tenant_id)
        values = {"id": id, "tenant_id": tenant_id, "url": url, "events": list(events), "description": description}
        row = await fetch_row(conn, ADD, **values, **sealed, created_by=actor.id)
        webhook = _webhook(row)
        await record(conn, _event("WEBHOOK_ADDED", webhook, actor))
    return webhook, clear


async def edit_webhook(
    conn: Connection,
    webhook_id: UUID,
    changes: Mapping[str, Any],
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Collection[str] | None = None,
) -> Webhook:
    """Change some fields. Enabled again, it gets what happens from now on."""
    _check(changes)
    async with conn.transaction():
        before = await _hold(conn, webhook_id, tenant_id, if_match)
        wanted = {name: changes.get(name, getattr(before, name)) for name in EDITABLE}
        row = await fetch_row(conn, EDIT, id=webhook_id, **{**wanted, "events": list(wanted["events"])})
        webhook = _webhook(row)
        changed = sorted(name for name in EDITABLE if getattr(webhook, name) != getattr(before, name))
        await record(conn, _event("WEBHOOK_EDITED", webhook, actor, changed=changed))
    return webhook


async def remove_webhook(
    conn: Connection,
    webhook_id: UUID,
    *,
    actor: Actor,
    tenant_id: UUID | None = None,
    if_match: Collection[str] | None = None,
) -> Webhook:
    """Remove a webhook and its secret. Deliveries that wait fail; the jobs stay."""
    async with conn.transaction():
        webhook = await _hold(conn, webhook_id, tenant_id, if_match)
        await fetch(conn, REMOVE, id=webhook_id)
        await record(conn, _event("WEBHOOK_REMOVED", webhook, actor))
    return webhook


async def find_webhook(conn: Queryable, webhook_id: UUID, *, tenant_id: UUID | None = None) -> Webhook:
    """One webhook; NotFound if there is none, or if it is another tenant's."""
    found = await list_webhooks(conn, tenant_id=tenant_id, id=webhook_id, limit=1)
    if not found:
        raise _unknown(webhook_id)
    return found[0]


async def list_webhooks(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    after: UUID | None = None,
    limit: int = LARGEST_PAGE,
) -> list[Webhook]:
    """A page of webhooks, oldest first."""
    values = {"tenant_id": tenant_id, "id": id, "after": after, "limit": min(limit, LARGEST_PAGE)}
    return [_webhook(row) for row in await conn.fetch(LIST.sql, *LIST.bind(values))]


async def _hold(
    conn: Connection, webhook_id: UUID, tenant_id: UUID | None, if_match: Collection[str] | None
) -> Webhook:
    row = await fetch_row(conn, HOLD, id=webhook_id, tenant_id=tenant_id)
    if row is None:
        raise _unknown(webhook_id)
    webhook = _webhook(row)
    require_match(webhook.etag, if_match, "webhook", webhook_id)
    return webhook


def _check(given: Mapping[str, Any]) -> None:
    wrong: list[FieldError] = []
    if "url" in given:
        try:
            check_address(given["url"])
        except ValueError as error:
            wrong.append(FieldError("url", str(error)))
    if "events" in given:
        wrong += check_events(given["events"])
    if given.get("description"):
        wrong += check_name("description", given["description"])
    if wrong:
        raise InvalidInput("The webhook", wrong)


def _webhook(row: Any) -> Webhook:
    assert row is not None
    return Webhook(**{name: row[name] for name in Webhook.__slots__ if name != "events"}, events=tuple(row["events"]))


def _unknown(webhook_id: UUID) -> NotFound:
    return NotFound("webhook", webhook_id, remedy="`atlas webhooks list` shows the webhooks there are.")


def _event(action: str, webhook: Webhook, actor: Actor, **facts: Any) -> Event:
    shown = {"url": webhook.url, "events": list(webhook.events), "is_enabled": webhook.is_enabled}
    return Event(action, "webhook", str(webhook.id), actor, webhook.tenant_id, meta={**shown, **facts})
