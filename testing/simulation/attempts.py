"""Runs an attempt of a simulated job: the handler or the workflow, and the engine's own verdict on what it did."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from atlas.engine.jobs.attempts.output import dump_output
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.finish import Finish
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.handlers.types import JobType, registered
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.start_right import StartRight
from atlas.engine.jobs.verdicts import JobCanceled, JobTimeout, JobWaits, PermanentError, Settled, decide, succeed
from atlas.engine.workflows.execute_run import drive
from atlas.engine.workflows.registry import registered_workflows
from atlas.engine.workflows.run_context import Run
from atlas.engine.workflows.start_runs import ENGINE_RUN, read_input
from atlas.engine.workflows.steps.history import History, Suspension
from atlas.engine.workflows.steps.recorder import Recorder
from atlas.errors import AtlasError
from atlas.testing.simulation.memory import SimulatedJob
from atlas.testing.simulation.points import Killed, SimulatedWorker, run_inline
from atlas.testing.simulation.simulation import Simulation
from atlas.testing.simulation.store import SimulatedStore
from atlas.testing.simulation.tables import SimulatedStepCommit, SimulatedTransactions


class _NoDatabase:
    """What stands for the pool of a handler: a simulation has none."""

    def __getattr__(self, name: str) -> Any:
        raise AtlasError(
            "A simulation has no database.", remedy="Let the handler call a model, or test it with `atlas_kit`."
        )


async def run_attempt(simulation: Simulation, worker: SimulatedWorker, job: SimulatedJob) -> None:
    """Run a claimed job, and record what became of it."""
    run_inline(worker)
    job_type = registered().get(job.job_type)
    claimed = _claimed(job, job_type)
    policy = ATLAS if job_type is None else job_type.policy
    finish: Finish | None
    transactions = SimulatedTransactions(
        simulation.transacted, simulation.memory, simulation.effects, worker, simulation.commit
    )
    try:
        if job.job_type == ENGINE_RUN:
            output = await _run_workflow(simulation, transactions, claimed)
        else:
            output = await _run_handler(simulation, transactions, claimed, job_type)
        action = "JOB_SUCCEEDED" if job_type is None else job_type.success_action
        finish = succeed(claimed, worker.name, dump_output(output), action)
    except Killed:
        return
    except (Settled, JobWaits):
        finish = None
    except Exception as error:
        finish = decide(claimed, worker.name, error, policy)
    if finish is not None:
        await _record(simulation, worker, claimed, finish)
    simulation.ended(worker)


async def _record(simulation: Simulation, worker: SimulatedWorker, job: ClaimedJob, finish: Finish) -> None:
    verdict = await simulation.commit(
        f"records that its job is {finish.status}", lambda: simulation.memory.finish(worker.name, finish)
    )
    if verdict == "canceled":
        canceled = decide(job, worker.name, JobCanceled("Canceled while running."), ATLAS)
        await simulation.commit("cancels its job", lambda: simulation.memory.finish(worker.name, canceled))


async def _run_workflow(simulation: Simulation, transactions: SimulatedTransactions, job: ClaimedJob) -> Any:
    asked = read_input(orjson.loads(job.input))
    workflow = registered_workflows().get(asked.workflow)
    if workflow is None:
        raise PermanentError(f"No workflow {asked.workflow!r} is registered.")
    worker = transactions.worker.name
    store = SimulatedStore(simulation.memory, simulation.effects, worker, simulation.commit, lambda: simulation.now)
    history = History() if job.attempt == 1 else await store.load(job.id)
    suspension = Suspension(job.id, job.attempt, job.tenant_id, asked.requested_by, None, depth=asked.depth)
    reset = job.retry_count > 0 or job.lost_count > 0
    recorder = Recorder(suspension, store, history, reset=reset, step_commit=SimulatedStepCommit(transactions))
    value = workflow.parse(asked.input)
    return await drive(Run(recorder, asked.workflow), recorder, lambda run: workflow.function(run, value))


async def _run_handler(
    simulation: Simulation, transactions: SimulatedTransactions, job: ClaimedJob, job_type: JobType | None
) -> Any:
    """Run a handler. Raises Settled if its transaction has recorded the outcome."""
    if job_type is None:
        raise PermanentError(f"No handler for {job.job_type!r} is registered.")
    if job_type.batch_size:
        raise PermanentError(f"{job.job_type} takes batches, which are not simulated.")
    nothing: Any = _NoDatabase()
    given: Any = transactions
    context = AttemptContext(job, transactions.worker.name, nothing, _report, StartRight(), given)
    call = _call_of(simulation, job_type, job, context)
    try:
        output = await _call_in_time(call, job.timeout_seconds or job_type.timeout)
    except Exception:
        if context.committed is None:
            raise
    if context.committed is not None:
        raise Settled
    return output


def _call_of(
    simulation: Simulation, job_type: JobType, job: ClaimedJob, context: AttemptContext
) -> Callable[[], Awaitable[Any]]:
    arguments: dict[str, Any] = {}
    positional = [job_type.parse(job.input)]
    if job_type.signature.context is not None:
        arguments[job_type.signature.context] = context
    elif job_type.takes_context:
        positional.append(context)
    for parameter, kind in job_type.signature.dependencies.items():
        if kind not in simulation.provided:
            raise AtlasError(
                f"The handler of {job_type.key} takes {parameter}.", remedy="Give it with `sim.provide(…)`."
            )
        arguments[parameter] = simulation.provided[kind]

    async def call() -> Any:
        called = job_type.handler(*positional, **arguments)
        return await called if inspect.isawaitable(called) else called

    async def call_in_transaction() -> None:
        async with context.transaction():
            context.output(await call())

    return call_in_transaction if job_type.transactional else call


async def _call_in_time(call: Callable[[], Awaitable[Any]], limit: float | None) -> Any:
    try:
        async with asyncio.timeout(limit) as within:
            return await call()
    except TimeoutError:
        if limit is None or not within.expired():
            raise
        raise JobTimeout(f"It did not end within {limit:g} s.") from None


def _claimed(job: SimulatedJob, job_type: JobType | None) -> ClaimedJob:
    retries = job.max_retries
    if retries is None and job_type is not None:
        retries = job_type.max_retries
    seconds = None if job.timeout is None else round(job.timeout)
    numbers = (job.attempts, job.retries, retries, job.losses, seconds)
    return ClaimedJob(job.id, SYSTEM_TENANT, job.job_type, job.input, *numbers, None, job.parent, None)


async def _report(job: ClaimedJob, percent: float | None, message: str | None) -> None: ...
