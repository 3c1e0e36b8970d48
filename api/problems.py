"""One shape for everything that goes wrong: `type, title, status, detail, errors[]`, by RFC 9457."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import asyncpg
import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from atlas.api.errors import (
    AWAY,
    BodyTooLarge,
    BodyTooSlow,
    Forbidden,
    TooManyRequests,
    Unauthenticated,
    UnsupportedMedia,
)
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

log = get_logger("api")

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 2


class ProblemField(BaseModel):
    """One thing that is wrong: where it stands, and why."""

    field: str = Field(description="Where it stands in the body, the query or the path; empty for the whole.")
    reason: str


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
                    "errors": [{"field": "to", "reason": "is required"}],
                }
            ]
        }
    )

    type: str = Field(description="A stable name of this kind of problem.")
    title: str
    status: int
    detail: str = Field(description="The cause, and what can be done about it.")
    errors: list[ProblemField]


@dataclass(frozen=True, slots=True)
class _Reported:
    """A problem on its way out."""

    status: int
    kind: str
    detail: str
    errors: Sequence[FieldError] = ()
    headers: dict[str, str] = field(default_factory=dict)


# The first class that fits decides.
_KINDS: tuple[tuple[type[BaseException], int, str], ...] = (
    (Unauthenticated, 401, "unauthenticated"),
    (Forbidden, 403, "forbidden"),
    (NotFound, 404, "not-found"),
    (LeaseLost, 409, "lease-lost"),
    (Conflict, 409, "conflict"),
    (Refused, 409, "refused"),
    (BodyTooSlow, 408, "body-too-slow"),
    (BodyTooLarge, 413, "body-too-large"),
    (UnsupportedMedia, 415, "unsupported-media"),
    (InvalidInput, 422, "invalid-input"),
    (TooManyRequests, 429, "too-many-requests"),
    (DatabaseError, 503, "unavailable"),
    (AtlasError, 503, "unavailable"),
)
# Where pydantic speaks of Python.
_WORDS = {
    "missing": "is required",
    "extra_forbidden": "is not known here",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
}
# What the database says about values, and what it says about itself.
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


def answer_problems(app: FastAPI) -> None:
    """Let every error of the application leave it as a problem."""
    for kind in (
        AtlasError,
        RequestValidationError,
        HTTPException,
        asyncpg.PostgresError,
        *AWAY,
        ClientDisconnect,
        Exception,
    ):
        app.add_exception_handler(kind, answer)


async def answer(request: Request, error: Exception) -> Response:
    """What a request is answered that ended in an error."""
    told = told_of(error)
    if told.status == 405:
        told.headers["Allow"] = ", ".join(sorted(_methods(request)))
    if told.status == 503:
        log.warning("the database did not serve a request", path=request.url.path, reason=str(error) or repr(error))
    elif told.status >= 500:
        log.error("request failed", path=request.url.path, method=request.method, reason=repr(error), exc_info=error)
    if told.status == 500:
        # Beyond the border, which names every other answer.
        told.headers["X-Request-Id"] = request.scope.get("atlas.request_id", "")
    return response_of(told)


def _methods(request: Request) -> set[str]:
    """Everything that the address takes: the router names only the methods of the first route that fits."""
    path = request.url.path
    first = next((one.path for one in request.app.routes if isinstance(one, Route) and one.path_regex.match(path)), "")
    return {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.path == first
        for method in route.methods or ()
    }


def response_of(told: _Reported) -> Response:
    """The problem as an answer."""
    title = HTTPStatus(told.status).phrase
    document = {
        "type": f"urn:atlas:problem:{told.kind}",
        "title": title,
        "status": told.status,
        "detail": told.detail,
        "errors": [{"field": one.field, "reason": one.reason} for one in told.errors],
    }
    return Response(orjson.dumps(document), told.status, told.headers, MEDIA_TYPE)


def told_of(error: BaseException) -> _Reported:
    """What an error is to the caller. Nothing of an unknown error is told: it may hold anything."""
    match error:
        case AtlasError():
            return _of_atlas(error)
        case RequestValidationError():
            errors = fields_of(error.errors())
            return _Reported(422, "invalid-input", f"The request is not valid: {_shown(errors)}.", errors)
        case HTTPException():
            return _of_http(error)
        case ClientDisconnect():
            # Nobody hears it.
            return _Reported(400, "disconnected", "The body ended before it was whole.")
        case asyncpg.QueryCanceledError():
            words = "Answering takes too long. Narrow the request, for example with created_after."
            return _Reported(422, "too-broad", words)
        case asyncpg.InsufficientPrivilegeError():
            return _Reported(403, "forbidden", "The database does not allow this to the caller.")
        case asyncpg.PostgresError() if isinstance(error, _VALUE_ERRORS):
            return _Reported(
                422, "invalid-input", "A value cannot be stored: it is out of its range or not valid text."
            )
        case asyncpg.PostgresError() if isinstance(error, _STATE_ERRORS):
            return _Reported(409, "conflict", "The request does not fit what is stored.")
        case _ if isinstance(error, _PASSING):
            words = "The database cannot be reached or is busy. Nothing is lost; try again."
            return _Reported(503, "unavailable", words, headers={"Retry-After": str(RETRY_SECONDS)})
        case _:
            return _Reported(500, "internal", "Something went wrong inside Atlas. The log names the request's id.")


def fields_of(errors: Iterable[Any]) -> list[FieldError]:
    """What pydantic found, as field and reason, without the values: they may be secret."""
    found = []
    for one in errors:
        place, *rest = one["loc"] or ("",)
        steps = rest if place == "body" else one["loc"]
        # The names of a union's branches are ours, not the caller's.
        named = ".".join(
            str(step) for step in steps if not (isinstance(step, str) and step.startswith(("list[", "function-")))
        )
        found.append(FieldError(named, _WORDS.get(one["type"]) or one["msg"].removeprefix("Value error, ")))
    return found


def _of_atlas(error: AtlasError) -> _Reported:
    status, kind = next((status, kind) for base, status, kind in _KINDS if isinstance(error, base))
    errors = error.errors if isinstance(error, InvalidInput) else ()
    headers = {}
    if isinstance(error, TooManyRequests):
        headers["Retry-After"] = str(max(1, math.ceil(error.after)))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="atlas"'
    if status in (408, 413):
        headers["Connection"] = "close"
    if status == 503:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return _Reported(status, kind, str(error), errors, headers)


def _of_http(error: HTTPException) -> _Reported:
    kind = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    details = {404: "There is nothing at this address.", 405: "This address does not take that method."}
    detail = details.get(error.status_code, str(error.detail))
    headers = {name.title(): value for name, value in (error.headers or {}).items()}
    return _Reported(error.status_code, kind, detail, headers=headers)


def _shown(errors: Sequence[FieldError]) -> str:
    return "; ".join(str(error) for error in errors[:5])
