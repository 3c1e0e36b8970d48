"""The errors of runs, and the exceptions that stop a run without failing it."""

from collections.abc import Iterable, Sequence
from typing import Any

from atlas.engine.jobs.finish import MAX_MESSAGE_LENGTH
from atlas.engine.jobs.verdicts import PermanentError, describe
from atlas.errors import AtlasError

# The position of a step: its branch, and its number in that branch.
Spot = tuple[str, int]


class Suspended(BaseException):
    """The run cannot go on now; it gives its worker back and is called again when what it waits for has come.

    Not an Exception: a workflow's own `except Exception` must not catch it. Its `finally` blocks do run.
    """


class RunLost(BaseException):
    """Another worker has the run now. Not an Exception: no workflow may catch it and go on."""


class FailureReached(BaseException):
    """A run that is being undone has been replayed up to its failure."""


class RecordEnds(BaseException):
    """A replay without a store has come to the end of what is recorded."""


class StepFailed(AtlasError):
    """A step of this run failed for good. A workflow may catch it and go on; replay raises it again."""

    shows_cause = True

    def __init__(self, step: str, message: str, *, kind: str = "StepFailed", spots: Sequence[Spot] = ()) -> None:
        super().__init__(f"Step {step!r} failed: {message}")
        self.step = step
        self.reason = message
        # The name of the error's class, as the step or the child raised it.
        self.kind = kind
        self.spots = list(spots)


class WorkflowFailed(PermanentError):
    """The run has failed; its job says why and which step to begin with when it is retried."""

    audit_action = "WORKFLOW_FAILED"
    shows_cause = True

    def __init__(self, message: str, facts: dict[str, Any], *, remedy: str = "") -> None:
        super().__init__(message[:MAX_MESSAGE_LENGTH], remedy=remedy)
        self.facts = facts


class WorkflowNotFound(PermanentError):
    """No worker knows this workflow."""

    audit_action = "WORKFLOW_NOT_FOUND"

    def __init__(self, key: str, near: Iterable[str]) -> None:
        named = ", ".join(near)
        super().__init__(
            f"There is no workflow {key!r}." + (f" Did you mean {named}?" if named else ""),
            remedy="Save a declared workflow of that key, or start a worker whose --app registers it.",
        )


class ReplayDiverged(PermanentError):
    """The workflow's code asks for other steps than the ones this run has recorded."""

    audit_action = "WORKFLOW_FAILED"

    def __init__(self, position: str, expected: str, actual: str) -> None:
        super().__init__(
            f"Replay diverged at {position}: the run recorded {expected}, the code now asks for {actual}.",
            remedy="Run it with the code it began with, or fork it from a step before the change.",
        )
        self.expected = expected
        self.found = actual
        self.facts = {"diverged": {"at": position, "expected": expected, "found": actual}}


def failed_steps(error: BaseException | None) -> list[Spot]:
    """The failed steps behind an error, also where the workflow raised one of its own from it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, StepFailed):
            return error.spots
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return []


def failure_facts(error: BaseException) -> dict[str, Any]:
    """What is stored of a failure besides its message: the class and the steps it came from."""
    facts: dict[str, Any] = {"type": error.kind if isinstance(error, StepFailed) else type(error).__name__}
    spots = failed_steps(error)
    if spots:
        facts["steps"] = [{"branch": branch, "position": position} for branch, position in spots]
    if isinstance(error, StepFailed):
        facts["step"] = error.step
    return facts


def error_json(error: BaseException) -> dict[str, Any]:
    """A step's error as it is stored."""
    return {"message": describe(error)[:MAX_MESSAGE_LENGTH], "type": type(error).__name__}
