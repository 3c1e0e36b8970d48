"""The door of every route: who asks, whether they may, how fast, and what they send."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from atlas.api.app_state import AppState
from atlas.api.middleware import header
from atlas.api.problems import BodyTooLarge, BodyTooSlow, Forbidden, UnsupportedMedia
from atlas.api.request_context import open_call
from atlas.engine.tokens import ROLES
from atlas.errors import FieldError, InvalidInput
from atlas.strict_json import MOST_NODES, read_json

F = TypeVar("F", bound=Callable[..., Any])
Handle = Callable[[Request], Coroutine[Any, Any, Response]]

PREFIX = "/api/v1"
BODY_LIMIT = 1024 * 1024
# For the whole of it: four MiB over a slow line, and an end to whoever sends a byte now and then.
BODY_SECONDS = 60.0
# Digits of a length that is worth reading as a number.
LONGEST_LENGTH = 18


@dataclass(frozen=True, slots=True)
class RouteRules:
    """What a route asks of its callers. No roles: anyone may come, unknown."""

    roles: frozenset[str] = frozenset()
    body_limit: int = BODY_LIMIT
    most_nodes: int = MOST_NODES
    # Takes `?tenant=`.
    by_tenant: bool = True
    # About the installation: not for those who belong to one tenant, whatever their role.
    whole: bool = False
    # Takes the request as it is and reads it itself: for the route that everyone uses all the time.
    raw: bool = False


def requires(*roles: str, **terms: Any) -> Callable[[F], F]:
    """Say who may use the route whose function follows; without roles, everyone. The rest are the fields of Terms."""
    assert set(roles) <= set(ROLES)

    def mark(function: F) -> F:
        by_tenant = bool(roles) and terms.get("by_tenant", not terms.get("whole", False))
        marked = RouteRules(frozenset(roles), **{**terms, "by_tenant": by_tenant})
        function.__atlas_terms__ = marked  # type: ignore[attr-defined]
        return function

    return mark


def terms_of(endpoint: Callable[..., Any]) -> RouteRules:
    """What the route of this function asks for; a function that says nothing is a mistake in our code."""
    terms: RouteRules = endpoint.__atlas_terms__  # type: ignore[attr-defined]
    return terms


class GuardedRoute(APIRoute):
    """A route behind which only known callers come, with bodies that were read carefully."""

    def get_route_handler(self) -> Handle:
        terms = terms_of(self.endpoint)
        inner: Handle = self.endpoint if terms.raw else super().get_route_handler()
        reads_body = self.body_field is not None

        async def handle(request: Request) -> Response:
            await admit(request, terms)
            if reads_body:
                await read_body(request, terms)
            return await inner(request)

        return handle


async def admit(request: Request, terms: RouteRules) -> None:
    """Let the caller in, or refuse: unknown, not allowed, or too fast."""
    scope = request.scope
    if b"%00" in scope["query_string"] or "\0" in scope["path"]:
        raise InvalidInput("The address", [FieldError("", "holds the character U+0000")])
    if not terms.roles:
        return
    api: AppState = scope["app"].state.api
    caller = await api.callers.identify(request)
    await api.rate_limiter.check(caller.token.id, caller.tenant_id)
    if caller.role not in terms.roles:
        allowed = ", ".join(role for role in ROLES if role in terms.roles)
        raise Forbidden(f"The role {caller.role} may not do this.", remedy=f"It is for: {allowed}.")
    if terms.whole and caller.tenant_id is not None:
        raise Forbidden("This is about the whole installation.", remedy="It needs a token that belongs to no tenant.")
    scope["atlas.call"] = await open_call(api, caller, request, scope["atlas.request_id"])


async def read_body(request: Request, terms: RouteRules) -> Any:
    """The body as a JSON value, counted while it arrives and checked before anyone uses it."""
    kind = header(request.scope, b"content-type") or ""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _read(request, terms.body_limit)
    except TimeoutError:
        raise BodyTooSlow(BODY_SECONDS) from None
    if not _is_json(kind) and (body or kind):
        raise UnsupportedMedia(kind)
    if not body and not terms.raw:
        request._body = body  # Whether that will do is the route's to say.
        return None
    value = read_json(body, most_nodes=terms.most_nodes)
    # Where FastAPI looks for what it would otherwise read and parse itself.
    request._body = body
    request._json = value
    return value


def _is_json(kind: str) -> bool:
    if kind == "application/json":
        return True
    name, _, rest = kind.partition(";")
    return name.strip().lower() == "application/json" and rest.strip().lower() in (
        "",
        "charset=utf-8",
        'charset="utf-8"',
    )


async def _read(request: Request, limit: int) -> bytes:
    length = header(request.scope, b"content-length")
    if length is not None and length.isdecimal() and (len(length) > LONGEST_LENGTH or int(length) > limit):
        raise BodyTooLarge(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect()
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise BodyTooLarge(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)
