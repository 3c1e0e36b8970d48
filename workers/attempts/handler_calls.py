"""Calls handlers that are more than an async function of their input and context.

Plain functions run in threads, at most one for each slot. Others want what lifespans yield, or take several jobs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from atlas.engine.jobs.handlers.around_job import call_async, within_hooks
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.handlers.types import JobType
from atlas.threads import awaitable
from atlas.workers.attempts import forked_child
from atlas.workers.attempts.batches import Batches, RolledBack, outcomes_of
from atlas.workers.attempts.running_attempt import pinned
from atlas.workers.attempts.slot import Slot
from atlas.workers.lifespan import Resources
from atlas.workers.watchdog.thread_table import note_job


class HandlerCalls:
    """The calls of one worker."""

    def __init__(self, slots: int, resources: Resources) -> None:
        self._slots = slots
        self._resources = resources
        self._batches = Batches(self._call_batch)
        self._threads: ThreadPoolExecutor | None = None

    def close(self) -> None:
        """Begin nothing more in threads. Those that run are not waited for."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def call(self, slot: Slot, job_type: JobType, value: Any, context: AttemptContext) -> Any:
        """Call a handler that is a plain function, wants more than its context, takes several jobs or has hooks."""
        if job_type.is_direct:
            return await call_async(job_type.handler, *((value, context) if job_type.takes_context else (value,)))
        if job_type.batch_size:
            return await self._batches.run(job_type, value, context)
        call = partial(job_type.handler, value, **self._resources.arguments(job_type, context))
        if job_type.transactional:
            async with context.transaction():
                output = await call_async(call)
                context.output(output)
            return output
        if job_type.is_async:
            return await call_async(call)
        return await self._call_in_thread(slot, call, context)

    async def _call_batch(self, job_type: JobType, inputs: Sequence[Any], contexts: Sequence[AttemptContext]) -> Any:
        """Call a batch handler. A thread is waited for, also when the call is cancelled."""
        for right in {context.start_right for context in contexts}:
            await right.wait()
        call = partial(job_type.handler, inputs, **self._resources.arguments(job_type, contexts))
        if job_type.transactional:
            return await _call_in_transaction(job_type, call, contexts)
        if job_type.is_async:
            return await call_async(call)
        for context in contexts:
            context.runs_in_thread(asyncio.get_running_loop())
        thread = self._in_thread(call, contexts[0])
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            await asyncio.wait([thread])
            raise

    async def _call_in_thread(self, slot: Slot, call: Callable[[], Any], context: AttemptContext) -> Any:
        """Run a plain function in a thread. It cannot be cancelled, only asked to stop; until then its slot is taken.

        What it returns after it was asked to stop with its worker is not its output: it may have left half-way.
        """
        context.runs_in_thread(asyncio.get_running_loop())
        slot.thread = self._in_thread(call, context)
        try:
            return await asyncio.shield(slot.thread)
        finally:
            if slot.thread.done():
                slot.thread = None
            if slot.stopped_by() == "stop":
                raise asyncio.CancelledError

    def _in_thread(self, call: Callable[[], Any], context: AttemptContext) -> asyncio.Future[Any]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._slots, thread_name_prefix="atlas-handler")
        variables = pinned(context)

        def call_and_end_child() -> Any:
            # Within the hooks: those of a forked child would close what its worker uses.
            try:
                return call()
            finally:
                if forked_child.is_child:
                    forked_child.end_child()

        def work() -> Any:
            context.start_right.check_in_thread()
            note_job(context.job_id)
            try:
                return variables.run(awaitable(within_hooks(call_and_end_child)))
            finally:
                note_job(None)

        return asyncio.get_running_loop().run_in_executor(self._threads, work)


async def _call_in_transaction(
    job_type: JobType, call: Callable[[], Awaitable[Any]], contexts: Sequence[AttemptContext]
) -> Sequence[Any]:
    """Call a batch handler in one transaction, which ends all its jobs or none.

    If some failed, the others go back to the queue uncounted: what was written for them is rolled back, too.
    """
    outcomes: Sequence[Any] = ()
    try:
        async with contexts[0].transactions.begin(*contexts):
            outcomes = outcomes_of(job_type, await call_async(call), len(contexts))
            if any(isinstance(outcome, BaseException) for outcome in outcomes):
                raise RolledBack
            for context, output in zip(contexts, outcomes, strict=True):
                context.output(output)
    except RolledBack:
        return [outcome if isinstance(outcome, BaseException) else RolledBack() for outcome in outcomes]
    return outcomes
