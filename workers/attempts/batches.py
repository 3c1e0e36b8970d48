"""Calls batch handlers: several jobs of a type and a tenant, which began in slots of their own, go into one call.

Each job keeps its slot, its timeout, its cancellation and its outcome. The call begins when it has as many jobs as the
type allows, or a little after its first. It is cancelled when all its jobs have to stop; a job that has to stop before
the others keeps its slot until the call has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any
from uuid import UUID

from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.handlers.types import JobType
from atlas.engine.jobs.start_right import NotStarted
from atlas.engine.jobs.verdicts import JobWaits, PermanentError
from atlas.workers.attempts.running_attempt import pinned

# How long a call waits for more jobs after its first.
LINGER_SECONDS = 0.01

# Calls a handler with inputs and contexts, on the event loop or in a thread.
CallBatch = Callable[[JobType, Sequence[Any], Sequence[AttemptContext]], Awaitable[Any]]


class RolledBack(NotStarted):
    """Another job of the same call failed, and what the call wrote was rolled back: the job starts again."""


class BatchWaits(NotStarted):
    """Another job of the same call waits for a person, and ended the call: the job starts again."""


class Batch:
    """One call: the jobs it has by now, and the task that runs it."""

    def __init__(self, job_type: JobType) -> None:
        self.job_type = job_type
        self.inputs: list[Any] = []
        self.contexts: list[AttemptContext] = []
        self.stopped: set[int] = set()
        self.task: asyncio.Task[Sequence[Any]] | None = None
        self.begun = asyncio.Event()
        # The stacks of the exceptions that it returned or raised.
        self.traces: dict[int, TracebackType | None] = {}

    @property
    def must_stop(self) -> bool:
        """True when all its jobs were asked to stop."""
        return len(self.stopped) == len(self.inputs)

    def add(self, value: Any, context: AttemptContext) -> int:
        """Add a job and return its position."""
        self.inputs.append(value)
        self.contexts.append(context)
        return len(self.inputs) - 1


class Batches:
    """The calls that wait for more jobs."""

    def __init__(self, call: CallBatch) -> None:
        self._call = call
        self._open: dict[tuple[str, UUID], Batch] = {}

    async def run(self, job_type: JobType, value: Any, context: AttemptContext) -> Any:
        """Have a job done in a call together with others, and return or raise what becomes of it."""
        key = (job_type.key, context.tenant_id)
        batch = self._open.get(key)
        if batch is None:
            batch = self._open[key] = Batch(job_type)
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._begin, key, batch)
        position = batch.add(value, context)
        if len(batch.inputs) >= job_type.batch_size:
            self._begin(key, batch)
        outcome = (await self._outcomes(batch, position))[position]
        if isinstance(outcome, BaseException):
            # With the stack it had in the handler: the jobs of a call may share it.
            raise outcome.with_traceback(batch.traces.setdefault(id(outcome), outcome.__traceback__))
        return outcome

    def _begin(self, key: tuple[str, UUID], batch: Batch) -> None:
        if batch.task is None:
            if self._open.get(key) is batch:
                del self._open[key]
            # What is logged during the call is kept with its first job, and then with all.
            variables = pinned(batch.contexts[0])
            batch.task = asyncio.get_running_loop().create_task(self._run(batch), context=variables)
            if batch.must_stop:
                batch.task.cancel()
            batch.begun.set()

    async def _run(self, batch: Batch) -> Sequence[Any]:
        try:
            returned = await self._call(batch.job_type, batch.inputs, batch.contexts)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except JobWaits as wait:
            return [wait if context.job_id == wait.job_id else BatchWaits() for context in batch.contexts]
        except BaseException as error:
            # As a value: a task that ends in some of them ends the event loop.
            return [error] * len(batch.inputs)
        finally:
            for context in batch.contexts[1:]:
                context.kept_log = batch.contexts[0].kept_log
        try:
            return outcomes_of(batch.job_type, returned, len(batch.inputs))
        except PermanentError as error:
            return [error] * len(batch.inputs)

    async def _outcomes(self, batch: Batch, position: int) -> Sequence[Any]:
        """Wait for the end of the call, also after this job was asked to stop."""
        while True:
            try:
                await batch.begun.wait()
                assert batch.task is not None
                await asyncio.wait([batch.task])
            except asyncio.CancelledError:
                batch.stopped.add(position)
                if batch.must_stop and batch.task is not None:
                    batch.task.cancel()
                continue
            if position in batch.stopped or batch.task.cancelled():
                raise asyncio.CancelledError
            return batch.task.result()


def outcomes_of(job_type: JobType, returned: Any, count: int) -> Sequence[Any]:
    """What a batch handler returned for each of its jobs; PermanentError where that is not clear."""
    if returned is None:
        return [None] * count
    if not isinstance(returned, Sequence) or len(returned) != count:
        size = f"{len(returned)}" if isinstance(returned, Sequence) else type(returned).__name__
        raise PermanentError(
            f"The batch handler of {job_type.key} returned {size} for {count} jobs.",
            remedy="Return None, or a list with an output or an exception for each job.",
        )
    return returned
