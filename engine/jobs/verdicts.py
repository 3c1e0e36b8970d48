"""What a handler made of a job, and what becomes of the job.

An attempt ends in an outcome (`Returned` or `Raised`); `decide` turns it into a `Finish`, the values that one
row of the finishing statement needs. Handlers steer it with `RetryAfter`, `Snooze` and `PermanentError`.
"""

import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from atlas.db.pg_json import stored_json, stored_text
from atlas.engine.jobs.backoff import LONGEST_DELAY, RetryPolicy, jittered
from atlas.errors import AtlasError, FieldError, InvalidInput

LONGEST_MESSAGE = 2000


def seconds_within(delay: timedelta | float) -> float:
    """The delay in seconds, at most LONGEST_DELAY."""
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if math.isnan(seconds):
        raise InvalidInput("The delay", [FieldError("", "is not a number of seconds")])
    return min(seconds, LONGEST_DELAY)


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


class JobTimeout(AtlasError):
    """The handler did not end within its time."""


class JobCanceled(AtlasError):
    """An operator asked the job to stop."""


@dataclass(slots=True)
class ClaimedJob:
    """A job this process holds. `attempt` is the fence of everything it may write."""

    id: UUID
    tenant_id: UUID
    job_type: str
    input: str
    attempt: int
    retry_count: int
    max_retries: int
    lost_count: int
    timeout_seconds: int | None
    definition_id: UUID | None
    parent_run_id: UUID | None
    correlation_id: str | None

    @property
    def has_retries_left(self) -> bool:
        return self.retry_count < self.max_retries


@dataclass(slots=True)
class Finish:
    """One row of the finishing statement. `status` queued means a retry, a snooze or a release."""

    job_id: UUID
    attempt: int
    status: str
    output: str | None = None
    error: str | None = None
    delay: float | None = None
    used: int | None = None
    cost: int | None = None
    action: str | None = None
    level: str | None = None
    message: str | None = None
    meta: str | None = None
    body: bytes | None = None
    detail: str | None = None
    private: str | None = None


@dataclass(slots=True)
class Notes:
    """What a handler adds to its outcome besides its answer: cost, facts for the audit, and the attempt's details."""

    cost: int = 0
    audit_action: str | None = None
    audit_message: str = ""
    audit_meta: dict[str, Any] = field(default_factory=dict)
    private: list[dict[str, str | None]] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)


def succeed(job: ClaimedJob, worker: str, output: str | None, action: str, notes: Notes | None = None) -> Finish:
    """running → succeeded."""
    finish = Finish(job.id, job.attempt, "succeeded", output)
    if notes is None:
        # The bytes of this event, the most frequent of all, are made by the statement: only its ids are its own.
        finish.action = action
        finish.meta = f'{{"attempt":{job.attempt}}}'
        return finish
    if notes.detail:
        finish.detail = stored_json({"status": "succeeded", **notes.detail})
    return _with_notes(finish, job, worker, notes.audit_action or action, notes)


def decide(
    job: ClaimedJob, worker: str, error: BaseException, policy: RetryPolicy, notes: Notes | None = None
) -> Finish:
    """What becomes of a job whose handler raised."""
    match error:
        case Snooze():
            return snooze(job, error.delay, notes)
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
    finish = Finish(job.id, job.attempt, "queued", delay=delay, detail='{"status": "canceled", "outcome": "snoozed"}')
    if notes is not None:
        finish.cost = notes.cost or None
    return finish


def release(job: ClaimedJob, notes: Notes | None = None) -> Finish:
    """running → queued at once, nothing counted: this worker gives it back, and says what its handler left open."""
    finish = release_attempt(job.id, job.attempt)
    if notes is not None and "outcome" in notes.detail:
        finish.detail = stored_json({"status": "canceled", "outcome": notes.detail["outcome"]})
    return finish


def release_attempt(job_id: UUID, attempt: int) -> Finish:
    """The same, for an attempt of which only the numbers are known."""
    return Finish(job_id, attempt, "queued", detail='{"status": "canceled", "outcome": "released"}')


def cancel_attempt(job_id: UUID, attempt: int) -> Finish:
    """running → canceled, for an attempt of which only the numbers are known: the statement makes the event's bytes."""
    finish = Finish(job_id, attempt, "canceled", detail='{"status": "canceled"}')
    finish.action = "JOB_CANCELED"
    finish.message = "Canceled before it began."
    finish.meta = f'{{"attempt":{attempt}}}'
    return finish


def cancel(job: ClaimedJob, worker: str, error: JobCanceled, notes: Notes | None = None) -> Finish:
    """running → canceled, as an operator asked."""
    finish = Finish(job.id, job.attempt, "canceled")
    finish.detail = _detail("canceled", error, notes)
    return _with_notes(finish, job, worker, "JOB_CANCELED", notes, message=error.message)


def _retry(job: ClaimedJob, worker: str, error: BaseException, delay: float, notes: Notes | None) -> Finish:
    finish = Finish(job.id, job.attempt, "queued", error=_error(job, error, notes), delay=delay, used=1, level="warn")
    finish.detail = _detail(_attempt_status(error), error, notes)
    return _with_notes(finish, job, worker, "JOB_RETRY_SCHEDULED", notes, message=describe(error))


def _fail(job: ClaimedJob, worker: str, error: BaseException, action: str, notes: Notes | None) -> Finish:
    finish = Finish(job.id, job.attempt, "failed", error=_error(job, error, notes), used=1, level="error")
    finish.detail = _detail(_attempt_status(error), error, notes)
    return _with_notes(finish, job, worker, action, notes, message=describe(error))


def _with_notes(
    finish: Finish, job: ClaimedJob, worker: str, action: str, notes: Notes | None, *, message: str = ""
) -> Finish:
    if notes is None:
        return _audited(finish, job, worker, action, message=message)
    finish.cost = notes.cost or None
    if notes.private:
        finish.private = stored_json(notes.private)
    return _audited(finish, job, worker, action, message=message or notes.audit_message, meta=notes.audit_meta)


def _audited(
    finish: Finish,
    job: ClaimedJob,
    worker: str,
    action: str,
    *,
    message: str = "",
    meta: Mapping[str, Any] | None = None,
) -> Finish:
    """Add the event: its search columns and its bytes, made from the same values.

    Written out by hand, since a worker makes one for every job it finishes: ids and counts need no escaping,
    the rest goes through the serialiser. It is the same shape as `audit.body_of` makes; a test compares them.
    """
    facts = f'{{"attempt":{job.attempt}}}' if not meta else stored_json({**meta, "attempt": job.attempt})
    finish.action = action
    finish.meta = facts
    words = '""'
    if message:
        finish.message = stored_text(message[:LONGEST_MESSAGE])
        words = stored_json(finish.message)
    finish.body = (
        f'{_opening(action, worker)}{job.id}","entity_type":"job","level":"{finish.level or "info"}","message":{words},'
        f'"meta":{facts},"tenant_id":"{job.tenant_id}"}}'
    ).encode()
    return finish


@lru_cache(maxsize=64)
def _opening(action: str, worker: str) -> str:
    return f'{{"action":{stored_json(action)},"actor_id":{stored_json(worker)},"actor_type":"system","entity_id":"'


def describe(error: BaseException) -> str:
    """The error in one line."""
    words = str(error).strip() or type(error).__name__
    return words if isinstance(error, AtlasError) else f"{type(error).__name__}: {words}"


def _error(job: ClaimedJob, error: BaseException, notes: Notes | None) -> str:
    told: dict[str, Any] = {
        "message": describe(error)[:LONGEST_MESSAGE],
        "type": type(error).__name__,
        "attemptedAt": datetime.now(UTC).isoformat(),
        "retryCount": job.retry_count,
    }
    # A handler that is stopped from outside cannot raise, only note, that its outcome is unknown.
    outcome = getattr(error, "outcome", None) or (notes.detail.get("outcome") if notes is not None else None)
    if outcome is not None:
        told["outcome"] = outcome
    if isinstance(error, PermanentError):
        told.update(error.facts)
    return stored_json(told)


def _detail(status: str, error: BaseException, notes: Notes | None) -> str:
    told: dict[str, Any] = {"status": status, "error_text": _text_of(error)}
    outcome = getattr(error, "outcome", None)
    if outcome is not None:
        told["outcome"] = outcome
    if notes is not None:
        told.update(notes.detail)
    return stored_json(told)


def _text_of(error: BaseException) -> str:
    """The error as an operator wants to read it: ours in words, a handler's own with its stack."""
    if isinstance(error, AtlasError):
        return str(error)[:LONGEST_MESSAGE]
    return "".join(traceback.format_exception(error))[-8000:]


def _attempt_status(error: BaseException) -> str:
    return "timeout" if isinstance(error, JobTimeout) else "failed"
