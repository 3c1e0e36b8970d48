"""The waits of a run: how each kind begins, and what its end means for the workflow.

A wait that begins is written, and suspends the run. When the run is replayed the wait is recorded: it is over and has
a result, or the run waits on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Never

import orjson

from atlas.db.pg_json import stored_text
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.validation import check_name
from atlas.engine.workflows.errors import StepFailed
from atlas.engine.workflows.steps.history import NewApproval, Wait
from atlas.engine.workflows.steps.recorder import Recorder, StepPosition
from atlas.engine.workflows.steps.step_values import object_text, target_text
from atlas.errors import AtlasError, InvalidInput

MAX_TITLE_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided. True only if they approved in time."""

    approved: bool
    status: str
    by: str | None = None
    comment: str | None = None

    def __bool__(self) -> bool:
        return self.approved


async def begin_job(recorder: Recorder, step: StepPosition, job: NewJob) -> Never:
    """Enqueue a job and wait for its end. One that may not be enqueued fails the step."""
    try:
        admitted = await recorder.store.admit(job)
    except AtlasError as error:
        await recorder.fail(step, StepFailed(step.name, str(error), kind=type(error).__name__))
    target = target_text(job.job_type, admitted.input)
    await recorder.wait(step, _wait(step, input=target, job=admitted))


async def child_output(recorder: Recorder, step: StepPosition, read: Callable[[str], Any]) -> Any:
    """The output of the job or run that a recorded step waits for, read by this function."""
    recorded = step.recorded
    assert recorded is not None
    if recorded.status == "failed":
        raise recorder.failure(step)
    if recorded.status == "succeeded":
        return read(recorded.output or "{}")
    if recorded.child_status in ("queued", "running"):
        if not recorded.due:
            recorder.block(step)
        if recorded.child_id is not None and not await recorder.store.cancel(recorded.child_id):
            recorder.replay_again(step)
        await recorder.fail(step, StepFailed(step.name, "It did not end in time.", kind="Timeout"))
    if recorded.child_status != "succeeded":
        error = orjson.loads(recorded.child_error or "{}")
        reasons = {"failed": error.get("message", "it failed"), "canceled": error.get("message", "It was canceled.")}
        reason = reasons.get(recorded.child_status or "", "It was deleted.")
        await recorder.fail(step, StepFailed(step.name, reason, kind=error.get("type", "Canceled")))
    await recorder.record(step, "succeeded", output=recorded.child_output)
    return read(recorded.child_output or "{}")


async def begin_sleep(
    recorder: Recorder, step: StepPosition, *, wake_after: float | None = None, wake_at: datetime | None = None
) -> Never:
    """Wait for a time."""
    await recorder.wait(step, _wait(step, wake_after=wake_after, wake_at=wake_at))


async def time_passed(recorder: Recorder, step: StepPosition) -> None:
    """Return if the time that a recorded step waits for has come."""
    assert step.recorded is not None
    if step.recorded.status == "waiting":
        if not step.recorded.due:
            recorder.block(step)
        await recorder.record(step, "succeeded")


async def begin_event(
    recorder: Recorder, step: StepPosition, name: str, match: Mapping[str, Any], timeout: float | None
) -> Never:
    """Wait for an event."""
    wrong = check_name("name", name)
    if wrong:
        raise InvalidInput("The event", wrong)
    text = object_text("The match", match, field="match")
    await recorder.wait(step, _wait(step, input=text, event_name=name, event_match=text, wake_after=timeout))


async def event_context(recorder: Recorder, step: StepPosition, *, required: bool) -> dict[str, Any] | None:
    """The context of the event that a recorded step waits for, or None if none came in time."""
    recorded = step.recorded
    assert recorded is not None
    if recorded.status == "failed":
        raise recorder.failure(step)
    if recorded.status != "waiting":
        return _loaded(recorded.output)
    if recorded.event_gone:
        gone = StepFailed(step.name, "Its event came and is removed by now.", kind="EventGone")
        await recorder.fail(step, gone)
    if recorded.event_context is None and not recorded.due:
        recorder.block(step)
    if recorded.event_context is None and required:
        await recorder.fail(step, StepFailed(step.name, "No event came in time.", kind="Timeout"))
    await recorder.record(step, "succeeded", output=recorded.event_context)
    return _loaded(recorded.event_context)


async def begin_approval(
    recorder: Recorder, step: StepPosition, title: str, detail: Mapping[str, Any], expires: float
) -> Never:
    """Ask a person."""
    text = object_text("The approval", detail, field="detail")
    asked = NewApproval(stored_text(title)[:MAX_TITLE_LENGTH], expires, text)
    await recorder.wait(step, _wait(step, input=text, approval=asked, wake_after=expires))


async def decision_of(recorder: Recorder, step: StepPosition) -> Decision:
    """The decision that a recorded step waits for."""
    recorded = step.recorded
    assert recorded is not None
    if recorded.status != "waiting":
        return Decision(**orjson.loads(recorded.output or "{}"))
    if recorded.approval_status in (None, "pending"):
        recorder.block(step)
    status = str(recorded.approval_status)
    decision = Decision(status == "approved", status, recorded.approval_by, recorded.approval_comment)
    await recorder.record(step, "succeeded", output=orjson.dumps(decision).decode())
    return decision


def _wait(step: StepPosition, **facts: Any) -> Wait:
    return Wait(step.branch.path, step.position, step.name, step.kind, **facts)


def _loaded(text: str | None) -> dict[str, Any] | None:
    return None if text is None else orjson.loads(text)
