"""Makes the request of an HTTP_CALL job, and decides by the response whether it is made again.

A request that is not idempotent is an effect, `http.call`: it is recorded before it is made. If its outcome is unknown,
it is made again with the same Idempotency-Key within a day, or, if the server ignores the key, a person decides.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import httpx
import orjson

from atlas.engine.effects.effect_call import OpenEffect
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.verdicts import PermanentError, RetryAfter, Snooze
from atlas.engine.secrets.redact import Redactor
from atlas.engine.webhooks.signature import sign
from atlas.engine.webhooks.target import load_target, note_failure, note_success
from atlas.errors import AtlasError
from atlas.outgoing.guarded_transport import AddressRefused, GuardedTransport
from atlas.outgoing.http import CONNECT_SECONDS, FAILURES, NEVER_SENT, http_client, retry_after
from atlas.settings import Settings
from atlas.workers.http_call.call_input import MAX_TIMEOUT, HttpCall, fill_in

# So much of a response is kept.
KEPT_BYTES = 64 * 1024
KEPT_HEADERS = 40
KEPT_VALUE = 500
KEPT_MESSAGE = 300
# Requests that may succeed later, beside every 5xx: a timeout, too early, too many.
PASSING = (408, 425, 429)
# The name of a call among the effects.
EFFECT = "http.call"
# A repetition of these may do what the first request did once more.
NOT_IDEMPOTENT = ("POST", "PATCH")
# Responses that do not say whether the request was carried out, beside every 5xx: the redirects that follow a request
# which was, a timeout, and a key that is in use.
UNCERTAIN = (302, 303, 408, 409)
# The server wants no more of these: its webhook is disabled.
GONE = 410
# How many deliveries to a failing webhook are tried at a time: a dead server must not occupy a worker.
MAX_CONCURRENT_RETRIES = 2
RETRY_SECONDS = 30.0
# Of each part; the job's own timeout is for the whole.
_PARTS = httpx.Timeout(MAX_TIMEOUT, connect=CONNECT_SECONDS)


class CallFailed(AtlasError):
    """There was no response, or one that may be another the next time."""


class NotReached(CallFailed):
    """The server has certainly not received the request."""


class CallRefused(PermanentError):
    """The response says that the same request will not succeed."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.facts = {"status": status}


class HttpRequest(NamedTuple):
    """A request as it is sent."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes


class HttpReply(NamedTuple):
    """The beginning of a response."""

    status: int
    headers: httpx.Headers
    content: bytes
    is_cut: bool

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    @property
    def body(self) -> Any:
        """JSON as a value where it is whole, anything else as text."""
        if "json" in self.headers.get("content-type", "") and not self.is_cut:
            try:
                return orjson.loads(self.content)
            except orjson.JSONDecodeError:
                pass
        return self.text


class HttpCaller:
    """Makes the requests of one process. Make it inside the event loop that uses it, and `close` it at the end."""

    def __init__(self, settings: Settings) -> None:
        self._allowed = settings.atlas_http_allowed_networks or ()
        self._client: httpx.AsyncClient | None = None
        # Deliveries under way, by webhook.
        self._trying: Counter[UUID] = Counter()

    async def call(self, input: HttpCall, ctx: AttemptContext) -> dict[str, Any]:
        """Make the request and return the job's output."""
        if input.webhook is not None:
            return await self._deliver(input, ctx, input.webhook)
        headers = {name: fill_in(value, input.secrets) for name, value in input.headers.items()}
        secrets = () if input.sign is None else (input.secrets[input.sign],)
        request = request_of(input, fill_in(input.url or "", input.secrets), headers, secrets, ctx.idempotency_key)
        if input.method not in NOT_IDEMPOTENT and input.repeatable:
            return await self._make(request, input.timeout_seconds)
        # The address as it is written in the input, without the values of secrets.
        detail = {"method": input.method, "url": input.url}
        key, repeatable = ctx.idempotency_key, input.repeatable
        async with ctx.effect(EFFECT, key=key, repeatable=repeatable, detail=detail) as effect:
            if effect.is_done:
                return output_of_reference(effect.reference)
            return await self._make_effect(request, input.timeout_seconds, effect)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _deliver(self, input: HttpCall, ctx: AttemptContext, webhook_id: UUID) -> dict[str, Any]:
        """The same to a webhook, which learns from the outcome whether it works."""
        target = await load_target(ctx.pool, webhook_id, ctx.job_id)
        if target.is_failing and self._trying[webhook_id] >= MAX_CONCURRENT_RETRIES:
            raise Snooze(RETRY_SECONDS * (1 + random.random()), "the webhook fails, and other deliveries try it")
        # Its server knows the secrets, and may repeat them.
        ctx.redactor = Redactor(dict.fromkeys(target.secrets, "of the webhook"))
        request = request_of(input, target.url, {}, target.secrets, ctx.idempotency_key)
        self._trying[webhook_id] += 1
        try:
            output = await self._make(request, input.timeout_seconds)
        except AtlasError as error:
            gone = isinstance(error, CallRefused) and error.facts["status"] == GONE
            async with ctx.pool.acquire() as conn:
                await note_failure(conn, target, ctx.redactor.text(error.message), gone=gone)
            raise
        finally:
            self._trying[webhook_id] -= 1
        if target.is_failing:
            async with ctx.pool.acquire() as conn:
                await note_success(conn, target)
        return output

    async def _make(self, request: HttpRequest, seconds: float) -> dict[str, Any]:
        reply = await self._send(request, seconds)
        if 200 <= reply.status < 300:
            return output_of(reply)
        raise failure_of(reply)

    async def _make_effect(self, request: HttpRequest, seconds: float, effect: OpenEffect) -> dict[str, Any]:
        """The same, and say what became of the effect. It stays unknown if the response does not say so."""
        try:
            reply = await self._send(request, seconds)
        except (NotReached, PermanentError) as error:
            effect.refused(error)
        if 200 <= reply.status < 300:
            effect.done(reply.headers.get("location") or f"HTTP {reply.status}")
            return output_of(reply)
        failure = failure_of(reply)
        if reply.status < 500 and reply.status not in UNCERTAIN:
            effect.refused(failure)
        raise failure

    async def _send(self, request: HttpRequest, seconds: float) -> HttpReply:
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(request)
        except AddressRefused as error:
            raise PermanentError(error.message, remedy=error.remedy) from error
        except NEVER_SENT as error:
            raise NotReached(_broken(error, seconds)) from error
        except FAILURES as error:
            raise CallFailed(_broken(error, seconds)) from error

    async def _exchange(self, request: HttpRequest) -> HttpReply:
        if self._client is None:
            self._client = http_client(transport=GuardedTransport(self._allowed))
        method, url, headers, content = request
        async with self._client.stream(method, url, headers=headers, content=content, timeout=_PARTS) as response:
            kept = b""
            # Not decompressed: a small response could become a large one.
            async for part in response.aiter_raw():
                kept += part
                if len(kept) > KEPT_BYTES:
                    break
            return HttpReply(response.status_code, response.headers, kept[:KEPT_BYTES], len(kept) > KEPT_BYTES)


def request_of(input: HttpCall, url: str, headers: dict[str, str], secrets: Sequence[str], key: str) -> HttpRequest:
    """The request, with the job's id as idempotency key, and signed with each of the secrets."""
    content, kind = _content(input.body)
    if content and "content-type" not in {name.lower() for name in headers}:
        headers["Content-Type"] = kind
    headers["Idempotency-Key"] = key
    if secrets:
        headers |= sign(secrets, key, int(time.time()), content)
    return HttpRequest(input.method, url, headers, content)


def output_of(reply: HttpReply) -> dict[str, Any]:
    """What the job keeps of a response."""
    headers = [(name, value[:KEPT_VALUE]) for name, value in reply.headers.items() if name != "set-cookie"]
    return {
        "status": reply.status,
        "headers": dict(headers[:KEPT_HEADERS]),
        "body": reply.body,
        "truncated": reply.is_cut,
    }


def output_of_reference(reference: str | None) -> dict[str, Any]:
    """The output of a call that an earlier attempt made, or a person said was made: its response is not kept."""
    return {"status": None, "headers": {}, "body": None, "truncated": True, "reference": reference}


def failure_of(reply: HttpReply) -> AtlasError:
    """The error for a response that is not a success: made again, made again later, or never."""
    said = " ".join(reply.text[: 4 * KEPT_MESSAGE].split())[:KEPT_MESSAGE]
    message = f"The server responded with {reply.status}" + (f": {said}" if said else ".")
    if reply.status in PASSING or reply.status >= 500:
        wait = retry_after(reply.headers)
        return CallFailed(message) if not wait else RetryAfter(wait, message)
    if 300 <= reply.status < 400:
        message = f"The server redirects with {reply.status}, which is not followed; use the address it leads to."
    return CallRefused(message, reply.status)


def _content(body: Any) -> tuple[bytes, str]:
    """A text as it is, anything else as JSON."""
    if body is None:
        return b"", ""
    if isinstance(body, str):
        return body.encode(), "text/plain; charset=utf-8"
    return orjson.dumps(body), "application/json"


def _broken(error: BaseException, seconds: float) -> str:
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return f"The server did not respond within {seconds:g} s."
    said = str(error).strip(" .") or type(error).__name__
    return f"The request failed: {said}."
