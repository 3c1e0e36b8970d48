"""Sends mail by Resend. The idempotency key is the job's id: a request repeated within a day sends nothing twice.

The SDK keeps its key, address and HTTP client in module variables. They are set right before each call, and the call
reads them before it first awaits, so that several installations in one process do not mix.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import httpx
import resend
from resend.exceptions import NoContentError, ResendError

from atlas.outgoing.http import NEVER_SENT, http_client, read_body
from atlas.settings import Settings
from atlas.workers.email.mail_effect import MailEffect
from atlas.workers.email.provider_responses import (
    describe,
    is_an_id,
    refusal,
    secrets_of,
    server_failure,
    shown_message,
)
from atlas.workers.email.providers import MailUnknown, MaybeSent, NotSent, Outgoing

WHO = "Resend"
DEFAULT_URL = "https://api.resend.com"
CALL_SECONDS = 60.0
# Resend keeps a key for 24 hours; a repeated request must arrive well before.
KEY_SECONDS = 23.75 * 3600

_OTHER_CONTENT = "invalid_idempotent_request"
# Another request with this key is under way, or this one took too long: the mail may be sent.
_MAYBE_SENT = (408, 409)


class Resend:
    """The provider `resend`."""

    def __init__(self, settings: Settings) -> None:
        self._key = settings.resend_api_key
        self._secrets = secrets_of(settings)
        self._url = (settings.resend_api_url or DEFAULT_URL).rstrip("/")
        self._http = _Client()

    async def send(self, mail: Outgoing, effect: MailEffect) -> str:
        """Ask Resend to send it, with the job's id as key."""
        await effect.requesting()
        try:
            return await self._call(mail)
        except NotSent as refusal:
            await effect.refused(refusal.message)
            raise

    async def resolve(self, effect: MailEffect) -> str | None:
        """The key makes it safe to ask again, for as long as Resend keeps it."""
        if effect.age is None or effect.age < KEY_SECONDS:
            return None
        raise MailUnknown(
            f"{WHO} was asked to send this mail {effect.age / 3600:.0f} hours ago and never responded;"
            " its idempotency key has expired."
        )

    async def discard(self, effect: MailEffect) -> str | None:
        """Resend keeps no drafts."""
        return None

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def _call(self, mail: Outgoing) -> str:
        resend.api_key, resend.api_url, resend.default_async_http_client = self._key, self._url, self._http
        params = cast(resend.Emails.SendParams, params_of(mail))
        try:
            response = await resend.Emails.send_async(params, {"idempotency_key": str(mail.job_id)})
        except ResendError as error:
            raise self._verdict(error) from error
        except NoContentError as error:
            raise server_failure(WHO, 200, "the response is empty", {}) from error
        except Exception as error:
            # The SDK does not check responses: too deep, too long a number, a list for a name.
            said = describe(error, self._secrets)
            raise MaybeSent(f"{WHO} gave a response that cannot be read: {said}.", responded=True) from error
        message_id = response.get("id") if isinstance(response, dict) else None
        if not is_an_id(message_id):
            raise server_failure(WHO, 200, "the response holds no id", {})
        return message_id

    def _verdict(self, error: ResendError) -> NotSent | MaybeSent | MailUnknown:
        """What the SDK's error says about the mail. It reports a broken connection as a 500; the cause says more."""
        cause = error.__context__
        if error.error_type == "HttpClientError":
            if isinstance(cause, NEVER_SENT):
                return NotSent(f"{WHO} could not be reached: {describe(cause, self._secrets)}.")
            said = describe(cause, self._secrets) if cause is not None else "no reason given"
            return MaybeSent(f"{WHO} was asked to send the mail, and the connection broke: {said}.")
        status = int(error.code) if str(error.code).isdecimal() else 0
        said = shown_message(f"{error.error_type}: {error.message}", self._secrets).strip(" .:")
        if error.error_type == _OTHER_CONTENT:
            return MailUnknown(f"{WHO} was asked before to send another mail under this job's id: {said}.")
        if status in _MAYBE_SENT or not 400 <= status < 500:
            return server_failure(WHO, status, said, error.headers)
        return refusal(WHO, status, said, error.headers)


def params_of(mail: Outgoing) -> dict[str, Any]:
    """The mail as Resend's request. It must be the same in every attempt, or Resend refuses the key."""
    asked = mail.mail
    params: dict[str, Any] = {
        "from": str(mail.sender),
        "to": [str(address) for address in asked.to],
        "subject": asked.subject,
        "headers": mail.headers,
    }
    for field, addresses in (("cc", asked.cc), ("bcc", asked.bcc), ("reply_to", asked.reply_to)):
        if addresses:
            params[field] = [str(address) for address in addresses]
    for form, content in (("text", asked.text), ("html", asked.html)):
        if content:
            params[form] = content
    if asked.attachments:
        params["attachments"] = [
            {"filename": file.name, "content": file.base64, "content_type": file.content_type}
            for file in asked.attachments
        ]
    return params


class _Client(resend.AsyncHTTPClient):
    """Makes the SDK use Atlas's own HTTP client, with its certificates, limits and connection reuse."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        json: dict[str, object] | list[object] | None = None,
        files: dict[str, Any] | None = None,
        data: dict[str, str] | None = None,
    ) -> tuple[bytes, int, Mapping[str, str]]:
        if self._client is None:
            self._client = http_client()
        async with asyncio.timeout(CALL_SECONDS):
            async with self._client.stream(
                method, url, headers=dict(headers), json=json, files=files, data=data
            ) as response:
                return await read_body(response), response.status_code, response.headers

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
