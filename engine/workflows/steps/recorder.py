"""The recorder stands between a run and the store: it finds a step's position, and replays it or records it once."""

import asyncio
import hashlib
import time
from dataclasses import replace
from typing import Any, Never
from uuid import UUID

import orjson

from atlas.db.pg_json import stored_json
from atlas.engine.jobs.start_right import NotStarted, StartRight
from atlas.engine.jobs.verdicts import PermanentError, describe
from atlas.engine.validation import MAX_NAME_LENGTH
from atlas.engine.workflows.errors import FailureReached, RecordEnds, StepFailed, Suspended
from atlas.engine.workflows.steps.branches import Branch, current
from atlas.engine.workflows.steps.history import UNDO, History, RecordedStep, StepCheckpoint, Suspension, Wait
from atlas.engine.workflows.steps.step_commit import StepCommit
from atlas.engine.workflows.steps.step_store import StepStore

# Replay reads everything a run has recorded, so that it is bounded.
MAX_STEPS = 10_000
MAX_BYTES = 64 * 1024 * 1024


def check_step_name(name: str) -> None:
    """Raise if a step cannot have this name."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        raise PermanentError(
            f"Invalid step name {name!r}.", remedy="Step names are one line of 1 to 200 printable characters."
        )


class StepPosition:
    """A step at its position in a branch, and what is recorded there. As a context it keeps its branch busy."""

    __slots__ = ("branch", "kind", "name", "position", "recorded")

    def __init__(self, branch: Branch, position: int, name: str, kind: str, recorded: RecordedStep | None) -> None:
        self.branch = branch
        self.position = position
        self.name = name
        self.kind = kind
        self.recorded = recorded

    def __enter__(self) -> "StepPosition":
        return self

    def __exit__(self, *_: object) -> None:
        self.branch.at_work = None


class Recorder:
    """The record of one attempt of one run."""

    def __init__(
        self,
        suspension: Suspension,
        store: StepStore | None,
        history: History,
        start_right: StartRight | None = None,
        *,
        reset: bool = False,
        step_commit: StepCommit | None = None,
    ) -> None:
        self.step_commit = step_commit
        self.run_id: UUID = suspension.run_id
        self.tenant_id: UUID = suspension.tenant_id
        self.requested_by = suspension.requested_by
        self.correlation_id = suspension.correlation_id
        self.history = history
        self.suspension = suspension
        # It ends the run, also if the workflow's code catches it.
        self.fatal: PermanentError | None = None
        # Those of steps that were canceled while their function goes on.
        self.threads: list[asyncio.Future[Any]] = []
        self.new_steps = 0
        # That of the worker; a replay starts nothing.
        self.start_right = start_right
        self._store = store
        self._attempt = suspension.attempt
        self._root = Branch("")
        self._undo = Branch(UNDO)
        self._reset = reset
        self._size = history.size
        self._offline = False
        # What was written. A record that was begun and did not return is counted in `new_steps` alone.
        self._written: list[StepCheckpoint] = []

    @property
    def store(self) -> StepStore:
        """Where the run is recorded. A replay without a store ends where it would write."""
        if self._store is None:
            raise RecordEnds
        return self._store

    @property
    def undoing(self) -> Branch:
        """The branch in which a failed run is undone."""
        return self._undo

    @property
    def is_suspended(self) -> bool:
        return self._root.suspended or self._undo.suspended

    def branch(self) -> Branch:
        """The branch of the running task."""
        return current.get() or self._root

    def enter(self, name: str, kind: str) -> StepPosition:
        """Enter the next step of this branch."""
        branch = current.get() or self._root
        if branch.suspended:
            raise Suspended
        try:
            branch.begin(name)
            check_step_name(name)
            position, unique = branch.position, branch.unique(name)
            recorded = self.history.find(branch.path, position, unique, kind)
            if recorded is None:
                self._check_may_begin(branch)
        except PermanentError as error:
            self.fatal = self.fatal or error
            raise
        except BaseException:
            branch.at_work = None
            raise
        branch.position = position + 1
        return StepPosition(branch, position, unique, kind, recorded)

    def _check_may_begin(self, branch: Branch) -> None:
        """Raise if no new step may begin now."""
        if self.history.failure is not None and branch is not self._undo:
            raise FailureReached
        if self.fatal is not None and branch is not self._undo:
            raise self.fatal
        if self._store is None:
            raise RecordEnds
        if self._offline:
            self.leave(branch)
        # A run that came to its limit is undone all the same.
        is_full = len(self.history) + self.new_steps >= MAX_STEPS or self._size > MAX_BYTES
        if is_full and branch is not self._undo:
            raise PermanentError(
                f"The run has recorded {MAX_STEPS:,} steps or {MAX_BYTES // 2**20} MiB.",
                remedy="Let it start children (run.child) for parts of its work.",
            )

    def leave(self, branch: Branch) -> Never:
        """Atlas is offline: the run returns to the queue, and goes on when it is claimed again."""
        self._offline = True
        self.suspension.at_once = True
        branch.suspended = True
        raise Suspended

    async def wait_to_start(self, step: StepPosition, start_right: StartRight) -> None:
        """Return when the step's function may be called; leave where Atlas is offline."""
        try:
            await start_right.wait()
        except NotStarted:
            self.leave(step.branch)

    async def record(
        self,
        step: StepPosition,
        status: str,
        *,
        attempts: int | None = None,
        since: float | None = None,
        input: str | None = None,
        output: str | None = None,
        error: str | None = None,
    ) -> None:
        """Write the outcome of a step. Returns when it is durable."""
        checkpoint = self.checkpoint(
            step, status, attempts=attempts, since=since, input=input, output=output, error=error
        )
        self._reset = False
        self.new_steps += 1
        if output is not None:
            self._size += len(output)
        try:
            is_online = await self.store.record(checkpoint)
        except Exception as error:
            self._cannot_record(step, error)
        self._written.append(checkpoint)
        if not is_online:
            self._offline = True

    def committed(self, checkpoint: StepCheckpoint) -> None:
        """A transaction has written the outcome of a step."""
        self._reset = False
        self.new_steps += 1
        self._size += len(checkpoint.output or "")
        self._written.append(checkpoint)

    def checkpoint(
        self,
        step: StepPosition,
        status: str,
        *,
        attempts: int | None = None,
        since: float | None = None,
        input: str | None = None,
        output: str | None = None,
        error: str | None = None,
    ) -> StepCheckpoint:
        """The outcome of a step, as it is written."""
        return StepCheckpoint(
            self.run_id,
            self._attempt,
            step.branch.path,
            step.position,
            step.name,
            step.kind,
            status,
            attempts,
            0.0 if since is None else time.monotonic() - since,
            input,
            output,
            error,
            None if step.recorded is None else True,
            self._reset,
        )

    def outputs_digest(self) -> str | None:
        """SHA-256 over the outputs of all steps; None where a record was cut off, and may or may not be stored."""
        if len(self._written) < self.new_steps:
            return None
        outputs = self.history.outputs()
        for entry in self._written:
            if entry.output is not None:
                outputs[entry.branch, entry.position] = entry.output
        digest = hashlib.sha256()
        for (branch, position), output in sorted(outputs.items()):
            digest.update(f"{branch} {position} {output}\n".encode())
        return digest.hexdigest()

    def _cannot_record(self, step: StepPosition, error: Exception) -> Never:
        """A step that cannot be recorded would be done again at every replay: it ends the run."""
        self.fatal = self.fatal or PermanentError(f"Step {step.name!r} cannot be recorded: {describe(error)}")
        raise self.fatal from error

    async def fail(self, step: StepPosition, error: StepFailed, **facts: Any) -> Never:
        """Write that a step failed for good, and raise it into the workflow."""
        failure = {"message": error.reason, "type": error.kind}
        await self.record(step, "failed", error=stored_json(failure), **facts)
        error.spots = [(step.branch.path, step.position)]
        raise error

    def failure(self, step: StepPosition) -> StepFailed:
        """The recorded failure of a step, to be raised again."""
        assert step.recorded is not None
        failure = orjson.loads(step.recorded.error or "{}")
        spots = [(step.branch.path, step.position)]
        return StepFailed(
            step.name, failure.get("message", "it failed"), kind=failure.get("type", "StepFailed"), spots=spots
        )

    async def wait(self, step: StepPosition, wait: Wait) -> Never:
        """Begin to wait. Beside other branches the wait is stored immediately: they may continue for long."""
        if step.branch.is_side:
            begun = replace(self.suspension, waits=[wait], event_names=[], at_once=False, stays=True)
            try:
                await self.store.suspend(begun)
            except Exception as error:
                self._cannot_record(step, error)
            self.suspension.at_once |= begun.at_once
        else:
            self.suspension.waits.append(wait)
        if wait.event_name is not None:
            self.suspension.event_names.append(wait.event_name)
        step.branch.suspended = True
        raise Suspended

    def block(self, step: StepPosition) -> Never:
        """Go on waiting for what is recorded as awaited."""
        if step.recorded is not None and step.recorded.event_name is not None:
            self.suspension.event_names.append(step.recorded.event_name)
        step.branch.suspended = True
        raise Suspended

    def replay_again(self, step: StepPosition) -> Never:
        """What the step waits for has just ended: replay the run immediately."""
        self.suspension.at_once = True
        self.block(step)
