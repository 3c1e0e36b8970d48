"""The mail ledger: how far the sending of a mail came, written before and after each request that matters.

Every note is a short transaction of its own, because it must outlive the attempt that makes it. A worker that dies
after `sending` leaves the note behind; the attempt after it asks the provider before it does anything.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import asyncpg

from atlas.db.pool import UNREACHABLE
from atlas.db.statements import fetch_row, statement
from atlas.engine.jobs import JobContext, Snooze
from atlas.errors import LeaseLost

TAKE = statement("workers/email/sql/take.sql")
BEGIN = statement("workers/email/sql/begin.sql")
SENDING = statement("workers/email/sql/sending.sql")
NOT_SENT = statement("workers/email/sql/not_sent.sql")
WITHOUT_DRAFT = statement("workers/email/sql/without_draft.sql")
DISCARDING = statement("workers/email/sql/discarding.sql")
STILL_ORDERED = statement("workers/email/sql/still_ordered.sql")
SENT = statement("workers/email/sql/sent.sql")
SENT_MEANWHILE = statement("workers/email/sql/sent_meanwhile.sql")

# A worker looks for due jobs once a second. A mail comes back that much before its moment and waits for it here, or
# those of a second would go out together.
PATIENCE_SECONDS = 1.0

State = Literal["begun", "drafted", "sending", "sent"]


@dataclass(frozen=True, slots=True)
class Pace:
    """At most `per_minute` messages of one bucket: a sender at a provider, an account, or a tenant.

    `at_once`: how many of them may go together after a pause, where a tenth would be too many.
    """

    bucket: str
    per_minute: int
    at_once: int | None = None


@dataclass(slots=True)
class LedgerEntry:
    """One mail at one provider, in the hands of one attempt."""

    ctx: JobContext
    provider: str
    sender: str
    state: State = "begun"
    draft_id: str | None = None
    message_id: str | None = None
    # Seconds since the first request whose outcome may be open.
    age: float | None = None
    # An operator read that the outcome is unknown and ordered a retry; no request was made since.
    ordered: bool = False
    # An earlier attempt asked the provider to send it, and nobody knows what came of it.
    unsure: bool = False
    # The request of this attempt was made on an operator's order.
    by_order: bool = False
    # A worker set out to remove the draft: if it is gone, it was not sent.
    discarded: bool = False
    # A moment in the pace is reserved for it.
    reserved: bool = False
    # The provider said in this attempt that asking it again makes no second mail.
    repeatable: bool = False

    @property
    def is_open(self) -> bool:
        """The provider may have the mail, and nobody ordered it again: no other may be tried."""
        return self.state == "sending" and not self.ordered

    async def sending(self, draft_id: str | None = None) -> None:
        """Note that the request is about to be made; LeaseLost if the job is another worker's by now."""
        if await self._write(SENDING, sender=self.sender, draft_id=draft_id, **self._fence) is None:
            raise await self._lost()
        self.state, self.draft_id = "sending", draft_id
        self.by_order, self.ordered = self.ordered, False

    async def not_sent(self, *, keep_draft: bool = False) -> None:
        """Note that the provider refused. If the note cannot be written, the next attempt asks the provider."""
        if self.unsure:
            # An earlier request is as open as it was before this one, or as much an operator's business.
            if self.by_order:
                self.ordered = await self._write_if_possible(STILL_ORDERED, attempt=self.ctx.attempt)
            return
        kept = self.draft_id if keep_draft else None
        if await self._write_if_possible(NOT_SENT, draft_id=kept, attempt=self.ctx.attempt):
            self.state, self.draft_id = ("drafted" if kept else "begun"), kept

    async def discarding(self) -> bool:
        """Note that the draft is about to be removed; False if that cannot be noted, and it must stay."""
        self.discarded = await self._write_if_possible(DISCARDING, attempt=self.ctx.attempt)
        return self.discarded

    async def without_draft(self) -> None:
        """Note that the draft is removed, or left behind; LeaseLost if the job is another worker's by now."""
        if await self._write(WITHOUT_DRAFT, attempt=self.ctx.attempt) is None:
            raise await self._lost()
        self.state = "begun" if self.state == "drafted" else self.state
        self.draft_id, self.discarded, self.repeatable = None, False, False

    async def sent(self, message_id: str) -> None:
        """Note that it is out. If the note cannot be written, the job's own outcome still tells it."""
        # Until it is noted, only this attempt knows.
        self.state, self.message_id = "sending", message_id
        await self._write_if_possible(SENT, message_id=message_id)
        self.state = "sent"

    async def _lost(self) -> LeaseLost:
        """The job is another worker's; or one that was taken for dead has sent it meanwhile, and the entry says so."""
        row = await self._write(SENT_MEANWHILE)
        if row is not None:
            self.state, self.message_id = "sent", row["message_id"]
        return LeaseLost(self.ctx.job_id, self.ctx.attempt)

    @property
    def _fence(self) -> dict[str, Any]:
        return {"worker": self.ctx.worker_id, "attempt": self.ctx.attempt}

    async def _write(self, query: Any, **values: Any) -> Any | None:
        async with self.ctx.pool.acquire() as conn:
            return await fetch_row(conn, query, job_id=self.ctx.job_id, provider=self.provider, **values)

    async def _write_if_possible(self, query: Any, **values: Any) -> bool:
        try:
            return await self._write(query, **values) is not None
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            self.ctx.log.warning("the mail ledger could not be written", reason=str(error) or type(error).__name__)
            return False


async def begin(ctx: JobContext, provider: str, sender: str, paces: Sequence[Pace]) -> LedgerEntry:
    """Open the entry of a provider. Raises Snooze while the pace has no room: waiting uses up no retry."""
    async with ctx.pool.acquire() as conn:
        row = await fetch_row(
            conn,
            BEGIN,
            job_id=ctx.job_id,
            worker=ctx.worker_id,
            attempt=ctx.attempt,
            provider=provider,
            sender=sender,
            buckets=[pace.bucket for pace in paces],
            per_minute=[pace.per_minute for pace in paces],
            at_once=[pace.at_once for pace in paces],
            patience=PATIENCE_SECONDS,
        )
    assert row is not None
    if not row["held"]:
        raise LeaseLost(ctx.job_id, ctx.attempt)
    if row["wait"] > PATIENCE_SECONDS:
        raise Snooze(row["wait"] - PATIENCE_SECONDS, "waits for its turn in the sender's pace")
    if row["wait"] > 0:
        await asyncio.sleep(row["wait"])
    return LedgerEntry(ctx, provider, row["sender"], "drafted" if row["draft_id"] else "begun", row["draft_id"])


async def take(ctx: JobContext) -> list[LedgerEntry]:
    """What earlier attempts of this job noted, now in this one's hands."""
    values = TAKE.bind({"job_id": ctx.job_id, "worker": ctx.worker_id, "attempt": ctx.attempt})
    rows = await ctx.pool.fetch(TAKE.sql, *values)
    return [
        LedgerEntry(
            ctx,
            row["provider"],
            row["sender"],
            cast(State, row["state"]),
            row["draft_id"],
            row["message_id"],
            row["age"],
            row["ordered"],
            unsure=row["state"] == "sending" or row["ordered"],
            discarded=row["discarded"],
            reserved=row["reserved"],
        )
        for row in rows
    ]
