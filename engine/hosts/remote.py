"""What a worker outside, in any language, does with jobs of its tenant: claim, keep the lease, complete, fail.

Each of its jobs carries a lease of its own and is claimed under the name of its token, so that a lease answers only
that token. Every call about a job names the attempt; a worker that fell silent finds its job taken back, and what it
still says about it is refused with LeaseLost.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pg_json import is_larger, read_stored
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.jobs.backoff import RetryPolicy, policy_of
from atlas.engine.jobs.claim import Claimant, ClaimedJob
from atlas.engine.jobs.finish import Finish, Notes, finish
from atlas.engine.jobs.progress import report_progress
from atlas.engine.jobs.types import INPUT_LIMIT, canonical, dump_output
from atlas.engine.jobs.verdicts import JobCanceled, PermanentError, RetryAfter, decide, succeed
from atlas.engine.secrets.key import SecretsUnreadable
from atlas.engine.secrets.redact import Redactor
from atlas.engine.secrets.store import reveal
from atlas.errors import AtlasError, FieldError, InvalidInput, LeaseLost
from atlas.logs import get_logger

CLAIM = statement("engine/hosts/sql/remote_claim.sql")
CURRENT = statement("engine/hosts/sql/host_job.sql")
HEARTBEAT = statement("engine/hosts/sql/host_heartbeat.sql")

MOST_JOBS = 100
# Another claim counts limits for a millisecond or two; asking again is quicker than the worker's next poll.
BUSY_TRIES = 20
BUSY_PAUSE = 0.005

log = get_logger("remote")


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A job in the hands of a worker outside, with its input in clear."""

    job: ClaimedJob
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, as its worker tells it, and what it wishes for the next."""

    message: str
    permanent: bool = False
    retry_after: timedelta | None = None


class WorkerFailed(AtlasError):
    """The worker outside reported that its attempt failed."""


def claimant_of(token_id: UUID) -> str:
    """The name that a worker outside claims under."""
    return f"remote:{token_id}"


async def claim_remote(
    conn: Connection, token_id: UUID, tenant_id: UUID, job_types: Sequence[str], *, limit: int, lease: float
) -> list[RemoteJob]:
    """Take up to `limit` due jobs of one tenant and some types. None is an ordinary answer, also at a closed gate."""
    values = {
        "claimant": claimant_of(token_id),
        "tenant_id": tenant_id,
        "job_types": sorted({canonical(one) for one in job_types}),
        "limit": min(limit, MOST_JOBS),
        "lease": lease,
    }
    for _ in range(BUSY_TRIES):
        rows = await fetch(conn, CLAIM, **values)
        if not rows or rows[0]["kind"] != "busy":
            break
        await asyncio.sleep(BUSY_PAUSE)
    taken = [ClaimedJob(*columns) for kind, *columns in rows if kind == "claimed"]
    handed = [await _handed_over(conn, token_id, job) for job in taken]
    return [one for one in handed if one is not None]


async def heartbeat_remote(conn: Connection, token_id: UUID, job_id: UUID, attempt: int, *, lease: float) -> bool:
    """Renew a job's lease. True: the job was asked to stop, and the worker should end it and say so."""
    row = await fetch_row(conn, HEARTBEAT, claimant=claimant_of(token_id), job_id=job_id, attempt=attempt, lease=lease)
    if row is None:
        raise LeaseLost(job_id, attempt)
    return bool(row["cancel_requested"])


async def progress_remote(
    conn: Connection, token_id: UUID, job_id: UUID, attempt: int, *, percent: float | None, message: str | None
) -> None:
    """Tell how far a job is."""
    held = await _held(conn, token_id, job_id, attempt)
    words = message if message is None or held.redactor is None else held.redactor.cut(message, at_end=True)
    if not await report_progress(conn, claimant_of(token_id), job_id, attempt, percent=percent, message=words):
        raise LeaseLost(job_id, attempt)


async def complete_remote(
    conn: Connection, token_id: UUID, job_id: UUID, attempt: int, output: dict[str, Any], *, facts: Mapping[str, str]
) -> str:
    """running → succeeded. `facts` tell the account about the request behind it."""
    held = replace(await _held(conn, token_id, job_id, attempt), facts=facts)
    text = dump_output(output if held.redactor is None else held.redactor.value(output))
    if text is not None and is_larger(text, INPUT_LIMIT):
        raise InvalidInput("The outcome", [FieldError("output", f"is larger than {INPUT_LIMIT // 1024} KiB")])
    ending = succeed(held.job, claimant_of(token_id), text, "JOB_SUCCEEDED", held.notes)
    return await _end(conn, token_id, held, ending)


async def fail_remote(
    conn: Connection, token_id: UUID, job_id: UUID, attempt: int, failure: Failure, *, facts: Mapping[str, str]
) -> str:
    """running → queued for its retry, failed, or canceled if it was asked to stop. Answers which."""
    held = replace(await _held(conn, token_id, job_id, attempt), facts=facts)
    return await _end(conn, token_id, held, _failed(token_id, held, failure))


@dataclass(frozen=True, slots=True)
class _Held:
    """A job in the hands of this token, and what decides about its end."""

    job: ClaimedJob
    policy: RetryPolicy
    asked_to_stop: bool
    redactor: Redactor | None
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def notes(self) -> Notes:
        return Notes(audit_meta=dict(self.facts))


async def _handed_over(conn: Connection, token_id: UUID, job: ClaimedJob) -> RemoteJob | None:
    try:
        text, _ = await reveal(conn, job.id, job.tenant_id, job.input)
    except SecretsUnreadable as error:
        # The worker never hears of this attempt, so it ends here, and not when its lease does; the others go on.
        log.error("a job's secrets cannot be read", job_id=str(job.id), tenant_id=str(job.tenant_id), reason=str(error))
        held = _Held(job, policy_of(None), asked_to_stop=False, redactor=None)
        with suppress(LeaseLost):
            await _end(conn, token_id, held, decide(job, claimant_of(token_id), error, held.policy, held.notes))
        return None
    return RemoteJob(job, read_stored(text))


async def _held(conn: Connection, token_id: UUID, job_id: UUID, attempt: int) -> _Held:
    row = await fetch_row(conn, CURRENT, claimant=claimant_of(token_id), job_id=job_id, attempt=attempt)
    if row is None:
        raise LeaseLost(job_id, attempt)
    *columns, described, asked_to_stop = row
    job = ClaimedJob(*columns)
    _, redactor = await reveal(conn, job.id, job.tenant_id, job.input)
    return _Held(job, policy_of(None if described is None else orjson.loads(described)), asked_to_stop, redactor)


def _failed(token_id: UUID, held: _Held, failure: Failure) -> Finish:
    words = failure.message if held.redactor is None else held.redactor.text(failure.message)
    error: AtlasError = WorkerFailed(words)
    if held.asked_to_stop:
        error = JobCanceled("Canceled while running.")
    elif failure.permanent:
        error = PermanentError(words)
    elif failure.retry_after is not None:
        error = RetryAfter(failure.retry_after, words)
    return decide(held.job, claimant_of(token_id), error, held.policy, held.notes)


async def _end(conn: Connection, token_id: UUID, held: _Held, ending: Finish) -> str:
    # What it finishes carries its own lease; the seconds matter to claims alone.
    claimant = Claimant(claimant_of(token_id), None, lease=1.0)
    turn = await finish(conn, claimant, [ending])
    if turn.canceled:
        # Asked to stop since it was looked at: there is no retry for it.
        ending = _failed(token_id, replace(held, asked_to_stop=True), Failure(""))
        turn = await finish(conn, claimant, [ending])
    if turn.lost:
        raise LeaseLost(held.job.id, held.job.attempt)
    return ending.status
