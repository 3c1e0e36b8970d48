"""EMAIL_SEND: one mail, sent once, by the first provider that takes it.

A mail is tried again, or given to another provider, only where it is certain that it is not out, or where trying again
cannot make two of it. Where neither holds, the job fails with the outcome `unknown` and an operator decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from atlas.audit.personal_data import conceal
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.errors import LeaseLost
from atlas.extras import require
from atlas.settings import Settings
from atlas.workers.email.addresses import Address, parse_address
from atlas.workers.email.mail_effect import MailEffect, take_mails
from atlas.workers.email.message import EmailInput
from atlas.workers.email.outbox import Outbox
from atlas.workers.email.outcomes import (
    OUTCOMES,
    OutcomeUnknown,
    maybe_sent,
    not_taken,
    note_unknown,
    still_open,
    unknown,
)
from atlas.workers.email.pace import keep_pace
from atlas.workers.email.providers import MailUnknown, MaybeSent, NotSent, Outgoing, Provider
from atlas.workers.email.routing import NEEDS, Routes, TenantRoute


@dataclass(slots=True)
class SendAttempt:
    """One attempt at one mail: the input, the tenant's route, and its effect at each provider."""

    mail: EmailInput
    ctx: AttemptContext
    route: TenantRoute
    effects: dict[str, MailEffect]
    # It counted in the tenant's pace: another provider does not count it again.
    paced: bool = False


class WrittenMail(NamedTuple):
    """A mail in the outbox, which is no effect: a file that is written twice is one mail."""

    provider: str
    sender: str
    message_id: str


class Mailer:
    """Sends the mails of one process. Make it inside the event loop that uses it, and `close` it at the end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._routes = Routes(settings)
        self._outbox = Outbox(settings)
        self._providers: dict[str, Provider] = {}
        # Before the first mail: loading a library holds the event loop. Those of tenants alone are made when needed.
        for name in settings.email_order:
            if NEEDS[name]:
                self._provider(name)

    async def send(self, mail: EmailInput, ctx: AttemptContext) -> dict[str, Any]:
        """Send one mail and return the job's output."""
        effects = await _earlier_effects(ctx)
        if (found := _sent_effect(effects)) is not None:
            return self._sent(mail, ctx, found, found="ledger")
        try:
            attempt = SendAttempt(mail, ctx, await self._routes.of(ctx.pool, ctx.tenant_id), effects)
            if effects:
                return await self._resume(attempt)
            return await self._send_by_any(attempt, self._routes.order(attempt.route))
        except NotSent as failure:
            raise not_taken([failure], unsure=_is_unsure(effects)) from failure
        except LeaseLost:
            # The job is another worker's; or a worker that was taken for dead has sent the mail meanwhile.
            if (found := _sent_effect(effects)) is None:
                raise
            return self._sent(mail, ctx, found, found="ledger")
        except OUTCOMES:
            raise
        except BaseException:
            # Stopped by a time limit, an operator, the worker's shutdown, the database or a fault.
            for effect in effects.values():
                if effect.was_asked:
                    note_unknown(ctx, provider=effect.provider)
            raise

    async def close(self) -> None:
        """Close the connections to the providers."""
        for provider in self._providers.values():
            await provider.close()

    def _provider(self, name: str) -> Provider:
        if name not in self._providers:
            self._providers[name] = _make_provider(name, self._settings)
        return self._providers[name]

    async def _resume(self, attempt: SendAttempt) -> dict[str, Any]:
        """Ask the providers that earlier attempts asked, and go on with one that makes no second mail of it.

        Another provider comes into question only once that one certainly does not have the mail, or where an operator,
        who knew that the outcome is unknown, ordered it again.
        """
        asked = [effect for effect in attempt.effects.values() if effect.was_asked]
        for effect in asked:
            message_id = await self._resolve(effect)
            if message_id is not None:
                await effect.sent(message_id)
                return self._sent(attempt.mail, attempt.ctx, effect, found="provider")
        open_ones = [effect.provider for effect in asked if effect.is_open]
        if len(open_ones) > 1:
            raise unknown(MailUnknown(f"The providers {', '.join(open_ones)} were all asked to send this mail."))
        order = self._order(attempt)
        first = open_ones or [effect.provider for effect in asked if effect.repeatable and effect.provider in order]
        return await self._send_by_any(attempt, [*first, *(name for name in order if name not in first)])

    def _order(self, attempt: SendAttempt) -> Sequence[str]:
        """The providers to try. One with a reserved send slot comes first."""
        order = self._routes.order(attempt.route)
        reserved = [name for name, effect in attempt.effects.items() if effect.has_slot and name in order]
        return [*reserved, *(name for name in order if name not in reserved)] if reserved else order

    async def _resolve(self, effect: MailEffect) -> str | None:
        """Ask one provider what became of the mail. Where it cannot say, only an ordered mail goes on."""
        try:
            self._routes.require(effect.provider)
            message_id = await self._provider(effect.provider).resolve(effect)
        except MaybeSent as error:
            raise maybe_sent(error) from error
        except (MailUnknown, NotSent) as error:
            if not effect.is_ordered:
                raise unknown(error) from error
            return None
        effect.repeatable = message_id is None
        return message_id

    async def _send_by_any(self, attempt: SendAttempt, names: Sequence[str]) -> dict[str, Any]:
        """Try the providers in this order, as long as each before certainly does not have it."""
        refused = []
        for name in names:
            try:
                effect = await self._send_by(name, attempt)
            except NotSent as failure:
                if (held := attempt.effects.get(name)) is not None and _may_yet_tell(failure, held):
                    raise still_open(failure, unsure=held.is_unsure) from failure
                refused.append(failure)
                continue
            return self._sent(attempt.mail, attempt.ctx, effect, found="provider" if effect.provider != name else None)
        raise not_taken(refused, unsure=_is_unsure(attempt.effects))

    async def _send_by(self, name: str, attempt: SendAttempt) -> MailEffect | WrittenMail:
        self._routes.require(name)
        if name == "outbox":
            if attempt.effects and (sent := await self._discard_drafts(name, attempt)) is not None:
                return sent
            sender = self._routes.sender(attempt.route, name, attempt.mail.from_agent)
            return WrittenMail(name, str(sender), self._outbox.write(_outgoing(attempt, sender)))
        effect = attempt.effects.get(name)
        if effect is not None and effect.repeatable:
            # The same request again: a draft belongs to its mailbox, and an idempotency key to one content.
            sender = parse_address(effect.sender)
        else:
            sender = self._routes.sender(attempt.route, name, attempt.mail.from_agent)
        if effect is not None and effect.state == "unknown" and effect.is_ordered and not effect.repeatable:
            await effect.draft_gone()
        paces = self._routes.paces(attempt.route, name, sender, with_tenant=not attempt.paced)
        await keep_pace(attempt.ctx, name, paces)
        attempt.paced = True
        effect = attempt.effects.setdefault(name, MailEffect(attempt.ctx, name, str(sender)))
        if effect.draft_id is None:
            # A draft belongs to the mailbox it was made in.
            effect.sender = str(sender)
        if (sent := await self._discard_drafts(name, attempt)) is not None:
            return sent
        return await self._deliver(_outgoing(attempt, sender), effect)

    async def _deliver(self, outgoing: Outgoing, effect: MailEffect) -> MailEffect:
        """Send by one provider, from the first request to the note that the mail is out."""
        provider = self._provider(effect.provider)
        try:
            message_id = await provider.send(outgoing, effect)
        except MaybeSent as error:
            if effect.was_asked:
                await effect.doubted(error.message)
            message_id = await self._look_once_more(provider, effect, error)
        except MailUnknown as error:
            await effect.doubted(error.message)
            raise unknown(error) from error
        await effect.sent(message_id)
        return effect

    async def _look_once_more(self, provider: Provider, effect: MailEffect, error: MaybeSent) -> str:
        """With retries left, the next attempt asks the provider. Without, this one asks, and believes only a yes."""
        if effect.ctx.job.has_retries_left:
            raise maybe_sent(error) from error
        if effect.draft_id is None:
            # The provider failed, whether it said so or not, and there is nothing to look up.
            raise OutcomeUnknown(error.message) from error
        try:
            message_id = await provider.resolve(effect)
        except (MaybeSent, MailUnknown):
            raise unknown(error) from error
        if message_id is None:
            raise maybe_sent(error) from error
        return message_id

    async def _discard_drafts(self, name: str, attempt: SendAttempt) -> MailEffect | None:
        """Remove drafts at other providers before this one sends. Returns the effect of one that has sent after all."""
        for effect in attempt.effects.values():
            if effect.provider == name or not (effect.has_refused_draft or effect.repeatable):
                continue
            try:
                self._routes.require(effect.provider)
                message_id = await self._provider(effect.provider).discard(effect)
            except MaybeSent as error:
                raise maybe_sent(error) from error
            except (MailUnknown, NotSent) as error:
                if effect.is_ordered:
                    continue
                if isinstance(error, NotSent) and not error.permanent:
                    raise
                await effect.doubted(error.message)
                raise unknown(error) from error
            if message_id is not None:
                await effect.sent(message_id)
                return effect
        return None

    def _sent(
        self, mail: EmailInput, ctx: AttemptContext, effect: MailEffect | WrittenMail, *, found: str | None = None
    ) -> dict[str, Any]:
        """Note for the audit log what was sent, with commitments instead of people, and return the job's output."""
        people = {"recipients": [recipient.address for recipient in mail.recipients], "subject": mail.subject}
        meta, kept = conceal(people, entity_id=str(ctx.job_id))
        meta["provider"], meta["message_id"], meta["sender"] = effect.provider, effect.message_id, effect.sender
        if found is not None:
            meta["found"] = found
        if mail.trace_id is not None:
            meta["trace_id"] = mail.trace_id
        notes = ctx.notes
        notes.audit_meta = meta
        notes.private = kept
        return {"provider": effect.provider, "messageId": effect.message_id, "sender": effect.sender}


async def _earlier_effects(ctx: AttemptContext) -> dict[str, MailEffect]:
    """What earlier attempts noted; the first has none. Where that cannot be read, the mail may be out."""
    if ctx.attempt == 1:
        return {}
    try:
        return {effect.provider: effect for effect in await take_mails(ctx)}
    except BaseException:
        note_unknown(ctx)
        raise


def _sent_effect(effects: dict[str, MailEffect]) -> MailEffect | None:
    return next((effect for effect in effects.values() if effect.state == "done"), None)


def _is_unsure(effects: dict[str, MailEffect]) -> bool:
    """True when an earlier attempt may have sent the mail."""
    return any(effect.is_unsure for effect in effects.values())


def _outgoing(attempt: SendAttempt, sender: Address) -> Outgoing:
    mail, job_id = attempt.mail, attempt.ctx.job_id
    headers = {"X-Atlas-Job": str(job_id)}
    if mail.trace_id is not None:
        headers["X-Atlas-Trace"] = mail.trace_id
    return Outgoing(mail, job_id, attempt.route.slug, sender, headers)


def _may_yet_tell(failure: NotSent, effect: MailEffect) -> bool:
    """No other provider may be tried: this one may have the mail, or would say so if it were asked a little later."""
    return effect.is_open or (effect.is_unsure and effect.repeatable and not failure.permanent)


def _make_provider(name: str, settings: Settings) -> Provider:
    """A provider, with the library that it needs: most installations use one of them."""
    require("mail")
    if name == "microsoft":
        from atlas.workers.email.microsoft import Microsoft

        return Microsoft(settings)
    if name == "resend":
        from atlas.workers.email.resend import Resend

        return Resend(settings)
    from atlas.workers.email.smtp import Smtp

    return Smtp(settings)
