"""Driving a run: call its function, and make of how that ends what becomes of the run."""

from collections.abc import Awaitable, Callable
from typing import Any, Never

import orjson

from atlas.db.pg_json import stored_json
from atlas.engine.jobs.backoff import CAPPED
from atlas.engine.jobs.finish import LONGEST_MESSAGE
from atlas.engine.jobs.verdicts import describe
from atlas.engine.workflows.branches import current
from atlas.engine.workflows.errors import (
    FailureReached,
    ReplayDiverged,
    StepFailed,
    Suspended,
    WorkflowFailed,
    failure_facts,
)
from atlas.engine.workflows.recorder import Recorder
from atlas.engine.workflows.run_context import Run, Undo
from atlas.engine.workflows.step_call import StepCall, perform


async def drive(run: Run, recorder: Recorder, function: Callable[[], Awaitable[Any]]) -> Any:
    """What the workflow answers. Raises Suspended while it waits, WorkflowFailed when it has failed and is undone."""
    answer: Any = None
    failure: Exception | None = None
    try:
        answer = await function()
    except (Suspended, FailureReached):
        pass
    except Exception as error:
        failure = error
    # These stand, whatever the function caught on the way.
    if recorder.fatal is not None:
        if isinstance(recorder.fatal, ReplayDiverged):
            raise recorder.fatal
        await _undo(run, recorder, recorder.fatal)
    # Undoing that has begun does not wait for branches that do: what ended the run need not come up again.
    if recorder.history.failure is not None:
        await _undo(run, recorder, failure)
    if recorder.is_suspended:
        raise Suspended
    if failure is not None:
        await _undo(run, recorder, failure)
    recorder.history.require_all_seen()
    return answer


async def _undo(run: Run, recorder: Recorder, failure: Exception | None) -> Never:
    """The run has failed: do what it registered for that, last first, then say so."""
    told = _told(run, failure) if failure is not None else {}
    if recorder.history.failure is None and not run.undos:
        raise WorkflowFailed(told.pop("message"), told) from failure
    token = current.set(recorder.undoing)
    try:
        # The failure as it was recorded when undoing began, in the order of that time.
        told = await _recorded_failure(recorder, told)
        order: list[str] = told.pop("order", [])
        for key in reversed(order):
            await _undo_one(run, recorder, key)
    except StepFailed as error:
        words = f"{told['message']} Undoing it failed too. {error.message}"
        raise WorkflowFailed(words[:LONGEST_MESSAGE], {**failure_facts(error), "undoing": True}) from error
    finally:
        current.reset(token)
    raise WorkflowFailed(told.pop("message"), {**told, "compensated": list(reversed(order))}) from failure


def _told(run: Run, failure: Exception) -> dict[str, Any]:
    told: dict[str, Any] = {"message": describe(failure)[:LONGEST_MESSAGE], **failure_facts(failure)}
    if run.undos:
        told["order"] = list(run.undos)
    return told


async def _recorded_failure(recorder: Recorder, told: dict[str, Any]) -> dict[str, Any]:
    with recorder.enter("failure", "failure") as step:
        if step.recorded is None:
            await recorder.record(step, "succeeded", output=stored_json(told))
            return told
        return dict(orjson.loads(step.recorded.output or "{}"))


async def _undo_one(run: Run, recorder: Recorder, key: str) -> None:
    undo: Undo | None = run.undos.get(key)
    if undo is None:
        raise ReplayDiverged("undoing", f"on_failure {key!r}", "no such thing")
    if getattr(undo.function, "__self__", None) is run:
        await undo.function(*undo.arguments)
        return
    with recorder.enter(undo.name, "undo") as step:
        await perform(recorder, step, StepCall(undo.function, undo.arguments, undo.retries, CAPPED, None))
