"""The mail ledger: how far the sending of a mail came, written before and after each request that matters.

Every note is a short transaction of its own, because it must outlive the attempt that makes it. A worker that dies
after `requesting` leaves the note behind. The next attempt then asks the provider before it does anything else.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from atlas.db.pool import UNREACHABLE
from atlas.db.statements import fetch_row, statement
from atlas.engine.jobs.context import AttemptContext
from atlas.engine.jobs.verdicts import Snooze
from atlas.errors import LeaseLost
from atlas.workers.email.mail_state import TRANSITIONS, MailEvent, MailState

TAKE = statement("workers/email/sql/take.sql")
BEGIN = statement("workers/email/sql/begin.sql")
REQUEST = statement("workers/email/sql/request.sql")
MOVE = statement("workers/email/sql/move.sql")
SENT = statement("workers/email/sql/sent.sql")
SENT_MEANWHILE = statement("workers/email/sql/sent_meanwhile.sql")

# A worker looks for due jobs once a second. A mail comes back that much before its send slot and waits for it here.
# Else the mails of a second would go out together.
EARLY_SECONDS = 1.0

_TAKEN = json.dumps(TRANSITIONS[MailEvent.TAKEN])
_TAKEN_ON_ORDER = json.dumps(TRANSITIONS[MailEvent.TAKEN_ON_ORDER])


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
    """One mail at one provider, held by one attempt."""

    ctx: AttemptContext
    provider: str
    sender: str
    state: MailState = MailState.BEGUN
    draft_id: str | None = None
    message_id: str | None = None
    # Seconds since the first request whose outcome may be open.
    age: float | None = None
    # A send slot is reserved for it.
    has_slot: bool = False
    # The provider said in this attempt that asking it again makes no second mail.
    repeatable: bool = False

    async def requesting(self, draft_id: str | None = None) -> None:
        """Note that the provider is about to be asked; LeaseLost if the job is another worker's by now."""
        after = TRANSITIONS[MailEvent.REQUESTED][self.state]
        if await self._write(REQUEST, **self._moved(after, draft_id), sender=self.sender, worker=self.ctx.worker_id):
            self.state, self.draft_id = after, draft_id
        else:
            raise await self._lost()

    async def refused(self, *, keep_draft: bool = False) -> None:
        """Note that the provider refused. If the note cannot be written, the next attempt asks the provider."""
        kept = self.draft_id if keep_draft else None
        after = TRANSITIONS[MailEvent.DRAFT_REFUSED if kept else MailEvent.REFUSED].get(self.state)
        if after is not None and await self._write_if_possible(MOVE, **self._moved(after, kept)):
            self.state, self.draft_id = after, kept

    async def discarding(self) -> bool:
        """Note that the draft is about to be removed; False if that cannot be noted, and it must stay."""
        after = TRANSITIONS[MailEvent.DISCARDED][self.state]
        if noted := await self._write_if_possible(MOVE, **self._moved(after, self.draft_id)):
            self.state = after
        return noted

    async def draft_gone(self) -> None:
        """Note that the draft is removed, or left behind; LeaseLost if the job is another worker's by now."""
        after = TRANSITIONS[MailEvent.DRAFT_GONE][self.state]
        if not await self._write(MOVE, **self._moved(after, None)):
            raise await self._lost()
        self.state, self.draft_id, self.repeatable = after, None, False

    async def sent(self, message_id: str) -> None:
        """Note that it is out. If the note cannot be written, the job's own outcome still says so."""
        # Until it is noted, only this attempt knows.
        self.state, self.message_id = MailState.SENDING, message_id
        await self._write_if_possible(SENT, message_id=message_id)
        self.state = MailState.SENT

    def _moved(self, after: MailState, draft_id: str | None) -> dict[str, Any]:
        return {"before": self.state, "after": after, "draft_id": draft_id, "attempt": self.ctx.attempt}

    async def _lost(self) -> LeaseLost:
        """The job is another worker's; or a worker that was taken for dead has sent it, and the entry says so."""
        row = await self._write(SENT_MEANWHILE)
        if row is not None:
            self.state, self.message_id = MailState.SENT, row["message_id"]
        return LeaseLost(self.ctx.job_id, self.ctx.attempt)

    async def _write(self, query: Any, **values: Any) -> Any | None:
        async with self.ctx.pool.acquire() as conn:
            return await fetch_row(conn, query, job_id=self.ctx.job_id, provider=self.provider, **values)

    async def _write_if_possible(self, query: Any, **values: Any) -> bool:
        try:
            return await self._write(query, **values) is not None
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            self.ctx.log.warning("the mail ledger could not be written", reason=str(error) or type(error).__name__)
            return False


async def begin(ctx: AttemptContext, provider: str, sender: str, paces: Sequence[Pace]) -> LedgerEntry:
    """Open the entry of a provider. Raises Snooze until its send slot: waiting uses up no retry."""
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
            early=EARLY_SECONDS,
        )
    assert row is not None
    if not row["held"]:
        raise LeaseLost(ctx.job_id, ctx.attempt)
    if row["wait"] > EARLY_SECONDS:
        raise Snooze(row["wait"] - EARLY_SECONDS, "waits for its send slot in the sender's pace")
    if row["wait"] > 0:
        await asyncio.sleep(row["wait"])
    state = MailState.DRAFTED if row["draft_id"] else MailState.BEGUN
    return LedgerEntry(ctx, provider, row["sender"], state, row["draft_id"])


async def take(ctx: AttemptContext) -> list[LedgerEntry]:
    """What earlier attempts of this job noted, taken over by this one."""
    values = {"job_id": ctx.job_id, "worker": ctx.worker_id, "attempt": ctx.attempt}
    rows = await ctx.pool.fetch(TAKE.sql, *TAKE.bind({**values, "taken": _TAKEN, "ordered": _TAKEN_ON_ORDER}))
    return [
        LedgerEntry(
            ctx,
            row["provider"],
            row["sender"],
            MailState(row["state"]),
            row["draft_id"],
            row["message_id"],
            row["age"],
            row["has_slot"],
        )
        for row in rows
    ]
