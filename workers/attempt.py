"""Runs one attempt of a job: its input goes to the handler, and what the handler makes of it becomes an outcome."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal

import asyncpg
import orjson

from atlas.db.pool import UNREACHABLE, Pool, borrow
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.context import JobContext, Report
from atlas.engine.jobs.finish import OUTPUT_DIGEST, Finish, Notes, keep_log, redact_error, redact_notes
from atlas.engine.jobs.start_right import NotStarted, StartRight, boot_seconds
from atlas.engine.jobs.types import JobType, dump_output, registered
from atlas.engine.jobs.verdicts import (
    LOG_TAIL,
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
from atlas.logs import Redact, frequent_logger, get_logger, redact_logs, stop_redacting_logs
from atlas.threads import awaitable
from atlas.tracing import fail_span, span
from atlas.workers.batches import Batches
from atlas.workers.lifespan import Resources
from atlas.workers.running_attempt import OfSlot, note_log, pinned
from atlas.workers.worker_lease import WorkerLease

StopReason = Literal["timeout", "cancel", "stop", "lost"]

# How long keeping the log of an attempt that waits may take.
KEEP_SECONDS = 5.0

log = get_logger("worker")


class Slot:
    """Runs one job at a time: the job and its handler's context, and why the handler has to stop, if it has to."""

    __slots__ = ("context", "deadline", "found_by", "job", "reason", "since", "task", "thread")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.job: ClaimedJob | None = None
        self.context: JobContext | None = None
        self.since = 0.0
        self.deadline: float | None = None
        self.reason: StopReason | None = None
        self.thread: asyncio.Future[Any] | None = None
        # What leads from the code that its task runs to its attempt.
        self.found_by: OfSlot | None = None

    def stopped_by(self) -> StopReason | None:
        """Why its handler was asked to stop. A call, since the reason changes while the handler runs."""
        return self.reason


class AttemptRunner:
    """Runs attempts in the slots of one worker, plain functions in threads, at most one for each slot."""

    def __init__(
        self, slots: int, pool: Pool, lease: WorkerLease, report: Report, right: StartRight, resources: Resources
    ) -> None:
        self._slots = slots
        self._resources = resources
        self._batches = Batches(self._call_batch)
        self._log_info = frequent_logger("worker")
        self._right = right
        self._pool = pool
        self._lease = lease
        self._report = report
        self._threads: ThreadPoolExecutor | None = None

    def start(self) -> bool:
        """Prepare to run. Returns whether ends are to be logged: the level is looked at once, not for every job."""
        self._log_info = frequent_logger("worker")
        return logging.getLogger("worker").isEnabledFor(logging.INFO)

    def close(self) -> None:
        """Begin nothing more in threads. Those that run are not waited for."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, slot: Slot, job: ClaimedJob) -> Finish | None:
        """Run one attempt. None: there is nothing to record. Here alone a handler's exception becomes a value."""
        job_type = registered().get(job.job_type)
        context = JobContext(job, self._lease.worker_id, self._pool, self._report, self._right)
        slot.job, slot.context, slot.reason = job, context, None
        slot.since = time.monotonic()
        limit = job.timeout_seconds if job.timeout_seconds is not None or job_type is None else job_type.timeout
        slot.deadline = None if limit is None else slot.since + limit
        try:
            if job_type is None:
                raise PermanentError(f"This worker has no handler for {job.job_type!r}.")
            text = await self._reveal(job, context) if job_type.has_secrets else job.input
            value = job_type.parse(text)
            if boot_seconds() >= self._right.until:
                await self._wait_to_start(slot)
            # Not in a method of its own: another coroutine for each job would take 0.5 µs.
            if job_type.is_direct:
                arguments = (value, context) if job_type.takes_context else (value,)
                output = await job_type.handler(*arguments)
            else:
                output = await self._call(slot, job_type, value, context)
            if (reason := slot.stopped_by()) in ("timeout", "cancel"):
                raise _stopped(reason, limit)
            return self._returned(job, job_type, context, output)
        except Settled:
            await self._keep_log(slot, context)
            return None
        except NotStarted:
            return release(job)
        except asyncio.CancelledError:
            return self._canceled(slot, job, job_type, limit)
        except GeneratorExit:
            raise  # For the executor: a coroutine that is closed by it cannot return anything.
        except BaseException as error:
            # A handler may call sys.exit(), and libraries derive errors from BaseException. None may end the slot.
            return self._raised(slot, job, job_type, error)
        finally:
            if context.threads:
                slot.thread = asyncio.gather(*context.threads, return_exceptions=True)
            if context.redactor is not None:
                _stop_cleaning_logs(context.redactor.text, after=slot.thread)
            slot.job = slot.context = slot.deadline = None

    async def run_traced(self, slot: Slot, job: ClaimedJob) -> Finish | None:
        """Run one attempt within a span, below what enqueued the job."""
        facts = {f"atlas.{name}": value for name, value in job.log_facts(self._lease.worker_id).items()}
        attributes = {"messaging.system": "atlas", "messaging.operation.type": "process", **facts}
        with span(f"run {job.job_type}", "CONSUMER", parent=job.correlation_id, attributes=attributes) as opened:
            finish = await self.run(slot, job)
            if opened is not None:
                opened.set_attribute("atlas.outcome", _outcome(finish))
                if finish is not None and finish.level is not None:
                    kind: str = orjson.loads(finish.error or "{}").get("type", "")
                    fail_span(opened, finish.message or "", kind=kind, stack=_stack(finish).get("exception", ""))
        return finish

    def log_end(self, slot: Slot, job: ClaimedJob, finish: Finish | None) -> None:
        """Log how an attempt ended. A failure is logged where it is decided, and a lost job where it is lost."""
        if (finish is None and slot.stopped_by() == "lost") or (finish is not None and finish.level is not None):
            return
        facts = job.log_facts(self._lease.worker_id)
        self._log_info("attempt ended", {**facts, "outcome": _outcome(finish), "duration_ms": _milliseconds(slot)})

    async def _keep_log(self, slot: Slot, context: JobContext) -> None:
        """Keep what a handler logged that has recorded the outcome itself."""
        note_log(context)
        notes = context.taken_notes()
        if notes is None or LOG_TAIL not in notes.detail:
            return
        try:
            async with borrow(self._pool, within=KEEP_SECONDS) as conn:
                seconds = time.monotonic() - slot.since
                await keep_log(conn, context.job, context.worker_id, notes.detail[LOG_TAIL], seconds=seconds)
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            log.warning(
                "log of an attempt was not kept", **context.job.log_facts(context.worker_id), reason=repr(error)
            )

    async def _reveal(self, job: ClaimedJob, context: JobContext) -> str:
        """The input with its secrets in clear. From here on they are removed from all that the attempt says."""
        text, context.redactor = await reveal(self._pool, job.id, job.tenant_id, job.input)
        if context.redactor is not None:
            redact_logs(context.redactor.text)
        return text

    async def _call(self, slot: Slot, job_type: JobType, value: Any, context: JobContext) -> Any:
        """Call a handler that is a plain function, wants more than its context, or takes several jobs."""
        if job_type.batch_size:
            return await self._batches.run(job_type, value, context)
        call = partial(job_type.handler, value, **self._resources.arguments(job_type, context))
        if job_type.is_async:
            return await call()
        return await self._call_in_thread(slot, call, context)

    async def _call_batch(self, job_type: JobType, inputs: Sequence[Any], contexts: Sequence[JobContext]) -> Any:
        """Call a batch handler. A thread is waited for, also when the call is cancelled."""
        await self._right.wait()
        call = partial(job_type.handler, inputs, **self._resources.arguments(job_type, contexts))
        if job_type.is_async:
            return await call()
        for context in contexts:
            context.runs_in_thread(asyncio.get_running_loop())
        thread = self._in_thread(call, contexts[0])
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            await asyncio.wait([thread])
            raise

    async def _wait_to_start(self, slot: Slot) -> None:
        """The right to start has lapsed since the claim: wait until the gate was read. The job's time begins then."""
        limit = None if slot.deadline is None else slot.deadline - slot.since
        slot.deadline = None
        await self._right.wait()
        slot.deadline = None if limit is None else time.monotonic() + limit

    async def _call_in_thread(self, slot: Slot, call: Callable[[], Any], context: JobContext) -> Any:
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

    def _in_thread(self, call: Callable[[], Any], context: JobContext) -> asyncio.Future[Any]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._slots, thread_name_prefix="atlas-handler")
        variables = pinned(context)

        def work() -> Any:
            self._right.check_in_thread()
            return variables.run(awaitable(call))

        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _canceled(self, slot: Slot, job: ClaimedJob, job_type: JobType | None, limit: float | None) -> Finish | None:
        match slot.reason:
            case "lost":
                return None
            case "stop":
                return release(job, _notes_of(slot))
            case None:
                return self._raised(slot, job, job_type, RuntimeError("the handler was cancelled from within"))
            case reason:
                return self._raised(slot, job, job_type, _stopped(reason, limit))

    def closed(self, slot: Slot, job: ClaimedJob) -> Finish:
        """The finish of an attempt that GeneratorExit ended."""
        return self._raised(slot, job, registered().get(job.job_type), RuntimeError("the handler raised GeneratorExit"))

    def _returned(self, job: ClaimedJob, job_type: JobType, context: JobContext, returned: Any) -> Finish:
        try:
            if context.kept_log is not None:
                note_log(context)
            output = dump_output(returned, limit=job_type.max_output)
            if context.redactor is not None:
                redact_notes(context.redactor, context.notes)
                output = None if output is None else context.redactor.json(output)
            if job_type.audit_content:
                context.notes.audit_meta[OUTPUT_DIGEST] = None
            return succeed(job, self._lease.worker_id, output, job_type.success_action, context.taken_notes())
        except PermanentError:
            raise
        except Exception as error:
            # The work is done: doing it again would not make its output recordable.
            raise PermanentError(f"What the handler returned cannot be recorded: {describe(error)}.") from error

    def _raised(self, slot: Slot, job: ClaimedJob, job_type: JobType | None, error: BaseException) -> Finish:
        try:
            finish = self._decided(slot, job, job_type, error)
        except Exception as failure:
            log.error("outcome cannot be recorded", **job.log_facts(self._lease.worker_id), exc_info=failure)
            # Only the class names: the messages may be unreadable, or hold secrets.
            message = (
                f"The attempt ended in {type(error).__name__}, which cannot be recorded: {type(failure).__name__}."
            )
            finish = decide(job, self._lease.worker_id, PermanentError(message), ATLAS)
        if finish.level is not None:
            facts = {"outcome": _outcome(finish), "duration_ms": _milliseconds(slot), **_stack(finish)}
            about = job.log_facts(self._lease.worker_id)
            log.warning("attempt failed", **about, **facts, reason=finish.message, action=finish.action)
        return finish

    def _decided(self, slot: Slot, job: ClaimedJob, job_type: JobType | None, error: BaseException) -> Finish:
        policy = ATLAS if job_type is None else job_type.policy
        notes = _notes_of(slot)
        if slot.context is not None and slot.context.redactor is not None:
            notes = slot.context.notes
            error = redact_error(slot.context.redactor, error, notes)
        return decide(job, self._lease.worker_id, error, policy, notes)


def _notes_of(slot: Slot) -> Notes | None:
    """What the handler of a slot noted, with what it logged."""
    if slot.context is None:
        return None
    note_log(slot.context)
    return slot.context.taken_notes()


def _outcome(finish: Finish | None) -> str:
    """How an attempt ended, in a word."""
    if finish is None:
        return "suspended"
    if finish.status != "queued":
        return finish.status
    if finish.level is not None:
        return "retry"
    return "released" if finish.delay is None else "snoozed"


def _milliseconds(slot: Slot) -> int:
    return round((time.monotonic() - slot.since) * 1000)


def _stack(finish: Finish) -> dict[str, str]:
    """The stack that is recorded with a failed attempt, for its log line. An error of Atlas has none."""
    text: str = orjson.loads(finish.detail or "{}").get("error_text", "")
    return {"exception": text} if "\n" in text else {}


def _stop_cleaning_logs(redact: Redact, *, after: asyncio.Future[Any] | None) -> None:
    """Stop removing an attempt's secrets from the logs. A thread that outlasts the attempt may still log them."""
    if after is None:
        stop_redacting_logs(redact)
    else:
        after.add_done_callback(lambda _: stop_redacting_logs(redact))


def _stopped(reason: StopReason | None, limit: float | None) -> JobTimeout | JobCanceled:
    if reason == "timeout":
        return JobTimeout(f"The handler did not end within {limit:g} s.", remedy="Raise the job type's timeout.")
    return JobCanceled("Canceled while running.")
