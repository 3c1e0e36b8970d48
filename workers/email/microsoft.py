"""Sends mail by Microsoft Graph, which has no idempotency key.

A draft takes the place of the key: it is created, its id is noted, and then it is sent. A draft can be sent once. So if
a response never came, the draft itself shows whether the mail is out.
"""

from typing import Any

from atlas.engine.effects.adapters import GRAPH_KEY
from atlas.errors import LeaseLost
from atlas.settings import Settings
from atlas.workers.email.addresses import Address, parse_address
from atlas.workers.email.graph import Found, Graph
from atlas.workers.email.mail_effect import MailEffect
from atlas.workers.email.providers import MailUnknown, MaybeSent, NotSent, Outgoing

GONE = "The draft that an earlier attempt left with Microsoft Graph is gone."
# Right after a request to send, Graph may show the message neither as a draft nor in Sent Items.
SETTLING_SECONDS = 15 * 60.0


class Microsoft:
    """The provider `microsoft`."""

    def __init__(self, settings: Settings) -> None:
        self._graph = Graph(settings)

    async def send(self, mail: Outgoing, effect: MailEffect) -> str:
        """Send the draft, created now or left by an earlier attempt."""
        left = effect.draft_id
        if left is not None and not effect.repeatable:
            match await self._look_again(effect):
                case "sent":
                    return left
                case "gone":
                    # A new draft is made in the mailbox of the current sender.
                    await effect.draft_gone()
                    left, effect.sender = None, str(mail.sender)
        draft_id = left or await self._graph.create_draft(_mailbox(effect), message_of(mail))
        try:
            await effect.requesting(draft_id)
        except LeaseLost:
            # The worker that has the job now makes a draft of its own.
            if left is None:
                await self._graph.delete_draft(_mailbox(effect), draft_id)
            raise
        try:
            await self._graph.send_draft(_mailbox(effect), draft_id)
        except NotSent as refusal:
            if refusal.responded and await self._is_sent_after_all(refusal, effect):
                return draft_id
            await effect.refused(refusal.message)
            # While an earlier request may be under way, only the draft can show what became of it.
            if refusal.permanent and not effect.is_open:
                await self._remove(effect)
            raise
        return draft_id

    async def resolve(self, effect: MailEffect) -> str | None:
        """Look the draft up. A draft that is gone may have been removed by a person, before or after it was sent."""
        if effect.draft_id is None:
            raise MailUnknown("The draft that an earlier attempt left with Microsoft Graph is no longer known.")
        draft_state = await self._graph.look_up(_mailbox(effect), effect.draft_id)
        if draft_state == "gone":
            raise _gone(effect)
        return effect.draft_id if draft_state == "sent" else None

    async def discard(self, effect: MailEffect) -> str | None:
        """Remove a refused draft: Graph might still send it late, or a person by hand."""
        if effect.draft_id is None:
            return None
        match await self._look_again(effect):
            case "sent":
                return effect.draft_id
            case "gone":
                await effect.draft_gone()
            case "draft":
                if not await self._remove(effect):
                    raise NotSent("The draft that is left with Microsoft Graph could not be removed.")
        return None

    async def _is_sent_after_all(self, refusal: NotSent, effect: MailEffect) -> bool:
        """Look a refused draft up: Graph has sent drafts it refused, and an earlier request may have been under way."""
        assert effect.draft_id is not None
        try:
            draft_state = await self._graph.look_up(_mailbox(effect), effect.draft_id)
        except MaybeSent as error:
            raise MaybeSent(f"{refusal.message} {error.message}", retry_after=refusal.retry_after) from error
        if draft_state == "gone":
            raise _gone(effect, refusal)
        return draft_state == "sent"

    async def _look_again(self, effect: MailEffect) -> Found:
        """Look up a draft that was refused. `gone`: it was not sent, or an operator ordered the mail again."""
        assert effect.draft_id is not None
        try:
            draft_state = await self._graph.look_up(_mailbox(effect), effect.draft_id)
        except MailUnknown:
            if not effect.is_ordered:
                raise
            return "gone"
        if draft_state == "gone" and not effect.is_ordered and "discarding" not in effect.marks:
            raise _gone(effect)
        return draft_state

    async def _remove(self, effect: MailEffect) -> bool:
        """Remove a draft. The intent is noted first, or an attempt that finds it gone could not know why."""
        assert effect.draft_id is not None
        if not await effect.discarding():
            return False
        removed = await self._graph.delete_draft(_mailbox(effect), effect.draft_id)
        if removed == "gone" and not effect.is_ordered:
            raise MailUnknown(GONE)
        if removed != "there":
            await effect.draft_gone()
        return removed != "there"

    async def close(self) -> None:
        """Close the connections."""
        await self._graph.close()


def _gone(effect: MailEffect, refusal: NotSent | None = None) -> MaybeSent | MailUnknown:
    """The error for a draft that is not found: soon after a request to send, it may still appear in Sent Items."""
    is_young = refusal is not None or effect.age is None or effect.age < SETTLING_SECONDS
    message = GONE if refusal is None else f"{refusal.message} {GONE}"
    if is_young and "refused" not in effect.marks and effect.ctx.job.has_retries_left:
        return MaybeSent(message, retry_after=None if refusal is None else refusal.retry_after)
    return MailUnknown(message)


def _mailbox(effect: MailEffect) -> str:
    return parse_address(effect.sender).address


def message_of(mail: Outgoing) -> dict[str, Any]:
    """The mail as Graph's message, which holds one form of the text: the html where there is one."""
    asked = mail.mail
    html = asked.html or None
    message: dict[str, Any] = {
        "subject": asked.subject,
        "body": {"contentType": "html" if html else "text", "content": html or asked.text or ""},
        "toRecipients": [_recipient(address) for address in asked.to],
        "internetMessageHeaders": [{"name": name, "value": value} for name, value in mail.headers.items()],
        # By this a reconciliation finds it in Sent Items.
        "singleValueExtendedProperties": [{"id": GRAPH_KEY, "value": str(mail.job_id)}],
    }
    for field, addresses in (
        ("ccRecipients", asked.cc),
        ("bccRecipients", asked.bcc),
        ("replyTo", asked.reply_to),
    ):
        if addresses:
            message[field] = [_recipient(address) for address in addresses]
    if mail.sender.name:
        message["from"] = _recipient(mail.sender)
    if asked.attachments:
        message["attachments"] = [
            {
                "@odata.type": "#microsoft.graph.fileAttachment",
                "name": file.name,
                "contentType": file.content_type,
                "contentBytes": file.base64,
            }
            for file in asked.attachments
        ]
    return message


def _recipient(address: Address) -> dict[str, Any]:
    named = {"address": address.address, "name": address.name} if address.name else {"address": address.address}
    return {"emailAddress": named}
