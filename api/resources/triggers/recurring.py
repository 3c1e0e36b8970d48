"""Routes for recurring functions: their schedules and the history of their runs. Programs register them, in code."""

from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path
from pydantic import AwareDatetime, TypeAdapter

from atlas.api.access.roles import READERS
from atlas.api.paging import Cursor, Limit, list_page, read_cursor, read_page
from atlas.api.request_context import Calling
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.engine.schedules.recurring import Key, find_owner, list_recurring
from atlas.engine.schedules.recurring_runs import list_runs
from atlas.errors import NotFound
from atlas.models import Page
from atlas.models.triggers import RecurringFunction, RecurringRun

router = APIRouter(prefix=f"{PREFIX}/recurring", route_class=GuardedRoute, tags=["recurring"])

RecurringId = Annotated[str, Path(min_length=1, max_length=200)]

FUNCTION_POSITION: TypeAdapter[Key] = TypeAdapter(Key)
RUN_POSITION: TypeAdapter[tuple[datetime, UUID]] = TypeAdapter(tuple[AwareDatetime, UUID])


@router.get("", operation_id="list_recurring_functions", summary="List the recurring functions, by tenant and id")
@requires(*READERS)
async def show_list(call: Calling, limit: Limit = 50, cursor: Cursor = None) -> Page[RecurringFunction]:
    """Those that programs have registered and not removed. One that runs once is gone after its run."""
    after = read_cursor(cursor, FUNCTION_POSITION)
    return await list_page(call, list_recurring, after, limit, key=attrgetter("key"), tenant_id=call.tenant_id)


# An id may hold slashes. This address comes first: it would be an id of the next one.
@router.get(
    "/{recurring_id:path}/runs",
    operation_id="list_recurring_runs",
    summary="List the runs of a recurring function, newest first",
)
@requires(*READERS)
async def show_runs(
    recurring_id: RecurringId, call: Calling, limit: Limit = 50, cursor: Cursor = None
) -> Page[RecurringRun]:
    """Also those of a function that is no longer registered, for as long as the tenant's retention keeps them."""
    after = read_cursor(cursor, RUN_POSITION)
    async with call.transaction(read_only=True) as conn:
        owner = await find_owner(conn, recurring_id, tenant_id=call.tenant_id)
        read = partial(list_runs, conn, (owner, recurring_id))
        return await read_page(read, after, limit, key=attrgetter("started_at", "id"))


@router.get("/{recurring_id:path}", operation_id="get_recurring_function", summary="One recurring function")
@requires(*READERS)
async def show_one(recurring_id: RecurringId, call: Calling) -> RecurringFunction:
    """With when it runs next, and how its last run ended. An operator names the tenant where several have this id."""
    async with call.transaction(read_only=True) as conn:
        owner = await find_owner(conn, recurring_id, tenant_id=call.tenant_id)
        functions = await list_recurring(conn, tenant_id=owner, id=recurring_id)
    if not functions:
        raise NotFound("recurring function", recurring_id, remedy="It is no longer registered; /runs has its history.")
    return functions[0]
