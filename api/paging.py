"""Pages of things that may be large each: a page ends early rather than fill the process."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

import orjson

# A page with so much in it is long enough.
MOST_BYTES = 4 * 1024 * 1024
# So many are read at once.
PIECE = 25


class HasId(Protocol):
    """What a page goes on after."""

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
    """Up to `limit` things before one, and the cursor of the next page if there may be one.

    `read` answers the next so many before an id; `contents` is what is large in a thing.
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
