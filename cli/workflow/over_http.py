"""A run as the API has it: the request, the run and its steps."""

from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from atlas.cli.connection.over_http_rows import row_of, rows_of
from atlas.engine.workflows.find_runs import RunDetails
from atlas.errors import NotFound
from atlas.models.workflows import Intent, RunStep, WorkflowRun

if TYPE_CHECKING:
    from atlas.client import AtlasClient


async def details_of(atlas: "AtlasClient", run_id: UUID) -> RunDetails:
    """Everything under one id, or NotFound."""
    intent, run, steps = None, None, []
    # A child of another run has no request, and a request that waits has no run.
    with suppress(NotFound):
        intent = row_of(Intent, await atlas.get_intent(run_id))
    with suppress(NotFound):
        run = row_of(WorkflowRun, await atlas.get_run(run_id))
        steps = await rows_of(RunStep, atlas.list_run_steps(run_id))
    if run is None and intent is None:
        raise NotFound("run", run_id, remedy="`atlas workflow list` shows the runs there are.")
    return RunDetails(intent, run, steps)
