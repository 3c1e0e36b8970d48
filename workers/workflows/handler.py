"""The handler of ENGINE_RUN: executes one run of a workflow until it ends or waits."""

import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.handlers.types import job
from atlas.engine.jobs.verdicts import Settled, Snooze
from atlas.engine.workflows.declared.document import Document
from atlas.engine.workflows.declared.interpret import run_document
from atlas.engine.workflows.declared.store import known_document, load_document
from atlas.engine.workflows.defer_run import defer_run
from atlas.engine.workflows.errors import WorkflowFailed, WorkflowNotFound
from atlas.engine.workflows.execute_run import drive
from atlas.engine.workflows.registry import near, registered_workflows
from atlas.engine.workflows.run_context import Run
from atlas.engine.workflows.start_runs import ENGINE_RUN, RunInput, read_input
from atlas.engine.workflows.steps.history import History, Suspension
from atlas.engine.workflows.steps.recorder import Recorder
from atlas.engine.workflows.steps.step_commit import StepCommit
from atlas.engine.workflows.steps.step_store import StepStore
from atlas.engine.workflows.workflow_catalog import known_workflows
from atlas.tracing import name_span

Function = Callable[[Run], Awaitable[Any]]

# A run whose code no living worker has waits for one that has it, and comes back less and less often.
ELSEWHERE_SECONDS = 0.1
MAX_ELSEWHERE = 10.0

OUTPUTS_DIGEST = "step_outputs_sha256"

# By worker id. A worker that lost its lease goes on under a new id, with a new store; the old one is dropped.
_stores: OrderedDict[str, StepStore] = OrderedDict()
_MAX_STORES = 16


@job(ENGINE_RUN, success_action="WORKFLOW_COMPLETE")
async def engine_run(input: dict[str, Any], ctx: AttemptContext) -> Any:
    """One attempt at a run: replays what is recorded, goes on from there, and leaves when it must wait."""
    run_input = read_input(input)
    ctx.notes.audit_meta["workflow"] = run_input.workflow
    name_span(f"run {run_input.workflow}")
    store = _store_of(ctx)
    function = await _find(run_input, ctx, store)
    # A run that was never taken up before has recorded nothing, unless it was forked from another.
    is_new = ctx.attempt == 1 and not run_input.forked
    history = History() if is_new else await store.load(ctx.job_id)
    suspension = Suspension(ctx.job_id, ctx.attempt, ctx.tenant_id, run_input.requested_by, ctx.job.correlation_id)
    suspension.depth = run_input.depth
    reset = ctx.job.retry_count > 0 or ctx.job.lost_count > 0
    step_commit = StepCommit(ctx.transactions, ctx.worker_id)
    recorder = Recorder(suspension, store, history, ctx.start_right, reset=reset, step_commit=step_commit)
    try:
        output = await drive(Run(recorder, run_input.workflow), recorder, function)
        _note_outputs(ctx, recorder)
        return output
    except WorkflowFailed:
        _note_outputs(ctx, recorder)
        raise
    finally:
        ctx.threads = recorder.threads


def _note_outputs(ctx: AttemptContext, recorder: Recorder) -> None:
    """Let the event of the run's end have the digest of what its steps returned."""
    digest = recorder.outputs_digest()
    if digest is not None:
        ctx.notes.audit_meta[OUTPUTS_DIGEST] = digest


def _store_of(ctx: AttemptContext) -> StepStore:
    """The store of a worker of this process. It prolongs the right to start that the worker has now."""
    store = _stores.get(ctx.worker_id)
    if store is None or store.start_right is not ctx.start_right:
        store = _stores[ctx.worker_id] = StepStore(ctx.pool, ctx.worker_id, ctx.start_right)
        while len(_stores) > _MAX_STORES:
            _stores.popitem(last=False)
    return store


async def _find(run_input: RunInput, ctx: AttemptContext, store: StepStore) -> Function:
    """What to call: the declared document the run began with, or this process's function."""
    if run_input.document_id is not None:
        document = await _document(run_input.document_id, ctx.tenant_id, store)
        return lambda run: run_document(run, document, run_input.input)
    workflow = registered_workflows().get(run_input.workflow)
    if workflow is not None:
        value = workflow.parse(run_input.input)
        return lambda run: workflow.function(run, value)
    async with ctx.pool.acquire() as conn:
        others = await known_workflows(conn, ctx.tenant_id)
    if others.get(run_input.workflow):
        held_by = {"worker_id": ctx.worker_id, "workflow": run_input.workflow}
        if await store.at_once(lambda conn: defer_run(conn, ctx.job_id, ctx.attempt, **held_by)):
            raise Settled
        delay = min(MAX_ELSEWHERE, ELSEWHERE_SECONDS * 2 ** min(ctx.attempt, 10))
        raise Snooze(delay * (1 + random.random()), "no living worker has the code of this workflow")
    raise WorkflowNotFound(run_input.workflow, near(run_input.workflow, [*others, *registered_workflows()]))


async def _document(document_id: UUID, tenant_id: UUID, store: StepStore) -> Document:
    document = known_document(document_id, tenant_id)
    if document is not None:
        return document
    return await store.at_once(lambda conn: load_document(conn, document_id, tenant_id))
