"""Authentication: a token in the Authorization header, or a session's cookie, never both.

Valid credentials are cached for some seconds, so that a busy caller costs the database nothing. A notification empties
the caches of all processes when a credential is revoked; where it is lost, a revoked one is refused when that time is
over. One that expires is refused when it does, by the database's clock. Creating a credential reads the creator's anew.
"""

import hashlib
import hmac
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

from starlette.requests import HTTPConnection

from atlas.api.access.refused_credentials import RefusedCredentials
from atlas.api.caches.ttl_cache import TtlCache
from atlas.api.db import READ_SECONDS, Database
from atlas.api.http.client_address import plain_address
from atlas.api.http.headers import header
from atlas.api.limits.rates import FailedSignIns, Rates
from atlas.api.problems import Forbidden, Unauthenticated
from atlas.engine.access.sessions import Session, csrf_token, find_link, find_session
from atlas.engine.access.tokens import valid_token
from atlas.models.tenants import Role, Token

# A third of the 30 s within which a revocation must take effect, so that an open WebSocket's own check fits in too.
CACHED_SECONDS = 10.0
MAX_CREDENTIAL_LENGTH = 512
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Roles of programs that run jobs.
AGENTS = ("host", "worker")
SECURE_COOKIE = "__Host-atlas"
PLAIN_COOKIE = "atlas"
CSRF_HEADER = "x-csrf-token"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. `subject` is who acts; it sees its tenant, or everything where it has none."""

    token: Token
    session: Session | None = None
    csrf: str | None = None
    # Authenticates the same credential again, for requests that last.
    again: Callable[[], Awaitable["Caller"]] | None = field(default=None, compare=False)
    # When the credential expires, on the monotonic clock; up to a round trip too early, never late.
    valid_until: float = field(default=math.inf, compare=False)
    # The person at the terminal of this machine, who has no credential.
    is_local: bool = False

    @property
    def subject(self) -> str:
        return self.token.subject

    @property
    def role(self) -> Role:
        return cast("Role", self.token.role)

    @property
    def tenant_id(self) -> UUID | None:
        return self.token.tenant_id

    @property
    def scopes(self) -> Mapping[str, Any]:
        return self.token.scopes

    @property
    def is_agent(self) -> bool:
        """True for a host or a remote worker, which has leases to keep."""
        return self.role in AGENTS

    @property
    def share(self) -> tuple[UUID, bool]:
        """Whose share of the connections it uses: its tenant's, or its own where it has none.

        Programs that run a tenant's jobs have a second one, so that readers do not cost them their leases.
        """
        return self.tenant_id or self.token.id, self.is_agent


class Callers:
    """Authenticates requests."""

    def __init__(self, db: Database, rates: Rates) -> None:
        self._db = db
        self._callers_by_credential: TtlCache[bytes, Caller] = TtlCache(
            CACHED_SECONDS, until=lambda caller: caller.valid_until
        )
        self._failures = FailedSignIns(rates)
        self.refused = RefusedCredentials()

    async def identify(self, request: HTTPConnection) -> Caller:
        """The caller of a request. A browser's request that changes something is checked for forgery."""
        authorization = header(request.scope, b"authorization")
        cookie = request.cookies.get(cookie_name(request)) if b"cookie" in request.scope["atlas.headers"] else None
        if authorization is not None and cookie is not None:
            raise Unauthenticated("Send a token or a session, not both.")
        address = address_of(request)
        if authorization is not None:
            if [name for name, _ in request.scope["headers"]].count(b"authorization") > 1:
                raise Unauthenticated("The request has several Authorization headers; send one.")
            scheme, _, clear = authorization.partition(" ")
            if scheme.lower() != "bearer":
                raise Unauthenticated()
            caller = await self.by_token(clear.strip(), address)
            request.scope["atlas.caller"] = caller
            return caller
        if cookie is None:
            raise Unauthenticated()
        caller = await self.by_session(cookie, address)
        request.scope["atlas.caller"] = caller
        if request.scope["type"] == "http" and request.scope["method"] not in SAFE_METHODS:
            require_same_site(request, caller)
        return caller

    async def by_token(self, clear: str, address: str | None) -> Caller:
        """The caller behind a token's clear text."""
        return await self._cached(b"t" + _digest(clear), clear, address, self._find_token)

    async def by_session(self, clear: str, address: str | None) -> Caller:
        """The caller behind a session's cookie."""
        return await self._cached(b"s" + _digest(clear), clear, address, self._find_session)

    async def by_link(self, clear: str, address: str | None) -> Caller:
        """The caller that a link signs in. Whether it was used already is found when it is exchanged."""
        async with self._failures.lookup(address), self._db.connection(within=READ_SECONDS) as conn:
            token = await find_link(conn, clear)
        if token is None:
            self.refused.count(address)
            raise self._failures.count(address)
        return Caller(token)

    def forget(self) -> None:
        """Empty the cache: a credential has changed."""
        self._callers_by_credential.forget()

    async def _cached(
        self, key: bytes, clear: str, address: str | None, find: Callable[[str], Awaitable[Caller | None]]
    ) -> Caller:
        entry = self._callers_by_credential.peek(key)
        if entry is not None:
            return entry

        async def again() -> Caller:
            return await self._cached(key, clear, address, find)

        async def look_up() -> Caller:
            async with self._failures.lookup(address):
                caller = await find(clear) if 0 < len(clear) <= MAX_CREDENTIAL_LENGTH else None
            if caller is None:
                self.refused.count(address)
                raise self._failures.count(address)
            return replace(caller, again=again)

        return await self._callers_by_credential.get(key, look_up)

    async def _find_token(self, clear: str) -> Caller | None:
        async with self._db.connection(within=READ_SECONDS) as conn:
            began = time.monotonic()
            token = await valid_token(conn, clear)
        return None if token is None else Caller(token[0], valid_until=began + token[1])

    async def _find_session(self, clear: str) -> Caller | None:
        async with self._db.connection(within=READ_SECONDS) as conn:
            began = time.monotonic()
            session = await find_session(conn, clear)
        if session is None:
            return None
        return Caller(session.token, session, csrf_token(clear), valid_until=began + session.seconds_left)


def cookie_name(request: HTTPConnection) -> str:
    """The name of the session's cookie; over TLS one that no other host and no page without TLS can set."""
    return SECURE_COOKIE if request.url.scheme in ("https", "wss") else PLAIN_COOKIE


def address_of(request: HTTPConnection) -> str | None:
    """The network address that the request comes from; None where there is none, as over a Unix socket."""
    client = request.scope.get("client")
    return plain_address(client[0]) if client else None


def own_origin(request: HTTPConnection) -> str:
    """The origin of our own pages, as the browser sees it."""
    scheme = {"ws": "http", "wss": "https"}.get(request.url.scheme, request.url.scheme)
    return f"{scheme}://{request.headers.get('host', '')}"


def require_same_site(request: HTTPConnection, caller: Caller) -> None:
    """Refuse a change that a page of another site made a browser send: that page does not know the CSRF token."""
    site = request.headers.get("sec-fetch-site")
    ours = site == "same-origin" if site is not None else request.headers.get("origin") == own_origin(request)
    if not ours or not _knows_csrf_token(request, caller):
        raise _NotOurs()


def require_own_page(request: HTTPConnection, caller: Caller) -> None:
    """Refuse a download that a page of another site, or a link in a mail, made a signed-in browser begin.

    A link of our own page has no CSRF token, and where there is no TLS a browser does not say which site it is on: one
    of the two must be right.
    """
    site = request.headers.get("sec-fetch-site")
    if site != "same-origin" and (site is not None or not _knows_csrf_token(request, caller)):
        raise _NotOurs()


def _knows_csrf_token(request: HTTPConnection, caller: Caller) -> bool:
    return hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), (caller.csrf or "").encode())


class _NotOurs(Forbidden):
    """The request came with a session's cookie, but not from one of our pages."""

    def __init__(self) -> None:
        super().__init__(
            "The request did not come from a page of this Atlas.",
            remedy="Send the session's csrf_token in the header X-CSRF-Token, from the same origin.",
        )


def _digest(clear: str) -> bytes:
    return hashlib.sha256(clear.encode("utf-8", "surrogatepass")).digest()
