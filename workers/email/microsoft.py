"""Mail by Microsoft Graph, which knows no idempotency key.

A draft takes the key's place: it is made, its id is noted, and then it is sent. One draft can be sent once, so
after an answer that never came the draft itself tells whether the mail is out.
"""

from typing import Any

from atlas.errors import LeaseLost
from atlas.settings import Settings
from workers.email.addresses import Address, parse_address
from workers.email.graph import Found, Graph
from workers.email.ledger import Entry
from workers.email.providers import CannotTell, MaybeSent, NotSent, Outgoing


class Microsoft:
    """The provider `microsoft`."""

    def __init__(self, settings: Settings) -> None:
        self._graph = Graph(settings)

    async def send(self, mail: Outgoing, entry: Entry) -> str:
        """Send the draft, made now or left by an earlier attempt."""
        left = entry.draft_id
        if left is not None and not entry.unsure:
            match await self._look_again(entry):
                case "sent":
                    return left
                case "gone":
                    left = None
        draft_id = left or await self._graph.create_draft(_mailbox(entry), message_of(mail))
        try:
            await entry.sending(draft_id)
        except LeaseLost:
            # Whoever has the job now makes a draft of its own.
            if left is None:
                await self._graph.delete_draft(_mailbox(entry), draft_id)
            raise
        try:
            await self._graph.send_draft(_mailbox(entry), draft_id)
        except NotSent as refusal:
            if left is not None and refusal.is_gone:
                # It was sent between the look and this try.
                return draft_id
            if entry.unsure and refusal.permanent and await self.resolve(entry) is not None:
                # An earlier request was still on its way, and has sent it by now.
                return draft_id
            await self._note(refusal, entry)
            raise
        return draft_id

    async def resolve(self, entry: Entry) -> str | None:
        """Look the draft up. What is gone since it was asked for was sent."""
        if entry.draft_id is None:
            return None
        found = await self._graph.look_up(_mailbox(entry), entry.draft_id)
        return None if found == "draft" else entry.draft_id

    async def _look_again(self, entry: Entry) -> Found:
        """A draft whose sending was refused: providers have sent what they said they refused."""
        assert entry.draft_id is not None
        try:
            found = await self._graph.look_up(_mailbox(entry), entry.draft_id)
        except (MaybeSent, CannotTell) as error:
            raise NotSent(error.message, permanent=isinstance(error, CannotTell)) from error
        if found == "gone" and not entry.ordered:
            raise CannotTell("The draft that an earlier attempt left with Microsoft Graph is gone.")
        return found

    async def _note(self, refusal: NotSent, entry: Entry) -> None:
        """Note a refusal, if it says all: while the draft is there, an earlier request on its way may yet send it."""
        draft_id = entry.draft_id
        assert draft_id is not None
        if not entry.unsure:
            await entry.not_sent(keep_draft=not refusal.permanent)
            if refusal.permanent:
                await self._graph.delete_draft(_mailbox(entry), draft_id)
        elif refusal.permanent and await self._graph.delete_draft(_mailbox(entry), draft_id):
            await entry.not_sent()

    async def discard(self, entry: Entry) -> None:
        """Remove a draft that somebody might send by hand."""
        if entry.draft_id is not None:
            await self._graph.delete_draft(_mailbox(entry), entry.draft_id)

    async def close(self) -> None:
        """Let go of connections."""
        await self._graph.close()


def _mailbox(entry: Entry) -> str:
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
