"""Reads of active jobs that stay bounded while something holds the xmin horizon."""

from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

from atlas.api.request_context import RequestContext
from atlas.db.pool import Connection
from atlas.engine.jobs.lists.newest_active import NewestWindow, find_window, has_many_dead_rows

T = TypeVar("T")


async def read_in_window(
    call: RequestContext, read: Callable[[Connection, NewestWindow | None], Awaitable[T]], *, before: UUID | None = None
) -> T:
    """What `read` returns in a transaction of the caller.

    While counting along the indexes is slow, it is passed where the newest jobs begin, of those before an id. Only a
    transaction without row-level security finds that.
    """
    async with call.transaction(read_only=True) as conn:
        if not await has_many_dead_rows(conn):
            return await read(conn, None)
    async with call.transaction(read_only=True, all_tenants=True) as conn:
        window = await find_window(conn, before)
    async with call.transaction(read_only=True) as conn:
        return await read(conn, window)
