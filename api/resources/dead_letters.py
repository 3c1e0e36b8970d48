"""Routes for dead letters: by cause, and queued again."""

from fastapi import APIRouter

from atlas.api.access.roles import JOB_READERS, MANAGERS
from atlas.api.models.jobs import RetryDeadLetters
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.jobs.dead_letters import group_dead_letters
from atlas.engine.jobs.retry import retry_dead_letters
from atlas.models.jobs import DeadLetterGroups, RetriedMany

router = APIRouter(prefix=f"{PREFIX}/jobs/dead-letters", route_class=GuardedRoute, tags=["jobs"])


@router.get("", operation_id="group_dead_letters", summary="Dead letters by type and error, newest first")
@requires(*JOB_READERS, replica=True)
async def show_groups(call: Calling) -> DeadLetterGroups:
    """All dead letters are counted. The 200 causes with the newest dead letters are returned.

    Retry or discard a group with its filter: `POST /jobs/bulk/preview`, then `POST /jobs/bulk` with the digest.
    """
    read, _, write = call.summary_transactions()
    return await group_dead_letters(read, write, tenant_id=call.tenant_id)


@router.post("/retry", operation_id="retry_dead_letters", summary="Queue dead letters again, oldest first")
@requires(*MANAGERS)
async def retry_many(body: RetryDeadLetters, call: Calling) -> RetriedMany:
    """A job that cannot be queued, because another one holds its dedupe key, say, does not stop the others.

    A job whose outcome is unknown is left out: it is retried by its id.
    """
    async with call.transaction() as conn:
        found = await retry_dead_letters(
            conn, actor=call.actor, tenant_id=call.tenant_id, job_type=body.job_type, limit=body.limit
        )
    retried = sum(verdict == "retried" for verdict in found.values())
    return RetriedMany(retried=retried, verdicts={**found})
