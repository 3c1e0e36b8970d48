"""A provider on loopback that keeps what it was asked to make, by the rules of Idempotency-Key.

A fault is used up by the next request that makes something: it loses the response, applies the request twice, refuses
it, or fails before or after it.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

# What happens to a request: made and the response lost, not made and the connection cut, made twice, not made and a
# 500, made and a 500, or a response that a test gives.
Fault = Literal["lost", "cut", "twice", "failed", "failed_after"]


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class WireReply:
    """A response: its status, its body and its headers."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] | None = None


class ProviderServer:
    """The server. Subclasses make and show things: `make` for a request that makes one, `show` for all others."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.faults: deque[Fault | WireReply] = deque()
        # Those of the requests with a key.
        self.faults_of: dict[str, Fault | None] = {}
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ProviderServer"]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    def makes(self, asked: Asked) -> bool:
        return asked.method in ("POST", "PUT")

    def make(self, asked: Asked, *, again: bool = False) -> WireReply:
        """Make what the request asks for; `again`: a second time, whatever its key says."""
        raise NotImplementedError

    def show(self, asked: Asked) -> WireReply:
        raise NotImplementedError

    def _respond(self, asked: Asked) -> WireReply | None:
        """The response, or None where the connection is cut."""
        if not self.makes(asked):
            return self.show(asked)
        planned = self.faults_of.pop(asked.headers.get("idempotency-key", ""), None)
        match self.faults.popleft() if self.faults else planned:
            case None:
                return self.make(asked)
            case WireReply() as answer:
                return answer
            case "cut":
                return None
            case "failed":
                return WireReply(500, {"error": {"type": "api_error"}})
            case fault:
                answer = self.make(asked)
                if fault == "twice":
                    self.make(asked, again=True)
                return None if fault == "lost" else WireReply(500) if fault == "failed_after" else answer

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                asked = await _read(reader)
                self.asked.append(asked)
                answer = self._respond(asked)
                if answer is None:
                    break
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                length = 0 if asked.method == "HEAD" else len(body)
                kind = "application/octet-stream" if isinstance(answer.body, bytes) else "application/json"
                lines = [f"HTTP/1.1 {answer.status} X", f"Content-Length: {length}", f"Content-Type: {kind}"]
                lines += [f"{name}: {value}" for name, value in (answer.headers or {}).items()]
                writer.write("\r\n".join([*lines, "", ""]).encode() + body[:length])
                await writer.drain()
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    return Asked(method, unquote(parts.path), query, headers, body)
