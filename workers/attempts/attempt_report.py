"""What a worker says about an attempt: the outcome of one that returned, its log line, its span, and a run's log."""

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Any

import asyncpg
import orjson

from atlas.db.pool import UNREACHABLE, Pool, borrow
from atlas.engine.jobs.attempts.output import dump_output
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.finish import OUTPUT_DIGEST, Finish, keep_log, redact_notes
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.handlers.types import JobType
from atlas.engine.jobs.verdicts import LOG_TAIL, PermanentError, describe, succeed
from atlas.logs import frequent_logger, get_logger
from atlas.tracing import fail_span, span
from atlas.workers.attempts.running_attempt import note_log
from atlas.workers.attempts.slot import Slot
from atlas.workers.worker_lease import WorkerLease

# How long keeping the log of an attempt that waits may take.
KEEP_SECONDS = 5.0

log = get_logger("worker")


class AttemptReport:
    """Reports the attempts of one worker."""

    def __init__(self, pool: Pool, lease: WorkerLease) -> None:
        self._pool = pool
        self._lease = lease
        self._log_info = frequent_logger("worker")

    def start(self) -> bool:
        """Find out where lines go. False: the level of the logs is above info, so that `log_end` need not be called."""
        self._log_info = frequent_logger("worker")
        return logging.getLogger("worker").isEnabledFor(logging.INFO)

    def log_end(self, slot: Slot, job: ClaimedJob, finish: Finish | None) -> None:
        """Log how an attempt ended. A failure is logged where it is decided, and a lost job where it is lost."""
        if (finish is None and slot.stopped_by() == "lost") or (finish is not None and finish.level is not None):
            return
        facts = job.log_facts(self._lease.worker_id)
        self._log_info("attempt ended", {**facts, "outcome": outcome_of(finish), "duration_ms": _milliseconds(slot)})

    def log_failure(self, slot: Slot, job: ClaimedJob, finish: Finish) -> None:
        """Log an attempt that failed, with the stack that is recorded with it."""
        facts = {"outcome": outcome_of(finish), "duration_ms": _milliseconds(slot), **_stack(finish)}
        about = job.log_facts(self._lease.worker_id)
        log.warning("attempt failed", **about, **facts, reason=finish.message, action=finish.action)

    async def trace(self, job: ClaimedJob, attempt: Awaitable[Finish | None]) -> Finish | None:
        """Run an attempt within a span, below what enqueued the job."""
        facts = {f"atlas.{name}": value for name, value in job.log_facts(self._lease.worker_id).items()}
        attributes = {"messaging.system": "atlas", "messaging.operation.type": "process", **facts}
        with span(f"run {job.job_type}", "CONSUMER", parent=job.correlation_id, attributes=attributes) as opened:
            finish = await attempt
            if opened is not None:
                opened.set_attribute("atlas.outcome", outcome_of(finish))
                if finish is not None and finish.level is not None:
                    kind: str = orjson.loads(finish.error or "{}").get("type", "")
                    fail_span(opened, finish.message or "", kind=kind, stack=_stack(finish).get("exception", ""))
        return finish

    async def keep_log(self, slot: Slot, context: AttemptContext) -> None:
        """Keep what a handler logged that has recorded the outcome itself."""
        note_log(context)
        notes = context.taken_notes()
        if notes is None or LOG_TAIL not in notes.detail:
            return
        try:
            async with borrow(self._pool, within=KEEP_SECONDS) as conn:
                seconds = time.monotonic() - slot.since
                await keep_log(conn, context.job, context.worker_id, notes.detail[LOG_TAIL], seconds=seconds)
        except (asyncio.CancelledError, *UNREACHABLE, asyncpg.PostgresError) as error:
            log.warning(
                "log of an attempt was not kept", **context.job.log_facts(context.worker_id), reason=repr(error)
            )


def outcome_of(finish: Finish | None) -> str:
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


def success(context: AttemptContext, job_type: JobType, returned: Any) -> Finish:
    """What becomes of a job whose handler returned this. PermanentError if it cannot be recorded."""
    try:
        if context.kept_log is not None:
            note_log(context)
        output = dump_output(returned, limit=job_type.max_output)
        if context.redactor is not None:
            redact_notes(context.redactor, context.notes)
            output = None if output is None else context.redactor.json(output)
        if job_type.audit_content:
            context.notes.audit_meta[OUTPUT_DIGEST] = None
        return succeed(context.job, context.worker_id, output, job_type.success_action, context.taken_notes())
    except PermanentError:
        raise
    except Exception as error:
        # The work is done: doing it again would not make its output recordable.
        raise PermanentError(f"What the handler returned cannot be recorded: {describe(error)}.") from error
