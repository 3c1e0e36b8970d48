"""ENGINE_RUN: drives one run of a workflow until it ends or waits."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

from atlas.engine.jobs.context import JobContext
from atlas.engine.jobs.types import job
from atlas.engine.jobs.verdicts import JobCanceled, Settled, Snooze
from atlas.engine.workflows.declared.interpret import run_document
from atlas.engine.workflows.declared.store import known_document
from atlas.engine.workflows.errors import Suspended, WorkflowNotFound
from atlas.engine.workflows.execute_run import drive
from atlas.engine.workflows.history import History, Suspension
from atlas.engine.workflows.recorder import Recorder
from atlas.engine.workflows.registry import near, registered_workflows
from atlas.engine.workflows.run_context import Run
from atlas.engine.workflows.start_runs import ENGINE_RUN, RunInput, read_input
from atlas.engine.workflows.workflow_catalog import known_workflows
from atlas.workers.workflows.journal import RunJournal, RunLost, WorkerJournal, journal_of

Function = Callable[[Run], Awaitable[Any]]

# A run whose code another worker has is tried again by whoever comes first, ever more rarely.
ELSEWHERE_SECONDS = 0.1
LONGEST_ELSEWHERE = 10.0


@job(ENGINE_RUN, success_action="WORKFLOW_COMPLETE")
async def engine_run(input: dict[str, Any], ctx: JobContext) -> Any:
    """One attempt at a run: replays what is recorded, goes on from there, and leaves when it must wait."""
    wanted = read_input(input)
    ctx.notes.audit_meta["workflow"] = wanted.workflow
    journal = journal_of(ctx.pool, ctx.worker_id)
    function = await _find(wanted, ctx, journal)
    # A run that was never taken up before has recorded nothing, unless it was forked from another.
    is_new = ctx.attempt == 1 and not wanted.forked
    history = History() if is_new else await journal.histories.submit(ctx.job_id)
    suspension = Suspension(ctx.job_id, ctx.attempt, ctx.tenant_id, wanted.requested_by, ctx.job.correlation_id)
    suspension.depth = wanted.depth
    reset = ctx.job.retry_count > 0 or ctx.job.lost_count > 0
    recorder = Recorder(suspension, RunJournal(journal, suspension), history, reset=reset)
    run = Run(recorder, wanted.workflow)
    try:
        return await drive(run, recorder, lambda: function(run))
    except Suspended:
        await _leave(journal, suspension)
    except RunLost:
        pass
    finally:
        ctx.threads = recorder.threads
    raise Settled


async def _leave(journal: WorkerJournal, suspension: Suspension) -> None:
    """Give the run back until what it waits for comes; one that was asked to stop ends here."""
    if await journal.suspensions.submit(suspension) == "canceled":
        raise JobCanceled("Canceled while running.")


async def _find(wanted: RunInput, ctx: JobContext, journal: WorkerJournal) -> Function:
    """What to call: the declared document the run began with, or this process's function."""
    if wanted.document_id is not None:
        known_as = (wanted.document_id, ctx.tenant_id)
        document = known_document(*known_as) or await journal.documents.submit(known_as)
        return lambda run: run_document(run, document, wanted.input)
    known = registered_workflows().get(wanted.workflow)
    if known is not None:
        value = known.parse(wanted.input)
        return lambda run: known.function(run, value)
    async with ctx.pool.acquire() as conn:
        others = await known_workflows(conn, ctx.tenant_id)
    if others.get(wanted.workflow):
        delay = min(LONGEST_ELSEWHERE, ELSEWHERE_SECONDS * 2 ** min(ctx.attempt, 10))
        raise Snooze(delay * (1 + random.random()), "another worker has this workflow")
    raise WorkflowNotFound(wanted.workflow, near(wanted.workflow, [*others, *registered_workflows()]))
