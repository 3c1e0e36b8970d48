"""Reads a run: the request, the run itself and its steps."""

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from atlas.errors import NotFound

if TYPE_CHECKING:
    from atlas.client import AtlasClient, Intent, RunStep, WorkflowRun


@dataclass(frozen=True, slots=True)
class RunDetails:
    """Everything under one id: the intent, the run it became, and the run's steps."""

    intent: "Intent | None"
    run: "WorkflowRun | None"
    steps: "list[RunStep]"


async def read_details(atlas: "AtlasClient", run_id: UUID) -> RunDetails:
    """Everything under one id, or NotFound."""
    intent, run, steps = None, None, []
    # A child of another run has no request, and a request that waits has no run.
    with suppress(NotFound):
        intent = await atlas.get_intent(run_id)
    with suppress(NotFound):
        run = await atlas.get_run(run_id)
        steps = [step async for step in atlas.list_run_steps(run_id)]
    if run is None and intent is None:
        raise NotFound("run", run_id, remedy="`atlas workflow list` lists the runs.")
    return RunDetails(intent, run, steps)
