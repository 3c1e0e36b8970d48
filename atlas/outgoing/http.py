"""Makes the clients for outgoing HTTP, so that certificates, timeouts and proxies are decided once.

Certificates are checked against the authorities of the machine, of certifi, and of the file in SSL_CERT_FILE. Proxies
of the environment are not used and redirects are not followed, since requests carry credentials to addresses that an
operator chose.
"""

import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import certifi
import httpx

from atlas.errors import SettingsError
from atlas.tracing import current_traceparent
from atlas.version import __version__

CONNECT_SECONDS = 10.0
RESPONSE_SECONDS = 30.0
# Servers close idle connections after a minute or more. We close them earlier, so that none is found closed.
KEEP_SECONDS = 20.0
MAX_RESPONSE_LENGTH = 8 * 1024 * 1024
MAX_WAIT = 7 * 24 * 3600.0

# The server has certainly not received the request.
NEVER_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
    httpx.InvalidURL,
    UnicodeEncodeError,
    SettingsError,
)
# All ways in which a request can fail. Errors of an established TLS connection come as SSLError.
FAILURES = (*NEVER_SENT, httpx.HTTPError, ssl.SSLError, TimeoutError)


class ResponseTooLong(httpx.TransportError):
    """The response is larger than the limit."""


def http_client(**options: Any) -> httpx.AsyncClient:
    """A client that reuses its connections; keep it for as long as the program runs, then `aclose` it."""
    return httpx.AsyncClient(event_hooks={"request": [_add_traceparent_async]}, **(_options() | options))


def blocking_http_client() -> httpx.Client:
    """The same for programs without an event loop; `close` it."""
    return httpx.Client(event_hooks={"request": [_add_traceparent]}, **_options())


async def read_body(response: httpx.Response, *, limit: int = MAX_RESPONSE_LENGTH) -> bytes:
    """The whole body of a streamed response. Raises ResponseTooLong once it exceeds `limit`."""
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > limit:
            raise ResponseTooLong(f"The response is longer than {limit // 1024} KiB.")
        parts.append(part)
    return b"".join(parts)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the response asks to wait, given as a number or as a date; None where it asks for nothing.

    A date is compared with the response's own date, because this machine's clock may be wrong.
    """
    fields = {name.lower(): value for name, value in headers.items()}
    asked = fields.get("retry-after", "").strip()
    if not asked:
        return None
    if asked.isascii() and asked.replace(".", "", 1).isdigit():
        return min(float(asked), MAX_WAIT)
    until, now = _date(asked), _date(fields.get("date", "")) or datetime.now(UTC)
    if until is None:
        return None
    return min(max(0.0, (until - now).total_seconds()), MAX_WAIT)


def tls_context() -> ssl.SSLContext:
    """The certificates that outgoing connections trust."""
    return _trusting(os.environ.get("SSL_CERT_FILE") or None)


# Reading some hundred certificates takes as long as a request, so clients share the context.
@lru_cache(maxsize=4)
def _trusting(extra: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(cafile=certifi.where())
    if extra is not None:
        try:
            context.load_verify_locations(cafile=extra)
        except OSError as error:
            raise SettingsError(
                f"SSL_CERT_FILE = {extra!r} cannot be used: {error.strerror or error}.",
                remedy="Set it to a file with certificates in PEM format, or unset it.",
            ) from error
    return context


async def _add_traceparent_async(request: httpx.Request) -> None:
    _add_traceparent(request)


def _add_traceparent(request: httpx.Request) -> None:
    place = current_traceparent()
    if place is not None:
        request.headers.setdefault("traceparent", place)


def _options() -> dict[str, Any]:
    return {
        "verify": tls_context(),
        "trust_env": False,
        "follow_redirects": False,
        "timeout": httpx.Timeout(RESPONSE_SECONDS, connect=CONNECT_SECONDS),
        "limits": httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEEP_SECONDS),
        # A compressed response could be larger than it looks.
        "headers": {"User-Agent": f"atlas/{__version__}", "Accept-Encoding": "identity"},
    }


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
