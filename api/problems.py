"""Errors as HTTP responses (RFC 9457, with `remedy`, `errors` and `request_id`), and the errors only the API raises."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

import asyncpg
import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from atlas.api.field_errors import fields_of
from atlas.db.pool import UNREACHABLE
from atlas.engine.access.quotas import QuotaReached
from atlas.engine.etags import Stale
from atlas.engine.webhooks.signature import NotAccepted
from atlas.errors import (
    AtlasError,
    Conflict,
    DatabaseError,
    FieldError,
    InvalidInput,
    LeaseLost,
    NotFound,
    Refused,
)
from atlas.logs import get_logger
from atlas.models import ProblemField

log = get_logger("api")

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2
# What is raised when the database is away; the last by a connection that broke between two steps of a statement.
AWAY = (*UNREACHABLE, asyncpg.InternalClientError)


class Unauthenticated(AtlasError):
    """No credential was sent, or it is not valid now."""

    def __init__(
        self,
        message: str = "This needs a token that is valid now.",
        remedy: str = "Send one as `Authorization: Bearer atl_…`, or sign in.",
    ) -> None:
        super().__init__(message, remedy=remedy)


class Forbidden(Refused):
    """The caller is known, and may not do this."""


class BodyTooLarge(AtlasError):
    """The body has more bytes than the route accepts."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The body is larger than {limit // 1024} KiB.",
            remedy="Send less at a time, or store large data elsewhere and send where to find it.",
        )


class BodyTooSlow(AtlasError):
    """The body takes too long to arrive."""

    def __init__(self, seconds: float, idle_seconds: float) -> None:
        super().__init__(
            f"The body did not arrive within {seconds:.0f} s, or nothing of it for {idle_seconds:.0f} s.",
            remedy="Send less at a time.",
        )


class MalformedRequest(AtlasError):
    """What came is not a request of HTTP/1.1, or too many requests came ahead of their responses."""

    def __init__(self) -> None:
        super().__init__("This is not a request of HTTP/1.1.", remedy="Send one at a time, and wait for its response.")


class HeadTooLarge(AtlasError):
    """The address and the headers of a request are too long or too many."""

    def __init__(self, max_bytes: int, max_headers: int) -> None:
        super().__init__(
            f"The head of the request has more than {max_bytes // 1024} KiB or {max_headers} headers.",
            remedy="Send fewer and shorter headers.",
        )


class HeadTooSlow(AtlasError):
    """The address and the headers of a request take too long to arrive."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"The head of the request did not arrive within {seconds:.0f} s.",
            remedy="Send it immediately after connecting.",
        )


class TooManyConnections(AtlasError):
    """The process serves as many connections as it may, in all or from one address."""

    def __init__(self) -> None:
        super().__init__("There are too many connections, in all or from this address.", remedy="Close some, or wait.")


class UnsupportedMedia(AtlasError):
    """The body is not JSON."""

    def __init__(self, content_type: str) -> None:
        super().__init__(f"A body of type {content_type or 'nothing at all'} is not read here.", remedy="Send JSON.")


class UpgradeRequired(AtlasError):
    """A plain request to an address that speaks WebSocket."""

    def __init__(self) -> None:
        super().__init__("This address speaks WebSocket only.", remedy="Open it with a WebSocket client.")


class TooManyRequests(AtlasError):
    """The caller exceeds a limit; the next request may succeed `after` seconds later."""

    def __init__(self, whose: str, after: float) -> None:
        super().__init__(f"There are too many requests {whose}.", remedy=f"Try again in {after:.1f} s.")
        self.after = after


class Busy(DatabaseError):
    """A write timed out, mostly because other transactions hold what it changes. It was rolled back."""

    def __init__(self) -> None:
        super().__init__("The change waited too long for others and was not made.", remedy="Try again.")


class Problem(BaseModel):
    """What went wrong, for people in `detail` and for programs in `type`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:atlas:problem:invalid-input",
                    "title": "Invalid input",
                    "status": 422,
                    "detail": "The input of EMAIL_SEND is not valid: to: is required.",
                    "remedy": None,
                    "errors": [{"field": "to", "reason": "is required"}],
                    "request_id": "5f3c9a7e1b2d4c6f8a0e9d7c5b3a1f2e",
                }
            ]
        }
    )

    type: str = Field(description="A stable name of this kind of problem, `urn:atlas:problem:…`.")
    title: str
    status: int
    detail: str = Field(description="The cause.")
    remedy: str | None = Field(description="What can be done about it; null where the cause says it.")
    errors: list[ProblemField]
    request_id: str | None = Field(
        description="Finds the request in the API's log, as X-Request-Id does; null where it did not become one."
    )


@dataclass(frozen=True, slots=True)
class _Problem:
    """A problem before it becomes a response."""

    status: int
    kind: str
    detail: str
    errors: Sequence[FieldError] = ()
    remedy: str = ""
    headers: dict[str, str] = field(default_factory=dict)


# The first class that fits decides.
_KINDS: tuple[tuple[type[BaseException], int, str], ...] = (
    (Unauthenticated, 401, "unauthenticated"),
    (Forbidden, 403, "forbidden"),
    (NotAccepted, 403, "not-accepted"),
    (NotFound, 404, "not-found"),
    (Stale, 412, "stale"),
    (LeaseLost, 409, "lease-lost"),
    (QuotaReached, 409, "quota-reached"),
    (Conflict, 409, "conflict"),
    (Refused, 409, "refused"),
    (MalformedRequest, 400, "malformed-request"),
    (HeadTooSlow, 408, "head-too-slow"),
    (HeadTooLarge, 431, "head-too-large"),
    (TooManyConnections, 503, "too-many-connections"),
    (BodyTooSlow, 408, "body-too-slow"),
    (BodyTooLarge, 413, "body-too-large"),
    (UnsupportedMedia, 415, "unsupported-media"),
    (InvalidInput, 422, "invalid-input"),
    (UpgradeRequired, 426, "upgrade-required"),
    (TooManyRequests, 429, "too-many-requests"),
    (DatabaseError, 503, "unavailable"),
    (AtlasError, 503, "unavailable"),
)
# After these the connection is closed: what is still to come on it cannot be distinguished from the next request.
_CLOSING = (BodyTooLarge, BodyTooSlow, MalformedRequest, HeadTooLarge, HeadTooSlow, TooManyConnections)
# Database errors about values, about stored state, and about the database itself.
_VALUE_ERRORS = (asyncpg.DataError, asyncpg.CheckViolationError, asyncpg.NotNullViolationError)
_STATE_ERRORS = (asyncpg.IntegrityConstraintViolationError,)
_PASSING = (
    *AWAY,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.ReadOnlySQLTransactionError,
)


def add_problem_handlers(app: FastAPI) -> None:
    """Turn every error of the application into a problem response."""
    for kind in (
        AtlasError,
        RequestValidationError,
        HTTPException,
        asyncpg.PostgresError,
        *AWAY,
        ClientDisconnect,
        Exception,
    ):
        app.add_exception_handler(kind, problem_response)


async def problem_response(request: Request, error: Exception) -> Response:
    """The response to a request that ended in an error."""
    problem = problem_of(error)
    if problem.status == 403:
        request.app.state.api.refused_calls.count(request.scope)
    if problem.status == 405:
        problem.headers["Allow"] = ", ".join(sorted(_methods(request)))
    if problem.status == 503:
        log.warning("the database did not serve a request", path=request.url.path, reason=str(error) or repr(error))
    elif problem.status >= 500:
        log.error("request failed", path=request.url.path, method=request.method, reason=repr(error), exc_info=error)
    request_id: str = request.scope["atlas.request_id"]
    if problem.status == 500:
        # Sent outside of the middleware, which adds the id to every other response.
        problem.headers["X-Request-Id"] = request_id
    return response_of(problem, request_id)


def _methods(request: Request) -> set[str]:
    """All methods of the address: the router names only those of the first route that matches."""
    path = request.url.path
    first = next(
        (route.path for route in request.app.routes if isinstance(route, Route) and route.path_regex.match(path)), ""
    )
    return {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.path == first
        for method in route.methods or ()
    }


def response_of(problem: _Problem, request_id: str | None = None) -> Response:
    """The problem as a response."""
    title = HTTPStatus(problem.status).phrase
    document = {
        "type": f"urn:atlas:problem:{problem.kind}",
        "title": title,
        "status": problem.status,
        "detail": problem.detail,
        "remedy": problem.remedy or None,
        "errors": [{"field": error.field, "reason": error.reason} for error in problem.errors],
        "request_id": request_id,
    }
    return Response(orjson.dumps(document), problem.status, problem.headers, MEDIA_TYPE)


def problem_of(error: BaseException) -> _Problem:
    """What the caller learns of an error. An unknown error is not described: its text may hold anything."""
    match error:
        case AtlasError():
            return _of_atlas(error)
        case RequestValidationError():
            errors = fields_of(error.errors(), getattr(error, "model", None), error.body)
            return _Problem(422, "invalid-input", f"The request is not valid: {_reasons(errors)}.", errors)
        case HTTPException():
            return _of_http(error)
        case ClientDisconnect():
            # The caller is gone and never reads it.
            return _Problem(400, "disconnected", "The body ended before it was whole.")
        case asyncpg.QueryCanceledError():
            remedy = "Narrow the request, for example with created_after."
            return _Problem(422, "too-broad", "Answering takes too long.", remedy=remedy)
        case asyncpg.InsufficientPrivilegeError():
            return _Problem(403, "forbidden", "The database does not allow this to the caller.")
        case asyncpg.PostgresError() if isinstance(error, _VALUE_ERRORS):
            return _Problem(422, "invalid-input", "A value cannot be stored: it is out of its range or not valid text.")
        case asyncpg.PostgresError() if isinstance(error, _STATE_ERRORS):
            return _Problem(409, "conflict", "The request does not fit what is stored.")
        case _ if isinstance(error, _PASSING):
            message, remedy = "The database cannot be reached or is busy.", "Nothing is lost; try again."
            headers = {"Retry-After": str(RETRY_SECONDS)}
            return _Problem(503, "unavailable", message, remedy=remedy, headers=headers)
        case _:
            remedy = "The API's log has the cause under the request's id."
            return _Problem(500, "internal", "Something went wrong inside Atlas.", remedy=remedy)


def _of_atlas(error: AtlasError) -> _Problem:
    status, kind = next((status, kind) for base, status, kind in _KINDS if isinstance(error, base))
    errors = error.errors if isinstance(error, InvalidInput) else ()
    headers = {}
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(max(1, math.ceil(error.after)))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="atlas"'
    if status == 426:
        headers["Upgrade"] = "websocket"
    if isinstance(error, _CLOSING):
        headers["Connection"] = "close"
    if status == 503:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return _Problem(status, kind, error.message, errors, error.remedy, headers)


def _of_http(error: HTTPException) -> _Problem:
    kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    details = {404: "There is nothing at this address.", 405: "This address does not take that method."}
    detail = details.get(error.status_code, str(error.detail))
    headers = {name.title(): value for name, value in (error.headers or {}).items()}
    return _Problem(error.status_code, kind, detail, headers=headers)


def _reasons(errors: Sequence[FieldError]) -> str:
    return "; ".join(str(error) for error in errors[:5])
