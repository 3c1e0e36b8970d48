"""Who calls: a token in the Authorization header, or a session's cookie, never both.

What was found good is remembered for some seconds, so that a busy caller costs the database nothing; a revoked token is
out everywhere when that time is over, and at once in the process that revoked it.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from starlette.requests import HTTPConnection

from atlas.api.db import borrowed
from atlas.api.errors import Forbidden, TooManyRequests, Unauthenticated
from atlas.api.limits.rates import Buckets, Rates
from atlas.api.middleware import header
from atlas.api.ttl_cache import TtlCache
from atlas.db.pool import Pool
from atlas.engine.sessions import Session, csrf_token, find_session
from atlas.engine.tokens import Role, Token, authenticate

# Half of the 30 s within which a revocation must be felt, so that an open WebSocket's own check fits in too.
REMEMBERED_SECONDS = 10.0
LONGEST_CREDENTIAL = 512
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Roles of programs that do jobs.
AGENTS = ("host", "worker")
SECURE_COOKIE = "__Host-atlas"
PLAIN_COOKIE = "atlas"
CSRF_HEADER = "x-csrf-token"


@dataclass(frozen=True, slots=True)
class Caller:
    """A known caller. `subject` is who acts; what it may see is its tenant, or everything where it has none."""

    token: Token
    session: Session | None = None
    csrf: str | None = None
    # What tells this credential from every other, for those who look again whether it is still good.
    again: Callable[[], Awaitable["Caller"]] | None = field(default=None, compare=False)

    @property
    def subject(self) -> str:
        return self.token.subject

    @property
    def role(self) -> Role:
        return self.token.role

    @property
    def tenant_id(self) -> UUID | None:
        return self.token.tenant_id

    @property
    def scopes(self) -> Mapping[str, Any]:
        return self.token.scopes

    @property
    def share(self) -> tuple[UUID, bool]:
        """Whose share of this process it uses: its tenant's, or its own where it has none.

        Those who do a tenant's jobs have one beside it, so that whoever looks at them does not cost them their leases.
        """
        return self.tenant_id or self.token.id, self.role in AGENTS


class Callers:
    """Finds out who calls."""

    def __init__(self, pool: Pool, rates: Rates) -> None:
        self._pool = pool
        self._rates = rates
        self._known: TtlCache[bytes, Caller] = TtlCache(REMEMBERED_SECONDS)
        self._failures = Buckets()
        # Those who may be guessing are looked up one after the other, so that they keep one connection at most.
        self._guessing = asyncio.Semaphore(1)

    async def identify(self, request: HTTPConnection) -> Caller:
        """The caller of a request, checked for forgery where a browser may have been tricked into it."""
        given = header(request.scope, b"authorization")
        cookie = request.cookies.get(cookie_name(request)) if b"cookie" in request.scope["atlas.headers"] else None
        if given is not None and cookie is not None:
            raise Unauthenticated("A token and a session came together; send one of them.")
        address = address_of(request)
        if given is not None:
            scheme, _, clear = given.partition(" ")
            if scheme.lower() != "bearer":
                raise Unauthenticated()
            return await self.by_token(clear.strip(), address)
        if cookie is None:
            raise Unauthenticated()
        caller = await self.by_session(cookie, address)
        if request.scope["type"] == "http" and request.scope["method"] not in SAFE_METHODS:
            require_same_site(request, caller)
        return caller

    async def by_token(self, clear: str, address: str) -> Caller:
        """The caller behind a token's clear text."""
        return await self._remembered(b"t" + _digest(clear), clear, address, self._find_token)

    async def by_session(self, clear: str, address: str) -> Caller:
        """The caller behind a session's cookie."""
        return await self._remembered(b"s" + _digest(clear), clear, address, self._find_session)

    def forget(self) -> None:
        """Remember nobody: something about credentials has changed."""
        self._known.forget()

    async def _remembered(
        self, key: bytes, clear: str, address: str, find: Callable[[str], Awaitable[Caller | None]]
    ) -> Caller:
        known = self._known.peek(key)
        if known is not None:
            return known

        async def again() -> Caller:
            return await self._remembered(key, clear, address, find)

        async def look_up() -> Caller:
            # Whoever else was wrong at this address: a good credential is good.
            async with self._guessing if self._failed_often(address) else nullcontext():
                found = await find(clear) if 0 < len(clear) <= LONGEST_CREDENTIAL else None
            if found is None:
                wait = self._failures.take(address, self._rates.failures, self._rates.most_failures)
                raise TooManyRequests("with wrong credentials from this address", wait) if wait else Unauthenticated()
            return Caller(found.token, found.session, found.csrf, again)

        return await self._known.get(key, look_up)

    def _failed_often(self, address: str) -> bool:
        return self._failures.is_empty(address, self._rates.failures, self._rates.most_failures) > 0

    async def _find_token(self, clear: str) -> Caller | None:
        async with borrowed(self._pool) as conn:
            token = await authenticate(conn, clear)
        return None if token is None else Caller(token)

    async def _find_session(self, clear: str) -> Caller | None:
        async with borrowed(self._pool) as conn:
            session = await find_session(conn, clear)
        return None if session is None else Caller(session.token, session, csrf_token(clear))


def cookie_name(request: HTTPConnection) -> str:
    """The session's cookie; over TLS one that no other host and no plain page can set."""
    return SECURE_COOKIE if request.url.scheme in ("https", "wss") else PLAIN_COOKIE


def address_of(request: HTTPConnection) -> str:
    """Where the request comes from."""
    client = request.scope.get("client")
    return client[0] if client else "unknown"


def own_origin(request: HTTPConnection) -> str:
    """The origin that our pages have, as the browser that asks sees it."""
    scheme = {"ws": "http", "wss": "https"}.get(request.url.scheme, request.url.scheme)
    return f"{scheme}://{request.headers.get('host', '')}"


def require_same_site(request: HTTPConnection, caller: Caller) -> None:
    """Refuse a change that a page of another site made a browser send: it does not know the session's other half."""
    site = request.headers.get("sec-fetch-site")
    ours = site == "same-origin" if site is not None else request.headers.get("origin") == own_origin(request)
    given = request.headers.get(CSRF_HEADER, "")
    if not ours or not hmac.compare_digest(given.encode(), (caller.csrf or "").encode()):
        raise Forbidden(
            "The request did not come from a page of this Atlas.",
            remedy="Send the session's csrf_token in the header X-CSRF-Token, from the same origin.",
        )


def _digest(clear: str) -> bytes:
    return hashlib.sha256(clear.encode("utf-8", "surrogatepass")).digest()
