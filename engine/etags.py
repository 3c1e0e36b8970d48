"""Entity tags: each names one state of a thing that people edit, so that an edit of an older state can be refused.

A tag is a hash of what an edit can change. What Atlas itself writes, when a trigger fires, say, changes no tag.
"""

import hashlib
from collections.abc import Collection
from typing import Any

import orjson

from atlas.errors import Conflict


class Stale(Conflict):
    """The thing has changed since the caller read it."""

    def __init__(self, kind: str, name: object) -> None:
        super().__init__(
            f"The {kind} {name} has changed since it was read.", remedy="Read it again, and decide on what it is now."
        )


def etag_of(*state: Any) -> str:
    """The tag of this state, of plain JSON, ids and timestamps."""
    text = orjson.dumps(state, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z)
    return f'"{hashlib.sha256(text).hexdigest()[:32]}"'


def require_match(etag: str | None, if_match: Collection[str] | None, kind: str, name: object) -> None:
    """Raise Stale if the thing's tag is none of the wanted ones. The caller has locked the thing.

    Without wanted tags every state will do; `*` is any state, but not None, which is the tag of what does not exist.
    """
    if if_match is not None and etag not in if_match and not (etag is not None and "*" in if_match):
        raise Stale(kind, name)
