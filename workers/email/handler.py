"""EMAIL_SEND: one mail, sent once, by the first provider that takes it.

The rule behind everything here: a mail is tried again, or handed to another provider, only where it is certain that
it is not out, or where trying again cannot make two of it. Where neither holds, the job fails with the outcome
`unknown` and a person decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from atlas.engine.jobs import JobContext, PermanentError, RetryAfter, Snooze
from atlas.errors import AtlasError, LeaseLost
from atlas.settings import Settings
from atlas.workers.email.addresses import Address, parse_address
from atlas.workers.email.commitments import concealed
from atlas.workers.email.ledger import LedgerEntry, begin, take
from atlas.workers.email.message import EmailInput
from atlas.workers.email.microsoft import Microsoft
from atlas.workers.email.outbox import Outbox
from atlas.workers.email.providers import CannotTell, MaybeSent, NotSent, Outgoing, Provider
from atlas.workers.email.resend import Resend
from atlas.workers.email.routing import Routes, TenantRoute


class MailNotSent(AtlasError):
    """The mail is not out; it is tried again by the job's policy."""


class OutcomeUnknown(AtlasError):
    """The mail may be out. The next attempt finds out before it does anything else."""

    outcome = "unknown"


class UnknownUntil(RetryAfter):
    """The same, and the provider asked to be left alone for a while."""

    outcome = "unknown"


# What says itself whether the mail may be out.
VERDICTS = (MailNotSent, OutcomeUnknown, RetryAfter, PermanentError, Snooze)


@dataclass(slots=True)
class SendSlot:
    """One attempt at one mail: what was asked for, the way it goes, and what is noted of it at each provider."""

    mail: EmailInput
    ctx: JobContext
    route: TenantRoute
    opened: dict[str, LedgerEntry]
    # It had its turn in the tenant's pace: another provider that stands in makes no second mail of it.
    paced: bool = False


class WrittenMail(NamedTuple):
    """A mail in the outbox, which has no entry in the ledger."""

    provider: str
    sender: str
    message_id: str


class Mailer:
    """Sends the mails of one process. Make it inside the event loop that uses it, and `close` it at the end."""

    def __init__(self, settings: Settings) -> None:
        self._routes = Routes(settings)
        self._outbox = Outbox(settings)
        self._providers: dict[str, Provider] = {"microsoft": Microsoft(settings), "resend": Resend(settings)}

    async def send(self, mail: EmailInput, ctx: JobContext) -> dict[str, Any]:
        """Send one mail; the answer is the job's output."""
        opened = await _past(ctx)
        if (found := _found_sent(opened)) is not None:
            return self._sent(mail, ctx, found, found="ledger")
        try:
            turn = SendSlot(mail, ctx, await self._routes.of(ctx.pool, ctx.tenant_id), opened)
            if opened:
                return await self._resume(turn)
            return await self._send_by_any(turn, self._routes.order(turn.route))
        except NotSent as failure:
            raise _given_up([failure], unsure=any(entry.unsure for entry in opened.values())) from failure
        except LeaseLost:
            # Another worker's, or out of this one's reach because one that was taken for dead has sent it meanwhile.
            if (found := _found_sent(opened)) is None:
                raise
            return self._sent(mail, ctx, found, found="ledger")
        except VERDICTS:
            raise
        except BaseException:
            # Stopped, by a time limit, an operator, the worker's end, the database or a fault, wherever it was.
            for entry in opened.values():
                if entry.state == "sending":
                    _note_unknown(ctx, provider=entry.provider)
            raise

    async def close(self) -> None:
        """Let go of connections."""
        for provider in self._providers.values():
            await provider.close()

    async def _resume(self, turn: SendSlot) -> dict[str, Any]:
        """Where earlier attempts asked for the sending, find out, and go on with a provider that makes no second mail.

        Others come into question only once that one certainly does not have it, or where an operator, who read that
        nobody can tell, ordered the mail again.
        """
        asked = [entry for entry in turn.opened.values() if entry.state == "sending"]
        for entry in asked:
            message_id = await self._resolve(entry)
            if message_id is not None:
                await entry.sent(message_id)
                return self._sent(turn.mail, turn.ctx, entry, found="provider")
        still_open = [entry.provider for entry in asked if entry.is_open]
        if len(still_open) > 1:
            raise _unknown(CannotTell(f"The providers {', '.join(still_open)} were all asked to send this mail."))
        order = self._order(turn)
        chosen = still_open or [entry.provider for entry in asked if entry.repeatable and entry.provider in order]
        return await self._send_by_any(turn, [*chosen, *(name for name in order if name not in chosen)])

    def _order(self, turn: SendSlot) -> Sequence[str]:
        """The providers to try. One that the mail waited for comes first, while its moment is there."""
        order = self._routes.order(turn.route)
        reserved = [name for name, entry in turn.opened.items() if entry.reserved and name in order]
        return [*reserved, *(name for name in order if name not in reserved)] if reserved else order

    async def _resolve(self, entry: LedgerEntry) -> str | None:
        """Ask one provider what became of it. Where nobody can tell, only an operator's order leads on."""
        try:
            self._routes.require(entry.provider)
            message_id = await self._providers[entry.provider].resolve(entry)
        except MaybeSent as doubt:
            raise _in_doubt(doubt) from doubt
        except (CannotTell, NotSent) as puzzle:
            if not entry.ordered:
                raise _unknown(puzzle) from puzzle
            return None
        entry.repeatable = message_id is None
        return message_id

    async def _send_by_any(self, turn: SendSlot, names: Sequence[str]) -> dict[str, Any]:
        """Try the providers in this order, as long as each before certainly does not have it."""
        refused = []
        for name in names:
            try:
                entry = await self._send_by(name, turn)
            except NotSent as failure:
                if (held := turn.opened.get(name)) is not None and _may_yet_tell(failure, held):
                    raise _still_open(failure, held) from failure
                refused.append(failure)
                continue
            return self._sent(turn.mail, turn.ctx, entry, found="provider" if entry.provider != name else None)
        raise _given_up(refused, unsure=any(entry.unsure for entry in turn.opened.values()))

    async def _send_by(self, name: str, turn: SendSlot) -> LedgerEntry | WrittenMail:
        self._routes.require(name)
        if name == "outbox":
            if turn.opened and (sent := await self._clear_the_way(name, turn)) is not None:
                return sent
            sender = self._routes.sender(turn.route, name, turn.mail.from_agent)
            return WrittenMail(name, str(sender), self._outbox.write(_outgoing(turn, sender)))
        entry = turn.opened.get(name)
        if entry is not None and entry.repeatable:
            # The same again: a draft lies in its mailbox, and a key stands for one content.
            sender = parse_address(entry.sender)
        else:
            sender = self._routes.sender(turn.route, name, turn.mail.from_agent)
        if entry is not None and entry.state == "sending" and not entry.repeatable:
            await entry.without_draft()
        paces = self._routes.paces(turn.route, name, sender, with_tenant=not turn.paced)
        begun = await begin(turn.ctx, name, str(sender), paces)
        turn.paced = True
        entry = turn.opened.setdefault(name, begun)
        entry.sender = begun.sender
        if (sent := await self._clear_the_way(name, turn)) is not None:
            return sent
        return await self._deliver(_outgoing(turn, sender), entry)

    async def _deliver(self, outgoing: Outgoing, entry: LedgerEntry) -> LedgerEntry:
        """One sending by one provider, from the first request to the note that it is out."""
        provider = self._providers[entry.provider]
        try:
            message_id = await provider.send(outgoing, entry)
        except MaybeSent as doubt:
            message_id = await self._last_look(provider, entry, doubt)
        except CannotTell as puzzle:
            raise _unknown(puzzle) from puzzle
        await entry.sent(message_id)
        return entry

    async def _last_look(self, provider: Provider, entry: LedgerEntry, doubt: MaybeSent) -> str:
        """With retries left the next attempt finds out, after a pause. Without, this one asks, and believes a yes."""
        if entry.ctx.job.has_retries_left:
            raise _in_doubt(doubt) from doubt
        if entry.draft_id is None:
            # The provider failed, said so or not, and there is nothing to look at.
            raise OutcomeUnknown(doubt.message) from doubt
        try:
            message_id = await provider.resolve(entry)
        except (MaybeSent, CannotTell):
            raise _unknown(doubt) from doubt
        if message_id is None:
            raise _in_doubt(doubt) from doubt
        return message_id

    async def _clear_the_way(self, name: str, turn: SendSlot) -> LedgerEntry | None:
        """Remove drafts at other providers before this one sends it. The answer: one that has sent it after all."""
        for entry in turn.opened.values():
            if entry.provider == name or not (entry.state == "drafted" or entry.repeatable):
                continue
            try:
                self._routes.require(entry.provider)
                message_id = await self._providers[entry.provider].discard(entry)
            except MaybeSent as doubt:
                raise _in_doubt(doubt) from doubt
            except (CannotTell, NotSent) as puzzle:
                if entry.ordered:
                    continue
                if isinstance(puzzle, NotSent) and not puzzle.permanent:
                    raise
                raise _unknown(puzzle) from puzzle
            if message_id is not None:
                await entry.sent(message_id)
                return entry
        return None

    def _sent(
        self, mail: EmailInput, ctx: JobContext, entry: LedgerEntry | WrittenMail, *, found: str | None = None
    ) -> dict[str, Any]:
        """Say in the audit what went out, with the people in it as commitments, and answer the job's output."""
        meta, kept = concealed(str(ctx.job_id), [one.address for one in mail.recipients], mail.subject)
        meta["provider"], meta["message_id"], meta["sender"] = entry.provider, entry.message_id, entry.sender
        if found is not None:
            meta["found"] = found
        if mail.trace_id is not None:
            meta["trace_id"] = mail.trace_id
        notes = ctx.notes
        notes.audit_meta = meta
        notes.private = kept
        return {"provider": entry.provider, "messageId": entry.message_id, "sender": entry.sender}


async def _past(ctx: JobContext) -> dict[str, LedgerEntry]:
    """What earlier attempts noted; the first has none. One whose past cannot be read may be out."""
    if ctx.attempt == 1:
        return {}
    try:
        return {entry.provider: entry for entry in await take(ctx)}
    except BaseException:
        _note_unknown(ctx)
        raise


def _found_sent(opened: dict[str, LedgerEntry]) -> LedgerEntry | None:
    return next((entry for entry in opened.values() if entry.state == "sent"), None)


def _outgoing(turn: SendSlot, sender: Address) -> Outgoing:
    mail, job_id = turn.mail, turn.ctx.job_id
    headers = {"X-Atlas-Job": str(job_id)}
    if mail.trace_id is not None:
        headers["X-Atlas-Trace"] = mail.trace_id
    return Outgoing(mail, job_id, turn.route.slug, sender, headers)


def _given_up(failures: Sequence[NotSent], *, unsure: bool) -> AtlasError:
    """No provider took it. It is tried again if any of them may take it later, as soon as the first of those may.

    `unsure`: it was ordered again because it may be out, and it still may.
    """
    message = " ".join(str(failure) for failure in failures)
    passing = [failure for failure in failures if not failure.permanent]
    if not passing:
        return _unknown(MailNotSent(message)) if unsure else PermanentError(message)
    waits = [failure.retry_after for failure in passing if failure.retry_after]
    if len(waits) == len(passing):
        return (UnknownUntil if unsure else RetryAfter)(min(waits), message)
    return (OutcomeUnknown if unsure else MailNotSent)(message)


def _may_yet_tell(failure: NotSent, entry: LedgerEntry) -> bool:
    """No other provider may be tried: this one may have the mail, or would say so if it were asked a little later."""
    return entry.is_open or (entry.unsure and entry.repeatable and not failure.permanent)


def _still_open(failure: NotSent, entry: LedgerEntry) -> AtlasError:
    """Whatever was refused now: an earlier request may have succeeded, or the refusal could not be noted."""
    if entry.unsure and failure.permanent:
        return _unknown(failure)
    return _in_doubt(MaybeSent(failure.message, retry_after=failure.retry_after))


def _in_doubt(doubt: MaybeSent) -> AtlasError:
    """The next attempt finds out. What the provider answered with a failure of its own is not called unknown."""
    if doubt.retry_after:
        return (RetryAfter if doubt.answered else UnknownUntil)(doubt.retry_after, doubt.message)
    return (MailNotSent if doubt.answered else OutcomeUnknown)(doubt.message)


def _unknown(cause: AtlasError) -> PermanentError:
    return PermanentError(
        f"{cause.message} It is not known whether the mail was sent.",
        remedy="Ask the recipient or look at the provider; a retry of this job sends it again.",
        outcome="unknown",
    )


def _note_unknown(ctx: JobContext, **where: str) -> None:
    """The attempt is stopped while a provider may have the mail; its row and its event say so."""
    ctx.notes.detail["outcome"] = "unknown"
    ctx.notes.audit_meta.update({**where, "outcome": "unknown"})
