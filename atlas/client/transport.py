"""Calls to Atlas's API: each is sent until there is a response, or until its retry budget is spent.

A call whose connection was lost may have been carried out. So every call that changes something carries an
Idempotency-Key, the same one at each try, and an error says whether an earlier try is in doubt. Needs only httpx.
"""

import asyncio
import random
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from atlas.client.errors import ApiError, Unreachable, error_of
from atlas.errors import SettingsError
from atlas.http import CONNECT_SECONDS, NEVER_SENT, RESPONSE_SECONDS, http_client

PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How often and how long a call is tried: after each try a longer pause, or the one that Retry-After asks for."""

    tries: float = 6
    seconds: float = 60.0
    first_pause: float = 0.2
    longest_pause: float = 10.0

    def pause(self, tried: int, after: float | None = None) -> float:
        """Seconds until the next try, with jitter: clients that lost a connection together return one by one."""
        if after is not None:
            return after + random.uniform(0, 0.25 * max(after, self.first_pause))
        longest = min(self.longest_pause, self.first_pause * 2.0 ** min(tried - 1, 30))
        return random.uniform(0.5, 1.0) * longest


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One logical call."""

    method: str
    path: str
    params: Mapping[str, Any] | None = None
    body: bytes | None = None
    key: str | None = None
    # For a long poll: how long the response may take.
    read_seconds: float | None = None

    def headers(self) -> dict[str, str]:
        kind = {} if self.body is None else {"Content-Type": "application/json"}
        return kind if self.key is None else {**kind, "Idempotency-Key": self.key}


class Transport:
    """Connections to one API with one token; close it when done."""

    def __init__(self, url: str, token: str, *, retry: RetryBudget | None = None) -> None:
        self.url = _checked_url(url)
        self.token = _checked_token(token)
        self.retry = retry or RetryBudget()
        self._client = http_client()

    async def close(self) -> None:
        await self._client.aclose()

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
                if not error.is_passing or tried >= retry.tries or time.monotonic() + pause > end:
                    raise
            await asyncio.sleep(pause)

    async def _send(self, request: ApiRequest) -> httpx.Response:
        options: dict[str, Any] = {}
        if request.read_seconds is not None:
            options["timeout"] = httpx.Timeout(RESPONSE_SECONDS, connect=CONNECT_SECONDS, read=request.read_seconds)
        try:
            response = await self._client.request(
                request.method,
                f"{self.url}{PREFIX}{request.path}",
                params=request.params,
                content=request.body,
                headers={"Authorization": f"Bearer {self.token}", **request.headers()},
                **options,
            )
        except (httpx.RequestError, ssl.SSLError) as error:
            # httpx does not wrap TLS errors on an open connection.
            reason = str(error) or type(error).__name__
            raise Unreachable(self.url, reason, may_be_done=not isinstance(error, NEVER_SENT)) from error
        if not response.is_success:
            raise error_of(response, self.url)
        return response


def new_key() -> str:
    """A new idempotency key."""
    return uuid4().hex


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
