"""The middleware of every request: its id, response headers, statistics and a log entry."""

import logging
import os
import re
import time
from collections import defaultdict
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from atlas.api.http.client_address import TrustedProxies, plain_address
from atlas.api.limits.rates import rate_headers
from atlas.logs import get_logger

log = get_logger("api.requests")
# Asked whether an entry would be written at all, before it is built.
_level = logging.getLogger("api.requests")

SLOW_SECONDS = 1.0
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
# A year of TLS only, sent over TLS.
TLS_HEADERS = [(b"strict-transport-security", b"max-age=31536000")]
NO_STORE = (b"cache-control", b"no-store")


class RequestStats:
    """Counts and durations of requests, by method, route and status; for the metrics."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, int], list[float]] = defaultdict(lambda: [0, 0.0])

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        entry = self.counts[method, route, status]
        entry[0] += 1
        entry[1] += seconds


class RequestMiddleware:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, stats: RequestStats, proxies: TrustedProxies) -> None:
        self._app = app
        self._stats = stats
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        # The first of several headers with one name wins.
        scope["atlas.headers"] = dict(reversed(scope["headers"]))
        if self._proxies.networks:
            self._proxies.apply(scope)
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = _given_id(scope) or os.urandom(16).hex()
        scope["atlas.request_id"] = request_id
        bind_contextvars(request_id=request_id)
        status = 500

        async def add_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_headers(scope, message["headers"], request_id)]
            await send(message)

        try:
            await self._app(scope, receive, add_headers)
        finally:
            self._record(scope, status, time.perf_counter() - began)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path_format", "other")
        self._stats.add(scope["method"], route, status, seconds)
        is_quiet = scope["method"] in ("GET", "HEAD") or not _level.isEnabledFor(logging.DEBUG)
        if is_quiet and status < 400 and seconds < SLOW_SECONDS:
            return
        call: Any = scope.get("atlas.call")
        facts: dict[str, object] = {
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "address": plain_address(scope["client"][0]) if scope.get("client") else None,
        }
        if call is not None:
            facts |= {"subject": call.caller.subject, "tenant_id": str(call.tenant_id) if call.tenant_id else None}
        facts |= scope.get("atlas.facts", {})
        if status >= 500 and status != 503:
            log.error("request failed", **facts)
        elif status >= 400 or seconds >= SLOW_SECONDS:
            log.info("request", **facts)
        else:
            log.debug("request", **facts)


def _given_id(scope: Scope) -> str | None:
    value = scope["atlas.headers"].get(b"x-request-id")
    return value.decode() if value is not None and _REQUEST_ID.fullmatch(value) else None


def _headers(scope: Scope, headers: list[tuple[bytes, bytes]], request_id: str) -> list[tuple[bytes, bytes]]:
    names = {name for name, _ in headers}
    # A document that may be framed has a policy of its own: two would both hold.
    added = HEADERS[1:] if b"content-security-policy" in names else [*HEADERS]
    if b"x-request-id" not in names:
        added.append((b"x-request-id", request_id.encode()))
    limits = scope.get("atlas.limits")
    if limits:
        added += rate_headers(limits)
    if scope["scheme"] == "https":
        added += TLS_HEADERS
    if b"cache-control" not in names:
        added.append(NO_STORE)
    return added
