"""Following the live view: one WebSocket after another, each from where the one before it ended."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from atlas.client.errors import ApiError, ApiUnauthenticated, Unreachable, error_of
from atlas.client.frames import Events, Frame, Hello, Refetch, frame_of
from atlas.client.request import PREFIX
from atlas.client.transport import Transport
from atlas.outgoing.http import CONNECT_SECONDS, tls_context

REVOKED = 4401
_DISCONNECTED = (OSError, TimeoutError, InvalidHandshake, ConnectionClosed)


async def follow(transport: Transport, *, tenant: str | None = None, since: str | None = None) -> AsyncIterator[Frame]:
    """Frames for as long as the caller iterates.

    A first connection that cannot be made is an error once the retry budget is spent; later ones are tried for ever.
    After each reconnection the missed events are sent, or a Refetch. Some events may be sent twice.
    """
    place, tried, connected = since, 0, False
    while True:
        refusal: ApiError | None = None
        try:
            async with await _open(transport, tenant, place) as socket:
                tried, connected = 0, True
                async for frame, resume in _frames(socket, place):
                    place = resume
                    if not isinstance(frame, Events) or frame.events or frame.more:
                        yield frame
        except _DISCONNECTED as error:
            refusal = _refusal(error, transport.url)
            tried += 1
            if refusal is not None and not refusal.is_passing:
                raise refusal from error
            if not connected and tried >= transport.retry.tries:
                reason = str(error) or type(error).__name__
                raise refusal or Unreachable(transport.url, reason, may_be_done=False) from error
        await asyncio.sleep(transport.retry.pause(max(tried, 1), refusal.after if refusal else None))


async def _open(transport: Transport, tenant: str | None, place: str | None) -> ClientConnection:
    asked = {name: value for name, value in (("tenant", tenant), ("since", place)) if value is not None}
    address = f"ws{transport.url.removeprefix('http')}{PREFIX}/live{'?' if asked else ''}{urlencode(asked)}"
    context: ssl.SSLContext | None = tls_context() if transport.url.startswith("https") else None
    return await connect(
        address,
        additional_headers={"Authorization": f"Bearer {transport.token}"},
        open_timeout=CONNECT_SECONDS,
        ssl=context,
        proxy=None,
    )


async def _frames(socket: ClientConnection, place: str | None) -> AsyncIterator[tuple[Frame, str | None]]:
    """Each frame, and the place to resume from after it.

    A Hello names the present place, but the missed events come after it: a client that resumes keeps its own place
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
    """The API's reason for ending a connection, if it gave one. Some are final, after others a retry may succeed."""
    if isinstance(error, ConnectionClosed) and error.rcvd is not None and error.rcvd.code == REVOKED:
        return ApiUnauthenticated("The token is no longer valid.", remedy="`atlas token add` makes one.", status=401)
    if not isinstance(error, InvalidStatus):
        return None
    response = error.response
    refusal = error_of(
        httpx.Response(response.status_code, headers=[*response.headers.raw_items()], content=bytes(response.body)), url
    )
    # A server that fails may recover.
    return refusal if refusal.is_passing or 400 <= refusal.status < 500 else None
