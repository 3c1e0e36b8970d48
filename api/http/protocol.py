"""HTTP/1.1 as uvicorn speaks it, with bounds on what a client may send and hold before its request is served.

The parser keeps what it cannot pass on yet: a head, a trailer, the size of a chunk. So the bytes since it last passed
something on are counted, and a client that sends more of them than a head may have is refused. A silent one, or one
that sends a head too slowly, is ended by the sweep of ClientConnections.
"""

import asyncio
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from atlas.api.http.client_address import plain_address
from atlas.api.http.middleware import HEADERS, NO_STORE
from atlas.api.limits.client_connections import HEAD_SECONDS, ClientConnection, ClientConnections
from atlas.api.problems import (
    HeadTooLarge,
    HeadTooSlow,
    MalformedRequest,
    TooManyConnections,
    problem_of,
    response_of,
)
from atlas.errors import AtlasError

MAX_HEAD = 64 * 1024
MAX_HEADERS = 100
# Requests that a client may send ahead of their responses. Programs send none, and browsers neither.
MAX_PIPELINED = 16


class ServerConfig(uvicorn.Config):
    """The configuration that every protocol of a server is passed, with the connections they count."""

    clients: ClientConnections


class BoundedHttp(HttpToolsProtocol):
    """The protocol of one connection, until it becomes a WebSocket."""

    config: ServerConfig

    def __init__(
        self,
        config: ServerConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._connection: ClientConnection | None = None
        # What the parser has passed on, and the bytes that it was fed since.
        self._passed = 0
        self._held = 0
        self._refusal: AtlasError | None = None
        # Refused, or a WebSocket by now.
        self._is_done = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = plain_address(self.client[0]) if self.client else None
        self._connection = self.config.clients.add(transport, address, self._expire)
        if self._connection is None:
            self._is_done = True
            transport.write(_response(TooManyConnections()))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._connection is not None:
            self.config.clients.remove(self._connection)

    def data_received(self, data: bytes) -> None:
        if self._is_done or self._connection is None:
            return
        self._unset_keepalive_if_required()
        passed, self._held = self._passed, self._held + len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(self._refusal or MalformedRequest())
            return
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self._is_done = True
                self.handle_websocket_upgrade()
                return
        if passed != self._passed:
            self._held = 0
        if self._held > MAX_HEAD:
            self._refuse(HeadTooLarge(MAX_HEAD, MAX_HEADERS))
        elif not self._is_serving:
            self.config.clients.await_request(self._connection)

    def on_headers_complete(self) -> None:
        # Raised within the parser, this ends it; a head within one read was not counted before.
        if len(self.headers) > MAX_HEADERS or (self._held > MAX_HEAD and self._head_size() > MAX_HEAD):
            self._refusal = HeadTooLarge(MAX_HEAD, MAX_HEADERS)
            raise self._refusal
        if len(self.pipeline) >= MAX_PIPELINED:
            raise MalformedRequest
        self._passed += 1
        if self._connection is not None:
            self.config.clients.serve(self._connection)
        super().on_headers_complete()
        if not self.parser.should_upgrade():
            # The parser reports the trailers of a body as headers. The request has the list, and gets none of them.
            self.headers = []

    def on_body(self, body: bytes) -> None:
        self._passed += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._passed += 1
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._connection is not None and not self._is_serving and not self.transport.is_closing():
            self.config.clients.await_request(self._connection)

    def handle_websocket_upgrade(self) -> None:
        connection, self._connection = self._connection, None
        super().handle_websocket_upgrade()
        protocol = self.transport.get_protocol()
        assert isinstance(protocol, CountedWebSocket)
        protocol.connection = connection

    @property
    def _is_serving(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _head_size(self) -> int:
        """The bytes of the head: a line for the address, and one for each header."""
        return len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _expire(self) -> None:
        """End a connection that has not sent a request in time, or that was refused some time ago."""
        if self._is_done:
            self.transport.abort()
        elif self._held:
            self._refuse(HeadTooSlow(HEAD_SECONDS))
        else:
            self.transport.close()

    def _refuse(self, error: AtlasError) -> None:
        """Respond instead of the application, and end the connection.

        What the client still sends is read for a while: if it were left unread, closing the connection would reset it,
        and the client might lose the response.
        """
        self._is_done = True
        self.config.clients.refused[problem_of(error).kind.replace("-", "_")] += 1
        if self._is_serving or self._connection is None:
            # A response is being sent; another one would be taken for a part of it.
            self.transport.abort()
            return
        self.transport.write(_response(error))
        self.transport.write_eof()
        self.config.clients.linger(self._connection)


class CountedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that is counted as a connection until it is lost."""

    config: ServerConfig
    connection: ClientConnection | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.connection is not None:
            self.config.clients.remove(self.connection)


def _response(error: AtlasError) -> bytes:
    response = response_of(problem_of(error))
    headers = [*response.raw_headers, *HEADERS, NO_STORE]
    lines = [b"%s: %s\r\n" % header for header in headers]
    return b"".join([STATUS_LINE[response.status_code], *lines, b"\r\n", bytes(response.body)])
