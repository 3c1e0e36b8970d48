"""A mail provider on loopback, over TLS: the wire of Entra's token endpoint, of Graph's messages and of Resend.

It behaves as the documentation says, unless a `Play` was put down for an endpoint: each play is used up by one
request. It counts what it delivers, by job, and that count is what the tests are about.
"""

import asyncio
import json
import ssl
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import trustme

GARBAGE = b"<html>\x00\xff not what anybody asked for"


@dataclass
class Play:
    """What the server does with one request, instead of what it should."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | dict[str, Any] | None = None
    # Whether the mail goes out; None: as the status says.
    deliver: bool | None = None
    # Close the connection instead of answering.
    cut: bool = False
    # Answer with a TLS record that cannot be read.
    garbled: bool = False
    # Wait for this before answering: an Event, or a number of seconds.
    hold: asyncio.Event | float | None = None
    # Send the body, or the head before it, so slowly that it never ends.
    slow_body: bool = False
    slow_head: bool = False


@dataclass
class Request:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class MailServer:
    """The server, its mailboxes, and every request it received."""

    def __init__(self, authority: trustme.CA) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1", "localhost").configure_cert(self._tls)
        self.plays: dict[str, deque[Play]] = defaultdict(deque)
        self.requests: list[tuple[str, Request]] = []
        self.deliveries: Counter[str] = Counter()
        self.delivered: list[dict[str, Any]] = []
        self.drafts: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, tuple[bytes, str]] = {}
        self.tokens: list[str] = []
        self.token_life = 3600
        self.connections = 0
        self.arrived = asyncio.Event()
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["MailServer"]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def play(self, endpoint: str, *plays: Play) -> None:
        """Put down what happens to the next requests of token, draft, send, lookup, delete or resend."""
        self.plays[endpoint].extend(plays)

    def asked(self, endpoint: str) -> list[Request]:
        """The requests that one endpoint got."""
        return [request for name, request in self.requests if name == endpoint]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, asyncio.CancelledError):
                while (request := await _read(reader)) and await self._answer(request, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False: the connection is over."""
        endpoint = _endpoint(request)
        self.requests.append((endpoint, request))
        play = self.plays[endpoint].popleft() if self.plays[endpoint] else Play()
        status, body = getattr(self, f"_{endpoint}")(request, play)
        self.arrived.set()
        if isinstance(play.hold, asyncio.Event):
            await play.hold.wait()
        elif play.hold is not None:
            await asyncio.sleep(play.hold)
        if play.garbled:
            writer.transport._ssl_protocol._transport.write(b"\x17\x03\x03\x00\x20" + b"x" * 32)  # type: ignore[attr-defined]
            await asyncio.sleep(0.2)
        if play.cut or play.garbled:
            return False
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        kind = "text/html" if isinstance(body, bytes) else "application/json"
        headers = {"Content-Type": kind, "Content-Length": str(len(content)), **play.headers}
        if play.slow_body:
            headers["Content-Length"] = "1000000"
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        writer.write(b"HTTP/1.1 200 X\r\nX: " if play.slow_head else "\r\n".join(lines).encode() + content)
        await writer.drain()
        while play.slow_body or play.slow_head:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)
        return True

    # Entra

    def _discovery(self, request: Request, play: Play) -> tuple[int, Any]:
        base = f"{self.url}/{request.path.split('/')[1]}"
        return 200, {
            "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
            "token_endpoint": f"{base}/oauth2/v2.0/token",
            "issuer": f"{base}/v2.0",
        }

    def _token(self, request: Request, play: Play) -> tuple[int, Any]:
        if play.status is not None:
            return play.status, play.body
        self.tokens.append(f"token-{len(self.tokens)}-{uuid4().hex}")
        return 200, {"token_type": "Bearer", "expires_in": self.token_life, "access_token": self.tokens[-1]}

    # Graph

    def _draft(self, request: Request, play: Play) -> tuple[int, Any]:
        if (refused := self._unauthorized(request, play)) is not None:
            return refused
        if play.status is not None and not 200 <= play.status < 300:
            return play.status, play.body
        draft_id = f"AAMk{uuid4().hex}="
        self.drafts[draft_id] = {**request.json, "id": draft_id, "isDraft": True, "mailbox": _mailbox(request)}
        return play.status or 201, play.body or self.drafts[draft_id]

    def _send(self, request: Request, play: Play) -> tuple[int, Any]:
        if (refused := self._unauthorized(request, play)) is not None:
            return refused
        draft = self.drafts.get(_message_id(request))
        if draft is None or not draft["isDraft"] or draft["mailbox"] != _mailbox(request):
            return 404, {"error": {"code": "ErrorItemNotFound", "message": "The specified object was not found."}}
        status = play.status or 202
        if play.deliver if play.deliver is not None else 200 <= status < 300:
            draft["isDraft"] = False
            headers = {header["name"]: header["value"] for header in draft["internetMessageHeaders"]}
            self._deliver(headers["X-Atlas-Job"], draft)
        return status, play.body

    def _lookup(self, request: Request, play: Play) -> tuple[int, Any]:
        if (refused := self._unauthorized(request, play)) is not None:
            return refused
        if play.status is not None:
            return play.status, play.body
        draft = self.drafts.get(_message_id(request))
        if draft is None:
            return 404, {"error": {"code": "ErrorItemNotFound", "message": "The specified object was not found."}}
        return 200, {"id": draft["id"], "isDraft": draft["isDraft"]}

    def _delete(self, request: Request, play: Play) -> tuple[int, Any]:
        if play.status is not None:
            return play.status, play.body
        found = self.drafts.pop(_message_id(request), None)
        return (404 if found is None else 204), None

    def _unauthorized(self, request: Request, play: Play) -> tuple[int, Any] | None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if play.status == 401:
            # A token that was revoked: it stays refused.
            self.tokens = [good for good in self.tokens if good != token]
        if token in self.tokens:
            return None
        return 401, {"error": {"code": "InvalidAuthenticationToken", "message": "Access token is not accepted."}}

    # Resend

    def _resend(self, request: Request, play: Play) -> tuple[int, Any]:
        if play.status is not None and not 200 <= play.status < 300 and not play.deliver:
            return play.status, play.body
        key = request.headers["idempotency-key"]
        if key in self.keys and self.keys[key][0] != request.body:
            return 409, {"statusCode": 409, "name": "invalid_idempotent_request", "message": "Another payload."}
        if key not in self.keys and play.deliver is not False:
            self.keys[key] = (request.body, str(uuid4()))
            self._deliver(request.json["headers"]["X-Atlas-Job"], request.json)
        return play.status or 200, play.body or {"id": self.keys[key][1] if key in self.keys else ""}

    def _deliver(self, job_id: str, message: dict[str, Any]) -> None:
        self.deliveries[job_id] += 1
        self.delivered.append(message)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


def _endpoint(request: Request) -> str:
    path = urlsplit(request.path).path
    if path.endswith("/.well-known/openid-configuration"):
        return "discovery"
    if path.endswith("/oauth2/v2.0/token"):
        return "token"
    if path == "/emails":
        return "resend"
    if path.endswith("/send"):
        return "send"
    if path.endswith("/messages"):
        return "draft"
    return {"GET": "lookup", "DELETE": "delete"}[request.method]


def _mailbox(request: Request) -> str:
    return unquote(request.path.split("/users/")[1].split("/")[0])


def _message_id(request: Request) -> str:
    return unquote(urlsplit(request.path).path.split("/messages/")[1].split("/")[0])
