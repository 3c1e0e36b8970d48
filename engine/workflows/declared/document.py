"""A declared workflow: a document of steps that need each other."""

import re
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from atlas.engine.jobs.backoff import MAX_BACKOFF

NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
KINDS = ("job", "workflow", "sleep", "event", "approval")

_DURATION = re.compile(r"(?:\d{1,12}[smhdw])+", re.ASCII)
_PART = re.compile(r"(\d+)([smhdw])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

Name = Annotated[str, StringConstraints(pattern=NAME, max_length=64)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Seconds = str | float | int


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)


class UndoStep(_Part):
    """What is done if the run fails after its step has succeeded."""

    job: Text | None = Field(default=None, description="The type of the job that undoes it.")
    workflow: Text | None = Field(default=None, description="The key of the workflow that undoes it.")
    with_: dict[str, Any] = Field(default_factory=dict, alias="with", description="Its input; templates are filled in.")


class Step(_Part):
    """One step: exactly one of job, workflow, sleep, event and approval is its kind."""

    id: Name = Field(description="Its name in the workflow, by which others need it and read its output.")
    needs: tuple[Name, ...] = Field(default=(), description="The steps that end before it begins.")
    if_: str | bool | None = Field(
        default=None,
        alias="if",
        description="A condition. Where it is false, the step is skipped with all that need it.",
    )
    each: str | list[Any] | None = Field(
        default=None, description="A list: the step is done for each `item` (and `index`) of it, side by side."
    )
    job: Text | None = Field(default=None, description="Enqueues a job of this type and waits for its output.")
    workflow: Text | None = Field(default=None, description="Starts a run of this workflow and waits for its output.")
    sleep: Seconds | None = Field(default=None, description="Waits: a duration such as 10m, seconds, or until a time.")
    event: Text | None = Field(default=None, description="Waits for an event of this name.")
    approval: Text | None = Field(default=None, description="Asks a person this, and waits for the decision.")
    with_: dict[str, Any] = Field(
        default_factory=dict,
        alias="with",
        description="The input of the job or workflow, what the event must match, or what the question shows.",
    )
    retries: Annotated[int, Field(ge=0, le=100)] | None = Field(
        default=None, description="How often the job, or the whole child workflow, is tried again."
    )
    timeout: Seconds | None = Field(
        default=None,
        description="The limit of an attempt, or the longest wait: seconds, or a duration such as 90s or 2d.",
    )
    on_failure: Literal["fail", "continue"] | UndoStep = Field(
        default="fail",
        alias="onFailure",
        description="What a failure means: `fail` (the run), `continue`, or what undoes it if the run fails later.",
    )

    @property
    def kind(self) -> str:
        """What it does."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def templates(self) -> dict[str, Any]:
        """Its fields that are filled in when it begins, by their path in the step."""
        templates = {"each": self.each, "with": self.with_, "sleep": self.sleep, "approval": self.approval}
        return {path: value for path, value in templates.items() if value is not None}


class Document(_Part):
    """The whole of a declared workflow."""

    key: Text = Field(description="The name by which runs of it are asked for.")
    description: Annotated[str, StringConstraints(max_length=2000)] = Field(default="", description="What it is for.")
    input_schema: dict[str, Any] = Field(
        default_factory=dict, alias="inputSchema", description="JSON Schema of the input of its runs."
    )
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=200)] = Field(description="What it does.")
    output: Any = Field(
        default=None, description="What a run returns; without it, the outputs of the steps that no other needs."
    )

    def step(self, id: str) -> Step:
        """The step of this id."""
        return self._by_id[id]

    def ancestors(self, id: str) -> frozenset[str]:
        """All steps that end before this one begins. They are computed once: each step may need all before it."""
        ancestors = self._ancestors
        if id not in ancestors:
            needs = frozenset(self.step(id).needs)
            ancestors[id] = needs.union(*map(self.ancestors, needs))
        return ancestors[id]

    @cached_property
    def _by_id(self) -> dict[str, Step]:
        return {step.id: step for step in self.steps}

    @cached_property
    def _ancestors(self) -> dict[str, frozenset[str]]:
        return {}

    @property
    def last(self) -> list[Step]:
        """The steps that no other needs."""
        needed = {need for step in self.steps for need in step.needs}
        return [step for step in self.steps if step.id not in needed]


def seconds_of(value: Any) -> float | None:
    """Seconds from a number or from a text such as 90s, 10m, 1h30m; None if it is neither, or over a hundred years."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str):
        if not _DURATION.fullmatch(value):
            return None
        value = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    return float(value) if 0 <= value <= MAX_BACKOFF else None
