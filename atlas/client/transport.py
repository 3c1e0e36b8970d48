"""Calls to Atlas's API: each is sent until there is a response, or until its retry budget is spent.

A call whose connection was lost may have been carried out. So every call that changes something carries an
Idempotency-Key, the same one at each try, and an error says whether an earlier try is in doubt. Needs only httpx.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from atlas.client.errors import ApiError, Unreachable, error_of
from atlas.client.request import PREFIX, ApiRequest, RetryBudget
from atlas.errors import SettingsError
from atlas.outgoing.http import CONNECT_SECONDS, NEVER_SENT, RESPONSE_SECONDS, blocking_http_client, http_client


class Transport:
    """Connections to one API with one token; close it when done."""

    def __init__(self, url: str, token: str, *, retry: RetryBudget | None = None) -> None:
        self.url = _checked_url(url)
        self.token = _checked_token(token)
        self.retry = retry or RetryBudget()
        self._open()

    async def call(self, request: ApiRequest, *, retry: RetryBudget | None = None) -> httpx.Response:
        """The API's response, or its error once the retry budget is spent."""
        retry = retry or self.retry
        end = time.monotonic() + retry.seconds
        in_doubt = False
        tried = 0
        while True:
            tried += 1
            try:
                return await self._send(request)
            except (ApiError, Unreachable) as error:
                error.in_doubt = in_doubt
                in_doubt = in_doubt or error.may_be_done
                pause = retry.pause(tried, error.after)
                may_try = error.is_passing and (request.is_repeatable or not error.may_be_done)
                if not may_try or tried >= retry.tries or time.monotonic() + pause > end:
                    raise
            await self.sleep(pause)

    async def pieces(self, request: ApiRequest) -> AsyncIterator[bytes]:
        """The body of a response, as it arrives."""
        response = await self.call(request)
        with self._failures_named():
            async for piece in self._read(response):
                yield piece

    async def close(self) -> None:
        await self._client.aclose()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _send(self, request: ApiRequest) -> httpx.Response:
        options: dict[str, Any] = {}
        if request.read_seconds is not None:
            options["timeout"] = httpx.Timeout(RESPONSE_SECONDS, connect=CONNECT_SECONDS, read=request.read_seconds)
        with self._failures_named():
            response = await self._exchange(
                request.method,
                f"{self.url}{PREFIX}{request.path}",
                streamed=request.streamed,
                params=request.params,
                content=request.body,
                headers={"Authorization": f"Bearer {self.token}", **request.headers},
                **options,
            )
        if not response.is_success:
            raise error_of(response, self.url)
        return response

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        try:
            yield
        except (httpx.RequestError, ssl.SSLError) as error:
            # httpx does not wrap TLS errors on an open connection.
            reason = str(error) or type(error).__name__
            raise Unreachable(self.url, reason, may_be_done=not isinstance(error, NEVER_SENT)) from error

    def _open(self) -> None:
        self._client = http_client()

    async def _exchange(self, method: str, url: str, *, streamed: bool, **options: Any) -> httpx.Response:
        response = await self._client.send(self._client.build_request(method, url, **options), stream=streamed)
        if streamed and not response.is_success:
            await response.aread()
        return response

    async def _read(self, response: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for piece in response.aiter_bytes():
                yield piece
        finally:
            await response.aclose()


class BlockingTransport(Transport):
    """The same for programs without an event loop: its coroutines block instead of waiting, and so end immediately."""

    async def close(self) -> None:
        self._blocking.close()

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251

    def _open(self) -> None:
        self._blocking = blocking_http_client()

    async def _exchange(self, method: str, url: str, *, streamed: bool, **options: Any) -> httpx.Response:
        response = self._blocking.send(self._blocking.build_request(method, url, **options), stream=streamed)
        if streamed and not response.is_success:
            response.read()
        return response

    async def _read(self, response: httpx.Response) -> AsyncIterator[bytes]:
        try:
            for piece in response.iter_bytes():
                yield piece
        finally:
            response.close()


def _checked_url(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        parsed = httpx.URL()
    is_ours = parsed.scheme in ("http", "https") and parsed.host and (parsed.port is None or 0 < parsed.port < 65536)
    if not is_ours or parsed.userinfo or parsed.query or parsed.fragment:
        raise SettingsError("The address of the API cannot be used.", remedy="Give one such as http://127.0.0.1:8080.")
    # Normalized by httpx: the scheme in lower case, say.
    return str(parsed).rstrip("/").removesuffix(PREFIX)


def _checked_token(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(
            "The token cannot be used: it is not one word of printable characters.",
            remedy="Give one as `atlas token add` shows it.",
        )
    return token
