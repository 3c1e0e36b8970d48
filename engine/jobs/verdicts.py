"""Verdicts: what becomes of a job, by what its handler returned or raised.

Each function here makes the `Finish` of one transition. Handlers choose it by raising `RetryAfter`, `Snooze` or
`PermanentError`.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from atlas.db.pg_json import stored_json
from atlas.engine.jobs.backoff import RetryPolicy, jittered, seconds_within
from atlas.engine.jobs.claim import ClaimedJob
from atlas.engine.jobs.finish import MAX_MESSAGE_LENGTH, Finish, Notes, attempt_meta, cut_stack, error_text, with_event
from atlas.errors import AtlasError

# The detail of an attempt under which what its handler logged is kept.
LOG_TAIL = "log_tail"
# Why a job fails that has retries left.
NO_TIME = " It is not retried: the next attempt would start after its finish_by."


class PermanentError(AtlasError):
    """Trying again would not help: the job fails now, whatever retries it has left.

    A kind of failure with an event of its own names it in `audit_action`; `facts` are kept with the job's error.
    """

    audit_action = "JOB_FAILED"
    facts: Mapping[str, Any] = {}

    def __init__(self, message: str, *, remedy: str = "", outcome: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.outcome = outcome


class RetryAfter(AtlasError):
    """Failed, and not to be tried before `delay` has passed, whatever the policy says."""

    def __init__(self, delay: timedelta | float, message: str = "asked to try again later") -> None:
        super().__init__(message)
        self.delay = seconds_within(delay)


class Snooze(AtlasError):
    """Not now: come back after `delay`. Nothing is counted."""

    def __init__(self, delay: timedelta | float, message: str = "snoozed") -> None:
        super().__init__(message)
        self.delay = seconds_within(delay)


class Settled(Exception):
    """The handler has recorded what becomes of the job itself, fenced by its attempt."""


class JobWaits(BaseException):
    """The job waits for a person, which is recorded. No handler that catches exceptions goes on after it."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(f"Job {job_id} waits for a person.")
        self.job_id = job_id


class JobTimeout(AtlasError):
    """The handler did not end within its time."""


class JobCanceled(AtlasError):
    """An operator asked the job to stop."""


class JobExpired(JobCanceled):
    """The job was to start before now."""


def succeed(job: ClaimedJob, worker: str, output: str | None, action: str, notes: Notes | None = None) -> Finish:
    """running → succeeded."""
    finish = Finish(job.id, job.attempt, "succeeded", output)
    if notes is None:
        # The bytes of this event, the most frequent of all, are made by the statement: only its ids are its own.
        finish.action = action
        finish.meta = attempt_meta(job.attempt)
        return finish
    if notes.detail:
        finish.detail = stored_json({"status": "succeeded", **notes.detail})
    return with_event(finish, job, worker, notes.audit_action or action, notes)


def decide(
    job: ClaimedJob, worker: str, error: BaseException, policy: RetryPolicy, notes: Notes | None = None
) -> Finish:
    """What becomes of a job whose handler raised."""
    match error:
        case Snooze():
            return snooze(job, error.delay, notes)
        case JobExpired():
            return _expire(job, worker, error)
        case JobCanceled():
            return cancel(job, worker, error, notes)
        case RetryAfter() if job.has_retries_left:
            return _retry(job, worker, error, jittered(error.delay, policy.jitter), notes)
        case PermanentError():
            return _fail(job, worker, error, error.audit_action, notes)
        case _ if job.has_retries_left:
            return _retry(job, worker, error, policy.delay(job.retry_count), notes)
        case _:
            return _fail(job, worker, error, "JOB_EXHAUSTED_RETRIES", notes)


def snooze(job: ClaimedJob, delay: float, notes: Notes | None = None) -> Finish:
    """running → queued for later, nothing counted."""
    finish = Finish(job.id, job.attempt, "queued", delay=delay, detail=_uncounted("snoozed", notes))
    if notes is not None:
        finish.cost = notes.cost or None
    return finish


def release(job: ClaimedJob, notes: Notes | None = None) -> Finish:
    """running → queued immediately, nothing counted: the worker gives it back, with the outcome its handler noted."""
    finish = release_attempt(job.id, job.attempt)
    if notes is not None:
        finish.detail = _uncounted(notes.detail.get("outcome", "released"), notes)
    return finish


def release_attempt(job_id: UUID, attempt: int) -> Finish:
    """The same, for an attempt of which only the numbers are known."""
    return Finish(job_id, attempt, "queued", detail='{"status": "canceled", "outcome": "released"}')


def cancel(job: ClaimedJob, worker: str, error: JobCanceled, notes: Notes | None = None) -> Finish:
    """running → canceled, as an operator asked."""
    finish = Finish(job.id, job.attempt, "canceled")
    finish.detail = _detail(job, "canceled", error, notes)
    return with_event(finish, job, worker, "JOB_CANCELED", notes, message=error.message)


def cancel_attempt(job_id: UUID, attempt: int) -> Finish:
    """The same, for an attempt of which only the numbers are known: the statement makes the event's bytes."""
    finish = Finish(job_id, attempt, "canceled", detail='{"status": "canceled"}')
    finish.action = "JOB_CANCELED"
    finish.message = "Canceled before it began."
    finish.meta = attempt_meta(attempt)
    return finish


def _expire(job: ClaimedJob, worker: str, error: JobExpired) -> Finish:
    """running → canceled: the attempt was claimed in time, and did not begin in time."""
    finish = Finish(job.id, job.attempt, "canceled", error=_error(job, error, None))
    finish.detail = _detail(job, "canceled", error, None)
    notes = Notes(audit_meta={"reason": "expired"})
    return with_event(finish, job, worker, "JOB_CANCELED", notes, message=error.message)


def describe(error: BaseException) -> str:
    """The error in one sentence."""
    text, name = str(error).strip(), type(error).__name__
    if not text:
        return name
    return text if isinstance(error, AtlasError) else f"{name}: {text}"


def _retry(job: ClaimedJob, worker: str, error: BaseException, delay: float, notes: Notes | None) -> Finish:
    if job.ends_before(delay):
        return _fail(job, worker, error, "JOB_FAILED", notes, because=NO_TIME)
    finish = Finish(job.id, job.attempt, "queued", error=_error(job, error, notes), delay=delay, used=1, level="warn")
    finish.detail = _detail(job, _attempt_status(error), error, notes)
    return with_event(finish, job, worker, "JOB_RETRY_SCHEDULED", notes, message=describe(error))


def _fail(
    job: ClaimedJob, worker: str, error: BaseException, action: str, notes: Notes | None, *, because: str = ""
) -> Finish:
    finish = Finish(job.id, job.attempt, "failed", error=_error(job, error, notes, because), used=1, level="error")
    finish.detail = _detail(job, _attempt_status(error), error, notes)
    return with_event(finish, job, worker, action, notes, message=describe(error) + because)


def _uncounted(outcome: str, notes: Notes | None) -> str:
    """What the row of an attempt holds that is neither a success nor a failure."""
    detail = {"status": "canceled", "outcome": outcome}
    if notes is not None and LOG_TAIL in notes.detail:
        detail[LOG_TAIL] = notes.detail[LOG_TAIL]
    return stored_json(detail)


def _error(job: ClaimedJob, error: BaseException, notes: Notes | None, because: str = "") -> str:
    """What the job's `error` holds; the statement that stores it adds `attemptedAt`, by the database's clock."""
    document: dict[str, Any] = {
        "message": describe(error)[: MAX_MESSAGE_LENGTH - len(because)] + because,
        "type": type(error).__name__,
        "retryCount": job.retry_count,
    }
    # A handler that is stopped from outside cannot raise, only note, that its outcome is unknown.
    outcome = getattr(error, "outcome", None) or (notes.detail.get("outcome") if notes is not None else None)
    if outcome is not None:
        document["outcome"] = outcome
    if isinstance(error, PermanentError):
        document.update(error.facts)
    if isinstance(error, JobExpired):
        document["reason"] = "expired"
    return stored_json(document)


def _detail(job: ClaimedJob, status: str, error: BaseException, notes: Notes | None) -> str:
    """What the attempt's row holds, and the retries by which it was decided, which the job's row holds."""
    detail: dict[str, Any] = {"status": status}
    outcome = getattr(error, "outcome", None)
    if outcome is not None:
        detail["outcome"] = outcome
    if notes is not None:
        detail.update(notes.detail)
    if "error_text" not in detail:
        detail["error_text"] = cut_stack(error_text(error))
    detail["max_retries"] = job.max_retries
    return stored_json(detail)


def _attempt_status(error: BaseException) -> str:
    return "timeout" if isinstance(error, JobTimeout) else "failed"
