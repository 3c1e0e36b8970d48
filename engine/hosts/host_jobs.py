"""What a host does with its jobs: fetch the next, keep its lease, tell how far it is, report how it ended.

A host claims as `host:<id>`, and each of its jobs carries a lease of its own. Every call about a job names the lease:
the number of the attempt, which only grows. A host that fell silent finds its job taken back, and what it still says
about it is refused with LeaseLost.
"""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import UUID

import orjson

from atlas.db.pg_json import is_larger, read_stored
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.jobs.backoff import AGENT, RetryPolicy, policy_of
from atlas.engine.jobs.claim import Claimant, ClaimedJob
from atlas.engine.jobs.finish import Finish, Notes, finish
from atlas.engine.jobs.progress import report_progress
from atlas.engine.jobs.types import INPUT_LIMIT, dump_output
from atlas.engine.jobs.verdicts import JobCanceled, decide, succeed
from atlas.engine.secrets.key import SecretsUnreadable
from atlas.engine.secrets.redact import Redactor
from atlas.engine.secrets.store import reveal
from atlas.errors import AtlasError, FieldError, InvalidInput, LeaseLost, NotFound, Refused

SEEN = statement("engine/hosts/sql/host_seen.sql")
NEXT = statement("engine/hosts/sql/host_next.sql")
HEARTBEAT = statement("engine/hosts/sql/host_heartbeat.sql")
CURRENT = statement("engine/hosts/sql/host_job.sql")

# Where an agent puts the end of what a program printed.
STDOUT_TAIL = "stdout_tail"

# Another claim counts limits for a millisecond or two; asking again is quicker than the host's next poll.
BUSY_TRIES = 20
BUSY_PAUSE = 0.005


@dataclass(frozen=True, slots=True)
class HostJob:
    """A job in the hands of a host, with its input in clear. `lease` goes into every call about it."""

    job: ClaimedJob
    host_id: UUID
    server_instance_id: UUID | None
    payload: dict[str, Any]

    @property
    def lease(self) -> int:
        return self.job.attempt

    @property
    def job_run_id(self) -> str:
        """The name of this attempt among all attempts of all jobs."""
        return f"{self.job.id}:{self.job.attempt}"


@dataclass(frozen=True, slots=True)
class HostResult:
    """How an attempt ended, as its host tells it. `success` is another word for `succeeded`."""

    status: Literal["succeeded", "success", "failed"]
    duration_ms: int | None = None
    output: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


class HostFailed(AtlasError):
    """The host reported that its attempt failed."""


def claimant_of(host_id: UUID) -> str:
    """The name that a host claims under."""
    return f"host:{host_id}"


async def next_host_job(conn: Connection, host_id: UUID, *, lease: float) -> HostJob | None:
    """Give a host its best due job, if it has none running.

    None is an ordinary answer: nothing is due, a limit holds it, or the gate is closed. A job of this host whose lease
    ran out goes back to the queue first.
    """
    is_active = await fetch_value(conn, SEEN, host_id=host_id)
    if is_active is None:
        raise NotFound("host", host_id)
    if not is_active:
        raise Refused(f"Host {host_id} is not active.", remedy="An operator can make it active again.")
    for _ in range(BUSY_TRIES):
        rows = await fetch(conn, NEXT, host_id=host_id, lease=lease)
        if not rows or rows[0]["kind"] != "busy":
            break
        await asyncio.sleep(BUSY_PAUSE)
    if not rows or rows[0]["kind"] != "claimed":
        return None
    _, *columns, instance_id = rows[0]
    return await _handed_over(conn, host_id, ClaimedJob(*columns), instance_id)


async def heartbeat_host_job(conn: Connection, host_id: UUID, job_id: UUID, lease_no: int, *, lease: float) -> bool:
    """Renew a job's lease. True: the job was asked to stop, and the host should end it and report."""
    row = await fetch_row(conn, HEARTBEAT, claimant=claimant_of(host_id), job_id=job_id, attempt=lease_no, lease=lease)
    if row is None:
        raise LeaseLost(job_id, lease_no)
    await fetch_value(conn, SEEN, host_id=host_id)
    return bool(row["cancel_requested"])


async def host_progress(
    conn: Connection, host_id: UUID, job_id: UUID, lease_no: int, *, percent: float | None, message: str | None
) -> None:
    """Tell how far a job is."""
    held = await _held(conn, host_id, job_id, lease_no)
    redactor = await _redactor(conn, held.job)
    words = message if message is None or redactor is None else redactor.cut(message, at_end=True)
    if not await report_progress(conn, claimant_of(host_id), job_id, lease_no, percent=percent, message=words):
        raise LeaseLost(job_id, lease_no)


async def host_result(conn: Connection, host_id: UUID, job_id: UUID, lease_no: int, result: HostResult) -> str:
    """Record how an attempt ended. Answers what its job is now: succeeded, queued for a retry, failed or canceled."""
    held = await _held(conn, host_id, job_id, lease_no)
    ending = _ending(host_id, held, result, await _redactor(conn, held.job))
    turn = await finish(conn, _claimant(host_id), [ending])
    if turn.canceled:
        # Asked to stop since it was looked at: there is no retry for it.
        stopped = replace(held, asked_to_stop=True)
        ending = _ending(host_id, stopped, result, None)
        turn = await finish(conn, _claimant(host_id), [ending])
    if turn.lost:
        raise LeaseLost(job_id, lease_no)
    return ending.status


async def _handed_over(conn: Connection, host_id: UUID, job: ClaimedJob, instance_id: UUID | None) -> HostJob:
    try:
        text, _ = await reveal(conn, job.id, job.tenant_id, job.input)
    except SecretsUnreadable as error:
        # The host never hears of this attempt, so it ends here, and not when its lease does.
        await finish(conn, _claimant(host_id), [decide(job, claimant_of(host_id), error, AGENT)])
        raise
    return HostJob(job, host_id, instance_id, read_stored(text))


@dataclass(frozen=True, slots=True)
class _Held:
    """A job in a host's hands, and what decides about its end."""

    job: ClaimedJob
    policy: RetryPolicy
    asked_to_stop: bool


async def _held(conn: Connection, host_id: UUID, job_id: UUID, lease_no: int) -> _Held:
    row = await fetch_row(conn, CURRENT, claimant=claimant_of(host_id), job_id=job_id, attempt=lease_no)
    if row is None:
        raise LeaseLost(job_id, lease_no)
    *columns, described, asked_to_stop = row
    policy = AGENT if described is None else policy_of(orjson.loads(described))
    return _Held(ClaimedJob(*columns), policy, asked_to_stop)


async def _redactor(conn: Connection, job: ClaimedJob) -> Redactor | None:
    _, redactor = await reveal(conn, job.id, job.tenant_id, job.input)
    return redactor


def _ending(host_id: UUID, held: _Held, result: HostResult, redactor: Redactor | None) -> Finish:
    claimant = claimant_of(host_id)
    notes = Notes(detail={"result": {} if result.duration_ms is None else {"duration_ms": result.duration_ms}})
    match result.status:
        case "succeeded" | "success":
            output = dump_output(result.output if redactor is None else _redacted(result.output, redactor))
            if output is not None and is_larger(output, INPUT_LIMIT):
                raise InvalidInput("The result", [FieldError("output", f"is larger than {INPUT_LIMIT // 1024} KiB")])
            return succeed(held.job, claimant, output, "JOB_SUCCEEDED", notes)
        case "failed" if held.asked_to_stop:
            return decide(held.job, claimant, JobCanceled("Canceled while running."), held.policy, notes)
        case "failed":
            words = result.error or "The host gave no reason."
            error = HostFailed(words if redactor is None else redactor.report(words))
            return decide(held.job, claimant, error, held.policy, notes)
        case _:
            raise InvalidInput("The result", [FieldError("status", "is neither succeeded nor failed")])


def _redacted(output: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """An output without secrets. An agent cuts what it sends of a program's words, also within a secret."""
    tail = output.get(STDOUT_TAIL)
    if isinstance(tail, str):
        output = {**output, STDOUT_TAIL: redactor.cut(tail, at_start=True, at_end=True)}
    return redactor.value(output)  # type: ignore[no-any-return]


def _claimant(host_id: UUID) -> Claimant:
    # What it finishes carries its own lease; the seconds matter to claims alone.
    return Claimant(claimant_of(host_id), None, lease=1.0)
