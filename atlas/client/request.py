"""A call of the API before it is sent, and what a client needs of its transport. Needs no HTTP library."""

import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How often and how long a call is tried: after each try a longer pause, or the one that Retry-After asks for."""

    tries: float = 6
    seconds: float = 60.0
    first_pause: float = 0.2
    max_pause: float = 10.0

    def pause(self, tried: int, after: float | None = None) -> float:
        """Seconds until the next try, with jitter: clients that lost a connection together return one by one."""
        if after is not None:
            return after + random.uniform(0, 0.25 * max(after, self.first_pause))
        longest = min(self.max_pause, self.first_pause * 2.0 ** min(tried - 1, 30))
        return random.uniform(0.5, 1.0) * longest


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One logical call."""

    method: str
    path: str
    params: Mapping[str, Any] | None = None
    body: bytes | None = None
    key: str | None = None
    if_match: str | None = None
    # For a long poll: how long the response may take.
    read_seconds: float | None = None
    # The response is read piece by piece, by `Transport.pieces`.
    streamed: bool = False

    @property
    def headers(self) -> dict[str, str]:
        named = {
            "Content-Type": None if self.body is None else "application/json",
            "Idempotency-Key": self.key,
            "If-Match": self.if_match,
        }
        return {name: value for name, value in named.items() if value is not None}

    @property
    def is_repeatable(self) -> bool:
        """True if it may be sent again although it may have been carried out."""
        return self.method == "GET" or self.key is not None


class ApiResponse(Protocol):
    """A successful response whose body was read."""

    @property
    def content(self) -> bytes: ...

    @property
    def text(self) -> str: ...


class ApiTransport(Protocol):
    """Reaches one API as one caller."""

    url: str
    retry: RetryBudget

    async def call(self, request: ApiRequest, *, retry: RetryBudget | None = None) -> ApiResponse:
        """The response, or the error that the API responded with."""

    def pieces(self, request: ApiRequest) -> AsyncIterator[bytes]:
        """The body of a response, as it arrives."""

    async def sleep(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


def new_key() -> str:
    """A new idempotency key."""
    return uuid4().hex
