"""Slots: resident tasks that run handlers, one job at a time each.

A task that lives as long as its worker costs a fifth of a new task per job. What a new task would give for free
is done by hand: a job that leaves a context variable changed takes its task with it, so that nothing leaks into
the next job; and one ticker looks after the time limits of all slots instead of a timer each.
"""

import asyncio
import contextlib
import contextvars
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from atlas.db.pool import Pool
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.context import JobContext, Report
from atlas.engine.jobs.finish import Finish
from atlas.engine.jobs.redact_outcome import redact_error, redact_notes
from atlas.engine.jobs.types import JobType, dump_output, registered
from atlas.engine.jobs.verdicts import (
    JobCanceled,
    JobTimeout,
    PermanentError,
    Settled,
    decide,
    describe,
    release,
    succeed,
)
from atlas.engine.secrets.store import reveal
from atlas.logs import Clean, clean_lines, get_logger, let_lines
from atlas.threads import awaitable

StopReason = Literal["timeout", "cancel", "stop", "lost"]
Done = Callable[[Finish | None, ClaimedJob], None]

# How long the slots may have the event loop to themselves. Then the turns get it: what is done goes to the database
# while the slots work on.
BURST_SECONDS = 0.005
# A handler that ignores its cancellation is asked again after this long.
ASK_AGAIN_SECONDS = 5.0

log = get_logger("worker")


class Slot:
    """One resident task and the job it runs now."""

    __slots__ = ("context", "deadline", "job", "reason", "since", "task", "thread")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.job: ClaimedJob | None = None
        self.context: JobContext | None = None
        self.since = 0.0
        self.deadline: float | None = None
        self.reason: StopReason | None = None
        self.thread: asyncio.Future[Any] | None = None

    def stopped_by(self) -> StopReason | None:
        """Why its handler was asked to stop, if it was."""
        return self.reason


class Executor:
    """`size` jobs at a time. Every ended job is handed to `done` with its finish (None: there is nothing to record).

    `lingers` is told of every slot that is not free although its job is no longer ours (1), and of its end (-1): a
    thread goes on, or the handler of a lost job.
    """

    def __init__(self, size: int, pool: Pool, report: Report, done: Done, lingers: Callable[[int], None]) -> None:
        self.size = size
        self.worker_id = ""
        self._pool = pool
        self._report = report
        self._done = done
        self._lingers = lingers
        self._queue: deque[ClaimedJob] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._slots = [Slot() for _ in range(size)]
        self._threads: ThreadPoolExecutor | None = None
        self._pristine = contextvars.copy_context()
        self._burst_ends = 0.0
        self._pausing = False
        self._closing = False

    def start(self) -> None:
        """Bring the resident tasks to life."""
        for slot in self._slots:
            self._spawn(slot)

    def feed(self, jobs: Iterable[ClaimedJob]) -> None:
        """Queue jobs for the next free slots."""
        before = len(self._queue)
        if before == 0 and not self._pausing:
            self._begin_burst()
        self._queue.extend(jobs)
        wanted = len(self._queue) - before
        while wanted > 0 and self._idle:
            future = self._idle.popleft()
            if not future.done():
                future.set_result(None)
                wanted -= 1

    @property
    def waiting(self) -> int:
        """Jobs that no slot has begun."""
        return len(self._queue)

    @property
    def running(self) -> list[Slot]:
        """The slots that are at work."""
        return [slot for slot in self._slots if slot.job is not None]

    @property
    def has_running_handlers(self) -> bool:
        """True while a handler or a thread goes on, whatever became of its job."""
        return any(slot.job is not None or not (slot.thread is None or slot.thread.done()) for slot in self._slots)

    def take_back(self) -> list[ClaimedJob]:
        """The jobs that no slot has begun; the caller has them again."""
        jobs = list(self._queue)
        self._queue.clear()
        return jobs

    def lose(self, jobs: Sequence[ClaimedJob]) -> None:
        """These are not ours any more: those that run are asked to stop, the others are not begun."""
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
            self._lingers(1)
        slot.reason = "lost" if reason == "lost" else slot.reason or reason
        slot.deadline = time.monotonic() + ASK_AGAIN_SECONDS
        if slot.context is not None and slot.context.stop_requested is not None:
            slot.context.stop_requested.set()
        if slot.reason == "stop" and slot.thread is not None:
            # It goes back when its thread has returned: before, another would begin what still runs here.
            return
        if slot.task is not None and slot.context is not None:
            slot.task.cancel()

    def stop_overdue(self) -> None:
        """Stop the handlers whose time is up."""
        now = time.monotonic()
        for slot in self._slots:
            if slot.job is not None and slot.deadline is not None and slot.deadline <= now:
                if slot.reason is not None:
                    log.warning(
                        "a handler ignores its cancellation", job_id=str(slot.job.id), job_type=slot.job.job_type
                    )
                self.stop_one(slot, "timeout")

    async def close(self) -> None:
        """End the resident tasks; whatever still runs is abandoned."""
        self._closing = True
        tasks = [slot.task for slot in self._slots if slot.task is not None]
        for slot in self._slots:
            slot.reason = slot.reason or "lost"
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=1)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _spawn(self, slot: Slot) -> None:
        context = self._pristine.copy()
        slot.task = asyncio.get_running_loop().create_task(self._serve(slot, context), context=context)
        slot.task.add_done_callback(lambda task: self._ended(slot, task))

    def _ended(self, slot: Slot, task: asyncio.Task[None]) -> None:
        """A resident task that ends by itself, cancelled by what it ran, leaves its slot to a new one."""
        if slot.task is task and not self._closing:
            error = None if task.cancelled() else task.exception()
            log.error("a slot's task ended and is replaced", worker_id=self.worker_id, exc_info=error)
            self._spawn(slot)

    async def _serve(self, slot: Slot, context: contextvars.Context) -> None:
        """Run job after job until the worker ends."""
        queue = self._queue
        loop = asyncio.get_running_loop()
        while not self._closing:
            if not queue:
                waiting = loop.create_future()
                self._idle.append(waiting)
                await waiting
                continue
            if self._pausing:
                await asyncio.sleep(0)
                continue
            job = queue.popleft()
            finish = await self._run(slot, job)
            if slot.thread is not None and slot.stopped_by() == "stop":
                await self._wait_to_give_back(slot, job)
            self._done(finish, job)
            if slot.thread is not None:
                await self._wait_for_thread(slot)
            if contextvars.copy_context() != self._pristine:
                self._spawn(slot)
                return
            if slot.since > self._burst_ends:
                self._end_burst()

    def _end_burst(self) -> None:
        """No slot begins a job in this round of the event loop, nor in the next, where the turns are sent off."""
        if not self._pausing:
            self._pausing = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._begin_burst)

    def _begin_burst(self) -> None:
        self._pausing = False
        self._burst_ends = time.monotonic() + BURST_SECONDS

    async def _run(self, slot: Slot, job: ClaimedJob) -> Finish | None:
        """Run one attempt. The one place where an exception of a handler becomes a value."""
        job_type = registered().get(job.job_type)
        context = JobContext(job, self.worker_id, self._pool, self._report)
        slot.job, slot.context, slot.reason = job, context, None
        slot.since = time.monotonic()
        limit = job.timeout_seconds if job.timeout_seconds is not None or job_type is None else job_type.timeout
        slot.deadline = None if limit is None else slot.since + limit
        try:
            if job_type is None:
                raise PermanentError(f"This worker has no handler for {job.job_type!r}.")
            text = await self._reveal(job, context) if job_type.has_secrets else job.input
            value = job_type.parse(text)
            answer = await self._call(slot, job_type, value, context)
            if (reason := slot.stopped_by()) in ("timeout", "cancel"):
                raise _stopped(reason, limit)
            return self._returned(job, job_type, context, answer)
        except Settled:
            return None
        except asyncio.CancelledError:
            return self._canceled(slot, job, job_type, limit)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            # Libraries have errors of their own beside Exception, and none may take the slot with it.
            return self._raised(slot, job, job_type, error)
        finally:
            if context.threads:
                slot.thread = asyncio.gather(*context.threads, return_exceptions=True)
            if context.redactor is not None:
                _let_lines_after(slot.thread, context.redactor.text)
            slot.job = slot.context = slot.deadline = None
            if slot.reason == "lost" and not self._closing:
                self._lingers(-1)
            if slot.task is not None and slot.task.cancelling():
                # However the handler answered it, a cancellation ends with the job it was meant for.
                await _calm(slot.task)

    async def _reveal(self, job: ClaimedJob, context: JobContext) -> str:
        """The input with its secrets in clear; from here on nothing the attempt says may hold one."""
        text, context.redactor = await reveal(self._pool, job.id, job.tenant_id, job.input)
        if context.redactor is not None:
            clean_lines(context.redactor.text)
        return text

    async def _call(self, slot: Slot, job_type: JobType, value: Any, context: JobContext) -> Any:
        arguments = (value, context) if job_type.takes_context else (value,)
        if job_type.is_async:
            return await job_type.handler(*arguments)
        return await self._call_in_thread(slot, job_type, arguments, context)

    async def _call_in_thread(
        self, slot: Slot, job_type: JobType, arguments: tuple[Any, ...], context: JobContext
    ) -> Any:
        """A plain function runs in a thread. It cannot be cancelled, only asked, and the slot stays taken by it.

        What it answers when it was asked to stop with its worker is not its outcome: it may have left half-way.
        """
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="atlas-handler")
        context.runs_in_thread(loop)
        ctx = contextvars.copy_context()
        slot.thread = loop.run_in_executor(self._threads, lambda: ctx.run(awaitable(job_type.handler), *arguments))
        try:
            return await asyncio.shield(slot.thread)
        finally:
            if slot.thread.done():
                slot.thread = None
            if slot.stopped_by() == "stop":
                raise asyncio.CancelledError

    async def _wait_to_give_back(self, slot: Slot, job: ClaimedJob) -> None:
        """A thread that the handler began goes on: until it returns, another would begin what still runs here."""
        assert slot.thread is not None
        slot.job = job
        await asyncio.wait([slot.thread])
        slot.job = slot.thread = None

    async def _wait_for_thread(self, slot: Slot) -> None:
        """The attempt has its outcome, but its thread goes on: the slot is free when the thread returns."""
        assert slot.thread is not None
        self._lingers(1)
        await asyncio.wait([slot.thread])
        slot.thread = None
        self._lingers(-1)

    def _canceled(self, slot: Slot, job: ClaimedJob, job_type: JobType | None, limit: float | None) -> Finish | None:
        match slot.reason:
            case "lost":
                return None
            case "stop":
                return release(job, None if slot.context is None else slot.context.taken_notes())
            case None:
                return self._raised(slot, job, job_type, RuntimeError("the handler was cancelled from within"))
            case reason:
                return self._raised(slot, job, job_type, _stopped(reason, limit))

    def _returned(self, job: ClaimedJob, job_type: JobType, context: JobContext, answer: Any) -> Finish:
        try:
            output = dump_output(answer)
            if context.redactor is not None:
                redact_notes(context.redactor, context.notes)
                output = None if output is None else context.redactor.json(output)
            return succeed(job, self.worker_id, output, job_type.success_action, context.taken_notes())
        except PermanentError:
            raise
        except Exception as error:
            # The work is done: to do it again would not make it easier to tell.
            raise PermanentError(f"What the handler answered cannot be recorded: {describe(error)}.") from error

    def _raised(self, slot: Slot, job: ClaimedJob, job_type: JobType | None, error: BaseException) -> Finish:
        try:
            finish = self._decided(slot, job, job_type, error)
        except Exception as trouble:
            log.error("an outcome could not be made", job_id=str(job.id), job_type=job.job_type, exc_info=trouble)
            # Only the names of both: what they say may be unreadable, or not be cleaned of secrets.
            words = f"The attempt ended in {type(error).__name__}, which cannot be recorded: {type(trouble).__name__}."
            finish = decide(job, self.worker_id, PermanentError(words), ATLAS)
        if finish.level is not None:
            log.warning(
                "an attempt failed",
                job_id=str(job.id),
                tenant_id=str(job.tenant_id),
                job_type=job.job_type,
                attempt_no=job.attempt,
                worker_id=self.worker_id,
                reason=finish.message,
                action=finish.action,
            )
        return finish

    def _decided(self, slot: Slot, job: ClaimedJob, job_type: JobType | None, error: BaseException) -> Finish:
        policy = ATLAS if job_type is None else job_type.policy
        if slot.context is not None and slot.context.redactor is not None:
            error = redact_error(slot.context.redactor, error, slot.context.notes)
        notes = None if slot.context is None else slot.context.taken_notes()
        return decide(job, self.worker_id, error, policy, notes)


def _let_lines_after(thread: asyncio.Future[Any] | None, clean: Clean) -> None:
    """A thread that outlasts its attempt still knows the secrets, and may say them."""
    if thread is None:
        let_lines(clean)
    else:
        thread.add_done_callback(lambda _: let_lines(clean))


async def _calm(task: asyncio.Task[None]) -> None:
    """Take back every cancellation that was asked for, and meet one that is yet to come: to uncancel leaves it due."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while task.cancelling():
        task.uncancel()


def _stopped(reason: StopReason | None, limit: float | None) -> JobTimeout | JobCanceled:
    if reason == "timeout":
        return JobTimeout(f"The handler did not end within {limit:g} s.", remedy="Raise the job type's timeout.")
    return JobCanceled("Canceled while running.")
