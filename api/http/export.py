"""The response of an export: lines as they are made, for a reader who takes them in time."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from atlas.logs import get_logger

# An export ends when its reader takes nothing for so long, or falls so far behind the least rate, in bytes a second.
# Few can export at the same time.
READ_SECONDS = 60.0
MIN_RATE = 64 * 1024

log = get_logger("api")


class _ReaderTooSlow(Exception):
    """The reader takes nothing more. Not a TimeoutError, which a slow statement raises."""


class Export(StreamingResponse):
    """Streams lines. What it holds, such as a connection, is released when the reader has left or is too slow."""

    def __init__(
        self, first: bytes, rest: AsyncGenerator[bytes, None], headers: dict[str, str], *, media_type: str
    ) -> None:
        super().__init__(_chained(first, rest), media_type=media_type, headers=headers)
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._rest.aclose()

    async def stream_response(self, send: Send) -> None:
        allowance = READ_SECONDS

        async def send_in_time(message: Any) -> None:
            nonlocal allowance
            began = time.monotonic()
            try:
                async with asyncio.timeout(allowance):
                    await send(message)
            except TimeoutError as error:
                raise _ReaderTooSlow from error
            earned = len(message.get("body", b"")) / MIN_RATE
            allowance = min(READ_SECONDS, allowance - (time.monotonic() - began) + earned)

        try:
            await super().stream_response(send_in_time)
        except _ReaderTooSlow:
            # The response is not completed, and so cannot pass for a whole export.
            log.warning("an export was ended: its reader is too slow")


async def _chained(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes]:
    yield first
    async for line in rest:
        yield line
