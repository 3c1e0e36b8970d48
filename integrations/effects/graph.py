"""Mails by Microsoft Graph, which has no idempotency key: a draft that holds the key is created, and then sent.

A draft can be sent once, and shows whether it was. The key is an extended property of the message, by which the mailbox
can be filtered; Exchange replaces a Message-ID, and keeps the property.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from atlas.engine.effects.adapters import GRAPH_KEY, EffectUnknown, ProviderEntry, ProviderUnavailable
from atlas.engine.effects.outcomes import Answer, CannotTell, Done, EffectRefused, NotDone
from atlas.integrations.effects.wire import Wire, moment

DEFAULT_URL = "https://graph.microsoft.com/v1.0"
PAGE = 100


class GraphMail:
    """The adapter for one mailbox. `token` returns an access token with Mail.ReadWrite and Mail.Send."""

    # The draft of the key is sent at most once.
    repeatable_for = timedelta(0)
    # Right after a request to send, the message may be neither a draft nor in Sent Items.
    grace = timedelta(minutes=15)

    def __init__(self, mailbox: str, token: Callable[[], Awaitable[str]], *, url: str = DEFAULT_URL) -> None:
        self._token = token
        self._wire = Wire("Microsoft Graph", url, {"Prefer": 'IdType="ImmutableId"', "Accept": "application/json"})
        self._path = f"/users/{quote(mailbox, safe='@')}"

    async def call(self, key: str, message: dict[str, Any]) -> str:
        """Send a message, and return its id. A draft that an earlier attempt left under this key is sent instead."""
        draft = await self._find(key)
        sent = [message for message in draft if not message["isDraft"]]
        if sent:
            return str(sent[0]["id"])
        draft_id = str(draft[0]["id"]) if draft else await self._create(key, message)
        path = f"{self._path}/messages/{quote(draft_id, safe='')}/send"
        response = await self._wire.make("POST", path, headers=await self._headers())
        if response.is_success:
            return draft_id
        # Another attempt sent the draft in the meantime, or it was removed.
        if response.status == 404:
            raise EffectUnknown(f"The draft {draft_id} was gone when it was to be sent.")
        raise self._wire.failure(response)

    async def lookup(self, key: str) -> Answer:
        """Look for the message in the mailbox. CannotTell where it is in neither form: it may have been removed."""
        try:
            draft = await self._find(key)
        except ProviderUnavailable as error:
            return CannotTell(error.message)
        sent = [message for message in draft if not message["isDraft"]]
        if sent:
            return Done(str(sent[0]["id"]))
        return NotDone() if draft else CannotTell("The mailbox holds no message with this key.")

    async def list(self, since: datetime) -> AsyncIterator[ProviderEntry]:
        """The messages with a key that were sent since then, the newest first. Mails of people are left out."""
        query = {
            "$filter": f"sentDateTime ge {since.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}",
            "$orderby": "sentDateTime desc",
            "$select": "id,sentDateTime",
            "$expand": f"singleValueExtendedProperties($filter=id eq '{GRAPH_KEY}')",
            "$top": PAGE,
        }
        path: str | None = f"{self._path}/mailFolders/sentitems/messages?{urlencode(query, quote_via=quote)}"
        while path:
            page = (await self._wire.read(path, headers=await self._headers())).fields
            for message in _messages(page):
                for held in message.get("singleValueExtendedProperties") or ():
                    made_at = moment(message["sentDateTime"])
                    yield ProviderEntry(reference=message["id"], key=held["value"], made_at=made_at)
            path = page.get("@odata.nextLink")

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def _find(self, key: str) -> Sequence[dict[str, Any]]:
        """The messages of the mailbox that hold the key: a draft, a sent one, or none."""
        value = key.replace("'", "''")
        query = {
            "$filter": f"singleValueExtendedProperties/Any(ep: ep/id eq '{GRAPH_KEY}' and ep/value eq '{value}')",
            "$select": "id,isDraft",
        }
        path = f"{self._path}/messages?{urlencode(query, quote_via=quote)}"
        return _messages((await self._wire.read(path, headers=await self._headers())).fields)

    async def _create(self, key: str, message: dict[str, Any]) -> str:
        """Create the draft. However this fails, no mail is out."""
        held = [*message.get("singleValueExtendedProperties", ()), {"id": GRAPH_KEY, "value": key}]
        content = orjson.dumps({**message, "singleValueExtendedProperties": held})
        headers = {**await self._headers(), "Content-Type": "application/json"}
        try:
            response = await self._wire.make("POST", f"{self._path}/messages", headers=headers, content=content)
        except EffectUnknown as error:
            raise EffectRefused(error.message) from error
        draft_id = response.fields.get("id")
        if response.is_success and isinstance(draft_id, str):
            return draft_id
        raise EffectRefused(f"Microsoft Graph made no draft ({response.status}): {response.said or 'no reason given'}.")

    async def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {await self._token()}"}


def _messages(page: dict[str, Any]) -> list[dict[str, Any]]:
    messages = page.get("value")
    if not isinstance(messages, list):
        raise ProviderUnavailable("Microsoft Graph gave a list that cannot be read.")
    return messages
