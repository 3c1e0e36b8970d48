"""Routes for one job: read, explain, cancel, retry, repeat, delete it."""

from dataclasses import asdict
from functools import partial
from operator import itemgetter
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from atlas.api.access.roles import INSTALLATION, JOB_MAKERS, JOB_READERS, MANAGERS
from atlas.api.models.common import Body, Id, Whole
from atlas.api.models.jobs import job_of
from atlas.api.newest_window import read_in_window
from atlas.api.paging import Limit, NumberCursor, read_page
from atlas.api.problems import Forbidden
from atlas.api.request_context import Calling
from atlas.api.resources.jobs.jobs import make_starts
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.audit.record import Event, record
from atlas.engine.admission import admit
from atlas.engine.enqueue_again import read_again
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.explain.explain_job import explain, explain_many
from atlas.engine.jobs.lists.find import get_job, job_exists, list_attempts
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.errors import NotFound
from atlas.models import Listed, Page
from atlas.models.explain import JobExplanation
from atlas.models.jobs import Attempt, Canceled, EnqueuedJob, Job, Retried, Ticked

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["jobs"])
# The address without a version that the first callers of Atlas know.
unversioned = APIRouter(prefix="/api", route_class=GuardedRoute, include_in_schema=False)

MAX_EXPLAINED = 100
# What makes an attempt large.
LARGE_PARTS = ("stdout_tail", "stderr_tail", "log_tail", "error_text", "result")


@router.get("/jobs/{job_id:uuid}", operation_id="get_job", summary="One job")
@requires(*JOB_READERS)
async def show_one(job_id: Id, call: Calling) -> Job:
    """Secret fields of its payload are shown as fingerprints."""
    async with call.transaction(read_only=True) as conn:
        job = await get_job(conn, job_id, tenant_id=call.tenant_id)
    if job is None:
        raise NotFound("job", job_id)
    return job_of(job)


@router.get(
    "/jobs/{job_id:uuid}/attempts", operation_id="list_job_attempts", summary="List the attempts at a job, oldest first"
)
@requires(*JOB_READERS)
async def show_attempts(job_id: Id, call: Calling, limit: Limit = 50, cursor: NumberCursor = None) -> Page[Attempt]:
    """A page with large outputs ends before its limit; `next_cursor` says whether there may be more."""
    async with call.transaction(read_only=True) as conn:
        if not await job_exists(conn, job_id, tenant_id=call.tenant_id):
            raise NotFound("job", job_id)
        return await read_page(
            partial(list_attempts, conn, job_id, tenant_id=call.tenant_id),
            cursor,
            limit,
            show=lambda attempt: Attempt.model_validate(dict(attempt)),
            key=itemgetter("attempt_no"),
            contents=itemgetter(*LARGE_PARTS),
        )


@router.get(
    "/jobs/{job_id:uuid}/explain", operation_id="explain_job", summary="Why a job is not running, in one sentence"
)
@requires(*JOB_READERS)
async def show_explanation(job_id: Id, call: Calling) -> JobExplanation:
    """The one reason that holds it now: the gate, a limit, its time, a missing worker, jobs ahead of it."""
    read = partial(explain, job_id=job_id, tenant_id=call.tenant_id)
    return await read_in_window(call, lambda conn, window: read(conn, window=window))


@router.get("/jobs/explain", operation_id="explain_jobs", summary="Why jobs are not running, a sentence for each")
@requires(*JOB_READERS)
async def show_explanations(
    call: Calling,
    id: Annotated[
        list[Id], Query(max_length=MAX_EXPLAINED, description="A job; up to 100 of them.", default_factory=list)
    ],
) -> Listed[JobExplanation]:
    """For the jobs of a page, in one call. Those that do not exist are left out."""
    read = partial(explain_many, job_ids=id, tenant_id=call.tenant_id)
    return Listed(items=await read_in_window(call, lambda conn, window: read(conn, window=window)))


@router.post(
    "/jobs/{job_id:uuid}/cancel",
    operation_id="cancel_job",
    summary="Cancel a queued job, or ask a running one to stop",
)
@requires(*MANAGERS)
async def cancel_one(job_id: Id, call: Calling) -> Canceled:
    """`requested` means that its worker was asked to stop it; the job shows when it has."""
    async with call.transaction() as conn:
        verdict = await cancel(conn, job_id, actor=call.actor, tenant_id=call.tenant_id)
    assert verdict != "ended"
    return Canceled(id=job_id, verdict=verdict)


@router.post(
    "/jobs/{job_id:uuid}/retry", operation_id="retry_job", summary="Queue a failed or canceled job again, as new"
)
@requires(*MANAGERS)
async def retry_one(job_id: Id, call: Calling) -> Retried:
    """Its retries and lost workers are counted from zero again. 409 if another job holds its dedupe key."""
    async with call.transaction() as conn:
        await retry_now(conn, job_id, actor=call.actor, tenant_id=call.tenant_id)
    return Retried(id=job_id)


@router.post(
    "/jobs/{job_id:uuid}/enqueue-again",
    operation_id="enqueue_job_again",
    status_code=201,
    summary="Enqueue a new job like this one, with its secrets",
)
@requires(*JOB_MAKERS)
async def enqueue_again(job_id: Id, call: Calling) -> EnqueuedJob:
    """Type, payload, priority, host, timeout and correlation id are the same; it is due now, without a dedupe key.

    A workflow's run is requested again, and policy decides about it.
    """
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        tenant_id, start = await read_again(conn, job_id, tenant_id=call.tenant_id)
    async with call.transaction() as conn:
        admitted = await admit(conn, start) if isinstance(start, NewJob) else start
        [created] = await make_starts(conn, call, [admitted], tenant_id)
    return EnqueuedJob.model_validate(created)


@router.delete(
    "/jobs/{job_id:uuid}", operation_id="delete_job", status_code=204, summary="Delete a job that does not run"
)
@requires(*MANAGERS)
async def delete_one(job_id: Id, call: Calling) -> None:
    """Its attempts and secrets are deleted too. The audit log keeps what happened to it."""
    async with call.transaction() as conn:
        await delete(conn, job_id, actor=call.actor, tenant_id=call.tenant_id)


class TickBody(Body):
    """How many due jobs to run at most."""

    limit: Annotated[Whole, Field(ge=1, le=1000)] = 10


@router.post("/jobs/tick", operation_id="run_due_jobs", summary="Run some due jobs inside the API's own process")
@unversioned.post("/jobs/tick")
@requires(*INSTALLATION, whole=True, no_key="each call runs what is due at its time")
async def run_some(call: Calling, body: TickBody | None = None) -> Ticked:
    """For development and for installations without a worker: mails, runs and commands too.

    Responds when the jobs have ended, with their outcomes and types.
    """
    if call.api.tick is None:
        raise Forbidden("This API cannot run jobs itself.", remedy="Run `atlas worker`.")
    counts = asdict(await call.api.tick(call.api.db.pool, call.api.url, limit=(body or TickBody()).limit))
    async with call.transaction() as conn:
        await record(conn, Event("JOBS_TICKED", "system", "tick", call.actor, meta=counts))
    return Ticked(**counts)
