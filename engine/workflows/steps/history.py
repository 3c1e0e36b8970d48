"""What a run has recorded, and what it writes: the two halves of replay.

A run's function is called from the start every time the run continues. Each step has a position in a branch. A
recorded step returns its recorded result immediately, and must have the same name and kind. The run continues at the
first step without a record. Branches that run side by side count their own positions, so the order in which they
advance does not matter.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.workflows.errors import ReplayDiverged, Spot
from atlas.engine.workflows.review import DocumentVersion

Kind = Literal["step", "job", "child", "sleep", "event", "approval", "value", "failure", "undo"]

ROOT = ""
UNDO = "undo/"


@dataclass(slots=True)
class RecordedStep:
    """A step as it is stored. For a wait, also the state of what it waits for."""

    branch: str
    position: int
    name: str
    kind: str
    status: str
    attempts: int = 1
    output: str | None = None
    error: str | None = None
    # The time it waits for has passed.
    due: bool = False
    child_id: UUID | None = None
    child_status: str | None = None
    child_output: str | None = None
    child_error: str | None = None
    event_name: str | None = None
    event_context: str | None = None
    approval_status: str | None = None
    approval_by: str | None = None
    approval_comment: str | None = None
    # The event that ended it was removed before the run read it.
    event_gone: bool = False

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name!r}"


class History:
    """The recorded steps of a run, and which of them the function has asked for again."""

    __slots__ = ("_seen", "_steps", "size")

    def __init__(self, steps: Iterable[RecordedStep] = ()) -> None:
        self._steps: dict[Spot, RecordedStep] = {(step.branch, step.position): step for step in steps}
        # The characters of all outputs.
        self.size = sum(len(step.output) for step in self._steps.values() if step.output is not None)
        self._seen: set[Spot] = set()

    def __len__(self) -> int:
        return len(self._steps)

    def __contains__(self, spot: Spot) -> bool:
        return spot in self._steps

    def outputs(self) -> dict[Spot, str]:
        """The recorded outputs, as they are stored."""
        return {spot: step.output for spot, step in self._steps.items() if step.output is not None}

    @property
    def failure(self) -> RecordedStep | None:
        """The failure that is being undone, if the run has come to that."""
        return self._steps.get((UNDO, 0)) if self._steps else None

    def find(self, branch: str, position: int, name: str, kind: str) -> RecordedStep | None:
        """What is recorded at a position; ReplayDiverged if its name or kind differs from what is asked for."""
        if not self._steps:
            return None
        recorded = self._steps.get((branch, position))
        if recorded is None:
            return None
        if recorded.name != name or recorded.kind != kind:
            raise ReplayDiverged(format_spot(branch, position), recorded.text, f"{kind} {name!r}")
        self._seen.add((branch, position))
        return recorded

    def require_all_seen(self) -> None:
        """At the end of a run: what it recorded and never asked for again is a divergence."""
        left = sorted(spot for spot in self._steps.keys() - self._seen if spot[0] != UNDO)
        if left:
            raise ReplayDiverged(format_spot(*left[0]), self._steps[left[0]].text, "the end of the workflow")


def format_spot(branch: str, position: int) -> str:
    """A step's position as text."""
    return f"step {position + 1}" + (f" of branch {branch.rstrip('/')}" if branch else "")


class StepCheckpoint(NamedTuple):
    """The outcome of a step, as it is written. The order is that of the statement's columns."""

    run_id: UUID
    attempt: int
    branch: str
    position: int
    name: str
    kind: str
    status: str
    attempts: int | None
    seconds: float
    input: str | None
    output: str | None
    error: str | None
    # The step has a row already: it waited, or it is retried.
    known: bool | None
    # The run's counters of failures and losses go back to zero.
    reset: bool


@dataclass(frozen=True, slots=True)
class NewApproval:
    """A question to a person."""

    title: str
    expires: float
    detail: str
    # Of the review of a child's start: what the approval is bound to, as JSON.
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class NewChild:
    """A child run."""

    workflow: str
    input: dict[str, Any]
    # What it runs, where that was reviewed; None: the newest document of its workflow.
    document: DocumentVersion | None = None
    # A rule counts such starts: the start is judged again in the transaction that makes it.
    is_counted: bool = False


@dataclass(slots=True)
class Wait:
    """Something a run begins to wait for: time, an event, a person, a job, another run, or a step's next attempt."""

    branch: str
    position: int
    name: str
    kind: str
    status: Literal["waiting", "retrying"] = "waiting"
    attempts: int = 1
    wake_after: float | None = None
    wake_at: datetime | None = None
    input: str | None = None
    error: str | None = None
    event_name: str | None = None
    event_match: str | None = None
    job: NewJob | None = None
    child: NewChild | None = None
    approval: NewApproval | None = None


@dataclass(slots=True)
class Suspension:
    """A run that suspends, with its waits that are not stored yet. `stays`: only store them, other branches go on."""

    run_id: UUID
    attempt: int
    tenant_id: UUID
    requested_by: str
    correlation_id: str | None
    waits: list[Wait] = field(default_factory=list)
    # The names of all events it waits for, stored or not.
    event_names: list[str] = field(default_factory=list)
    at_once: bool = False
    stays: bool = False
    # How many runs are above this one, each waiting for the next.
    depth: int = 0
