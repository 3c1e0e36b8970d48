"""Routes for hosts: they fetch their own jobs, one at a time, and report on them."""

import time
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import ConfigDict, Field

from atlas.api.caches.change_signals import ChangeSignals
from atlas.api.host_polling import HostPolling
from atlas.api.http.headers import header
from atlas.api.models.common import Document, Id, Number, Text, Whole
from atlas.api.models.jobs import SynonymBody
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.audit.record import Event, record
from atlas.bounds import MAX_INTEGER
from atlas.engine.hosts.hosts import list_hosts, require_host, unknown_host
from atlas.engine.hosts.leased_jobs import (
    Failure,
    JobLease,
    LeasedJob,
    claim_for_host,
    complete,
    fail,
    give_back,
    host_holder,
    renew_lease,
    report_leased_progress,
)
from atlas.engine.jobs.finish import Notes
from atlas.ids import as_id
from atlas.models import ApiModel, Listed
from atlas.models.hosts import Host
from atlas.waiting import wait_for

router = APIRouter(prefix=f"{PREFIX}/agent/hosts", route_class=GuardedRoute, tags=["agent"])

MAX_WAIT = 60
MAX_AGENT_LENGTH = 100
# Why a report takes no Idempotency-Key.
FENCED = "its lease fences the call, which may be repeated without one"
# How often a waiting request checks by itself that its host is connected and its token valid.
RECHECK_SECONDS = 10.0


class AgentJob(ApiModel):
    """A job for a host. `lease` goes into every call about it; it lasts `lease_seconds` from each heartbeat on."""

    job_id: UUID
    job_run_id: str
    host_id: UUID
    server_instance_id: UUID | None
    type: str
    payload: Document
    lease: int
    lease_seconds: float
    timeout_seconds: int | None
    correlation_id: str | None


# Where the host or the worker keeps the log of the attempt.
LogRef = Annotated[str | None, Field(max_length=1000)]


class LeaseBody(SynonymBody):
    """The attempt that a report is about."""

    lease: Annotated[Whole, Field(ge=1, le=MAX_INTEGER)]


class ProgressBody(LeaseBody):
    """The progress of a job."""

    percent: Annotated[Number, Field(ge=0, le=100)] | None = None
    message: Text | None = None


class ResultBody(LeaseBody):
    """How it ended. `success` is a synonym of `succeeded`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"lease": 1, "status": "succeeded", "duration_ms": 1200, "output": {"pid": 7}}]}
    )

    status: Literal["succeeded", "success", "failed"]
    duration_ms: Annotated[Whole | None, Field(ge=0, le=MAX_INTEGER)] = None
    output: Any = Field(default_factory=dict, description="Any JSON value; null is an empty object.")
    error: Annotated[str | None, Field(max_length=20_000)] = None
    log_ref: LogRef = None


class Kept(ApiModel):
    """The lease is renewed. `cancel_requested`: stop the job and report."""

    cancel_requested: bool


class ResultRecorded(ApiModel):
    """The status of the job now: succeeded, queued for a retry, failed or canceled."""

    job_id: UUID
    status: Literal["succeeded", "queued", "failed", "canceled"]


@router.get("", operation_id="list_own_hosts", summary="The host that this token may fetch jobs for")
@requires("host", by_tenant=False)
async def show_hosts(call: Calling) -> Listed[Host]:
    """One host: the one that the token's scope names."""
    async with call.transaction(read_only=True) as conn:
        hosts = await list_hosts(conn, tenant_id=call.tenant_id, id=_own_host(call), limit=1)
    return Listed(items=hosts)


@router.get(
    "/{host_id:uuid}/jobs",
    operation_id="fetch_host_job",
    response_model=AgentJob,
    summary="The next job of a host, waited for",
    responses={204: {"description": "Nothing is due within the wait.", "model": None}},
)
@requires("host", by_tenant=False, takes=True)
async def fetch_next(
    request: Request,
    host_id: Id,
    call: Calling,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for one.")] = 25,
) -> Any:
    """A host has one job at a time. A job that could not be delivered returns to the queue unchanged."""
    await _require(call, host_id)
    signals: ChangeSignals = request.app.state.signals
    polling: HostPolling = request.app.state.host_polling
    agent = (header(request.scope, b"user-agent") or "")[:MAX_AGENT_LENGTH] or None
    end = time.monotonic() + wait
    with call.api.host_polls.taken(host_id), polling.signal(host_id) as has_work:
        while True:
            has_work.clear()
            await call.recheck()
            lease = call.api.settings.atlas_lease_seconds
            async with call.connection() as conn:
                job = await claim_for_host(conn, host_id, lease=lease, agent=agent)
            if job is not None:
                is_gone = await request.is_disconnected()
                if not job.is_late and not is_gone:
                    return _agent_job(host_id, job, lease)
                async with call.connection() as conn:
                    await give_back(conn, job.lease)
            left = end - time.monotonic()
            if left <= 0 or signals.closing or await request.is_disconnected():
                return Response(status_code=204)
            await wait_for(has_work, within=min(left, RECHECK_SECONDS))


@router.post(
    "/{host_id:uuid}/jobs/{job_id:uuid}/heartbeat", operation_id="renew_host_job_lease", summary="Keep a job's lease"
)
@requires("host", by_tenant=False, no_key=FENCED)
async def keep(host_id: Id, job_id: Id, body: LeaseBody, call: Calling) -> Kept:
    """At least every third of `lease_seconds`; without one, the job goes to another attempt when the lease ends."""
    await _require(call, host_id)
    async with call.connection() as conn:
        lease, seconds = _lease(host_id, job_id, body), call.api.settings.atlas_lease_seconds
        return Kept(cancel_requested=await renew_lease(conn, lease, seconds=seconds))


@router.post(
    "/{host_id:uuid}/jobs/{job_id:uuid}/progress",
    operation_id="report_host_job_progress",
    status_code=204,
    summary="Report the progress of a job",
)
@requires("host", by_tenant=False, no_key=FENCED)
async def report_progress(host_id: Id, job_id: Id, body: ProgressBody, call: Calling) -> None:
    """Shown with the job and sent to live connections. It does not renew the lease."""
    await _require(call, host_id)
    async with call.connection() as conn:
        lease = _lease(host_id, job_id, body)
        await report_leased_progress(conn, lease, percent=body.percent, message=body.message)


@router.post(
    "/{host_id:uuid}/jobs/{job_id:uuid}/result", operation_id="report_host_job_result", summary="Report how a job ended"
)
@requires("host", by_tenant=False, no_key=FENCED)
async def report(host_id: Id, job_id: Id, body: ResultBody, call: Calling) -> ResultRecorded:
    """A report that comes after the lease has ended is 409 and changes nothing."""
    await _require(call, host_id)
    lease = _lease(host_id, job_id, body)
    notes = Notes(detail={"result": {} if body.duration_ms is None else {"duration_ms": body.duration_ms}})
    if body.log_ref is not None:
        notes.detail["log_ref"] = body.log_ref
    async with call.connection() as conn, conn.transaction():
        if body.status == "failed":
            status = await fail(conn, lease, Failure(body.error or "The host gave no reason."), notes)
        else:
            status = await complete(conn, lease, body.output, notes)
        # The job's own event names the host; this one names the token, the address and the request.
        meta = {"job_id": str(job_id), "lease": body.lease, "status": status}
        event = Event("HOST_REPORTED", "host", str(host_id), call.actor, call.tenant_id, meta=meta)
        await record(conn, event)
    return ResultRecorded.model_validate({"job_id": job_id, "status": status})


async def _require(call: RequestContext, host_id: UUID) -> None:
    """The host that the token's scope names, under row-level security; any other does not exist for it."""
    if _own_host(call) != host_id:
        raise unknown_host(host_id)
    async with call.transaction(read_only=True) as conn:
        await require_host(conn, host_id, tenant_id=call.tenant_id)


def _own_host(call: RequestContext) -> UUID | None:
    return as_id(str(call.caller.scopes.get("host_id")))


def _lease(host_id: UUID, job_id: UUID, body: LeaseBody) -> JobLease:
    return JobLease(host_holder(host_id), job_id, body.lease)


def _agent_job(host_id: UUID, job: LeasedJob, lease: float) -> AgentJob:
    return AgentJob(
        job_id=job.job.id,
        job_run_id=job.job_run_id,
        host_id=host_id,
        server_instance_id=job.server_instance_id,
        type=job.job.job_type,
        payload=job.payload,
        lease=job.job.attempt,
        lease_seconds=lease,
        timeout_seconds=job.job.timeout_seconds,
        correlation_id=job.job.correlation_id,
    )
