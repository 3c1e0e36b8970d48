"""Ids on the command line: whole, or the beginning of one if no other begins so."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

from atlas.db.pool import Connection
from atlas.engine.id_prefixes import MAX_NAMED, IdKind, ids_between, prefix_bounds
from atlas.errors import Conflict, FieldError, InvalidInput, NotFound
from atlas.ids import as_id

T = TypeVar("T")

# So that a slip of the hand on an installation with one job does not delete it.
_BEGINNING = re.compile(r"[0-9a-f]{4,31}")


async def find_id(conn: Connection, kind: IdKind, text: str, *, option: str = "ID") -> UUID:
    """The id that a person typed. A whole one is returned as it is, whether it exists or not."""
    whole = as_id(text)
    if whole is not None:
        return whole
    return only_one(kind, text, await ids_between(conn, kind, *id_range(option, text)))


def entity_of(text: str, ids: Sequence[UUID]) -> str:
    """The only one of the ids that begin with a text. None: what it names is gone, or has no id, and is named whole."""
    return str(only_one("subject", text, ids)) if ids else text


async def find_by_name_or_id(conn: Connection, kind: IdKind, text: str, find: Callable[[str], Awaitable[T]]) -> T:
    """What `find` finds under a name or a whole id, or else under the only id that begins so."""
    try:
        return await find(text)
    except NotFound:
        if as_id(text) is not None or not is_beginning(text):
            raise
        ids = await ids_between(conn, kind, *id_range("ID", text))
        if not ids:
            raise
        return await find(str(only_one(kind, text, ids)))


def id_range(option: str, text: str) -> tuple[UUID, UUID]:
    """The least and the greatest id that begin with this text."""
    if not is_beginning(text):
        reason = f"{text!r} is not an id, nor the beginning of one with at least four digits"
        raise InvalidInput("The command", [FieldError(option, reason)])
    return prefix_bounds(text)


def is_beginning(text: str) -> bool:
    """Whether an id can begin with this text."""
    return _BEGINNING.fullmatch(_digits(text)) is not None


def only_one(kind: str, text: str, ids: Sequence[UUID]) -> UUID:
    """The one id that begins with a text. NotFound: there is none. Conflict: there are several."""
    if not ids:
        raise NotFound(kind, text)
    if len(ids) > 1:
        named = ", ".join(str(id) for id in ids[:MAX_NAMED])
        more = " and others" if len(ids) > MAX_NAMED else ""
        raise Conflict(f"The ids of several {kind}s begin with {text}: {named}{more}.", remedy="Type more of the id.")
    return ids[0]


def _digits(text: str) -> str:
    return text.replace("-", "").lower()
