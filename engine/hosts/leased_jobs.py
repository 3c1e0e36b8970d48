"""Leased jobs: what hosts and remote workers do with jobs that each carry a lease of their own.

They claim a job, renew its lease, report progress and finish it. Each call names the attempt, whose number only grows.
A holder that fell silent lost its lease, and the calls it still makes raise LeaseLost.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from atlas.bounds import MAX_INPUT
from atlas.db.pg_json import byte_size, is_larger, read_stored
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.jobs.attempts.output import dump_output
from atlas.engine.jobs.attempts.progress import report_progress
from atlas.engine.jobs.backoff import AGENT, ATLAS, RetryPolicy, policy_of
from atlas.engine.jobs.claim import Claimant, ClaimedJob, claimed_job
from atlas.engine.jobs.finish import OUTPUT_DIGEST, Finish, Notes, finish
from atlas.engine.jobs.handlers.types import canonical
from atlas.engine.jobs.lease import heartbeat_job
from atlas.engine.jobs.start_right import START_SECONDS, boot_seconds
from atlas.engine.jobs.verdicts import JobCanceled, PermanentError, RetryAfter, decide, release_attempt, succeed
from atlas.engine.secrets.key import SecretsUnreadable
from atlas.engine.secrets.redact import Redactor
from atlas.engine.secrets.store import reveal
from atlas.errors import AtlasError, FieldError, InvalidInput, LeaseLost, NotClaimed, NotFound, Refused
from atlas.logs import get_logger

if TYPE_CHECKING:
    from atlas.generated.types import JobRunWhereInput

HOST_SEEN = statement("engine/hosts/sql/host_seen.sql")
CLAIM = statement("engine/hosts/sql/claim_leased.sql")
HELD = statement("engine/hosts/sql/leased_job.sql")

MAX_JOBS = 100
# Another claim counts limits for a millisecond or two; asking again is quicker than the caller's next poll.
BUSY_TRIES = 20
BUSY_PAUSE = 0.005
# Where an agent puts the end of what a program printed.
STDOUT_TAIL = "stdout_tail"

log = get_logger("leased_jobs")


class HostFailed(AtlasError):
    """The host reported that its attempt failed."""


class WorkerFailed(AtlasError):
    """The remote worker reported that its attempt failed."""


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """A host, or a remote worker known by its token, and what differs between the two."""

    # What `claimed_by` holds.
    name: str
    # Retries a job whose type publishes no policy.
    policy: RetryPolicy
    failure: type[AtlasError]
    # An agent sends the end of a program's output, and may have cut it within a secret.
    cuts_output: bool = False
    host_id: UUID | None = None

    @property
    def claimant(self) -> Claimant:
        # Each job carries its own lease; the seconds matter to claims alone.
        return Claimant(self.name, None, lease=1.0)


def host_holder(host_id: UUID) -> LeaseHolder:
    """A host, by its id."""
    return LeaseHolder(f"host:{host_id}", AGENT, HostFailed, cuts_output=True, host_id=host_id)


def remote_worker(token_id: UUID) -> LeaseHolder:
    """A remote worker, by the id of its token: a call with another token has lost the lease."""
    return LeaseHolder(f"remote:{token_id}", ATLAS, WorkerFailed)


@dataclass(frozen=True, slots=True)
class JobLease:
    """One attempt at one job, leased to its holder. Every call about the job names it."""

    holder: LeaseHolder
    job_id: UUID
    attempt: int


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A job that was just claimed, with its input in clear."""

    lease: JobLease
    job: ClaimedJob
    payload: dict[str, Any]
    # When it was asked for, by `boot_seconds`.
    asked_at: float
    server_instance_id: UUID | None = None

    @property
    def is_late(self) -> bool:
        """True when the gate may be closed by now: it is not given out any more, but given back."""
        return boot_seconds() >= self.asked_at + START_SECONDS

    @property
    def job_run_id(self) -> str:
        """The name of this attempt among all attempts of all jobs."""
        return f"{self.job.id}:{self.job.attempt}"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, as its holder reports it, and how it should be retried."""

    message: str
    permanent: bool = False
    retry_after: timedelta | None = None


async def claim_for_host(
    conn: Connection, host_id: UUID, *, lease: float, agent: str | None = None
) -> LeasedJob | None:
    """Claim the best due job of a host that has none running. A job whose lease it lost is requeued first.

    `agent` is what the program on the host calls itself.

    Returns None when nothing is due, a limit holds it, or the gate is closed.
    """
    is_active = await fetch_value(conn, HOST_SEEN, host_id=host_id, agent=agent)
    if is_active is None:
        raise NotFound("host", host_id)
    if not is_active:
        raise Refused(f"Host {host_id} is not active.", remedy="An operator can make it active again.")
    holder = host_holder(host_id)
    asked_at = boot_seconds()
    rows = await _claim(conn, holder, tenant_id=None, job_types=None, limit=1, lease=lease)
    return await _open(conn, holder, rows[0], asked_at) if rows else None


async def claim_for_worker(
    conn: Connection, token_id: UUID, tenant_id: UUID, job_types: Sequence[str], *, limit: int, lease: float
) -> list[LeasedJob]:
    """Claim up to `limit` due jobs of one tenant and some types; none while the gate is closed."""
    holder = remote_worker(token_id)
    types = sorted({canonical(job_type) for job_type in job_types})
    asked_at = boot_seconds()
    rows = await _claim(conn, holder, tenant_id=tenant_id, job_types=types, limit=min(limit, MAX_JOBS), lease=lease)
    claimed = []
    for row in rows:
        try:
            claimed.append(await _open(conn, holder, row, asked_at))
        except SecretsUnreadable as error:
            facts = _claimed(row).log_facts(holder.name)
            log.error("a job's secrets cannot be read", **facts, reason=str(error))
    return claimed


async def renew_lease(conn: Connection, lease: JobLease, *, seconds: float) -> bool:
    """Renew a job's lease. Returns True when the job was asked to stop: the holder should end it and report."""
    asked_to_stop = await heartbeat_job(conn, **_named(lease), lease=seconds)
    if asked_to_stop is None:
        raise await _lost(conn, lease)
    if lease.holder.host_id is not None:
        await fetch_value(conn, HOST_SEEN, host_id=lease.holder.host_id, agent=None)
    return asked_to_stop


async def report_leased_progress(
    conn: Connection, lease: JobLease, *, percent: float | None, message: str | None
) -> None:
    """Store how far a job is."""
    held = await _held(conn, lease)
    if message is not None:
        message = held.redactor.cut(message, at_end=True)
    if not await report_progress(conn, **_named(lease), percent=percent, message=message):
        raise await _lost(conn, lease)


async def complete(conn: Connection, lease: JobLease, output: Any, notes: Notes) -> str:
    """running → succeeded. Returns the job's new status."""
    held = await _held(conn, lease)
    notes.detail = held.redactor.value(notes.detail)
    tail = output.get(STDOUT_TAIL) if isinstance(output, dict) else None
    if lease.holder.cuts_output and isinstance(tail, str):
        output = {**output, STDOUT_TAIL: held.redactor.cut(tail, at_start=True, at_end=True)}
    text = dump_output(held.redactor.value(output))
    if text is not None and is_larger(text, MAX_INPUT):
        reason = f"has {byte_size(text):,} bytes as JSON, which is larger than {MAX_INPUT // 1024} KiB"
        raise InvalidInput("The result", [FieldError("output", reason)])
    if held.is_audited:
        notes.audit_meta[OUTPUT_DIGEST] = None
    return await _finish(conn, lease, held, succeed(held.job, lease.holder.name, text, "JOB_SUCCEEDED", notes), notes)


async def fail(conn: Connection, lease: JobLease, failure: Failure, notes: Notes) -> str:
    """running → queued for a retry, failed, or canceled if it was asked to stop. Returns which."""
    held = await _held(conn, lease)
    notes.detail = held.redactor.value(notes.detail)
    if held.asked_to_stop:
        return await _finish(conn, lease, held, _canceled(lease, held, notes), notes)
    redact = held.redactor.report if lease.holder.cuts_output else held.redactor.text
    message = redact(failure.message)
    error = lease.holder.failure(message)
    if failure.permanent:
        error = PermanentError(message)
    elif failure.retry_after is not None:
        error = RetryAfter(failure.retry_after, message)
    return await _finish(conn, lease, held, decide(held.job, lease.holder.name, error, held.policy, notes), notes)


async def give_back(conn: Connection, lease: JobLease) -> None:
    """running → queued, nothing counted: the claimed job could not be delivered to its holder."""
    await finish(conn, lease.holder.claimant, [release_attempt(lease.job_id, lease.attempt)])


@dataclass(frozen=True, slots=True)
class _Held:
    """A job as it is while its lease lasts, and what decides about its end."""

    job: ClaimedJob
    policy: RetryPolicy
    asked_to_stop: bool
    redactor: Redactor
    is_audited: bool = False


async def _claim(conn: Connection, holder: LeaseHolder, **values: Any) -> list[Any]:
    """Claim, and ask again while another claim counts the limits."""
    for _ in range(BUSY_TRIES):
        rows = await fetch(conn, CLAIM, claimant=holder.name, host_id=holder.host_id, **values)
        if not rows or rows[0]["kind"] != "busy":
            break
        await asyncio.sleep(BUSY_PAUSE)
    return [row for row in rows if row["kind"] == "claimed"]


async def _open(conn: Connection, holder: LeaseHolder, row: Any, asked_at: float) -> LeasedJob:
    """The claimed job with its secrets revealed. Where they cannot be read, its attempt fails here."""
    job = _claimed(row)
    lease = JobLease(holder, job.id, job.attempt)
    try:
        text, _ = await reveal(conn, job.id, job.tenant_id, job.input)
    except SecretsUnreadable as error:
        held = _Held(job, holder.policy, asked_to_stop=False, redactor=Redactor({}))
        with suppress(LeaseLost):
            await _finish(conn, lease, held, decide(job, holder.name, error, holder.policy), Notes())
        raise
    return LeasedJob(lease, job, read_stored(text), asked_at, row["server_instance_id"])


def _claimed(row: Any) -> ClaimedJob:
    return claimed_job(row[1:16], time.monotonic())


async def _held(conn: Connection, lease: JobLease) -> _Held:
    row = await fetch_row(conn, HELD, **_named(lease))
    if row is None:
        raise await _lost(conn, lease)
    *columns, described, asked_to_stop, is_audited = row
    job = claimed_job(columns, time.monotonic())
    policy = lease.holder.policy if described is None else policy_of(orjson.loads(described))
    _, redactor = await reveal(conn, job.id, job.tenant_id, job.input)
    return _Held(job, policy, asked_to_stop, redactor or Redactor({}), is_audited)


async def _lost(conn: Connection, lease: JobLease) -> LeaseLost:
    """The error of a call about a job that its caller does not hold: too late, or about an attempt it never claimed."""
    attempt: JobRunWhereInput = {
        "jobId": str(lease.job_id),
        "attemptNo": lease.attempt,
        "workerId": lease.holder.name,
    }
    if await prisma_on(conn).jobrun.find_first(where=attempt) is None:
        return NotClaimed(lease.job_id, remedy="Claim it first, and report the attempt that the claim returned.")
    remedy = "Renew the lease at least every third of `lease_seconds`, and report each attempt once."
    return LeaseLost(lease.job_id, lease.attempt, remedy=remedy)


async def _finish(conn: Connection, lease: JobLease, held: _Held, ending: Finish, notes: Notes) -> str:
    turn = await finish(conn, lease.holder.claimant, [ending])
    if turn.canceled:
        # It was asked to stop since it was read: there is no retry for it.
        ending = _canceled(lease, held, notes)
        turn = await finish(conn, lease.holder.claimant, [ending])
    if turn.lost:
        raise await _lost(conn, lease)
    return ending.status


def _canceled(lease: JobLease, held: _Held, notes: Notes) -> Finish:
    return decide(held.job, lease.holder.name, JobCanceled("Canceled while running."), held.policy, notes)


def _named(lease: JobLease) -> dict[str, Any]:
    return {"claimant": lease.holder.name, "job_id": lease.job_id, "attempt": lease.attempt}
