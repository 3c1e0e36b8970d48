"""The calls of Microsoft Graph that sending a mail takes: create a draft, send it, look it up, delete it.

It asks for immutable ids, so that the draft's id still names the message once it is in Sent Items.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import httpx
import orjson

from atlas.outgoing.http import FAILURES, NEVER_SENT, http_client, read_body, retry_after
from atlas.settings import Settings
from atlas.workers.email.entra_token import EntraTokens
from atlas.workers.email.provider_responses import (
    describe,
    is_an_id,
    refusal,
    server_failure,
    shown_message,
)
from atlas.workers.email.providers import MailUnknown, MaybeSent, NotSent

WHO = "Microsoft Graph"
# The time limit of one call, however slowly the response comes.
CALL_SECONDS = 60.0
# The mail is accepted; the body of the response is read only to keep the connection.
REST_SECONDS = 2.0

# A 404 about the mailbox, which says nothing about the message.
_NO_MAILBOX = ("ErrorInvalidUser", "MailboxNotEnabledForRESTAPI", "MailboxNotSupportedForRESTAPI", "ResourceNotFound")

Found = Literal["draft", "sent", "gone"]
Removed = Literal["removed", "gone", "there"]


@dataclass(frozen=True, slots=True)
class GraphResponse:
    """The status, the headers, and the body as JSON, or None where it is not JSON."""

    status: int
    headers: httpx.Headers
    body: Any

    @property
    def code(self) -> str:
        """Graph's code of an error."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return str(error.get("code", "")) if isinstance(error, dict) else ""

    @property
    def is_gone(self) -> bool:
        """True when Graph knows the mailbox and not the message."""
        return self.status == 404 and self.code not in _NO_MAILBOX

    @property
    def said(self) -> str:
        """Graph's message about an error."""
        if not self.code:
            return "" if self.body else "the response is not JSON"
        return f"{self.code}: {self.body['error'].get('message', '')}"


class Graph:
    """A client of Microsoft Graph for one installation."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.ms_graph_url.rstrip("/")
        origin = urlsplit(self._url)
        self._tokens = EntraTokens(settings, f"{origin.scheme}://{origin.netloc}/.default")
        self._client: httpx.AsyncClient | None = None

    async def create_draft(self, sender: str, message: dict[str, Any]) -> str:
        """Create a draft in the sender's mailbox and return its id. However this fails, no mail is out."""
        try:
            response = await self._call("POST", _messages(sender), message)
        except FAILURES as error:
            raise NotSent(f"{WHO} could not be reached: {self._describe(error)}.") from error
        draft_id = response.body.get("id") if isinstance(response.body, dict) else None
        if 200 <= response.status < 300 and is_an_id(draft_id):
            return draft_id
        if 400 <= response.status < 500:
            raise self._refusal(response)
        raise NotSent(
            f"{WHO} made no draft ({response.status}): {self._said(response) or 'the response holds no id'}.",
            retry_after=retry_after(response.headers),
        )

    async def send_draft(self, sender: str, draft_id: str) -> None:
        """Send a draft. Every 2xx is a success, whatever else the response says."""
        try:
            response = await self._call("POST", f"{_messages(sender)}/{quote(draft_id, safe='')}/send")
        except NEVER_SENT as error:
            raise NotSent(f"{WHO} could not be reached: {self._describe(error)}.") from error
        except FAILURES as error:
            reason = self._describe(error)
            raise MaybeSent(f"{WHO} was asked to send the mail, and the connection broke: {reason}.") from error
        if 200 <= response.status < 300:
            return
        if 400 <= response.status < 500:
            raise self._refusal(response)
        raise server_failure(WHO, response.status, self._said(response), response.headers)

    async def look_up(self, sender: str, draft_id: str) -> Found:
        """Return what became of a draft: it still is one, it has been sent, or it is gone."""
        try:
            response = await self._call("GET", f"{_messages(sender)}/{quote(draft_id, safe='')}?$select=id,isDraft")
        except FAILURES as error:
            raise MaybeSent(f"{WHO} could not be asked about an earlier request: {self._describe(error)}.") from error
        except NotSent as error:
            raise (MailUnknown if error.permanent else MaybeSent)(error.message) from error
        is_draft = response.body.get("isDraft") if isinstance(response.body, dict) else None
        if response.status == 200 and isinstance(is_draft, bool):
            return "draft" if is_draft else "sent"
        if response.is_gone:
            return "gone"
        if response.status in (401, 403, 404):
            raise MailUnknown(f"{WHO} does not say what became of an earlier request: {self._said(response)}.")
        raise MaybeSent(
            f"{WHO} did not say what became of an earlier request ({response.status}): {self._said(response)}.",
            retry_after=retry_after(response.headers),
        )

    async def delete_draft(self, sender: str, draft_id: str) -> Removed:
        """Delete a draft that will not be sent: it is removed, was gone before, or may still be there."""
        try:
            response = await self._call("DELETE", f"{_messages(sender)}/{quote(draft_id, safe='')}")
        except (*FAILURES, NotSent):
            return "there"
        if response.status == 204:
            return "removed"
        return "gone" if response.is_gone else "there"

    async def close(self) -> None:
        """Close the connections."""
        await self._tokens.close()
        if self._client is not None:
            await self._client.aclose()

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> GraphResponse:
        """Make one call; a token that is refused is replaced once. Raises NotSent if there is no token at all."""
        async with asyncio.timeout(CALL_SECONDS):
            token = await self._tokens.get()
            response = await self._exchange(method, path, body, token)
            if response.status == 401:
                self._tokens.forget(token)
                response = await self._exchange(method, path, body, await self._tokens.get())
            return response

    async def _exchange(self, method: str, path: str, body: dict[str, Any] | None, token: str) -> GraphResponse:
        if self._client is None:
            self._client = http_client()
        headers = {"Authorization": f"Bearer {token}", "Prefer": 'IdType="ImmutableId"', "Accept": "application/json"}
        content = None
        if body is not None:
            content = orjson.dumps(body)
            headers["Content-Type"] = "application/json"
        async with self._client.stream(method, self._url + path, content=content, headers=headers) as response:
            if response.status_code in (202, 204):
                await self._finish_reading(response)
                return GraphResponse(response.status_code, response.headers, None)
            return GraphResponse(response.status_code, response.headers, _parsed(await read_body(response)))

    async def _finish_reading(self, response: httpx.Response) -> None:
        try:
            async with asyncio.timeout(REST_SECONDS):
                await read_body(response)
        except FAILURES:
            return

    def _refusal(self, response: GraphResponse) -> NotSent:
        refused = refusal(WHO, response.status, self._said(response), response.headers)
        refused.responded = True
        return refused

    def _said(self, response: GraphResponse) -> str:
        return shown_message(response.said, self._tokens.secrets).strip(" .:")

    def _describe(self, error: BaseException) -> str:
        return describe(error, self._tokens.secrets)


def _messages(sender: str) -> str:
    return f"/users/{quote(sender, safe='@')}/messages"


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
