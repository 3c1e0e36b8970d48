"""The client of a command without ATLAS_URL: it calls the API within its own process, on the database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode
from uuid import UUID

from atlas.api.local import LocalApi
from atlas.cli.runtime import STATEMENT_SECONDS, caller, know_builtin_types, open_atlas
from atlas.client.client import AtlasClient
from atlas.client.errors import error_of
from atlas.client.methods import AsyncCaller
from atlas.client.request import PREFIX, ApiRequest, RetryBudget
from atlas.client.route import Pause
from atlas.client.waiting import clock
from atlas.settings import Settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

# A route may read on one connection while it writes on another.
CONNECTIONS = 2


@asynccontextmanager
async def reach_in_process(settings: Settings, tenant: str | None = None) -> AsyncIterator[AtlasClient]:
    """A client for one command that acts as the person at the terminal."""
    opened = open_atlas(settings, size=CONNECTIONS, statement_seconds=STATEMENT_SECONDS)
    async with opened as atlas:
        api = LocalApi(atlas.settings, atlas.pool, atlas.url, login=caller().id)
        yield LocalClient(LocalTransport(api), tenant)


class LocalClient(AtlasClient):
    """A client without a network. It waits by asking every two seconds."""

    def __init__(self, transport: "LocalTransport", tenant: str | None) -> None:
        AsyncCaller.__init__(self, transport, tenant)

    def _watch(self, id: UUID, timeout: float | None) -> AbstractAsyncContextManager[Pause]:
        return clock(self._transport.sleep, timeout)


@dataclass(slots=True)
class LocalResponse:
    """What the application sent."""

    status_code: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""

    @property
    def text(self) -> str:
        return self.content.decode()

    def begin(self, message: "Message") -> None:
        self.status_code = message["status"]
        self.headers = {name.decode(): value.decode() for name, value in message["headers"]}


class LocalTransport:
    """Calls an ASGI application. Nothing can be lost on the way, so no call is repeated or needs a key."""

    url = "this installation"

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app
        self.retry = RetryBudget(tries=1)

    async def call(self, request: ApiRequest, *, retry: RetryBudget | None = None) -> LocalResponse:
        """The response. Errors are those that the application raises."""
        if request.method != "GET":
            # Not before: what checks inputs takes longer to load than many a list takes to read.
            know_builtin_types()
        response, pieces = LocalResponse(), []

        async def send(message: "Message") -> None:
            if message["type"] == "http.response.start":
                response.begin(message)
            else:
                pieces.append(message.get("body", b""))

        await self._app(_scope(request), _Body(request.body).receive, send)
        response.content = b"".join(pieces)
        return _successful(response)

    async def pieces(self, request: ApiRequest) -> AsyncIterator[bytes]:
        """The body of a response, as it arrives."""
        sent: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)

        async def run() -> None:
            try:
                await self._app(_scope(request), _Body(request.body).receive, sent.put)
            except Exception as error:
                await sent.put(error)
            else:
                await sent.put(None)

        running = asyncio.create_task(run())
        response = LocalResponse()
        try:
            while (message := await sent.get()) is not None:
                if isinstance(message, Exception):
                    raise message
                if message["type"] == "http.response.start":
                    response.begin(message)
                    _successful(response)
                else:
                    yield message.get("body", b"")
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """The pool belongs to the command."""


class _Body:
    """The body of a request, in one message. No client leaves before the response."""

    def __init__(self, body: bytes | None) -> None:
        self._body: bytes | None = body or b""

    async def receive(self) -> "Message":
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _scope(request: ApiRequest) -> dict[str, Any]:
    path = f"{PREFIX}{request.path}"
    # Nothing is sent twice, so no response is kept under a key.
    headers = replace(request, key=None).headers
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": urlencode(request.params or {}, doseq=True).encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "root_path": "",
        "client": None,
        "server": None,
    }


def _successful(response: LocalResponse) -> LocalResponse:
    if not 200 <= response.status_code < 300:
        raise error_of(response, LocalTransport.url)
    return response
