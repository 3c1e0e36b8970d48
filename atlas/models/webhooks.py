"""Webhooks, out and in."""

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from atlas.models.base import ApiModel, EditableModel


class Webhook(EditableModel):
    """A subscription without its secret."""

    editable: ClassVar = ("url", "events", "description", "is_enabled")
    tagged: ClassVar = ("id", *editable)

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


class CreatedWebhook(Webhook):
    """A new subscription, with the secret that its messages are signed with, which is not shown again."""

    secret: str


class TestDelivery(ApiModel):
    """The job that delivers a test."""

    job_id: UUID


class InboundHook(ApiModel):
    """An address for messages, without its secret."""

    id: UUID
    tenant_id: UUID
    path: str
    event_name: str
    description: str
    created_by: str
    created_at: datetime


class CreatedInboundHook(InboundHook):
    """A new address, with the secret to sign with, which is not shown again."""

    secret: str
