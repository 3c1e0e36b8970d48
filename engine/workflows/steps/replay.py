"""Replaying a stored history against today's code, without a database: for tests of workflows.

Keep the document that `atlas workflow show RUN --json` prints as a fixture; `replay` follows it with the code there is
now and raises ReplayDiverged where the code asks for other steps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from atlas.engine.workflows.errors import RecordEnds, Suspended, WorkflowFailed
from atlas.engine.workflows.execute_run import execute
from atlas.engine.workflows.registry import CodeWorkflow
from atlas.engine.workflows.run_context import Run
from atlas.engine.workflows.steps.history import History, RecordedStep, Suspension
from atlas.engine.workflows.steps.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Replayed:
    """The end of a replay: `ended` with an output, `failed` with a message, `waiting`, or `beyond` what is recorded."""

    status: str
    output: Any = None
    error: str | None = None


async def replay(workflow: CodeWorkflow, input: Mapping[str, Any], steps: Iterable[Mapping[str, Any]]) -> Replayed:
    """Follow recorded steps (as `atlas workflow show --json` prints them) with this workflow's function."""
    recorded = [_recorded(step) for step in steps]
    suspension = Suspension(UUID(int=0), 1, UUID(int=0), "replay", None)
    recorder = Recorder(suspension, None, History(recorded))
    run = Run(recorder, workflow.key)
    value = workflow.parse(dict(input))
    try:
        output = await execute(run, recorder, lambda: workflow.function(run, value))
    except RecordEnds:
        return Replayed("beyond")
    except Suspended:
        return Replayed("waiting")
    except WorkflowFailed as error:
        return Replayed("failed", error=error.message)
    return Replayed("ended", output)


def _recorded(step: Mapping[str, Any]) -> RecordedStep:
    return RecordedStep(
        branch=step["branch"],
        position=step["position"],
        name=step["name"],
        kind=step["kind"],
        status=step["status"],
        attempts=step.get("attempts", 1),
        output=None if step.get("output") is None else orjson.dumps(step["output"]).decode(),
        error=None if step.get("error") is None else orjson.dumps(step["error"]).decode(),
        child_id=None,
        child_status="queued",
        event_name=step.get("event_name"),
    )
