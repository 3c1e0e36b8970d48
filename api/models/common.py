"""Types of fields that many request bodies share."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, StrictBool, StrictInt, StringConstraints

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)")
# Up to 32 digits, with or without dashes.
ID_PREFIX = r"^[0-9a-fA-F]{1,8}(-?[0-9a-fA-F]{1,4}){0,3}(-?[0-9a-fA-F]{1,12})?$"
_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _timestamp(value: Any) -> Any:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _TIMESTAMP.fullmatch(value):
        raise ValueError("must be a timestamp with its zone, such as 2026-11-15T02:14:07Z")
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is not a date of the calendar") from None


def _id(value: Any) -> Any:
    if isinstance(value, UUID):
        return value
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError("must be an id, such as 0192f0c1-2b3c-7d4e-8f90-123456789abc")
    return UUID(value)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Text only: no numbers as timestamps, and no other spelling of an id.
Timestamp = Annotated[datetime, BeforeValidator(_timestamp)]
Id = Annotated[UUID, BeforeValidator(_id)]
Flag = StrictBool
# JSON has one kind of number: 3.0 is a whole one, "3" is none.
Whole = Annotated[StrictInt, BeforeValidator(_whole)]
Number = Annotated[float, Strict()]
Spend = Annotated[Whole, Field(ge=0, le=2_000_000_000, description="What it may cost, for policy to see.")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Text = Annotated[str, StringConstraints(max_length=2000)]
Document = dict[str, Any]


class Body(BaseModel):
    """A request body. Unknown names are refused: they are usually misspelt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def given(self) -> dict[str, Any]:
        """The fields that the caller sent."""
        return {name: getattr(self, name) for name in self.model_fields_set}
