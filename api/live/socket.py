"""The WebSocket `/api/v1/live`: who may watch which room, and for how long.

The caller is authenticated before the connection is accepted: a browser by its session and the origin of its page, a
program by its token. The room is the credential's tenant; only callers that belong to none choose. The credential is
checked again every ten seconds and when it expires, and a connection whose credential is no longer valid is closed.
"""

import asyncio
import contextlib
import logging
import time
from typing import Annotated

import asyncpg
from fastapi import APIRouter, Query, WebSocket
from starlette.websockets import WebSocketDisconnect

from atlas.api.access.authentication import Caller, address_of, own_origin
from atlas.api.access.roles import PEOPLE
from atlas.api.app_state import AppState
from atlas.api.live.changes import Room
from atlas.api.live.hub import Hub, Watcher
from atlas.api.problems import (
    AWAY,
    Forbidden,
    TooManyRequests,
    Unauthenticated,
    UpgradeRequired,
    problem_of,
    response_of,
)
from atlas.api.request_context import named_tenant
from atlas.api.routing import PREFIX, GuardedRoute, check_query, requires
from atlas.engine.access.tokens import ROLES
from atlas.errors import AtlasError
from atlas.logs import get_logger

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["live"])
log = get_logger("live")

Since = Annotated[
    str | None,
    Query(max_length=200, description="The `place` of the last frame: what was missed is sent first, or a `refetch`."),
]
QUERY = frozenset(("since", "tenant"))
WATCHERS = frozenset(ROLES) - {"host", "worker"}
CHECK_SECONDS = 10.0
# Between two checks of a credential that is about to expire.
MIN_SLEEP = 0.05
SEND_SECONDS = 10.0
# A connection that reads no frames does not complete a close handshake either.
CLOSE_SECONDS = 1.0

# Close codes of our own, by RFC 6455 from 4000 on.
REVOKED, TOO_SLOW = 4401, 4408


class _Refusals(logging.Filter):
    """Drops a message of uvicorn, which logs every refused handshake as an error of the application."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg != "ASGI callable returned without completing handshake."


logging.getLogger("uvicorn.error").addFilter(_Refusals())


@router.websocket("/live")
async def live(socket: WebSocket) -> None:
    """Send the room's frames until one side ends the connection."""
    api: AppState = socket.app.state.api
    hub: Hub = socket.app.state.hub
    with contextlib.ExitStack() as slot:
        try:
            caller, room = await _admitted(api, socket)
            slot.enter_context(api.watchers.taken(caller.share))
        except (AtlasError, asyncpg.PostgresError, *AWAY) as error:
            problem = problem_of(error)
            if problem.status == 403:
                api.refused_calls.count(socket.scope)
            log.info("a watcher is refused", status=problem.status, address=address_of(socket), reason=str(error))
            # Before it is accepted, so that the client gets an HTTP response with its status and Retry-After.
            await socket.send_denial_response(response_of(problem))
            return
        try:
            await socket.accept()
        except OSError:
            return  # The client has gone while it waited.
        watcher = await hub.join(room, socket.query_params.get("since"))
        try:
            await _serve(socket, caller, watcher)
        finally:
            hub.leave(watcher)


@router.get(
    "/live",
    operation_id="watch",
    status_code=426,
    response_model=None,
    summary="Watch what happens to jobs, runs and the gate, over a WebSocket",
)
@requires(*PEOPLE)
async def refuse_plain_http(since: Since = None) -> None:
    """A caller watches its own tenant; one that belongs to none watches all, or `?tenant=`.

    The first frame is `hello`; then come `events`, five times a second at most, or a `refetch` where more happened than
    frames carry. While nothing happens, a frame without events comes every 5 seconds. A page must be Atlas's own. The
    connection is closed with 4401 when the credential is no longer valid, and with 4408 when the client does not read.
    """
    raise UpgradeRequired()


async def _admitted(api: AppState, socket: WebSocket) -> tuple[Caller, Room]:
    caller = await api.callers.identify(socket)
    origin = socket.headers.get("origin")
    # A page of another site may open a socket with the visitor's cookie; a program has no page, and no cookie.
    if origin != own_origin(socket) and (origin is not None or caller.session is not None):
        raise Forbidden("The page does not belong to this Atlas.")
    await api.rate_limiter.check(caller.token.id, caller.tenant_id, is_agent=caller.is_agent)
    if caller.role not in WATCHERS:
        raise Forbidden(f"The role {caller.role} may not watch.")
    check_query(socket, QUERY)
    tenant = socket.query_params.get("tenant")
    if not tenant:
        return caller, caller.tenant_id
    return caller, await named_tenant(api, caller, tenant)


async def _serve(socket: WebSocket, caller: Caller, watcher: Watcher) -> None:
    tasks = [
        asyncio.create_task(_send(socket, watcher)),
        asyncio.create_task(_listen(socket)),
        asyncio.create_task(_recheck(caller)),
        asyncio.create_task(watcher.too_slow.wait()),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        code = TOO_SLOW if tasks[3] in done or tasks[0] in done else REVOKED
        if tasks[1] not in done:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await socket.close(code)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send(socket: WebSocket, watcher: Watcher) -> None:
    """Send the frames; ends when the client does not read one in time."""
    while True:
        frame = await watcher.frames.get()
        async with asyncio.timeout(SEND_SECONDS):
            await socket.send_text(frame)


async def _listen(socket: WebSocket) -> None:
    """Wait for the client's disconnect; what else it sends is ignored."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return


async def _recheck(caller: Caller) -> None:
    """Ends when the credential is no longer valid."""
    while True:
        left = caller.valid_until - time.monotonic()
        await asyncio.sleep(min(CHECK_SECONDS, max(left, MIN_SLEEP)))
        assert caller.again is not None
        try:
            caller = await caller.again()
        except (Unauthenticated, TooManyRequests):
            # The second is raised for an invalid credential after too many wrong ones from one address.
            return
        except Exception as error:
            if caller.valid_until <= time.monotonic():
                return
            # The database may be away; the credential counts as valid until it can be checked again.
            log.debug("a watcher could not be checked", reason=str(error))
