"""A mail at one provider, as an effect: recorded before the request that may send it, and with what became of that.

It is `resend.mail` in the ledger of all effects, with the job's id as its key. What the next attempt must know to ask
the provider is its detail: the sender, and the draft.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args
from uuid import UUID

import asyncpg
import orjson

from atlas.db.pool import UNREACHABLE
from atlas.db.statements import fetch_value, statement
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.errors import LeaseLost

TAKE = statement("workers/email/sql/take_mails.sql")
NOTE = statement("engine/effects/sql/note_effect.sql")

# `refused`: it is certainly not out. `intended`: this attempt has asked for it.
MailState: TypeAlias = Literal["refused", "intended", "unknown", "done"]
# `discarding`: the draft is being removed, and if it is gone, it was not sent. `ordered`: an operator who knew that the
# outcome is unknown ordered the mail again. `refused`: the draft was refused, and its fate is unknown since.
Mark: TypeAlias = Literal["discarding", "ordered", "refused"]
MARKS: tuple[Mark, ...] = get_args(Mark)


@dataclass(slots=True)
class MailEffect:
    """One mail at one provider, held by one attempt."""

    ctx: AttemptContext
    provider: str
    sender: str
    id: UUID | None = None
    state: MailState = "refused"
    draft_id: str | None = None
    message_id: str | None = None
    # Seconds since the first request whose outcome may be open.
    age: float | None = None
    # A send slot is reserved for it.
    has_slot: bool = False
    # What the detail says beside sender and draft.
    marks: set[Mark] = field(default_factory=set)
    # The mail may be out because of an earlier attempt, whatever comes of this one.
    is_unsure: bool = False
    # The provider said in this attempt that asking it again makes no second mail.
    repeatable: bool = False
    _was_ordered: bool = False
    _was_requested: bool = False

    @property
    def is_ordered(self) -> bool:
        """An operator accepts that a second mail may go out, and the provider was not asked since."""
        return "ordered" in self.marks

    @property
    def was_asked(self) -> bool:
        """A provider was asked to send it and may have done so."""
        return self.state in ("intended", "unknown")

    @property
    def is_open(self) -> bool:
        """The provider may have the mail, and it was not ordered again: no other provider may be tried."""
        return self.was_asked and not self.is_ordered

    @property
    def has_refused_draft(self) -> bool:
        """A draft may be left with the provider that was not accepted for sending."""
        return self.state == "refused" and self.draft_id is not None

    async def requesting(self, draft_id: str | None = None) -> None:
        """Record that the provider is about to be asked; LeaseLost if the job is another worker's by now."""
        self._was_ordered = self.is_ordered
        if self._was_ordered and self.state == "unknown":
            # The operator accepts what may have become of the requests before: they count no longer.
            await self._noted(self.state, accepted=True)
        self.marks.clear()
        ledger, detail = self.ctx.transactions.ledger(self.ctx), self._detail(draft_id)
        begun = await ledger.begin(f"{self.provider}.mail", self.ctx.idempotency_key, detail, again=self.is_unsure)
        if begun.verdict == "done":
            # A worker that was taken for dead has sent it meanwhile.
            self.state, self.message_id = "done", begun.reference
        if begun.verdict != "call":
            raise LeaseLost(self.ctx.job_id, self.ctx.attempt)
        self.id, self.state, self.draft_id = begun.id, "intended", draft_id
        self._was_requested = True

    async def refused(self, reason: str) -> None:
        """Record that the provider refused. Without the record, the next attempt asks the provider."""
        # A refusal says nothing about an earlier request.
        state: MailState = "unknown" if self.is_unsure else "refused"
        if await self._end(state, reason=reason):
            self.state = state
            if self._was_ordered:
                self.marks.add("ordered")
                await self._note(state)

    async def doubted(self, reason: str) -> None:
        """Record that no one knows whether it is out."""
        if self.state == "intended":
            await self._end("unknown", reason=reason)
        elif self.state == "refused" and self.id is not None:
            self.marks = {"refused"}
            await self._note("unknown", reason=reason)

    async def discarding(self) -> bool:
        """Record that the draft is about to be removed; False if that cannot be recorded, and it must stay."""
        self.marks.add("discarding")
        noted = await self._note(self.state)
        if not noted:
            self.marks.discard("discarding")
        return noted

    async def draft_gone(self) -> None:
        """Record that the draft is removed, or left behind; LeaseLost if the job is another worker's by now."""
        self.draft_id, self.repeatable = None, False
        self.marks.discard("discarding")
        if not await self._noted(self.state):
            raise LeaseLost(self.ctx.job_id, self.ctx.attempt)

    async def sent(self, message_id: str) -> None:
        """Record that it is out. Without the record, the job's own outcome still says so."""
        was_refused, self.state, self.message_id = self.state == "refused", "intended", message_id
        if was_refused:
            await self._note("unknown", reason="The provider has sent it after all.")
        await self._end("done", reference=message_id, found=not self._was_requested)
        self.state = "done"

    async def _end(self, state: MailState, **values: Any) -> bool:
        """End the effect; False if that cannot be recorded."""
        assert self.id is not None
        try:
            return await self.ctx.transactions.ledger(self.ctx).end(self.id, state, **values) != "taken"
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            self._warn(error)
            return False

    async def _note(self, state: MailState, *, reason: str = "") -> bool:
        try:
            return await self._noted(state, reason=reason)
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            self._warn(error)
            return False

    async def _noted(self, state: MailState, *, accepted: bool = False, reason: str = "") -> bool:
        """Record what is known between two requests; False if the job is another worker's."""
        values = {"id": self.id, "job_id": self.ctx.job_id, "worker": self.ctx.worker_id, "attempt": self.ctx.attempt}
        detail = orjson.dumps(self._detail(self.draft_id)).decode()
        values |= {"state": state, "detail": detail, "accepted": accepted, "reason": reason}
        async with self.ctx.pool.acquire() as conn:
            return bool(await fetch_value(conn, NOTE, **values))

    def _detail(self, draft_id: str | None) -> dict[str, Any]:
        draft = {} if draft_id is None else {"draft": draft_id}
        return {"sender": self.sender, **draft, **dict.fromkeys(sorted(self.marks), True)}

    def _warn(self, error: BaseException) -> None:
        self.ctx.log.warning("the effect of a mail was not recorded", reason=str(error) or type(error).__name__)


async def take_mails(ctx: AttemptContext) -> list[MailEffect]:
    """What earlier attempts of this job recorded, taken over by this one."""
    values = {"job_id": ctx.job_id, "worker": ctx.worker_id, "attempt": ctx.attempt}
    return [_taken(ctx, row) for row in await ctx.pool.fetch(TAKE.sql, *TAKE.bind(values))]


def _taken(ctx: AttemptContext, row: Mapping[str, Any]) -> MailEffect:
    detail = orjson.loads(row["detail"])
    marks = {mark for mark in MARKS if detail.get(mark)}
    return MailEffect(
        ctx,
        row["provider"],
        detail.get("sender", ""),
        row["id"],
        row["state"] or "refused",
        detail.get("draft"),
        row["reference"],
        row["age"],
        row["has_slot"],
        marks,
        is_unsure=row["state"] == "unknown" or "ordered" in marks,
    )
