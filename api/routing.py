"""Routes that authenticate and authorize their callers, limit their rates, and read and write JSON."""

import asyncio
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import Response
from starlette.routing import compile_path

from atlas.api.access.authentication import require_own_page
from atlas.api.app_state import AppState
from atlas.api.field_errors import MAX_NAME_LENGTH, unknown_name
from atlas.api.http.headers import header
from atlas.api.idempotency import respond_once
from atlas.api.problems import BodyTooLarge, BodyTooSlow, Forbidden, UnsupportedMedia
from atlas.api.replica.reads import Handle, read_from_replica
from atlas.api.request_context import READING, RequestContext, open_call
from atlas.engine.access.tokens import ROLES
from atlas.engine.synonyms import SynonymConflict, by_own_names, synonyms_of
from atlas.errors import FieldError, InvalidInput
from atlas.strict_json import MAX_NODES, read_json

F = TypeVar("F", bound=Callable[..., Any])

PREFIX = "/api/v1"
PYDANTIC_1 = "pydantic.v1"
BODY_LIMIT = 1024 * 1024
# For the whole body: enough for 4 MiB over a slow connection, and an end to a caller that sends a byte now and then.
BODY_SECONDS = 60.0
# Unknown query names that an error describes.
MAX_UNKNOWN = 10
# Idle time allowed between two chunks of a request body.
BODY_IDLE_SECONDS = 10.0
# A Content-Length with more digits is not parsed.
MAX_LENGTH_DIGITS = 18


@dataclass(frozen=True, slots=True)
class RouteRules:
    """What a route requires of its callers. Without roles, anyone may call it unauthenticated."""

    roles: frozenset[str] = frozenset()
    body_limit: int = BODY_LIMIT
    max_nodes: int = MAX_NODES
    # Takes `?tenant=`.
    by_tenant: bool = True
    # About the installation: not for callers that belong to a tenant, whatever their role.
    whole: bool = False
    # Reads something and leaves a trace: not for a browser that a page of another site sends here.
    own_pages: bool = False
    # The function takes the request and reads its body itself, without FastAPI.
    raw: bool = False
    # A GET that takes something away: no HEAD.
    takes: bool = False
    # Why an Idempotency-Key is refused: the response cannot be stored, or the call may be repeated without one.
    no_key: str = ""
    # The function uses a helper process.
    helper: bool = False
    # Its response has the state of an editable resource as its ETag.
    etag: bool = False
    # A GET that decides nothing and may show what was so seconds ago: it is read from the replica, if there is one.
    replica: bool = False


def requires(*roles: str, **rules: Any) -> Callable[[F], F]:
    """Declare who may call the route of the decorated function; `rules` are further fields of RouteRules."""
    assert set(roles) <= set(ROLES)

    def mark(function: F) -> F:
        by_tenant = bool(roles) and rules.get("by_tenant", not rules.get("whole", False))
        marked = RouteRules(frozenset(roles), **{**rules, "by_tenant": by_tenant})
        function.__atlas_rules__ = marked  # type: ignore[attr-defined]
        return function

    return mark


def rules_of(endpoint: Callable[..., Any]) -> RouteRules:
    """The rules of a route's function. Every function must have some: one without is a mistake in our code."""
    rules: RouteRules = endpoint.__atlas_rules__  # type: ignore[attr-defined]
    return rules


class GuardedRoute(APIRoute):
    """A route that admits its callers by its rules, reads their bodies strictly, and is called once with a key.

    HEAD is GET without the body. Models of parameters and responses are built when one of their attributes is first
    read: a command in its own process calls one route of many.
    """

    # Whether an Idempotency-Key makes it respond once, and whether If-Match says which state it edits.
    takes_key: bool
    takes_match: bool

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        # All that is needed to find a route by its address and method.
        self.path, self.endpoint = path, endpoint
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self.methods = {method.upper() for method in options["methods"]}
        if "GET" in self.methods and not rules_of(endpoint).takes:
            # The server leaves out the body.
            self.methods.add("HEAD")
        self._options: dict[str, Any] | None = options

    def __getattr__(self, name: str) -> Any:
        # Called for attributes that are not set, so no longer once the route is built.
        if self.__dict__.get("_options") is None:
            raise AttributeError(name)
        self.build()
        return getattr(self, name)

    def build(self) -> None:
        """Build the models of parameters and responses, unless that was done before."""
        options, methods = self._options, self.methods
        if options is not None:
            self._options = None
            with _without_pydantic_1():
                super().__init__(self.path, self.endpoint, **options)
            self.methods = methods

    def get_route_handler(self) -> Handle:
        rules = rules_of(self.endpoint)
        changes = not (self.methods or set()) <= {"GET", "HEAD"}
        headers = header_names(self.dependant)
        self.takes_key = changes and not rules.no_key and "idempotency-key" not in headers
        self.takes_match = "if-match" in headers
        inner: Handle = self.endpoint if rules.raw else naming_model(super().get_route_handler(), self.body_field)
        reads_body = self.body_field is not None
        # The pages beside the API ignore their query, as pages do.
        names = query_names(self.dependant, rules) if self.include_in_schema else None

        async def handle(request: Request) -> Response:
            await admit(request, rules, names)
            key = header(request.scope, b"idempotency-key")
            if key is not None and rules.no_key:
                reason = f"is not supported here: {rules.no_key}"
                raise InvalidInput("The request", [FieldError("header.Idempotency-Key", reason)])
            if changes and not self.takes_match and header(request.scope, b"if-match") is not None:
                raise InvalidInput("The request", [FieldError("header.If-Match", "is not supported here")])
            if reads_body or (rules.raw and key is not None):
                await read_body(request, rules)
            if rules.replica:
                return await read_from_replica(request, inner)
            if key is None or not self.takes_key:
                return await inner(request)
            call = request.scope["atlas.call"]
            return await respond_once(request, call, key, lambda: inner(request), helper=rules.helper)

        return noted_write(handle) if changes and rules.roles else handle


@contextmanager
def _without_pydantic_1() -> Iterator[None]:
    """Keep FastAPI from importing `pydantic.v1` to refuse its models: that takes longer than to build a route."""
    sys.modules.setdefault(PYDANTIC_1, None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        if sys.modules[PYDANTIC_1] is None:
            del sys.modules[PYDANTIC_1]


def naming_model(handle: Handle, body: Any) -> Handle:
    """Add the model of the body to the error that FastAPI raises about it."""

    async def naming(request: Request) -> Response:
        try:
            return await handle(request)
        except RequestValidationError as error:
            error.model = body.field_info.annotation  # type: ignore[attr-defined]
            raise

    return handle if body is None else naming


def noted_write(handle: Handle) -> Handle:
    """Note when a caller may have changed something: what its next requests read is as new as that."""

    async def noting(request: Request) -> Response:
        try:
            return await handle(request)
        finally:
            call: RequestContext | None = request.scope.get("atlas.call")
            if call is not None and call.api.replica is not None:
                call.api.replica.wrote(call.caller.token.id)

    return noting


async def admit(request: Request, rules: RouteRules, names: frozenset[str] | None) -> None:
    """Authenticate and authorize the caller, and check its rate and the names in its query.

    What the route needs is then in the scope.
    """
    scope = request.scope
    if b"%00" in scope["query_string"] or "\0" in scope["path"]:
        raise InvalidInput("The address", [FieldError("", "contains the character U+0000")])
    if not rules.roles:
        check_query(request, names)
        return
    api: AppState = scope["app"].state.api
    caller = await api.callers.identify(request)
    limits = await api.rate_limiter.limits_of(caller.token.id, caller.tenant_id, is_agent=caller.is_agent)
    scope["atlas.limits"] = limits
    for limit in limits:
        limit.take()
    if rules.own_pages and caller.session is not None:
        require_own_page(request, caller)
    if caller.role not in rules.roles:
        allowed = ", ".join(role for role in ROLES if role in rules.roles)
        raise Forbidden(f"The role {caller.role} may not do this.", remedy=f"It is for: {allowed}.")
    if rules.whole and caller.tenant_id is not None:
        raise Forbidden("This is about the whole installation.", remedy="It needs a token that belongs to no tenant.")
    check_query(request, names)
    leaves_event = scope["method"] not in READING or (rules.own_pages and not rules.replica)
    scope["atlas.call"] = await open_call(api, caller, request, scope["atlas.request_id"], leaves_event=leaves_event)


def query_names(dependant: Dependant, rules: RouteRules) -> frozenset[str]:
    """The names that a route takes in its query."""
    names = {param.alias for part in _parts(dependant) for param in part.query_params}
    return frozenset(names | ({"tenant"} if rules.by_tenant else set()))


def header_names(dependant: Dependant) -> frozenset[str]:
    """The names of the headers that a route's function takes."""
    return frozenset(param.alias for part in _parts(dependant) for param in part.header_params)


def _parts(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for inner in dependant.dependencies:
        yield from _parts(inner)


def check_query(request: HTTPConnection, names: Collection[str] | None) -> None:
    """Refuse names that the route does not take. A filter or a tenant that is misspelled must not be ignored."""
    if names is None or not request.scope["query_string"]:
        return
    unknown = set(request.query_params) - set(names)
    if unknown:
        _take_synonyms(request, names)
        unknown = set(request.query_params) - set(names)
    if unknown:
        raise InvalidInput(
            "The request",
            [
                FieldError(f"query.{name[:MAX_NAME_LENGTH]}", unknown_name(name, names))
                for name in sorted(unknown)[:MAX_UNKNOWN]
            ],
        )


def _take_synonyms(request: HTTPConnection, names: Collection[str]) -> None:
    """Replace the query by one under Atlas's own names, which FastAPI reads afterwards."""
    query = {name: request.query_params.getlist(name) for name in request.query_params}
    try:
        own = by_own_names(query, synonyms_of(names))
    except SynonymConflict as conflict:
        raise InvalidInput("The request", [FieldError(f"query.{conflict.name}", str(conflict))]) from None
    request._query_params = QueryParams([(name, value) for name, values in own.items() for value in values])


async def read_body(request: Request, rules: RouteRules) -> Any:
    """The body as a JSON value, within the route's limits of size, time and depth; read once."""
    if hasattr(request, "_json"):
        return request._json
    kind = header(request.scope, b"content-type") or ""
    body = await read_bytes(request, rules.body_limit)
    if not _is_json(kind) and (body or kind):
        raise UnsupportedMedia(kind)
    if not body and not rules.raw:
        request._body = body  # FastAPI decides whether the route needs one.
        return None
    value = read_json(body, max_nodes=rules.max_nodes)
    # FastAPI finds the body here and does not read and parse it again.
    request._body = body
    request._json = value
    return value


async def read_bytes(request: Request, limit: int) -> bytes:
    """The body as it is, within a limit of size and the limits of time."""
    try:
        async with asyncio.timeout(BODY_IDLE_SECONDS) as timer:
            return await _read(request, limit, timer)
    except TimeoutError:
        raise BodyTooSlow(BODY_SECONDS, BODY_IDLE_SECONDS) from None


def _is_json(kind: str) -> bool:
    if kind == "application/json":
        return True
    name, _, rest = kind.partition(";")
    return name.strip().lower() == "application/json" and rest.strip().lower() in (
        "",
        "charset=utf-8",
        'charset="utf-8"',
    )


async def _read(request: Request, limit: int, timer: asyncio.Timeout) -> bytes:
    length = header(request.scope, b"content-length")
    if length is not None and length.isdecimal() and (len(length) > MAX_LENGTH_DIGITS or int(length) > limit):
        raise BodyTooLarge(limit)
    parts: list[bytes] = []
    size = 0
    now = asyncio.get_running_loop().time
    ends_at = now() + BODY_SECONDS
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
        timer.reschedule(min(ends_at, now() + BODY_IDLE_SECONDS))


def json_bytes(value: Any) -> bytes:
    """A value as JSON; ids and timestamps become text, dataclasses and models objects."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_UTC_Z)


def json_response(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response of bytes that are JSON."""
    return Response(body, status, headers, "application/json")


def _plain(value: Any) -> Any:
    # asyncpg's ids are a subclass of UUID, which orjson leaves to us.
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)
