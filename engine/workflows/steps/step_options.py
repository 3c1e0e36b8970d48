"""The options of steps, as type checkers know them."""

from datetime import timedelta
from typing import Any, TypedDict

from atlas.engine.jobs.backoff import RetryPolicy

Duration = timedelta | float | int
Retry = RetryPolicy | str | dict[str, Any]


class StepOptions(TypedDict, total=False):
    """How a step is called again after a failure, and how long a call may take."""

    retries: int
    retry: Retry
    timeout: Duration | None


class JobOptions(TypedDict, total=False):
    """The options of the job that a step enqueues."""

    priority: int | None
    retries: int | None
    timeout: Duration | None
    expires_in: Duration | None
