"""The pace of senders: a mail that comes too early gets a send slot, and its job comes back for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from atlas.db.statements import fetch_value, statement
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.verdicts import Snooze
from atlas.errors import LeaseLost

TAKE_SLOT = statement("workers/email/sql/take_send_slot.sql")

# A worker looks for due jobs once a second. A mail comes back that much before its send slot and waits for it here.
# Else the mails of a second would go out together.
EARLY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """At most `per_minute` messages of one bucket: a sender at a provider, an account, or a tenant.

    `at_once`: how many of them may go together after a pause, where a tenth would be too many.
    """

    bucket: str
    per_minute: int
    at_once: int | None = None


async def keep_pace(ctx: AttemptContext, provider: str, paces: Sequence[Pace]) -> None:
    """Wait for a send slot that comes soon. Raises Snooze until one that comes later: waiting uses up no retry."""
    if not paces:
        return
    async with ctx.pool.acquire() as conn:
        wait = await fetch_value(
            conn,
            TAKE_SLOT,
            job_id=ctx.job_id,
            worker=ctx.worker_id,
            attempt=ctx.attempt,
            provider=provider,
            buckets=[pace.bucket for pace in paces],
            per_minute=[pace.per_minute for pace in paces],
            at_once=[pace.at_once for pace in paces],
            early=EARLY_SECONDS,
        )
    if wait is None:
        raise LeaseLost(ctx.job_id, ctx.attempt)
    if wait > EARLY_SECONDS:
        raise Snooze(wait - EARLY_SECONDS, "waits for its send slot in the sender's pace")
    if wait > 0:
        await asyncio.sleep(wait)
