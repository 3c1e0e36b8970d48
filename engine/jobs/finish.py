"""Finish: record what became of many jobs in one statement, and claim the next ones in the same round trip.

A `Finish` is one row of that statement: the job's new state, its attempt's details, and the audit event with its bytes.
The statement is fenced by worker, attempt and lease: a finish whose lease was lost changes nothing.
"""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from atlas.audit.record import event_body
from atlas.db.pg_json import stored_json, stored_text
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.jobs.claim import Claimant, ClaimedJob, TurnResult, claim_for_slots, claim_values, run_turn
from atlas.engine.secrets.redact import Redactor
from atlas.errors import AtlasError

TURN = statement("engine/jobs/sql/turn.sql")
KEEP_LOG = statement("engine/jobs/sql/keep_log.sql")

# Where the meta of an outcome has it, the statement writes the digest.
OUTPUT_DIGEST = "output_sha256"
MAX_MESSAGE_LENGTH = 2000
MAX_TRACE_LENGTH = 8000
# How far the causes of an error of Atlas are followed.
MAX_CAUSES = 10

# What the finishes of a batch often share; sent once where they do.
_SHARED = {
    "attempts": attrgetter("attempt"),
    "statuses": attrgetter("status"),
    "actions": attrgetter("action"),
    "levels": attrgetter("level"),
    "messages": attrgetter("message"),
    "metas": attrgetter("meta"),
}
_COLUMNS = {
    "outputs": attrgetter("output"),
    "errors": attrgetter("error"),
    "delays": attrgetter("delay"),
    "used": attrgetter("used"),
    "costs": attrgetter("cost"),
    "bodies": attrgetter("body"),
    "details": attrgetter("detail"),
    "privates": attrgetter("private"),
}
_by_id = attrgetter("job_id.bytes")


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
    # It was committed with what the handler wrote: there is nothing left to record.
    is_recorded: bool = False

    @property
    def is_released(self) -> bool:
        """True if the job is ready again, with the place that it had."""
        return self.status == "queued" and not self.delay


class WorkerTime(NamedTuple):
    """What tenants have used of a worker: seconds of its slots, and how many jobs ended in them."""

    tenants: Sequence[UUID] = ()
    seconds: Sequence[float] = ()
    jobs: Sequence[int] = ()


@dataclass(slots=True)
class Notes:
    """What a handler adds to its outcome besides its output: cost, facts for the audit, and the attempt's details."""

    cost: int = 0
    audit_action: str | None = None
    audit_message: str = ""
    audit_meta: dict[str, Any] = field(default_factory=dict)
    private: list[dict[str, str | None]] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)


async def finish(conn: Connection, claimant: Claimant, finishes: Sequence[Finish]) -> TurnResult:
    """Record outcomes; the result names those that were refused."""
    return await finish_and_claim(conn, claimant, finishes)


async def finish_and_claim(
    conn: Connection,
    claimant: Claimant,
    finishes: Sequence[Finish] = (),
    *,
    slots: int = 0,
    prefetch: int = 0,
    alone: bool = False,
    after: UUID | None = None,
    resume: str | None = None,
    usage: WorkerTime | None = None,
    within: float | None = None,
) -> TurnResult:
    """Finish, then claim as `claim_for_slots` does: both or neither, in one round trip.

    Tenants are charged for `usage`.
    """
    if not finishes and usage is None:
        return await claim_for_slots(
            conn, claimant, slots=slots, prefetch=prefetch, alone=alone, after=after, resume=resume, within=within
        )
    values = claim_values(claimant, slots, prefetch, alone=alone, after=after, resume=resume)
    values |= (usage or WorkerTime())._asdict()
    values |= _columns(sorted(finishes, key=_by_id))
    return await run_turn(conn, TURN, values, within=within)


async def keep_log(conn: Connection, job: ClaimedJob, worker: str, log_tail: str, *, seconds: float) -> None:
    """Keep the log of an attempt that has left without an outcome of its own."""
    attempt = {"job_id": job.id, "attempt_no": job.attempt, "worker_id": worker, "seconds": seconds}
    await fetch(conn, KEEP_LOG, **attempt, log_tail=stored_text(log_tail))


def _columns(ordered: list[Finish]) -> dict[str, Any]:
    values: dict[str, Any] = {"ids": [finish.job_id for finish in ordered]}
    if not ordered:
        return values | dict.fromkeys([*_SHARED, *_COLUMNS])
    for name, read in _SHARED.items():
        column = list(map(read, ordered))
        values[name] = column[:1] if column.count(column[0]) == len(column) else column
    for name, read in _COLUMNS.items():
        column = list(map(read, ordered))
        values[name] = None if column.count(None) == len(column) else column
    return values


def with_event(
    row: Finish, job: ClaimedJob, worker: str, action: str, notes: Notes | None, *, message: str = ""
) -> Finish:
    """Add what the handler noted, and the audit event: its search columns and its bytes, made from the same values."""
    meta: Mapping[str, Any] = {}
    if notes is not None:
        row.cost = notes.cost or None
        row.private = stored_json(notes.private) if notes.private else None
        message, meta = message or notes.audit_message, notes.audit_meta
    row.action = action
    row.meta = attempt_meta(job.attempt) if not meta else stored_json({**meta, "attempt": job.attempt})
    if message:
        row.message = stored_text(message[:MAX_MESSAGE_LENGTH])
    if OUTPUT_DIGEST in meta or row.cost is not None:
        # The statement adds what it knows, and so writes the bytes.
        return row
    row.body = event_body(
        action, "system", worker, "job", job.id, job.tenant_id, row.meta, row.message or "", row.level or "info"
    )
    return row


@lru_cache(maxsize=1024)
def attempt_meta(attempt: int) -> str:
    """The facts of an event of which nothing but the attempt's number is said."""
    return f'{{"attempt":{attempt}}}'


def error_text(error: BaseException) -> str:
    """An error with its stack. One of Atlas is its message, with the stack of what user code gave as its cause."""
    if not isinstance(error, AtlasError):
        return "".join(traceback.format_exception(error))
    cause: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if isinstance(cause, AtlasError):
            cause = cause.__cause__ if cause.shows_cause or _was_raised_outside(cause) else None
    message = str(error)[:MAX_MESSAGE_LENGTH]
    if cause is None or isinstance(cause, AtlasError):
        return message
    return f"{message}\n\n{''.join(traceback.format_exception(cause))}"


def cut_stack(text: str) -> str:
    """The text of an error within its limit: the end of a stack says most."""
    return text[-MAX_TRACE_LENGTH:]


def _was_raised_outside(error: BaseException) -> bool:
    """True where code of a user raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and not trace.tb_frame.f_globals.get("__name__", "").startswith("atlas.")


def redact_notes(redactor: Redactor, notes: Notes) -> None:
    """Remove secrets from what a handler noted beside its outcome."""
    notes.audit_message = redactor.text(notes.audit_message)
    notes.audit_meta = redactor.value(notes.audit_meta)
    notes.detail = redactor.value(notes.detail)


def redact_error(redactor: Redactor, error: BaseException, notes: Notes) -> BaseException:
    """Return an error without secrets, and keep its redacted stack in the attempt's details.

    An error of Atlas keeps its class, because the class decides what becomes of the job. Any other error is replaced
    by one of the same name, because its class may build its message from more than its arguments.
    """
    redact_notes(redactor, notes)
    text = error_text(error)
    if text != str(error):
        # Redacted before it is cut: a cut secret would not be found.
        notes.detail.setdefault("error_text", cut_stack(redactor.text(text)))
    if isinstance(error, AtlasError):
        error.message, error.remedy = redactor.text(error.message), redactor.text(error.remedy)
        error.args = tuple(redactor.value(list(error.args)))
        return error
    namesake: type[Exception] = type(type(error).__name__, (Exception,), {})
    return namesake(redactor.text(str(error)))
