"""Calls that may be sent again: with an Idempotency-Key the first answer is given once more."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Header, Request
from starlette.responses import Response

from atlas.api.json_response import json_answer, json_bytes
from atlas.api.request_context import RequestContext
from atlas.db.pool import Connection
from atlas.engine.idempotency import StoredResponse, call_key, once

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1, max_length=200, description="A call that is sent again with the same key gets the first answer."
    ),
]


async def create_once(
    request: Request, call: RequestContext, key: str | None, work: Callable[[Connection], Awaitable[Any]]
) -> Response:
    """Do the work in a transaction of the caller and answer 201 with what it made; with a key, once."""
    return await do_once(request, call, key, work, status=201)


async def do_once(
    request: Request,
    call: RequestContext,
    key: str | None,
    work: Callable[[Connection], Awaitable[Any]],
    *,
    status: int = 200,
) -> Response:
    """Do the work in a transaction of the caller and answer with what came of it; with a key, once."""

    async def answer(conn: Connection) -> StoredResponse:
        return StoredResponse(status, json_bytes(await work(conn)))

    async with call.transaction() as conn:
        if key is None:
            given = await answer(conn)
        else:
            # A route that takes no body has read none.
            body: bytes = getattr(request, "_body", b"")
            asked = (request.method.encode(), request.url.path.encode(), str(call.home).encode(), body)
            given = await once(conn, call_key(call.home, call.caller.subject, key, *asked), lambda: answer(conn))
    return json_answer(given.body, given.status, {"Idempotency-Replayed": "true"} if given.repeated else None)
