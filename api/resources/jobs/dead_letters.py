"""Routes for dead letters: by cause."""

from fastapi import APIRouter

from atlas.api.access.roles import JOB_READERS
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.jobs.lists.dead_letters import group_dead_letters
from atlas.models.jobs import DeadLetterGroups

router = APIRouter(prefix=f"{PREFIX}/jobs/dead-letters", route_class=GuardedRoute, tags=["jobs"])


@router.get("", operation_id="group_dead_letters", summary="Dead letters by type and error, newest first")
@requires(*JOB_READERS, replica=True)
async def show_groups(call: Calling) -> DeadLetterGroups:
    """All dead letters are counted. The 200 causes with the newest dead letters are returned.

    Retry or discard a group with its filter: `POST /jobs/bulk/preview`, then `POST /jobs/bulk` with the digest.
    """
    read, _, write = call.summary_transactions()
    return await group_dead_letters(read, write, tenant_id=call.tenant_id)
