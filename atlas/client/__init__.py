"""A typed HTTP client for Atlas: calls that are retried when a connection is lost, and a live view that reconnects.

Each name is loaded when it is first used, so that the API can share the models without loading an HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atlas.client.client import AtlasClient
    from atlas.client.errors import (
        ApiConflict,
        ApiError,
        ApiForbidden,
        ApiInvalidInput,
        ApiLeaseLost,
        ApiNotFound,
        ApiRefused,
        ApiTooManyRequests,
        ApiUnauthenticated,
        Unavailable,
        Unreachable,
    )
    from atlas.client.frames import Event, Events, Frame, GateEvent, Hello, JobEvent, Refetch, RunEvent
    from atlas.client.models import (
        Attempt,
        EngineStatus,
        EnqueuedJob,
        GateStatus,
        Job,
        JobExplanation,
        JobQuery,
        JobRequest,
        JobStatus,
        JobSummary,
        Page,
        QueueDepth,
        RetriedMany,
        SystemStatus,
        WorkerStatus,
    )
    from atlas.client.transport import RetryBudget
    from atlas.client.waiting import NotEnded

__all__ = [
    "ApiConflict",
    "ApiError",
    "ApiForbidden",
    "ApiInvalidInput",
    "ApiLeaseLost",
    "ApiNotFound",
    "ApiRefused",
    "ApiTooManyRequests",
    "ApiUnauthenticated",
    "AtlasClient",
    "Attempt",
    "EngineStatus",
    "EnqueuedJob",
    "Event",
    "Events",
    "Frame",
    "GateEvent",
    "GateStatus",
    "Hello",
    "Job",
    "JobEvent",
    "JobExplanation",
    "JobQuery",
    "JobRequest",
    "JobStatus",
    "JobSummary",
    "NotEnded",
    "Page",
    "QueueDepth",
    "Refetch",
    "RetriedMany",
    "RetryBudget",
    "RunEvent",
    "SystemStatus",
    "Unavailable",
    "Unreachable",
    "WorkerStatus",
]

_MODULES = ("client", "errors", "frames", "models", "transport", "waiting")


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it."""
    if name in __all__:
        for module in _MODULES:
            found = vars(import_module(f"atlas.client.{module}")).get(name)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module 'atlas.client' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
