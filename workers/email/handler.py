"""EMAIL_SEND: one mail, sent once, by the first provider that takes it.

The rule behind everything here: a mail is tried again, or handed to another provider, only where it is certain that
it is not out, or where trying again cannot make two of it. Where neither holds, the job fails with the outcome
`unknown` and a person decides.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from atlas.errors import AtlasError
from atlas.settings import Settings
from engine.jobs import JobContext, PermanentError, RetryAfter
from workers.email.addresses import Address, parse_address
from workers.email.commitments import concealed
from workers.email.ledger import Entry, begin, take
from workers.email.message import EmailInput
from workers.email.microsoft import Microsoft
from workers.email.outbox import Outbox
from workers.email.providers import CannotTell, MaybeSent, NotSent, Outgoing, Provider
from workers.email.resend import Resend
from workers.email.route import Routes, TenantRoute


class MailNotSent(AtlasError):
    """The mail is not out; it is tried again by the job's policy."""


class OutcomeUnknown(AtlasError):
    """The mail may be out. The next attempt finds out before it does anything else."""

    outcome = "unknown"


class UnknownUntil(RetryAfter):
    """The same, and the provider asked to be left alone for a while."""

    outcome = "unknown"


class Mailer:
    """Sends the mails of one process. Make it inside the event loop that uses it, and `close` it at the end."""

    def __init__(self, settings: Settings) -> None:
        self._routes = Routes(settings)
        self._outbox = Outbox(settings)
        self._providers: dict[str, Provider] = {"microsoft": Microsoft(settings), "resend": Resend(settings)}

    async def send(self, mail: EmailInput, ctx: JobContext) -> dict[str, Any]:
        """Send one mail; the answer is the job's output."""
        route = await self._routes.of(ctx.pool, ctx.tenant_id)
        # The first attempt has no past; the ledger is asked from the second on.
        opened = {} if ctx.attempt == 1 else {entry.provider: entry for entry in await take(ctx)}
        for entry in opened.values():
            if entry.state == "sent":
                return self._sent(mail, ctx, entry, found="ledger")
        for entry in opened.values():
            if entry.state == "sending":
                return await self._resume(mail, ctx, route, opened, entry)
        return await self._send_by_any(mail, ctx, route, opened, {})

    async def close(self) -> None:
        """Let go of connections."""
        for provider in self._providers.values():
            await provider.close()

    async def _send_by_any(
        self,
        mail: EmailInput,
        ctx: JobContext,
        route: TenantRoute,
        opened: dict[str, Entry],
        refused: dict[str, NotSent],
    ) -> dict[str, Any]:
        """Try the providers in their order, but those that refused it, as long as each certainly does not have it."""
        for name in self._routes.order(route):
            if name in refused:
                continue
            try:
                entry = await self._send_by(name, mail, ctx, route, opened)
            except NotSent as failure:
                refused[name] = failure
                continue
            if opened:
                await self._clear_away(entry, opened)
            return self._sent(mail, ctx, entry)
        raise _given_up(list(refused.values()))

    async def _send_by(
        self, name: str, mail: EmailInput, ctx: JobContext, route: TenantRoute, opened: dict[str, Entry]
    ) -> Entry:
        self._routes.require(name)
        sender = self._routes.sender(route, name, mail.from_agent)
        outgoing = _outgoing(mail, ctx, route, sender)
        if name == "outbox":
            return Entry(ctx, name, str(sender), "sent", message_id=self._outbox.write(outgoing))
        entry = await begin(ctx, name, str(sender), self._routes.paces(route, name, sender))
        entry.ordered = name in opened and opened[name].ordered
        opened[name] = entry
        return await self._deliver(outgoing, entry)

    async def _resume(
        self, mail: EmailInput, ctx: JobContext, route: TenantRoute, opened: dict[str, Entry], entry: Entry
    ) -> dict[str, Any]:
        """An earlier attempt asked a provider to send it. Find out, and go on with that provider.

        Others come into question only once this one certainly does not have it, or where an operator, who read that
        nobody can tell, ordered the mail again.
        """
        try:
            self._routes.require(entry.provider)
            message_id = await self._providers[entry.provider].resolve(entry)
        except MaybeSent as doubt:
            raise _in_doubt(doubt) from doubt
        except (CannotTell, NotSent) as puzzle:
            if not entry.ordered:
                raise _unknown(puzzle) from puzzle
            return await self._send_by_any(mail, ctx, route, opened, {})
        if message_id is not None:
            await entry.sent(message_id)
            return self._sent(mail, ctx, entry, found="provider")
        sender = parse_address(entry.sender)
        await begin(ctx, entry.provider, entry.sender, self._routes.paces(route, entry.provider, sender))
        try:
            await self._deliver(_outgoing(mail, ctx, route, sender), entry)
        except NotSent as failure:
            if entry.state != "sending":
                return await self._send_by_any(mail, ctx, route, opened, {entry.provider: failure})
            # Whatever was refused now, the earlier attempt may have succeeded.
            if failure.permanent:
                raise _unknown(failure) from failure
            raise _in_doubt(MaybeSent(failure.message, retry_after=failure.retry_after)) from failure
        return self._sent(mail, ctx, entry)

    async def _deliver(self, outgoing: Outgoing, entry: Entry) -> Entry:
        """One sending by one provider, from the first request to the note that it is out."""
        provider = self._providers[entry.provider]
        try:
            message_id = await provider.send(outgoing, entry)
        except MaybeSent as doubt:
            message_id = await self._last_look(provider, entry, doubt)
        except CannotTell as puzzle:
            raise _unknown(puzzle) from puzzle
        except asyncio.CancelledError:
            if entry.state == "sending":
                _note_unknown(entry)
            raise
        await entry.sent(message_id)
        return entry

    async def _last_look(self, provider: Provider, entry: Entry, doubt: MaybeSent) -> str:
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

    async def _clear_away(self, sent: Entry, opened: dict[str, Entry]) -> None:
        """Drafts at the providers that did not send it: somebody might send one by hand."""
        for entry in opened.values():
            if entry.provider != sent.provider and entry.state == "drafted":
                await self._providers[entry.provider].discard(entry)

    def _sent(self, mail: EmailInput, ctx: JobContext, entry: Entry, *, found: str | None = None) -> dict[str, Any]:
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


def _outgoing(mail: EmailInput, ctx: JobContext, route: TenantRoute, sender: Address) -> Outgoing:
    headers = {"X-Atlas-Job": str(ctx.job_id)}
    if mail.trace_id is not None:
        headers["X-Atlas-Trace"] = mail.trace_id
    return Outgoing(mail, ctx.job_id, route.slug, sender, headers)


def _given_up(failures: Sequence[NotSent]) -> AtlasError:
    """No provider took it. It is tried again if any of them may take it later, as soon as the first of those may."""
    message = " ".join(str(failure) for failure in failures)
    passing = [failure for failure in failures if not failure.permanent]
    if not passing:
        return PermanentError(message)
    waits = [failure.retry_after for failure in passing if failure.retry_after]
    return RetryAfter(min(waits), message) if len(waits) == len(passing) else MailNotSent(message)


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


def _note_unknown(entry: Entry) -> None:
    """The attempt is stopped while the provider has the request; its row and its event say so."""
    entry.ctx.notes.detail["outcome"] = "unknown"
    entry.ctx.notes.audit_meta.update({"provider": entry.provider, "outcome": "unknown"})
