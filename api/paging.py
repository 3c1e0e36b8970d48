"""Pages of lists, and the cursors between them. A page of large rows ends early rather than fill the memory."""

import base64
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Query
from pydantic import TypeAdapter, ValidationError

from atlas.api.models.common import Id
from atlas.api.request_context import RequestContext
from atlas.bounds import MAX_PAGE_SIZE
from atlas.errors import FieldError, InvalidInput
from atlas.models import Page

# A page ends once it is as large as this.
MAX_PAGE_BYTES = 4 * 1024 * 1024
# Rows that may be large are read in pieces. The largest, of 1 MiB, make a page of 12 MiB at most.
PIECE = 8

_NEXT = "The `next_cursor` of the page before."

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE, description="Maximum number of items.")]
# Lists are ordered by ids, by names, or by several columns, whose values are in the cursor.
IdCursor = Annotated[Id | None, Query(description=_NEXT)]
NameCursor = Annotated[str | None, Query(min_length=1, max_length=200, description=_NEXT)]
NumberCursor = Annotated[int | None, Query(ge=0, le=2**63 - 1, description=_NEXT)]
Cursor = Annotated[str | None, Query(pattern=r"^[A-Za-z0-9_-]{1,8000}$", description=_NEXT)]

R = TypeVar("R")
S = TypeVar("S")
K = TypeVar("K")


def by_id(row: Any) -> Any:
    """The key of a list that is ordered by id."""
    return row.id


def as_it_is(row: Any) -> Any:
    """Shows a row that is a public model already."""
    return row


async def list_page(
    call: RequestContext,
    list_rows: Callable[..., Awaitable[Sequence[R]]],
    after: Any,
    limit: int,
    *,
    all_tenants: bool = False,
    show: Callable[[R], S] = as_it_is,
    key: Callable[[R], Any] = by_id,
    contents: Callable[[R], Any] | None = None,
    **filters: Any,
) -> Page[S]:
    """A page of what `list_rows(conn, **filters, after=…, limit=…)` returns, read in one transaction of the request."""
    async with call.transaction(read_only=True, all_tenants=all_tenants) as conn:
        return await read_page(partial(list_rows, conn, **filters), after, limit, show=show, key=key, contents=contents)


async def read_page(
    read: Callable[..., Awaitable[Sequence[R]]],
    after: Any,
    limit: int,
    *,
    show: Callable[[R], S] = as_it_is,
    key: Callable[[R], Any] = by_id,
    contents: Callable[[R], Any] | None = None,
) -> Page[S]:
    """Up to `limit` rows after a key, and the cursor of the next page if there may be one.

    `read(after=…, limit=…)` returns the rows that follow a key; `contents` is the large part of a row.
    """
    rows: list[R] = []
    size = 0
    while len(rows) < limit and size < MAX_PAGE_BYTES:
        count = limit if contents is None else min(PIECE, limit - len(rows))
        piece = await read(after=key(rows[-1]) if rows else after, limit=count)
        rows += piece
        if contents is not None:
            size += sum(len(orjson.dumps(contents(row), default=str)) for row in piece)
        if len(piece) < count:
            return Page(items=[show(row) for row in rows])
    return Page(items=[show(row) for row in rows], next_cursor=write_cursor(key(rows[-1])))


async def page_of(rows: Sequence[R], after: Any, limit: int, *, key: Callable[[R], Any]) -> Page[R]:
    """A page of rows that are all in memory, by their key."""

    async def read(after: Any, limit: int) -> list[R]:
        return [row for row in rows if after is None or key(row) > after][:limit]

    return await read_page(read, after, limit, key=key)


def write_cursor(key: Any) -> str:
    """The cursor of a row's key; several values become one text."""
    if not isinstance(key, tuple):
        return str(key)
    return base64.urlsafe_b64encode(orjson.dumps(key, default=str)).decode().rstrip("=")


def read_cursor(cursor: str | None, kind: TypeAdapter[K]) -> K | None:
    """The values in a cursor that `write_cursor` made of several."""
    if cursor is None:
        return None
    try:
        return kind.validate_json(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, ValidationError):
        raise InvalidInput("The request", [FieldError("query.cursor", "is not a cursor of this list")]) from None
