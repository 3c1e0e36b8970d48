"""Mail by Microsoft Graph, which knows no idempotency key.

A draft takes the key's place: it is made, its id is noted, and then it is sent. One draft can be sent once, so
after an answer that never came the draft itself tells whether the mail is out.
"""

from typing import Any

from atlas.errors import LeaseLost
from atlas.settings import Settings
from atlas.workers.email.addresses import Address, parse_address
from atlas.workers.email.graph import Found, Graph
from atlas.workers.email.ledger import LedgerEntry
from atlas.workers.email.mail_state import MailState
from atlas.workers.email.providers import CannotTell, MaybeSent, NotSent, Outgoing

GONE = "The draft that an earlier attempt left with Microsoft Graph is gone."
# Right after a sending Graph may know the message neither as a draft nor in Sent Items, where its copy comes late.
SETTLING_SECONDS = 15 * 60.0


class Microsoft:
    """The provider `microsoft`."""

    def __init__(self, settings: Settings) -> None:
        self._graph = Graph(settings)

    async def send(self, mail: Outgoing, entry: LedgerEntry) -> str:
        """Send the draft, made now or left by an earlier attempt."""
        left = entry.draft_id
        if left is not None and not entry.repeatable:
            match await self._look_again(entry):
                case "sent":
                    return left
                case "gone":
                    # What is made anew lies with the sender of now.
                    await entry.draft_gone()
                    left, entry.sender = None, str(mail.sender)
        draft_id = left or await self._graph.create_draft(_mailbox(entry), message_of(mail))
        try:
            await entry.requesting(draft_id)
        except LeaseLost:
            # Whoever has the job now makes a draft of its own.
            if left is None:
                await self._graph.delete_draft(_mailbox(entry), draft_id)
            raise
        try:
            await self._graph.send_draft(_mailbox(entry), draft_id)
        except NotSent as refusal:
            if refusal.answered and await self._is_sent_after_all(refusal, entry):
                return draft_id
            await entry.refused(keep_draft=True)
            # While an earlier request may be under way, the draft is all there is to look at.
            if refusal.permanent and not entry.state.is_open:
                await self._remove(entry)
            raise
        return draft_id

    async def resolve(self, entry: LedgerEntry) -> str | None:
        """Look the draft up. Somebody may have removed one that is gone, before or after it was sent."""
        if entry.draft_id is None:
            raise CannotTell("The draft that an earlier attempt left with Microsoft Graph is not known any more.")
        found = await self._graph.look_up(_mailbox(entry), entry.draft_id)
        if found == "gone":
            raise _gone(entry)
        return entry.draft_id if found == "sent" else None

    async def discard(self, entry: LedgerEntry) -> str | None:
        """Remove a refused draft: it might be sent late, or by hand."""
        if entry.draft_id is None:
            return None
        match await self._look_again(entry):
            case "sent":
                return entry.draft_id
            case "gone":
                await entry.draft_gone()
            case "draft":
                if not await self._remove(entry):
                    raise NotSent("The draft that is left with Microsoft Graph could not be removed.")
        return None

    async def _is_sent_after_all(self, refusal: NotSent, entry: LedgerEntry) -> bool:
        """Providers have sent what they said they refused, and an earlier request may have been on its way."""
        assert entry.draft_id is not None
        try:
            found = await self._graph.look_up(_mailbox(entry), entry.draft_id)
        except MaybeSent as doubt:
            raise MaybeSent(f"{refusal.message} {doubt.message}", retry_after=refusal.retry_after) from doubt
        if found == "gone":
            raise _gone(entry, refusal)
        return found == "sent"

    async def _look_again(self, entry: LedgerEntry) -> Found:
        """What became of a draft whose sending was refused. `gone`: it was not sent, or an operator does not mind."""
        assert entry.draft_id is not None
        try:
            found = await self._graph.look_up(_mailbox(entry), entry.draft_id)
        except CannotTell:
            if not entry.state.is_ordered:
                raise
            return "gone"
        if found == "gone" and not entry.state.is_ordered and entry.state is not MailState.DISCARDING:
            raise _gone(entry)
        return found

    async def _remove(self, entry: LedgerEntry) -> bool:
        """Remove a draft, with the intent noted first: else an attempt that finds it gone could not tell why."""
        assert entry.draft_id is not None
        if not await entry.discarding():
            return False
        removed = await self._graph.delete_draft(_mailbox(entry), entry.draft_id)
        if removed == "gone" and not entry.state.is_ordered:
            raise CannotTell(GONE)
        if removed != "there":
            await entry.draft_gone()
        return removed != "there"

    async def close(self) -> None:
        """Let go of connections."""
        await self._graph.close()


def _gone(entry: LedgerEntry, refusal: NotSent | None = None) -> MaybeSent | CannotTell:
    """A draft that is not found, after a refusal in this attempt or without one: soon after a sending it is a doubt."""
    is_young = refusal is not None or entry.age is None or entry.age < SETTLING_SECONDS
    message = GONE if refusal is None else f"{refusal.message} {GONE}"
    if is_young and entry.ctx.job.has_retries_left:
        return MaybeSent(message, retry_after=None if refusal is None else refusal.retry_after)
    return CannotTell(message)


def _mailbox(entry: LedgerEntry) -> str:
    return parse_address(entry.sender).address


def message_of(mail: Outgoing) -> dict[str, Any]:
    """The mail as Graph's message. It holds one form of the words: the html where there is one."""
    asked = mail.mail
    html = asked.html or None
    message: dict[str, Any] = {
        "subject": asked.subject,
        "body": {"contentType": "html" if html else "text", "content": html or asked.text or ""},
        "toRecipients": [_recipient(one) for one in asked.to],
        "internetMessageHeaders": [{"name": name, "value": value} for name, value in mail.headers.items()],
    }
    for field, addresses in (
        ("ccRecipients", asked.cc),
        ("bccRecipients", asked.bcc),
        ("replyTo", asked.reply_to),
    ):
        if addresses:
            message[field] = [_recipient(one) for one in addresses]
    if mail.sender.name:
        message["from"] = _recipient(mail.sender)
    if asked.attachments:
        message["attachments"] = [
            {
                "@odata.type": "#microsoft.graph.fileAttachment",
                "name": one.name,
                "contentType": one.content_type,
                "contentBytes": one.base64,
            }
            for one in asked.attachments
        ]
    return message


def _recipient(address: Address) -> dict[str, Any]:
    named = {"address": address.address, "name": address.name} if address.name else {"address": address.address}
    return {"emailAddress": named}
