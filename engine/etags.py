"""Preconditions of an edit: an entity tag, which names one state, or a date since which no one has edited.

A tag is a hash of what an edit can change. What Atlas itself writes, when a trigger fires, say, changes no tag and no
date of the last edit.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from atlas.errors import Conflict


class Editable(Protocol):
    """What people edit: the tag of its state, and when it was edited last, if that is known."""

    @property
    def etag(self) -> str: ...
    @property
    def updated_at(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class UnmodifiedSince:
    """Edit only what was not edited after this second."""

    at: datetime


# The tags of the states that may be edited, or a date.
Precondition: TypeAlias = Collection[str] | UnmodifiedSince


class Stale(Conflict):
    """It has changed since the caller read it."""

    def __init__(self, kind: str, name: object, change: str = "has changed since it was read") -> None:
        super().__init__(f"The {kind} {name} {change}.", remedy="Read it again, and decide on what it is now.")


def require_match(held: Editable | None, if_match: Precondition | None, kind: str, name: object) -> None:
    """Raise Stale if what is edited does not meet the precondition. The caller has locked it; None does not exist.

    Without a precondition every state will do; `*` is any state. What has no date meets every date.
    """
    if if_match is None:
        return
    if isinstance(if_match, UnmodifiedSince):
        # A date in HTTP has whole seconds.
        edited_at = None if held is None else held.updated_at
        is_met = edited_at is None or edited_at.replace(microsecond=0) <= if_match.at
    else:
        is_met = held is not None and (held.etag in if_match or "*" in if_match)
    if not is_met:
        raise Stale(kind, name)
