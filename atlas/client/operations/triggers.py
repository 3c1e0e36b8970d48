"""Triggers, recurring functions and webhooks."""

# mypy: disable-error-code="empty-body"

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from atlas.client.methods import listing, operation
from atlas.client.route import ApiCaller, Id
from atlas.models.base import Listed
from atlas.models.explain import TriggerExplanation
from atlas.models.triggers import (
    Fire,
    Fired,
    Occurrence,
    RecurringFunction,
    RecurringRun,
    Trigger,
)
from atlas.models.webhooks import CreatedInboundHook, CreatedWebhook, InboundHook, TestDelivery, Webhook


class TriggerFields(TypedDict, total=False):
    """What starts a trigger, and what it starts."""

    is_enabled: bool
    event_name: str | None
    cron_expr: str | None
    timezone: str | None
    definition_key: str | None
    job_type: str | None
    workflow: str | None
    payload_template: Mapping[str, Any]
    dedupe_window_seconds: int
    misfire: Literal["skip", "latest", "all"]


class TriggerOperations(ApiCaller):
    """Start work at a time or after an event; send and receive events over HTTP."""

    @listing("/jobs/triggers")
    def list_triggers(self) -> Trigger:
        """The triggers, oldest first."""

    @operation("GET", "/jobs/triggers/{trigger_id}")
    def get_trigger(self, trigger_id: Id) -> Trigger:
        """One trigger."""

    @operation("POST", "/jobs/triggers")
    def create_trigger(
        self, label: str, trigger_type: Literal["event", "schedule"], **fields: Unpack[TriggerFields]
    ) -> Trigger:
        """Add a trigger: an event's name or a cron expression, and one target."""

    @operation("PATCH", "/jobs/triggers/{trigger_id}")
    def edit_trigger(
        self,
        trigger_id: Id,
        *,
        label: str = ...,
        trigger_type: Literal["event", "schedule"] = ...,
        if_match: str = ...,
        **fields: Unpack[TriggerFields],
    ) -> Trigger:
        """Change a trigger. What is not given stays as it is; None removes it."""

    @operation("DELETE", "/jobs/triggers/{trigger_id}")
    def remove_trigger(self, trigger_id: Id, *, if_match: str = ...) -> None:
        """Remove a trigger; the record of its firings stays."""

    @operation("GET", "/jobs/triggers/{trigger_id}/explain")
    def explain_trigger(self, trigger_id: Id) -> TriggerExplanation:
        """Why a trigger did not fire, or when it fires next."""

    @operation("POST", "/jobs/triggers/{trigger_id}/fire")
    def fire_trigger(self, trigger_id: Id, *, context: Mapping[str, Any] = ..., idempotency_key: str = ...) -> Fired:
        """Fire a trigger now, whatever its schedule."""

    @listing("/jobs/triggers/{trigger_id}/fires")
    def list_trigger_fires(self, trigger_id: Id) -> Fire:
        """The firings of a trigger, newest first."""

    @operation("GET", "/jobs/triggers/{trigger_id}/preview")
    def preview_trigger(self, trigger_id: Id, *, count: int = ..., start: datetime | None = ...) -> Listed[Occurrence]:
        """The next times of a trigger's schedule; none for a trigger on an event."""

    @operation("POST", "/jobs/triggers/preview", keyed=False)
    def preview_schedule(
        self, cron_expr: str, *, timezone: str | None = ..., count: int = ..., start: datetime | None = ...
    ) -> Listed[Occurrence]:
        """The next times of a schedule, before it is saved."""

    @listing("/recurring")
    def list_recurring_functions(self) -> RecurringFunction:
        """The recurring functions, by tenant and id."""

    @operation("GET", "/recurring/{recurring_id}")
    def get_recurring_function(self, recurring_id: str) -> RecurringFunction:
        """One recurring function."""

    @listing("/recurring/{recurring_id}/runs")
    def list_recurring_runs(self, recurring_id: str) -> RecurringRun:
        """The runs of a recurring function, newest first."""

    @listing("/webhooks")
    def list_webhooks(self) -> Webhook:
        """The webhooks, oldest first, without their secrets."""

    @operation("GET", "/webhooks/{webhook_id}")
    def get_webhook(self, webhook_id: Id) -> Webhook:
        """One webhook, and whether its deliveries fail."""

    @operation("POST", "/webhooks", keyed=False)
    def create_webhook(self, url: str, events: Sequence[str], *, description: str = ...) -> CreatedWebhook:
        """Add a webhook. The result has its secret, once."""

    @operation("PATCH", "/webhooks/{webhook_id}")
    def edit_webhook(
        self,
        webhook_id: Id,
        *,
        url: str = ...,
        events: Sequence[str] = ...,
        description: str = ...,
        is_enabled: bool = ...,
        if_match: str = ...,
    ) -> Webhook:
        """Change a webhook. What is not given stays as it is."""

    @operation("POST", "/webhooks/{webhook_id}/rotate-secret", keyed=False)
    def rotate_webhook_secret(self, webhook_id: Id, *, overlap_seconds: int = ...) -> CreatedWebhook:
        """Give a webhook another secret; the old one holds for a day more, or for `overlap_seconds`."""

    @operation("DELETE", "/webhooks/{webhook_id}")
    def remove_webhook(self, webhook_id: Id, *, if_match: str = ...) -> None:
        """Remove a webhook. The jobs of its deliveries stay."""

    @operation("POST", "/webhooks/{webhook_id}/test")
    def test_webhook(self, webhook_id: Id) -> TestDelivery:
        """Send the event `webhook.test` once; `wait_for_job` waits for its job."""

    @listing("/inbound-hooks")
    def list_inbound_hooks(self) -> InboundHook:
        """The addresses that others post to, oldest first, without their secrets."""

    @operation("GET", "/inbound-hooks/{hook_id}")
    def get_inbound_hook(self, hook_id: Id) -> InboundHook:
        """One address that others post to."""

    @operation("POST", "/inbound-hooks", keyed=False)
    def create_inbound_hook(self, event_name: str, *, description: str = ...) -> CreatedInboundHook:
        """Add an address whose messages become events. The result has its secret, once."""

    @operation("POST", "/inbound-hooks/{hook_id}/rotate-secret", keyed=False)
    def rotate_inbound_hook_secret(self, hook_id: Id, *, overlap_seconds: int = ...) -> CreatedInboundHook:
        """Give an inbound hook another secret; the old one holds for a day more, or for `overlap_seconds`."""

    @operation("DELETE", "/inbound-hooks/{hook_id}")
    def remove_inbound_hook(self, hook_id: Id) -> None:
        """Remove an address. The events that came by it stay."""
