"""Entity tags over HTTP: a response names the state of what is edited, and If-Match edits that state alone."""

import re
from typing import Annotated

from fastapi import Depends, Header

from atlas.errors import FieldError, InvalidInput

_TAG = r'(?:\*|(?:W/)?"[!#-~]*")'
_TAGS = f"{_TAG}(?: *, *{_TAG})*"


async def _read_if_match(
    if_match: Annotated[
        str | None,
        Header(
            max_length=1000,
            description="The `ETag` of the state to edit. In any other state it is 412.",
            json_schema_extra={"pattern": f"^{_TAGS}$"},
        ),
    ] = None,
) -> frozenset[str] | None:
    if if_match is None:
        return None
    if not re.fullmatch(_TAGS, if_match):
        reason = 'must be an ETag as it was received, with its quotes, such as "5d41402a", or *'
        raise InvalidInput("The request", [FieldError("header.If-Match", reason)])
    return frozenset(re.findall(_TAG, if_match))


IfMatch = Annotated[frozenset[str] | None, Depends(_read_if_match)]
