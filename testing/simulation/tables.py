"""The application's tables in a simulation: a model that users write, and the transactions on it that end attempts.

A transaction works on a copy of the model, which takes its place with the commit: what is not committed is never seen,
and nothing of it stays when its worker dies. Transactions run one after another, as serializable ones do.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from atlas.engine.jobs.attempts.attempt_commit import AttemptTransaction
from atlas.engine.jobs.attempts.ending_transaction import ending
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.workflows.steps.history import StepCheckpoint
from atlas.engine.workflows.steps.step_commit import StepCommit
from atlas.errors import AtlasError, LeaseLost
from atlas.testing.simulation.effects import SimulatedEffects, SimulatedLedger
from atlas.testing.simulation.memory import Memory
from atlas.testing.simulation.points import Commit, SimulatedWorker
from atlas.workers.attempts.attempt_report import success

COMMITS = "commits its transaction"


class SimulatedTables:
    """The model, and which worker has a transaction on it."""

    def __init__(self) -> None:
        self.model: Any = None
        self._holder: SimulatedWorker | None = None
        self._waiting: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def open(self, worker: SimulatedWorker) -> AsyncIterator[Any]:
        """Begin a transaction. The block gets a copy of the model, as the connection."""
        if self.model is None:
            raise AtlasError(
                "The simulation has no tables.",
                remedy="Give it a model of them with `sim.tables(…)`, or test it with `atlas_kit`.",
            )
        while self._holder is not None:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]
        self._holder = worker
        try:
            yield copy.deepcopy(self.model)
        finally:
            self.free(worker)

    def free(self, worker: SimulatedWorker) -> None:
        """The transaction of this worker has ended, or its process has."""
        if self._holder is worker:
            self._holder = None
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_result(None)
            self._waiting.clear()

    def replace(self, committed: Any) -> None:
        """Let the model be as this copy. Its collections stay the same objects: a test may have read them before."""
        for name, value in vars(committed).items():
            known: Any = getattr(self.model, name, None)
            if type(known) is not type(value):
                setattr(self.model, name, value)
            elif isinstance(value, list):
                known[:] = value
            elif isinstance(value, dict | set):
                known.clear()
                known.update(value)
            else:
                setattr(self.model, name, value)


class SimulatedTransactions:
    """Those of one simulated worker. The commit is a point where it may crash."""

    def __init__(
        self,
        tables: SimulatedTables,
        memory: Memory,
        effects: SimulatedEffects,
        worker: SimulatedWorker,
        commit: Commit,
    ) -> None:
        self.tables = tables
        self.memory = memory
        self.worker = worker
        self._effects = effects
        self._commit = commit

    @asynccontextmanager
    async def begin(self, *contexts: AttemptContext) -> AsyncIterator[Any]:
        """Open one that ends this attempt."""
        [context] = contexts
        with ending(context):
            async with self.tables.open(self.worker) as conn:
                opened = context.own_transaction = AttemptTransaction(conn)
                yield conn
                finish = opened.finish = success(context, registered()[context.job.job_type], opened.output)
                await self.commit(conn, lambda: self.memory.finish(self.worker.name, finish) == "done", context.job)

    async def commit(self, conn: Any, record: Callable[[], bool], attempt: Any) -> None:
        """Record an outcome together with what was written; LeaseLost if it is refused."""

        def work() -> bool:
            is_recorded = record()
            if is_recorded:
                self.tables.replace(conn)
            return is_recorded

        if not await self._commit(COMMITS, work, may_lose_answer=True):
            raise LeaseLost(getattr(attempt, "run_id", None) or attempt.id, attempt.attempt)

    def ledger(self, context: AttemptContext) -> SimulatedLedger:
        """Where the effects of an attempt are recorded."""
        return SimulatedLedger(self._effects, self.worker.name, self._commit, (context.job_id, context.attempt))


class SimulatedStepCommit(StepCommit):
    """The transactions of the steps of a simulated run. What is passed with the commit is the step itself."""

    def __init__(self, transactions: SimulatedTransactions) -> None:
        self._simulated = transactions

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Any]:
        simulated = self._simulated
        async with simulated.tables.open(simulated.worker) as conn:

            async def end(step: StepCheckpoint) -> None:
                await simulated.commit(conn, lambda: simulated.memory.record(simulated.worker.name, step), step)

            yield (conn,), end

    def call(self, step: StepCheckpoint) -> Any:
        return step
