"""Requests that read the replica, or the primary instead."""

import math
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import Request
from starlette.responses import Response

from atlas.api.request_context import RequestContext
from atlas.db.pool import Connection
from atlas.db.replica import ReplicaUnusable, is_failure, reason_of
from atlas.errors import NotFound
from atlas.logs import get_logger

Handle = Callable[[Request], Coroutine[Any, Any, Response]]

# How old the data of a response is at most, in seconds.
DATA_AGE = "Atlas-Data-Age"

log = get_logger("api")


async def read_from_replica(request: Request, handle: Handle) -> Response:
    """The response from the replica, or from the primary while the replica cannot be used, and whenever it fails.

    The primary is also asked for what the replica does not have: the primary may have it by now.
    """
    call: RequestContext = request.scope["atlas.call"]
    if call.api.replica is None:
        return await handle(request)
    call.replica = read = call.api.replica.read(call.caller.token.id, live=call.caller.session is not None)
    try:
        response = await handle(request)
    except Exception as error:
        if read is None or not (_cannot_read(error) or isinstance(error, NotFound)):
            raise
        log.debug("the primary is read in place of the replica", reason=reason_of(error))
        call.replica = read = None
        response = await handle(request)
    response.headers[DATA_AGE] = f"{0 if read is None else math.ceil(read.age * 10) / 10:g}"
    return response


@asynccontextmanager
async def read_on(call: RequestContext) -> AsyncIterator[Connection]:
    """A transaction of a response that has begun: from where the replica can no longer be read, the primary is."""
    async with AsyncExitStack() as stack:
        try:
            conn = await stack.enter_async_context(call.transaction(read_only=True))
        except Exception as error:
            if call.replica is None or not _cannot_read(error):
                raise
            call.replica = None
            conn = await stack.enter_async_context(call.transaction(read_only=True))
        yield conn


def _cannot_read(error: Exception) -> bool:
    return is_failure(error) or isinstance(error, ReplicaUnusable)
