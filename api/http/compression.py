"""Compresses JSON responses for clients that accept it."""

import asyncio
import zlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atlas.api.http.page_files import accepted_codings

# Below it there is little to win. What holds a secret, a session's or a new token's, is far smaller.
SMALLEST = 4096
# Above it the event loop does not wait: level 1 compressed 170 MB of JSON a second here, so this takes 1.5 ms.
MAX_INLINE_SIZE = 256 * 1024
LEVEL = 1
GZIP_WINDOW = 16 + zlib.MAX_WBITS
JSON = b"application/json"
# Programs that run jobs fetch them at these addresses, as fast as they can.
UNCOMPRESSED = ("/api/v1/agent/", "/api/v1/worker/")


class CompressionMiddleware:
    """Compresses a JSON response that comes in one piece; streams, such as the audit log's export, stay as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _accepts(scope):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def compress(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_json(message):
                start = message
                return
            if start is not None:
                started, start = start, None
                body: bytes = message.get("body", b"")
                if not message.get("more_body", False) and len(body) >= SMALLEST:
                    packed = _pack(body) if len(body) <= MAX_INLINE_SIZE else await asyncio.to_thread(_pack, body)
                    message = {**message, "body": packed}
                    started = {**started, "headers": _compressed_headers(started, len(packed))}
                await send(started)
            await send(message)

        await self._app(scope, receive, compress)


def _accepts(scope: Scope) -> bool:
    header: bytes = scope["atlas.headers"].get(b"accept-encoding", b"")
    return "gzip" in accepted_codings(header.decode("latin-1")) and not scope["path"].startswith(UNCOMPRESSED)


def _is_json(message: Message) -> bool:
    headers = dict(message["headers"])
    return headers.get(b"content-type", b"").startswith(JSON) and b"content-encoding" not in headers


def _compressed_headers(start: Message, length: int) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in start["headers"] if name != b"content-length"]
    return [
        *kept,
        (b"content-length", str(length).encode()),
        (b"content-encoding", b"gzip"),
        (b"vary", b"Accept-Encoding"),
    ]


def _pack(body: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW)
    return packer.compress(body) + packer.flush()
