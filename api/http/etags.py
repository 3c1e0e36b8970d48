"""Preconditions over HTTP: a response names the state of what is edited, and If-Match edits that state alone.

If-Unmodified-Since edits what was not edited after its date. As RFC 9110 has it, it is ignored beside If-Match, and
where it is not a date.
"""

import re
from datetime import UTC
from email.utils import format_datetime, parsedate_to_datetime
from typing import Annotated, Literal

from fastapi import Depends, Header

from atlas.engine.etags import Editable, Precondition, UnmodifiedSince
from atlas.errors import FieldError, InvalidInput

_TAG = r'(?:\*|(?:W/)?"[!#-~]*")'
_TAGS = f"{_TAG}(?: *, *{_TAG})*"


def validators(edited: Editable) -> dict[str, str]:
    """The headers that name the state of what was read or edited."""
    headers = {"ETag": edited.etag}
    if edited.updated_at is not None:
        headers["Last-Modified"] = format_datetime(edited.updated_at.astimezone(UTC), usegmt=True)
    return headers


async def _read_precondition(
    if_match: Annotated[
        str | None,
        Header(
            max_length=1000,
            description="The `ETag` of the state to edit. In any other state it is 412.",
            json_schema_extra={"pattern": f"^{_TAGS}$"},
        ),
    ] = None,
    if_unmodified_since: Annotated[
        str | None,
        Header(
            max_length=1000,
            description="The `Last-Modified` of the state to edit; 412 after a later edit. Ignored beside `If-Match`.",
        ),
    ] = None,
) -> Precondition | None:
    if if_match is None:
        return None if if_unmodified_since is None else _unmodified_since(if_unmodified_since)
    if not re.fullmatch(_TAGS, if_match):
        reason = 'must be an ETag as it was received, with its quotes, such as "5d41402a", or *'
        raise InvalidInput("The request", [FieldError("header.If-Match", reason)])
    return frozenset(re.findall(_TAG, if_match))


def _unmodified_since(date: str) -> UnmodifiedSince | None:
    try:
        at = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    return UnmodifiedSince(at if at.tzinfo is not None else at.replace(tzinfo=UTC))


IfMatch = Annotated[Precondition | None, Depends(_read_precondition)]


async def _read_absence(
    if_none_match: Annotated[
        Literal["*"] | None, Header(description="`*`: only if there is none yet. Otherwise it is 412.")
    ] = None,
) -> bool:
    return if_none_match is not None


# Whether what is written must not be there yet.
IsNew = Annotated[bool, Depends(_read_absence)]
