"""Pages of lists, and the cursors between them. A page of large rows ends early rather than fill the memory."""

import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Query
from pydantic import TypeAdapter, ValidationError

from atlas.api.models.common import Id
from atlas.bounds import LARGEST_PAGE
from atlas.errors import FieldError, InvalidInput
from atlas.models import Page

# A page ends once it holds so much.
MOST_BYTES = 4 * 1024 * 1024
# So many rows that may be large are read at once. The largest, of 1 MiB, make a page of 12 MiB at most.
PIECE = 8

_NEXT = "The `next_cursor` of the page before."

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Maximum number of items.")]
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


async def read_page(
    read: Callable[[Any, int], Awaitable[Sequence[R]]],
    show: Callable[[R], S] = as_it_is,
    *,
    after: Any,
    limit: int,
    key: Callable[[R], Any] = by_id,
    contents: Callable[[R], Any] | None = None,
) -> Page[S]:
    """Up to `limit` rows after a key, and the cursor of the next page if there may be one.

    `read` returns the rows that follow a key, up to a limit; `contents` is the large part of a row.
    """
    found: list[R] = []
    size = 0
    while len(found) < limit and size < MOST_BYTES:
        wanted = limit if contents is None else min(PIECE, limit - len(found))
        piece = await read(key(found[-1]) if found else after, wanted)
        found += piece
        if contents is not None:
            size += sum(len(orjson.dumps(contents(one), default=str)) for one in piece)
        if len(piece) < wanted:
            return Page(items=[show(one) for one in found])
    return Page(items=[show(one) for one in found], next_cursor=write_cursor(key(found[-1])))


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
        raise InvalidInput("The request", [FieldError("query.cursor", "is no cursor of this list")]) from None
