"""Runs jobs in slots, one job at a time in each.

A slot's task lives as long as its worker. A new task for each job would cost the worker 4.7 µs more of CPU (measured in
drains of 20,000 jobs without work: 12.6 against 17.3 µs a job). Two things that a new task gives for free are done
here. A task whose job changed a context variable, or was cancelled, is replaced, so that nothing leaks into the next
job. And a cancellation ends with the job it was meant for.
"""

import asyncio
import contextlib
import contextvars
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from atlas.db.pool import Pool
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.finish import Finish
from atlas.engine.jobs.handlers.context import AttemptContext, Report
from atlas.engine.jobs.start_right import StartRights
from atlas.logs import get_logger
from atlas.tracing import active_tracer
from atlas.workers.attempts.attempt import AttemptRunner
from atlas.workers.attempts.running_attempt import OfSlot, lead_to
from atlas.workers.attempts.slot import Slot, StopReason
from atlas.workers.lifespan import Resources
from atlas.workers.worker_lease import WorkerLease

# For how long slots begin jobs before the event loop gets to everything else, such as recording outcomes. Measured with
# handlers that compute for 0.5 ms and never wait: an outcome is recorded 4 ms after its job ended (median), without
# bursts 61 ms, at the same 1,750 jobs/s. Handlers that do nothing: 32,000 jobs/s against 24,000 on a server in memory;
# where the disk is the limit, 18,000 against 20,000.
BURST_SECONDS = 0.005
# How often it looks whether a late heartbeat was sent.
LATE_LOOK_SECONDS = 0.02
# A handler that ignores its cancellation is cancelled again after this long.
CANCEL_AGAIN_SECONDS = 5.0
# At the end, how long the slots' tasks get.
CLOSE_SECONDS = 1.0

JobEnded = Callable[[Finish | None, ClaimedJob, float], None]

log = get_logger("worker")


class Executor:
    """Runs `size` jobs at a time.

    It is started with two functions. `job_ended` is called with every job that ended, its finish (None: there is
    nothing to record), and when it began. `occupy_slots` is called with 1 when a slot stays taken although its job is
    not held any more (its thread or the handler of a lost job goes on), and with -1 when it is free again.
    """

    def __init__(
        self,
        size: int,
        pool: Pool,
        lease: WorkerLease,
        report: Report,
        rights: StartRights,
        resources: Resources,
    ) -> None:
        self._lease = lease
        self._runner = AttemptRunner(size, pool, lease, report, rights, resources)
        self._job_ended: JobEnded
        self._occupy_slots: Callable[[int], None]
        self._queue: deque[ClaimedJob] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._slots = [Slot() for _ in range(size)]
        self._clean_context = contextvars.copy_context()
        self._burst_ends_at = 0.0
        self._is_pausing = False
        self._is_closing = False
        self._logs_ends = False
        self._run = self._runner.run

    def start(self, *, job_ended: JobEnded, occupy_slots: Callable[[int], None]) -> None:
        """Start a task for each slot."""
        self._job_ended = job_ended
        self._occupy_slots = occupy_slots
        self._logs_ends = self._runner.start()
        self._run = self._runner.run if active_tracer() is None else self._runner.run_traced
        for slot in self._slots:
            self._start_task(slot)

    def feed(self, jobs: Iterable[ClaimedJob], *, first: bool = False) -> None:
        """Queue jobs for the next free slots, behind those that wait or before them."""
        before = len(self._queue)
        if before == 0 and not self._is_pausing:
            self._begin_burst()
        if first:
            self._queue.extendleft(jobs)
        else:
            self._queue.extend(jobs)
        count = len(self._queue) - before
        while count > 0 and self._idle:
            future = self._idle.popleft()
            if not future.done():
                future.set_result(None)
                count -= 1

    @property
    def waiting(self) -> int:
        """Jobs that have not begun."""
        return len(self._queue)

    @property
    def needs_jobs(self) -> bool:
        """True when fewer jobs wait than twice its size: they begin before a claim has returned."""
        return len(self._queue) < 2 * len(self._slots)

    @property
    def running(self) -> list[Slot]:
        """The slots that run a job."""
        return [slot for slot in self._slots if slot.job is not None]

    def attempt_of(self, task: asyncio.Task[Any]) -> AttemptContext | None:
        """The attempt that the task of a slot runs."""
        return next((slot.context for slot in self._slots if slot.task is task), None)

    @property
    def has_running_handlers(self) -> bool:
        """True while a handler or a thread goes on, whatever became of its job."""
        return any(slot.job is not None or not (slot.thread is None or slot.thread.done()) for slot in self._slots)

    def take_back(self) -> list[ClaimedJob]:
        """Return the jobs that have not begun and forget them."""
        jobs = list(self._queue)
        self._queue.clear()
        return jobs

    def lose(self, jobs: Sequence[ClaimedJob]) -> None:
        """These jobs are not this worker's any more: stop those that run, and do not begin the others."""
        lost = {job.id for job in jobs}
        waiting = [job for job in self.take_back() if job.id not in lost]
        self._queue.extend(waiting)
        for slot in self.running:
            if slot.job is not None and slot.job.id in lost:
                self.stop_one(slot, "lost")

    def stop_all(self, reason: StopReason) -> None:
        """Ask every running handler to stop."""
        for slot in self.running:
            self.stop_one(slot, reason)

    def stop_one(self, slot: Slot, reason: StopReason) -> None:
        """Ask one handler to stop: by cancellation, or through `ctx.cancelled` if it runs in a thread."""
        if reason == "lost" and slot.reason != "lost" and slot.context is not None:
            self._occupy_slots(1)
        slot.reason = "lost" if reason == "lost" else slot.reason or reason
        slot.deadline = time.monotonic() + CANCEL_AGAIN_SECONDS
        if slot.context is not None and slot.context.stop_requested is not None:
            slot.context.stop_requested.set()
        if slot.reason == "stop" and slot.thread is not None:
            # Its job is requeued when the thread has returned. Before, another worker would begin what still runs here.
            return
        if slot.task is not None and slot.context is not None:
            slot.task.cancel()

    def stop_overdue(self) -> None:
        """Stop the handlers whose time is up."""
        now = time.monotonic()
        for slot in self._slots:
            if slot.job is not None and slot.deadline is not None and slot.deadline <= now:
                if slot.reason is not None:
                    log.warning("handler ignores its cancellation", **slot.job.log_facts(self._lease.worker_id))
                self.stop_one(slot, "timeout")

    async def close(self) -> None:
        """End the slots' tasks. What still runs is abandoned."""
        self._is_closing = True
        tasks = [slot.task for slot in self._slots if slot.task is not None]
        for slot in self._slots:
            slot.reason = slot.reason or "lost"
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        self._runner.close()

    def _start_task(self, slot: Slot) -> None:
        if slot.found_by is not None:
            slot.found_by.detach()
        slot.found_by = OfSlot(lambda: slot.context)
        variables = self._clean_context.copy()
        lead_to(variables, slot.found_by)
        slot.task = asyncio.get_running_loop().create_task(self._serve(slot), context=variables)
        slot.task.add_done_callback(lambda task: self._task_ended(slot, task))

    def _task_ended(self, slot: Slot, task: asyncio.Task[None]) -> None:
        """Replace a task that ended by itself, cancelled by what it ran."""
        if slot.task is task and not self._is_closing:
            error = None if task.cancelled() else task.exception()
            log.error("task of a slot ended and is replaced", exc_info=error)
            self._start_task(slot)

    async def _serve(self, slot: Slot) -> None:
        """Run one job after another until the worker ends."""
        loop = asyncio.get_running_loop()
        clean = contextvars.copy_context()
        while not self._is_closing:
            if not self._queue:
                waiting = loop.create_future()
                self._idle.append(waiting)
                await waiting
                if time.monotonic() > self._burst_ends_at:
                    self._end_burst()
                continue
            if self._is_pausing:
                await asyncio.sleep(LATE_LOOK_SECONDS if self._lease.is_late else 0)
                continue
            job = self._queue.popleft()
            try:
                finish = await self._run(slot, job)
            except GeneratorExit:
                if not _is_current(slot.task):
                    raise
                finish = self._runner.closed(slot, job)
            if slot.reason == "lost" and not self._is_closing:
                self._occupy_slots(-1)
            task = slot.task
            was_cancelled = task is not None and task.cancelling() > 0
            if was_cancelled and task is not None:
                await _end_cancellation(task)
            if slot.thread is not None and slot.reason == "stop":
                await self._wait_to_give_back(slot, job)
            if self._logs_ends:
                self._runner.log_end(slot, job, finish)
            self._job_ended(finish, job, slot.since)
            if slot.thread is not None:
                await self._wait_for_thread(slot)
            if was_cancelled or contextvars.copy_context() != clean:
                self._start_task(slot)
                return
            if time.monotonic() > self._burst_ends_at:
                self._end_burst()

    def _end_burst(self) -> None:
        """Begin no job in this iteration of the event loop, nor in the next, where the claim loop sends its calls."""
        if not self._is_pausing:
            self._is_pausing = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._begin_burst)

    def _begin_burst(self) -> None:
        """Let slots begin jobs, unless those before kept the event loop from sending a heartbeat: that comes first."""
        self._is_pausing = self._lease.is_late and not self._is_closing
        if self._is_pausing:
            asyncio.get_running_loop().call_later(LATE_LOOK_SECONDS, self._begin_burst)
        else:
            self._burst_ends_at = time.monotonic() + BURST_SECONDS

    async def _wait_to_give_back(self, slot: Slot, job: ClaimedJob) -> None:
        """Wait for a thread that the handler began: until it returns, another worker must not begin the job."""
        assert slot.thread is not None
        slot.job = job
        await asyncio.wait([slot.thread])
        slot.job = slot.thread = None

    async def _wait_for_thread(self, slot: Slot) -> None:
        """Wait for a thread that outlasts its attempt: the slot is free when it returns."""
        assert slot.thread is not None
        self._occupy_slots(1)
        await asyncio.wait([slot.thread])
        slot.thread = None
        self._occupy_slots(-1)


def _is_current(task: asyncio.Task[None] | None) -> bool:
    """True while the task runs. A GeneratorExit that arrives then was raised by a handler or by a task it awaited.

    Otherwise it closes a coroutine whose event loop has ended.
    """
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


async def _end_cancellation(task: asyncio.Task[None]) -> None:
    """Take back every cancellation that was asked for. One that is not delivered yet arrives first."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while task.cancelling():
        task.uncancel()
