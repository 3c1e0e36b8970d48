"""Routes for remote workers, in any language: they claim jobs of their tenant and report on them."""

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from atlas.api.models.common import Body, Document, Flag, Id, Name, Number, Text, Whole
from atlas.api.models.jobs import SynonymBody
from atlas.api.problems import Forbidden
from atlas.api.request_context import Calling, RequestContext
from atlas.api.resources.workers.host_agent import FENCED, Kept, LogRef, ResultRecorded
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.bounds import MAX_INTEGER
from atlas.engine.hosts import leased_jobs
from atlas.engine.hosts.leased_jobs import (
    MAX_JOBS,
    Failure,
    JobLease,
    LeasedJob,
    claim_for_worker,
    remote_worker,
    renew_lease,
    report_leased_progress,
)
from atlas.engine.jobs.finish import Notes
from atlas.engine.jobs.handlers.types import canonical
from atlas.models import ApiModel, Listed

router = APIRouter(prefix=f"{PREFIX}/worker/jobs", route_class=GuardedRoute, tags=["worker"])

RUNS = "ENGINE_RUN"
Attempt = Annotated[Whole, Field(ge=1, le=MAX_INTEGER)]


class ClaimBody(Body):
    """Which job types, and how many jobs at most."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"job_types": ["invoice.send"], "limit": 10}]})

    job_types: Annotated[list[Name], Field(min_length=1, max_length=200)]
    limit: Annotated[Whole, Field(ge=1, le=MAX_JOBS)] = 1


class RemoteJob(ApiModel):
    """A job that this worker holds. `attempt` goes into every call about it."""

    job_id: UUID
    job_run_id: str
    job_type: str
    payload: Document
    attempt: int
    retry_count: int
    max_retries: int
    timeout_seconds: int | None
    correlation_id: str | None
    lease_seconds: float


class AttemptBody(SynonymBody):
    """The attempt that a report is about."""

    attempt: Attempt


class RemoteProgress(AttemptBody):
    """The progress of a job."""

    percent: Annotated[Number, Field(ge=0, le=100)] | None = None
    message: Text | None = None


class ReportBody(AttemptBody):
    """How an attempt ended."""

    log_ref: LogRef = None


class CompleteBody(ReportBody):
    """The output of a job."""

    output: Any = Field(default_factory=dict, description="Any JSON value; null is an empty object.")


class FailBody(ReportBody):
    """Why it failed. `permanent`: a retry would not help; `retry_after_seconds`: no retry before that."""

    error: Annotated[str, Field(min_length=1, max_length=20_000)]
    permanent: Flag = False
    retry_after_seconds: Annotated[Whole, Field(ge=0, le=366 * 86_400)] | None = None


class Ended(ResultRecorded):
    """The status of the job now."""

    status: Literal["succeeded", "queued", "failed", "canceled"]


@router.post("/claim", operation_id="claim_jobs", summary="Take due jobs")
@requires("worker", by_tenant=False, no_key="the secrets of claimed jobs are never stored in clear")
async def claim(body: ClaimBody, call: Calling) -> Listed[RemoteJob]:
    """Returns fewer jobs, or none, where fewer are due or Atlas is offline. Each job has a lease of its own."""
    allowed: list[str] | None = call.caller.scopes.get("job_types")
    foreign = [] if allowed is None else sorted(set(body.job_types) - set(allowed))
    if foreign:
        raise Forbidden(f"This token may not serve {', '.join(foreign)}.", remedy="See the token's scopes.")
    if RUNS in {canonical(job_type) for job_type in body.job_types}:
        raise Forbidden("Runs of workflows are executed by Atlas's own workers.")
    lease = call.api.settings.atlas_lease_seconds
    async with call.connection() as conn:
        token = call.caller.token.id
        jobs = await claim_for_worker(conn, token, call.home, body.job_types, limit=body.limit, lease=lease)
    if any(job.is_late for job in jobs):
        async with call.connection() as conn:
            for job in jobs:
                await leased_jobs.give_back(conn, job.lease)
        jobs = []
    return Listed(items=[_remote_job(job, lease) for job in jobs])


@router.post("/{job_id:uuid}/heartbeat", operation_id="renew_job_lease", summary="Keep a job's lease")
@requires("worker", by_tenant=False, no_key=FENCED)
async def keep(job_id: Id, body: AttemptBody, call: Calling) -> Kept:
    """At least every third of `lease_seconds`; without one, the job goes to another attempt when the lease ends."""
    async with call.connection() as conn:
        seconds = call.api.settings.atlas_lease_seconds
        return Kept(cancel_requested=await renew_lease(conn, _lease(call, job_id, body), seconds=seconds))


@router.post(
    "/{job_id:uuid}/progress",
    operation_id="report_job_progress",
    status_code=204,
    summary="Report the progress of a job",
)
@requires("worker", by_tenant=False, no_key=FENCED)
async def report_progress(job_id: Id, body: RemoteProgress, call: Calling) -> None:
    """Shown with the job and sent to live connections. It does not renew the lease."""
    async with call.connection() as conn:
        lease = _lease(call, job_id, body)
        await report_leased_progress(conn, lease, percent=body.percent, message=body.message)


@router.post("/{job_id:uuid}/complete", operation_id="complete_job", summary="Report that a job succeeded")
@requires("worker", by_tenant=False, no_key=FENCED)
async def complete(job_id: Id, body: CompleteBody, call: Calling) -> Ended:
    """A report that comes after the lease has ended is 409 and changes nothing."""
    async with call.connection() as conn:
        status = await leased_jobs.complete(conn, _lease(call, job_id, body), body.output, _notes(call, body))
    return _ended(job_id, status)


@router.post("/{job_id:uuid}/fail", operation_id="fail_job", summary="Report that an attempt failed")
@requires("worker", by_tenant=False, no_key=FENCED)
async def fail(job_id: Id, body: FailBody, call: Calling) -> Ended:
    """The job's retry policy decides whether it is queued again. A report that comes too late is 409."""
    after = None if body.retry_after_seconds is None else timedelta(seconds=body.retry_after_seconds)
    async with call.connection() as conn:
        failure = Failure(body.error, body.permanent, after)
        status = await leased_jobs.fail(conn, _lease(call, job_id, body), failure, _notes(call, body))
    return _ended(job_id, status)


def _lease(call: RequestContext, job_id: UUID, body: AttemptBody) -> JobLease:
    return JobLease(remote_worker(call.caller.token.id), job_id, body.attempt)


def _notes(call: RequestContext, body: ReportBody) -> Notes:
    """What the attempt keeps of a report, and what the job's event says about the request behind it."""
    detail = {} if body.log_ref is None else {"log_ref": body.log_ref}
    return Notes(audit_meta=dict(call.actor.meta), detail=detail)


def _ended(job_id: UUID, status: str) -> Ended:
    return Ended.model_validate({"job_id": job_id, "status": status})


def _remote_job(leased: LeasedJob, lease: float) -> RemoteJob:
    job = leased.job
    return RemoteJob(
        job_id=job.id,
        job_run_id=leased.job_run_id,
        job_type=job.job_type,
        payload=leased.payload,
        attempt=job.attempt,
        retry_count=job.retry_count,
        max_retries=job.retries,
        timeout_seconds=job.timeout_seconds,
        correlation_id=job.correlation_id,
        lease_seconds=lease,
    )
