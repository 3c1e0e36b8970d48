"""Ids by their beginning."""

from typing import Annotated

from fastapi import APIRouter, Query

from atlas.api.access.roles import MANAGERS, PEOPLE, READERS
from atlas.api.models.common import ID_PREFIX
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.id_prefixes import KINDS, IdKind, ids_between, prefix_bounds
from atlas.models.system import MatchingIds

router = APIRouter(prefix=f"{PREFIX}/ids", route_class=GuardedRoute, tags=["system"])

# Who may list the rows of a kind; readers, where it is not here.
_ROLES = {"job": PEOPLE, "group": PEOPLE, "run": PEOPLE, "token": MANAGERS}


@router.get("", operation_id="find_ids", summary="Find the ids that begin with some digits")
@requires(*PEOPLE)
async def find(
    call: Calling,
    kind: Annotated[IdKind, Query(description="What has the id; `any` looks through all that the caller may list.")],
    prefix: Annotated[
        str, Query(pattern=ID_PREFIX, min_length=4, description="The first digits, with or without dashes.")
    ],
) -> MatchingIds:
    """For people who type the beginning of an id: at most 9 are returned, so one in the list is the only one.

    Nothing is found of a kind that the caller may not list, and `any` looks through the others.
    """
    among = [allowed_kind for allowed_kind in KINDS if call.caller.role in _ROLES.get(allowed_kind, READERS)]
    async with call.transaction(read_only=True) as conn:
        ids = await ids_between(conn, kind, *prefix_bounds(prefix), tenant_id=call.tenant_id, among=among)
    return MatchingIds(ids=ids)
