"""Runs one attempt of a job: its input goes to the handler, and what the handler makes of it becomes an outcome."""

import asyncio
import time
from typing import Any

from atlas.db.pool import Pool
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.finish import Finish, Notes, redact_error
from atlas.engine.jobs.handlers.around_job import has_async_hooks
from atlas.engine.jobs.handlers.context import AttemptContext, Report
from atlas.engine.jobs.handlers.types import JobType, registered
from atlas.engine.jobs.start_right import NotStarted, StartRight, StartRights, boot_seconds
from atlas.engine.jobs.verdicts import (
    JobCanceled,
    JobExpired,
    JobTimeout,
    JobWaits,
    PermanentError,
    Settled,
    decide,
    release,
)
from atlas.engine.secrets.store import reveal
from atlas.logs import Redact, get_logger, redact_logs, stop_redacting_logs
from atlas.workers.attempts import forked_child
from atlas.workers.attempts.attempt_report import AttemptReport, success
from atlas.workers.attempts.handler_calls import HandlerCalls
from atlas.workers.attempts.running_attempt import note_log
from atlas.workers.attempts.slot import Slot, StopReason
from atlas.workers.attempts.transactions import WorkerTransactions
from atlas.workers.lifespan import Resources
from atlas.workers.worker_lease import WorkerLease

log = get_logger("worker")


class AttemptRunner:
    """Runs attempts in the slots of one worker."""

    def __init__(
        self, slots: int, pool: Pool, lease: WorkerLease, report: Report, rights: StartRights, resources: Resources
    ) -> None:
        self._calls = HandlerCalls(slots, resources)
        self._report = AttemptReport(pool, lease)
        self.log_end = self._report.log_end
        self._rights = rights
        self._transactions = WorkerTransactions(resources.application, lease)
        self._pool = pool
        self._lease = lease
        self._progress = report
        self._has_hooks = False

    def start(self) -> bool:
        """Prepare to run. False: ends need not be logged."""
        self._has_hooks = has_async_hooks()
        return self._report.start()

    def close(self) -> None:
        """Begin nothing more in threads. Those that run are not waited for."""
        self._calls.close()

    async def run(self, slot: Slot, job: ClaimedJob) -> Finish | None:
        """Run one attempt. None: there is nothing to record. Here alone a handler's exception becomes a value."""
        job_type = registered().get(job.job_type)
        right = self._rights.present
        context = AttemptContext(job, self._lease.worker_id, self._pool, self._progress, right, self._transactions)
        limit = _begin(slot, job, job_type, context)
        try:
            if job_type is None:
                raise PermanentError(f"This worker has no handler for {job.job_type!r}.")
            text = await self._reveal(job, context) if job_type.has_secrets else job.input
            value = job_type.parse(text)
            if boot_seconds() >= right.until:
                await _wait_to_start(slot, right)
            if job.start_before is not None and time.monotonic() >= job.start_before:
                raise JobExpired("It expired: it was claimed in time, and its worker did not begin it in time.")
            # Not in a method of its own: another coroutine for each job would take 0.5 µs.
            if job_type.is_direct and not self._has_hooks:
                arguments = (value, context) if job_type.takes_context else (value,)
                output = await job_type.handler(*arguments)
            else:
                output = await self._calls.call(slot, job_type, value, context)
            if context.own_transaction is not None and context.committed is not None:
                return _committed(context, output)
            if (reason := slot.stopped_by()) in ("timeout", "cancel"):
                raise _stopped(reason, limit, job)
            return success(context, job_type, output)
        except (Settled, JobWaits):
            await self._report.keep_log(slot, context)
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
            _end(slot, context)

    async def run_traced(self, slot: Slot, job: ClaimedJob) -> Finish | None:
        """The same within a span."""
        return await self._report.trace(job, self.run(slot, job))

    async def _reveal(self, job: ClaimedJob, context: AttemptContext) -> str:
        """The input with its secrets in clear. From here on they are removed from all that the attempt says."""
        text, context.redactor = await reveal(self._pool, job.id, job.tenant_id, job.input)
        if context.redactor is not None:
            redact_logs(context.redactor.text)
        return text

    def _canceled(self, slot: Slot, job: ClaimedJob, job_type: JobType | None, limit: float | None) -> Finish | None:
        if slot.context is not None and (committed := slot.context.committed) is not None:
            return committed
        match slot.reason:
            case "lost":
                return None
            case "stop":
                return release(job, _notes_of(slot))
            case None:
                return self._raised(slot, job, job_type, RuntimeError("the handler was cancelled from within"))
            case reason:
                return self._raised(slot, job, job_type, _stopped(reason, limit, job))

    def closed(self, slot: Slot, job: ClaimedJob) -> Finish:
        """The finish of an attempt that GeneratorExit ended."""
        return self._raised(slot, job, registered().get(job.job_type), RuntimeError("the handler raised GeneratorExit"))

    def _raised(self, slot: Slot, job: ClaimedJob, job_type: JobType | None, error: BaseException) -> Finish:
        if forked_child.is_child:
            forked_child.end_child()
        if slot.context is not None and (committed := slot.context.committed) is not None:
            facts = job.log_facts(self._lease.worker_id)
            log.warning("handler raised after its transaction: the job has succeeded", **facts, exc_info=error)
            return committed
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
            self._report.log_failure(slot, job, finish)
        return finish

    def _decided(self, slot: Slot, job: ClaimedJob, job_type: JobType | None, error: BaseException) -> Finish:
        policy = ATLAS if job_type is None else job_type.policy
        notes = _notes_of(slot)
        if slot.context is not None and slot.context.redactor is not None:
            notes = slot.context.notes
            error = redact_error(slot.context.redactor, error, notes)
        return decide(job, self._lease.worker_id, error, policy, notes)


def _begin(slot: Slot, job: ClaimedJob, job_type: JobType | None, context: AttemptContext) -> float | None:
    """Occupy the slot. Returns for how many seconds the attempt may run, None where nothing limits it."""
    slot.job, slot.context, slot.reason = job, context, None
    slot.since = time.monotonic()
    limit: float | None = job.timeout_seconds
    if job_type is not None:
        if job.max_retries is None:
            job.max_retries = job_type.max_retries
        if limit is None:
            limit = job_type.timeout
    if job.finish_before is not None:
        left = job.finish_before - slot.since
        limit = left if limit is None else min(limit, left)
    slot.deadline = None if limit is None else slot.since + limit
    return limit


def _committed(context: AttemptContext, returned: Any) -> Finish | None:
    """The outcome that the handler's transaction has recorded."""
    ended = context.own_transaction
    assert ended is not None
    if returned is not None and returned is not ended.output:
        facts = context.job.log_facts(context.worker_id)
        log.warning("what a handler returned after its transaction is not recorded; set it by ctx.output", **facts)
    return ended.finish


def _end(slot: Slot, context: AttemptContext) -> None:
    """Free the slot, but for threads that outlast the attempt."""
    if forked_child.is_child:
        forked_child.end_child()
    if context.threads:
        slot.thread = asyncio.gather(*context.threads, return_exceptions=True)
    if context.redactor is not None:
        _stop_cleaning_logs(context.redactor.text, after=slot.thread)
    slot.job = slot.context = slot.deadline = None


async def _wait_to_start(slot: Slot, right: StartRight) -> None:
    """The right to start has lapsed since the claim: wait until the gate was read. The job's time begins then."""
    limit = None if slot.deadline is None else slot.deadline - slot.since
    slot.deadline = None
    await right.wait()
    slot.deadline = None if limit is None else time.monotonic() + limit


def _notes_of(slot: Slot) -> Notes | None:
    """What the handler of a slot noted, with what it logged."""
    if slot.context is None:
        return None
    note_log(slot.context)
    return slot.context.taken_notes()


def _stop_cleaning_logs(redact: Redact, *, after: asyncio.Future[Any] | None) -> None:
    """Stop removing an attempt's secrets from the logs. A thread that outlasts the attempt may still log them."""
    if after is None:
        stop_redacting_logs(redact)
    else:
        after.add_done_callback(lambda _: stop_redacting_logs(redact))


def _stopped(reason: StopReason | None, limit: float | None, job: ClaimedJob) -> JobTimeout | JobCanceled:
    if reason == "timeout" and job.ends_before(0):
        return JobTimeout("The handler did not end by the job's finish_by.", remedy="Start the job earlier.")
    if reason == "timeout":
        return JobTimeout(f"The handler did not end within {limit:g} s.", remedy="Raise the job type's timeout.")
    return JobCanceled("Canceled while running.")
