"""Errors between a program and Atlas's API.

ApiError                the API responded with a problem, or something responded that is not the API
├── ApiUnauthenticated  401, the token is not valid now
├── ApiForbidden        403, the token's role may not do this
├── ApiNotFound         404, it does not exist for this token
├── ApiConflict         409, it conflicts with the state of the resource
├── ApiRefused          409, a rule forbids it
├── ApiLeaseLost        409, the job belongs to another worker
├── ApiInvalidInput     413, 415, 422, what was sent does not have the right shape
├── ApiTooManyRequests  429, and still after all tries
└── Unavailable         502, 503, 504, and still after all tries
Unreachable             no response, however often it was tried

Those that have a counterpart in `atlas.errors` extend it, so that `except Conflict` catches both.
"""

import email.utils
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from atlas import errors
from atlas.errors import AtlasError, FieldError

PASSING = (429, 502, 503, 504)
_PREFIX = "urn:atlas:problem:"


class ErrorResponse(Protocol):
    """A response that may be a problem, over HTTP or within the process."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> bytes: ...


class ApiError(AtlasError):
    """The API responded with a problem. `problem` is its name for programs, `request_id` finds it in the API's log."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        status: int = 0,
        problem: str = "",
        request_id: str | None = None,
        fields: Sequence[FieldError] = (),
        after: float | None = None,
    ) -> None:
        AtlasError.__init__(self, message, remedy=remedy)
        self.status = status
        self.problem = problem
        self.request_id = request_id
        self.errors = tuple(fields)
        # Seconds until the next try, as Retry-After asks.
        self.after = after
        # True if an earlier try of the same call may have been carried out.
        self.in_doubt = False

    @property
    def type_name(self) -> str:
        """The name without `Api`, so that programs need not know which way an error came."""
        return "ApiError" if type(self) is ApiError else type(self).__name__.removeprefix("Api")

    @property
    def is_passing(self) -> bool:
        """True if another try may succeed."""
        return self.status in PASSING

    @property
    def may_be_done(self) -> bool:
        """True if the call may have been carried out."""
        return self.status >= 500


class ApiUnauthenticated(ApiError):
    """The token is not valid now."""


class ApiForbidden(ApiError, errors.Refused):
    """The token's role may not do this."""


class ApiNotFound(ApiError, errors.NotFound):
    """It does not exist, or not for this token."""


class ApiConflict(ApiError, errors.Conflict):
    """The request conflicts with the current state of the resource."""


class ApiRefused(ApiError, errors.Refused):
    """A rule forbids it."""


class ApiLeaseLost(ApiError, errors.LeaseLost):
    """The job belongs to another worker, or has ended: no report about this attempt is recorded any more."""


class ApiInvalidInput(ApiError, errors.InvalidInput):
    """What was sent does not have the right shape; `errors` names each field and reason."""


class ApiTooManyRequests(ApiError):
    """The token exceeds a limit."""


class Unavailable(ApiError):
    """The API runs, and its database does not."""


class Unreachable(AtlasError):
    """The API does not respond."""

    after: float | None = None
    is_passing = True

    def __init__(self, url: str, reason: str, *, may_be_done: bool) -> None:
        super().__init__(
            f"There is no response from {url}: {reason}.", remedy="Check that `atlas api` is running there."
        )
        self.may_be_done = may_be_done
        self.in_doubt = False


_BY_KIND: dict[str, type[ApiError]] = {"lease-lost": ApiLeaseLost, "refused": ApiRefused}
_BY_STATUS: dict[int, type[ApiError]] = {
    401: ApiUnauthenticated,
    403: ApiForbidden,
    404: ApiNotFound,
    409: ApiConflict,
    413: ApiInvalidInput,
    415: ApiInvalidInput,
    422: ApiInvalidInput,
    429: ApiTooManyRequests,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(response: ErrorResponse, url: str) -> ApiError:
    """The error of a response."""
    problem = _problem(response)
    kind = str(problem.get("type", "")).removeprefix(_PREFIX)
    error_class = _BY_KIND.get(kind) or _BY_STATUS.get(response.status_code, ApiError)
    remedy = str(problem.get("remedy") or "")
    if not problem:
        remedy = "Check that this is the address of an Atlas."
    elif error_class is ApiUnauthenticated:
        remedy = "`atlas token add` makes one."
    return error_class(
        str(problem.get("detail") or f"The response {response.status_code} from {url} is not one of Atlas."),
        remedy=remedy,
        status=response.status_code,
        problem=kind,
        request_id=response.headers.get("x-request-id"),
        fields=[FieldError(str(error["field"]), str(error["reason"])) for error in problem.get("errors", [])],
        after=_after(response.headers.get("retry-after")),
    )


def not_atlas(url: str) -> ApiError:
    """The error of a response that is not the API's."""
    return ApiError(
        f"The response from {url} is not one of Atlas, or of another version.",
        remedy="Check that this is the address of an Atlas.",
    )


def _problem(response: ErrorResponse) -> dict[str, Any]:
    try:
        value = json.loads(response.content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) and str(value.get("type", "")).startswith(_PREFIX) else {}


def _after(header: str | None) -> float | None:
    """Retry-After, which is a number of seconds or a date."""
    if not header:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        until = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (until.astimezone(UTC) - datetime.now(UTC)).total_seconds())
