"""An HTTP server on loopback that records what it receives, and responds as a test says."""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any


@dataclass
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def response(status: int, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a response."""
    fields = {"content-length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body


# The connection is closed without a response, or kept open without one.
CUT, SILENCE = b"", b"silence"


class Receiver:
    """The server; what `responses` does not say is a 204."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.responses: deque[bytes] = deque()
        # The responses to requests for a path of its own.
        self.responses_to: dict[str, deque[bytes]] = {}
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator["Receiver"]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.received.append(Received(method, path, headers, body))
            responses = self.responses_to.get(path, self.responses)
            sent = responses.popleft() if responses else response(204)
            if sent == SILENCE:
                await reader.read()
            writer.write(sent)
            await writer.drain()
        self._writers.discard(writer)
        writer.close()
