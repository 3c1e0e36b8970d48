"""Routes for groups of jobs: enqueue one, see how far it is, cancel or retry all of it."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field, StringConstraints

from atlas.api.access.roles import JOB_MAKERS, JOB_READERS, MANAGERS
from atlas.api.enqueue_batcher import EnqueueBatcher
from atlas.api.limits.batches import breathe, chunks
from atlas.api.models.common import Body, Id
from atlas.api.models.jobs import MAX_JOBS, NewJobBody, start_of
from atlas.api.paging import IdCursor, Limit, list_page
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.bounds import MAX_VALUES
from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action
from atlas.engine.jobs.actions.bulk_previews import preview_bulk_action
from atlas.engine.jobs.groups import MAX_NAME_LENGTH
from atlas.engine.jobs.lists.find_groups import find_group, list_groups
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.errors import FieldError, InvalidInput, NotFound
from atlas.models import Page
from atlas.models.jobs import BulkAction, BulkVerb, JobGroup

router = APIRouter(prefix=f"{PREFIX}/groups", route_class=GuardedRoute, tags=["jobs"])


class NewGroup(Body):
    """Jobs to enqueue together, and the job that follows them."""

    jobs: Annotated[list[NewJobBody], Field(max_length=MAX_JOBS)]
    then: NewJobBody | None = None
    name: Annotated[str, StringConstraints(max_length=MAX_NAME_LENGTH)] = ""


@router.post("", operation_id="enqueue_group", status_code=201, summary="Enqueue jobs as one group, all or none")
@requires(*JOB_MAKERS, body_limit=4 * 1024 * 1024, max_nodes=MAX_VALUES)
async def create(body: NewGroup, request: Request, call: Calling) -> JobGroup:
    """When all jobs have ended, `then` is enqueued once, with their counts under `group` in its input.

    A group that is retried afterwards does not enqueue it again. A job whose dedupe key another job holds is not a
    member.
    """
    bodies = [*body.jobs, *([] if body.then is None else [body.then])]
    request.scope["atlas.limits"][-1].charge(max(1, len(bodies)))
    async with call.api.batch_slots.taken(call.caller.share, len(bodies)):
        await _require_definitions(request.app.state.enqueue_batcher, call, bodies)
        jobs: list[NewJob] = []
        for start, part in chunks(body.jobs):
            jobs += [_job_of(item, f"jobs.{start + nth}", call) for nth, item in enumerate(part)]
            await breathe()
        then = None if body.then is None else _job_of(body.then, "then", call)
        async with call.transaction() as conn:
            group = await enqueue_group(conn, jobs, then=then, name=body.name, tenant_id=call.home, actor=call.actor)
            return await find_group(conn, group)


@router.get("", operation_id="list_groups", summary="List groups of jobs, newest first")
@requires(*JOB_READERS, replica=True)
async def show_list(call: Calling, limit: Limit = 50, cursor: IdCursor = None) -> Page[JobGroup]:
    """The `counts` of a group that has ended are those of its end; one group alone has them as they are now."""
    return await list_page(call, list_groups, cursor, limit, tenant_id=call.tenant_id)


@router.get("/{group_id:uuid}", operation_id="get_group", summary="One group of jobs, with its jobs by status")
@requires(*JOB_READERS)
async def show_one(group_id: Id, call: Calling) -> JobGroup:
    """Its jobs are listed by `GET /jobs?group_id=…`."""
    async with call.transaction(read_only=True) as conn:
        return await find_group(conn, group_id, tenant_id=call.tenant_id)


@router.post("/{group_id:uuid}/cancel", operation_id="cancel_group", summary="Cancel all jobs of a group")
@requires(*MANAGERS)
async def cancel(group_id: Id, call: Calling) -> BulkAction:
    """An action on the `total` jobs that can be canceled now: the first 200 immediately, the rest by a scheduler.

    To see the number first, preview it: `POST /jobs/bulk/preview` with the filter `group_id`. When the last job has
    finished, the group has, and what follows it is enqueued.
    """
    return await _begin(call, "cancel", group_id)


@router.post("/{group_id:uuid}/retry", operation_id="retry_group", summary="Retry what failed of a group")
@requires(*MANAGERS)
async def retry(group_id: Id, call: Calling) -> BulkAction:
    """An action on the `total` jobs that failed or were canceled. What followed the group is not enqueued again."""
    return await _begin(call, "retry", group_id)


async def _begin(call: RequestContext, verb: BulkVerb, group_id: Id) -> BulkAction:
    async with call.transaction() as conn:
        group = await find_group(conn, group_id, tenant_id=call.tenant_id)
        actor, tenant_id, jobs = call.actor, group.tenant_id, JobFilter(group.tenant_id, group_id=group.id)
        preview = await preview_bulk_action(conn, verb, jobs, actor=actor, tenant_id=tenant_id)
        return await begin_bulk_action(conn, verb, actor=actor, digest=preview.digest, tenant_id=tenant_id)


async def _require_definitions(batcher: EnqueueBatcher, call: RequestContext, bodies: list[NewJobBody]) -> None:
    for key in {body.definition_key for body in bodies if body.definition_key}:
        if (await batcher.admission(call, key, call.home)).definition_id is None:
            raise NotFound("definition", key)


def _job_of(body: NewJobBody, field: str, call: RequestContext) -> NewJob:
    start = start_of(body, call.home, None)
    if not isinstance(start, NewJob):
        raise InvalidInput("The group", [FieldError(field, "is a workflow; request it with POST /intents")])
    return start
