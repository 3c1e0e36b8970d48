"""Idempotent calls: a call that is repeated with its Idempotency-Key gets the first response again."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Header, Request
from starlette.responses import Response

from atlas.api.request_context import RequestContext
from atlas.api.routing import json_bytes, json_response
from atlas.db.pool import Connection
from atlas.engine.idempotency import StoredResponse, call_key, once

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1, max_length=200, description="A call that is repeated with the same key gets the first response."
    ),
]


async def create_once(
    request: Request, call: RequestContext, key: str | None, work: Callable[[Connection], Awaitable[Any]]
) -> Response:
    """Do the work in a transaction of the caller and respond 201 with its result; with a key, once."""
    return await do_once(request, call, key, work, status=201)


async def do_once(
    request: Request,
    call: RequestContext,
    key: str | None,
    work: Callable[[Connection], Awaitable[Any]],
    *,
    status: int = 200,
) -> Response:
    """Do the work in a transaction of the caller and respond with its result; with a key, once."""

    async def respond(conn: Connection) -> StoredResponse:
        return StoredResponse(status, json_bytes(await work(conn)))

    async with call.transaction() as conn:
        if key is None:
            stored = await respond(conn)
        else:
            # A route that takes no body has read none.
            body: bytes = getattr(request, "_body", b"")
            parts = (request.method.encode(), request.url.path.encode(), str(call.home).encode(), body)
            stored = await once(conn, call_key(call.home, call.caller.subject, key, *parts), lambda: respond(conn))
    return json_response(stored.body, stored.status, {"Idempotency-Replayed": "true"} if stored.repeated else None)
