"""Executes a run: calls the workflow's function, and undoes the run when it fails."""

from collections.abc import Awaitable, Callable
from typing import Any, Never

import orjson

from atlas.db.pg_json import stored_json
from atlas.engine.jobs.backoff import CAPPED
from atlas.engine.jobs.finish import MAX_MESSAGE_LENGTH
from atlas.engine.jobs.verdicts import JobCanceled, Settled, describe
from atlas.engine.workflows.errors import (
    FailureReached,
    ReplayDiverged,
    RunLost,
    StepFailed,
    Suspended,
    WorkflowFailed,
    failure_facts,
)
from atlas.engine.workflows.run_context import Run, Undo
from atlas.engine.workflows.steps.branches import current
from atlas.engine.workflows.steps.recorder import Recorder
from atlas.engine.workflows.steps.step_call import StepCall, perform


async def drive(run: Run, recorder: Recorder, function: Callable[[Run], Awaitable[Any]]) -> Any:
    """Execute a run until it ends and return its output. Raises Settled where it waits or another worker has it."""
    try:
        try:
            return await execute(run, recorder, lambda: function(run))
        except Suspended:
            if await recorder.store.suspend(recorder.suspension) == "canceled":
                raise JobCanceled("Canceled while running.") from None
    except RunLost:
        pass
    raise Settled


async def execute(run: Run, recorder: Recorder, function: Callable[[], Awaitable[Any]]) -> Any:
    """Return the workflow's output. Raises Suspended while it waits, and WorkflowFailed when it is undone."""
    output: Any = None
    failure: BaseException | None = None
    try:
        output = await function()
    except (Suspended, FailureReached):
        pass
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        failure = error
    # These end the run, also if its function caught them.
    if recorder.fatal is not None:
        if isinstance(recorder.fatal, ReplayDiverged):
            raise recorder.fatal
        await _undo(run, recorder, recorder.fatal)
    # Undoing that has begun does not wait for branches that do: the failure is recorded and need not be raised again.
    if recorder.history.failure is not None:
        await _undo(run, recorder, failure)
    if recorder.is_suspended:
        raise Suspended
    if failure is not None:
        await _undo(run, recorder, failure)
    recorder.history.require_all_seen()
    return output


async def _undo(run: Run, recorder: Recorder, failure: BaseException | None) -> Never:
    """The run has failed: do what it registered for that, last first, then raise WorkflowFailed."""
    record = _failure_record(run, failure) if failure is not None else {}
    if recorder.history.failure is None and not run.undos:
        raise WorkflowFailed(record.pop("message"), record) from failure
    token = current.set(recorder.undoing)
    try:
        # The failure as it was recorded when undoing began, with the order of that time.
        record = await _recorded_failure(recorder, record)
        order: list[str] = record.pop("order", [])
        for key in reversed(order):
            await _undo_one(run, recorder, key)
    except StepFailed as error:
        message = f"{record['message']} Undoing it failed too. {error.message}"
        raise WorkflowFailed(message[:MAX_MESSAGE_LENGTH], {**failure_facts(error), "undoing": True}) from error
    finally:
        current.reset(token)
    raise WorkflowFailed(record.pop("message"), {**record, "compensated": list(reversed(order))}) from failure


def _failure_record(run: Run, failure: BaseException) -> dict[str, Any]:
    record: dict[str, Any] = {"message": describe(failure)[:MAX_MESSAGE_LENGTH], **failure_facts(failure)}
    if run.undos:
        record["order"] = list(run.undos)
    return record


async def _recorded_failure(recorder: Recorder, record: dict[str, Any]) -> dict[str, Any]:
    with recorder.enter("failure", "failure") as step:
        if step.recorded is None:
            await recorder.record(step, "succeeded", output=stored_json(record))
            return record
        return dict(orjson.loads(step.recorded.output or "{}"))


async def _undo_one(run: Run, recorder: Recorder, key: str) -> None:
    undo: Undo | None = run.undos.get(key)
    if undo is None:
        raise ReplayDiverged("undoing", f"on_failure {key!r}", "no such name")
    if getattr(undo.function, "__self__", None) is run:
        await undo.function(*undo.arguments)
        return
    with recorder.enter(undo.name, "undo") as step:
        await perform(recorder, step, StepCall(undo.function, undo.arguments, undo.retries, CAPPED, None))
