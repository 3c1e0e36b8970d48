"""Webhooks, out and in."""

from datetime import datetime
from uuid import UUID

from atlas.models.base import ApiModel


class WebhookShown(ApiModel):
    """A subscription without its secret."""

    id: UUID
    tenant_id: UUID
    url: str
    events: list[str]
    description: str
    is_enabled: bool
    disabled_reason: str | None
    failing_since: datetime | None
    last_error: str | None
    created_by: str
    created_at: datetime
    updated_at: datetime


class WebhookMade(WebhookShown):
    """A new subscription, with the secret that its messages are signed with, which is not shown again."""

    secret: str


class TestDelivery(ApiModel):
    """The job that delivers a test."""

    job_id: UUID


class HookShown(ApiModel):
    """An address for messages, without its secret."""

    id: UUID
    tenant_id: UUID
    path: str
    event_name: str
    description: str
    created_by: str
    created_at: datetime


class HookMade(HookShown):
    """A new address, with the secret to sign with, which is not shown again."""

    secret: str
