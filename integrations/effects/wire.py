"""HTTP to a provider: each response, or its absence, is read as made, certainly not made, or unknown."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from atlas.engine.effects.adapters import EffectUnknown, KeyReused, ProviderUnavailable
from atlas.engine.effects.outcomes import EffectRefused
from atlas.outgoing.guarded_transport import AddressRefused, GuardedTransport, Networks
from atlas.outgoing.http import FAILURES, NEVER_SENT, http_client, read_body

CALL_SECONDS = 60.0
MAX_MESSAGE = 300
# 4xx responses that do not say whether the request was carried out: a timeout, and a key that is in use.
UNCERTAIN = (408, 409)


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """The status, the headers and the whole body of a response."""

    status: int
    headers: httpx.Headers
    content: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def json(self) -> Any:
        """The body as JSON, or None if it is something else."""
        try:
            return orjson.loads(self.content)
        except orjson.JSONDecodeError:
            return None

    @property
    def fields(self) -> dict[str, Any]:
        """The body as a JSON object; empty if it is something else."""
        body = self.json
        return body if isinstance(body, dict) else {}

    @property
    def said(self) -> str:
        """The beginning of the body in one line, for a message."""
        text = self.content[: 4 * MAX_MESSAGE].decode("utf-8", "replace")
        return " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())[:MAX_MESSAGE]


class Wire:
    """Requests to one provider over one client. Open it within the event loop that uses it, and `close` it.

    With `guarded`, it connects to public addresses over TLS only, and to those in `allowed`: for addresses that tenants
    choose.
    """

    def __init__(
        self, who: str, url: str, headers: Mapping[str, str], *, guarded: bool = False, allowed: Networks = ()
    ) -> None:
        self.who = who
        self.url = url.rstrip("/")
        self._headers = dict(headers)
        self._guarded, self._allowed = guarded, allowed
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> ProviderResponse:
        """Make a request; raises what httpx raises."""
        async with asyncio.timeout(CALL_SECONDS):
            async with self._connected().stream(
                method, self.address(path), headers={**self._headers, **(headers or {})}, content=content
            ) as response:
                return ProviderResponse(response.status_code, response.headers, await read_body(response))

    async def make(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> ProviderResponse:
        """Make the request of an effect. Raises EffectRefused if the provider certainly did not receive it."""
        try:
            return await self.request(method, path, headers=headers, content=content)
        except (*NEVER_SENT, AddressRefused) as error:
            raise EffectRefused(f"{self.who} could not be reached: {_describe(error)}.") from error
        except FAILURES as error:
            raise EffectUnknown(f"{self.who} was called, and the connection broke: {_describe(error)}.") from error

    async def read(self, path: str, *, headers: Mapping[str, str] | None = None) -> ProviderResponse:
        """Make a GET request that changes nothing. Raises ProviderUnavailable if there is no successful response."""
        try:
            response = await self.request("GET", path, headers=headers)
        except (*FAILURES, AddressRefused) as error:
            raise ProviderUnavailable(f"{self.who} could not be asked: {_describe(error)}.") from error
        if not response.is_success:
            raise ProviderUnavailable(f"{self.who} responded with {response.status}: {response.said or 'no reason'}.")
        return response

    def failure(self, response: ProviderResponse, *, reused: bool = False) -> EffectRefused | EffectUnknown | KeyReused:
        """The error for a response to a call that is no success."""
        said = f"{self.who} responded with {response.status}: {response.said or 'no reason given'}."
        if reused:
            return KeyReused(said)
        if 400 <= response.status < 500 and response.status not in UNCERTAIN:
            return EffectRefused(said)
        return EffectUnknown(said)

    def address(self, path: str) -> str:
        """The whole address of a path, or of a link that a response gave; links to other servers are refused."""
        address = path if path.startswith(("http://", "https://")) else f"{self.url}{path}"
        if urlsplit(address)[:2] != urlsplit(self.url)[:2]:
            raise ProviderUnavailable(
                f"{self.who} gave a link to another server, {urlsplit(address).netloc}.",
                remedy="The credentials are not sent there. Check the provider's address.",
            )
        return address

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _connected(self) -> httpx.AsyncClient:
        """The client of this event loop: a module registers an adapter once, and a test may run several loops."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            transport = {"transport": GuardedTransport(self._allowed)} if self._guarded else {}
            self._client, self._loop = http_client(**transport), loop
        return self._client


def moment(value: object) -> datetime:
    """A time that a provider gave, as seconds since 1970 or in ISO 8601; without a zone it is UTC."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    try:
        parsed = datetime.fromisoformat(str(value))
    except ValueError:
        raise ProviderUnavailable(f"The provider gave a time that cannot be read: {str(value)[:100]!r}.") from None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def _describe(error: BaseException) -> str:
    return str(error).strip(" .")[:MAX_MESSAGE] or type(error).__name__
