"""Pages of rows that may be large: a page ends early rather than fill the process's memory."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

import orjson

# A page ends once it holds so much.
MOST_BYTES = 4 * 1024 * 1024
# So many rows are read at once.
PIECE = 25


class HasId(Protocol):
    """A row that a cursor can name."""

    @property
    def id(self) -> UUID: ...


T = TypeVar("T", bound=HasId)


async def read_page(
    read: Callable[[UUID | None, int], Awaitable[Sequence[T]]],
    contents: Callable[[T], Any],
    *,
    before: UUID | None,
    limit: int,
) -> tuple[list[T], str | None]:
    """Up to `limit` rows before one, and the cursor of the next page if there may be one.

    `read` returns the next so many rows before an id; `contents` is the large part of a row.
    """
    found: list[T] = []
    size = 0
    while len(found) < limit and size < MOST_BYTES:
        wanted = min(PIECE, limit - len(found))
        piece = await read(found[-1].id if found else before, wanted)
        found += piece
        size += sum(len(orjson.dumps(contents(one), default=str)) for one in piece)
        if len(piece) < wanted:
            return found, None
    return found, str(found[-1].id)
