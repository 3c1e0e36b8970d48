"""Following the live view: one WebSocket after the other, each from where the one before it ended."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from atlas.client.errors import ApiError, Unauthenticated, Unreachable, error_of
from atlas.client.frames import Frame, Hello, Refetch, frame_of
from atlas.client.transport import PREFIX, Transport
from atlas.http import CONNECT_SECONDS, tls_context

REVOKED = 4401
_CUT_OFF = (OSError, TimeoutError, InvalidHandshake, ConnectionClosed)


async def follow(line: Transport, *, tenant: str | None = None, since: str | None = None) -> AsyncIterator[Frame]:
    """Frames for as long as they are asked for.

    A first connection that cannot be made is an error once the line's patience has ended; later ones are tried for
    ever. After each, what was missed is sent, or the mark that it must be fetched anew. Some may be told twice.
    """
    place, tried, connected = since, 0, False
    while True:
        refusal: ApiError | None = None
        try:
            async with await _open(line, tenant, place) as socket:
                tried, connected = 0, True
                async for frame in _frames(socket, place):
                    place = frame[1]
                    yield frame[0]
        except _CUT_OFF as error:
            refusal = _refusal(error, line.url)
            tried += 1
            if refusal is not None and not refusal.is_passing:
                raise refusal from error
            if not connected and tried >= line.patience.tries:
                reason = str(error) or type(error).__name__
                raise refusal or Unreachable(line.url, reason, may_be_done=False) from error
        await asyncio.sleep(line.patience.pause(max(tried, 1), refusal.after if refusal else None))


async def _open(line: Transport, tenant: str | None, place: str | None) -> ClientConnection:
    asked = {name: value for name, value in (("tenant", tenant), ("since", place)) if value is not None}
    address = f"ws{line.url.removeprefix('http')}{PREFIX}/live{'?' if asked else ''}{urlencode(asked)}"
    context: ssl.SSLContext | None = tls_context() if line.url.startswith("https") else None
    return await connect(
        address,
        additional_headers={"Authorization": f"Bearer {line.token}"},
        open_timeout=CONNECT_SECONDS,
        ssl=context,
        proxy=None,
    )


async def _frames(socket: ClientConnection, place: str | None) -> AsyncIterator[tuple[Frame, str | None]]:
    """Each frame, and the place to come back to after it.

    A greeting names the present, but what was missed before it comes after it: who came back with a place keeps it
    until then.
    """
    greeted: str | None = None
    async for text in socket:
        frame = frame_of(text)
        match frame:
            case Hello():
                greeted = frame.place
                place = place or greeted
            case Refetch(place=None):
                place = greeted
            case _:
                place = frame.place
        yield frame, place


def _refusal(error: BaseException, url: str) -> ApiError | None:
    """What the API says about an end, if it says anything: some are for good, after others one may come back."""
    if isinstance(error, ConnectionClosed) and error.rcvd is not None and error.rcvd.code == REVOKED:
        return Unauthenticated("The token is no longer good.", remedy="`atlas token add` makes one.", status=401)
    if not isinstance(error, InvalidStatus):
        return None
    given = error.response
    found = error_of(
        httpx.Response(given.status_code, headers=[*given.headers.raw_items()], content=bytes(given.body)), url
    )
    # A server that stumbles may stand again.
    return found if found.is_passing or 400 <= found.status < 500 else None
