"""Where a delivery goes, and what its outcome means to the webhook."""

from typing import NamedTuple
from uuid import UUID

from atlas.actors import system
from atlas.audit.record import Event, record
from atlas.db.pg_json import stored_text
from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.webhooks.signing_secrets import read_secrets

TARGET = statement("engine/webhooks/sql/target.sql")
NOTE_SUCCESS = statement("engine/webhooks/sql/note_success.sql")
NOTE_FAILURE = statement("engine/webhooks/sql/note_failure.sql")

# A webhook is disabled when its deliveries have failed for so long, without one that succeeded.
MAX_FAILING_SECONDS = 3 * 24 * 3600.0
MAX_ERROR_LENGTH = 500
ATLAS = system("webhooks")


class Target(NamedTuple):
    """A webhook as a delivery uses it."""

    id: UUID
    url: str
    # More than one while an old secret holds.
    secrets: tuple[str, ...]
    is_failing: bool


async def load_target(conn: Queryable, webhook_id: UUID, job_id: UUID) -> Target:
    """The webhook of a delivery. PermanentError if it was removed or disabled, or if Atlas did not make the job."""
    row = await conn.fetchrow(TARGET.sql, *TARGET.bind({"id": webhook_id, "job_id": job_id}))
    if row is None:
        raise PermanentError(f"There is no webhook {webhook_id} that this job is a delivery of.")
    if not row["is_enabled"]:
        why = f": {row['disabled_reason']}" if row["disabled_reason"] else ""
        raise PermanentError(f"The webhook {webhook_id} is disabled{why}.", remedy="Enable it, then retry this job.")
    return Target(row["id"], row["url"], read_secrets(row), row["failing_since"] is not None)


async def note_success(conn: Connection, target: Target) -> None:
    """A delivery succeeded: the webhook fails no longer."""
    if target.is_failing:
        await fetch(conn, NOTE_SUCCESS, id=target.id)


async def note_failure(conn: Connection, target: Target, error: str, *, gone: bool = False) -> None:
    """A delivery failed. The webhook is disabled if it has failed for too long, or if its server says it is gone."""
    days = MAX_FAILING_SECONDS / 86_400
    reason = "its server responded with 410, gone" if gone else f"no delivery has succeeded for {days:g} days"
    text = stored_text(error)[:MAX_ERROR_LENGTH]
    values = {"error": text, "gone": gone, "reason": reason, "max_seconds": MAX_FAILING_SECONDS}
    async with conn.transaction():
        row = await fetch_row(conn, NOTE_FAILURE, id=target.id, **values)
        if row is not None:
            await record_disabled(conn, row["id"], row["tenant_id"], reason)


async def record_disabled(conn: Connection, webhook_id: UUID, tenant_id: UUID, reason: str) -> None:
    """Record that Atlas disabled a webhook, in the transaction that did it."""
    event = Event("WEBHOOK_DISABLED", "webhook", str(webhook_id), ATLAS, tenant_id, reason, "warn")
    await record(conn, event, before={"is_enabled": True, "disabled_reason": None})
