"""Makes deliveries of what the audit log says: an HTTP_CALL job for each event and each webhook that wants it."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from atlas.actors import Actor
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.webhooks.target import ATLAS, record_disabled
from atlas.models.webhooks import Webhook

TAKE = statement("engine/webhooks/sql/take_events.sql")
DISABLE_OVERFULL = statement("engine/webhooks/sql/disable_overfull.sql")

HTTP_CALL = "HTTP_CALL"
EVENTS_AT_ONCE = 1000
# With the delays of the default policy they take 13 hours.
MAX_RETRIES = 20
TIMEOUT_SECONDS = 15
# Deliveries of a failing webhook that may wait.
MAX_WAITING = 10_000


async def deliver_events(conn: Connection, *, limit: int = EVENTS_AT_ONCE) -> bool:
    """Enqueue the deliveries of the next events. True if there may be more."""
    async with conn.transaction(isolation="read_committed"):
        row = await fetch_row(conn, TAKE, limit=limit)
        assert row is not None
        deliveries = orjson.loads(row["deliveries"]) if row["deliveries"] is not None else []
        jobs = [
            _delivery(UUID(delivery["webhook_id"]), UUID(delivery["tenant_id"]), delivery["body"])
            for delivery in deliveries
        ]
        await enqueue_many(conn, jobs, actor=ATLAS)
    return bool(row["more"])


async def disable_overfull(conn: Connection) -> int:
    """Disable the webhooks that fail while too many deliveries wait for them. Returns how many."""
    reason = f"it fails, and {MAX_WAITING:,} deliveries wait"
    async with conn.transaction():
        rows = await fetch(conn, DISABLE_OVERFULL, reason=reason, most=MAX_WAITING)
        for row in rows:
            await record_disabled(conn, row["id"], row["tenant_id"], reason)
    return len(rows)


async def send_test(conn: Connection, webhook: Webhook, *, actor: Actor) -> UUID:
    """Enqueue one delivery of the event `webhook.test`, and return its job."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    body = {"type": "webhook.test", "timestamp": now, "data": {"webhook_id": str(webhook.id), "asked_by": actor.id}}
    job = _delivery(webhook.id, webhook.tenant_id, body, max_retries=0)
    await enqueue_many(conn, [job], actor=actor)
    return job.id


def _delivery(webhook_id: UUID, tenant_id: UUID, body: dict[str, Any], *, max_retries: int = MAX_RETRIES) -> NewJob:
    return NewJob(
        HTTP_CALL,
        {"webhook": str(webhook_id), "body": body, "timeout_seconds": TIMEOUT_SECONDS},
        tenant_id,
        max_retries=max_retries,
        correlation_id=f"webhook:{webhook_id}",
        source="system",
        source_ref=str(webhook_id),
        # It holds none: the secret stays with the webhook.
        secrets=(),
    )
