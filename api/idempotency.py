"""Idempotent calls: a call that is repeated with its Idempotency-Key gets the first response again."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Header, Request
from starlette.responses import Response

from atlas.api.request_context import RequestContext
from atlas.engine.idempotency import StoredResponse, call_key, once

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1, max_length=200, description="A call that is repeated with the same key gets the first response."
    ),
]


async def respond_once(
    request: Request,
    call: RequestContext,
    key: str | None,
    respond: Callable[[], Awaitable[Response]],
    *,
    helper: bool = False,
) -> Response:
    """The response, or, if the call was done before with this key, its first one again.

    With a key, every transaction that `respond` opens is this one, so that the key commits with what the call did. A
    helper process, if it uses one, is taken before the connection.
    """
    if key is None:
        return await respond()
    first: Response | None = None

    async def work() -> StoredResponse:
        nonlocal first
        first = await respond()
        return StoredResponse(first.status_code, bytes(first.body))

    async with call.joined_transaction(helper=helper) as conn:
        # A route that takes no body has read none.
        body: bytes = getattr(request, "_body", b"")
        parts = (request.method.encode(), request.url.path.encode(), str(call.home).encode(), body)
        stored = await once(conn, call_key(call.home, call.caller.subject, key, *parts), work)
    if first is not None:
        return first
    kind = "application/json" if stored.body else None
    return Response(stored.body, stored.status, {"Idempotency-Replayed": "true"}, kind)
