"""Words that many bodies share."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, StrictBool, StrictInt, StringConstraints

T = TypeVar("T")

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _moment_text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        raise ValueError("must be a moment with its zone, such as 2026-11-15T02:14:07Z")
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is not a moment of the calendar") from None


def _id_text(value: Any) -> Any:
    if isinstance(value, UUID):
        return value
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError("must be an id, such as 0192f0c1-2b3c-7d4e-8f90-123456789abc")
    return UUID(value)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Text forms only: neither numbers taken for moments nor other spellings of an id.
Moment = Annotated[datetime, BeforeValidator(_moment_text)]
Id = Annotated[UUID, BeforeValidator(_id_text)]
Flag = StrictBool
# JSON knows one kind of number: 3.0 is a whole one, "3" is none.
Whole = Annotated[StrictInt, BeforeValidator(_whole)]
Number = Annotated[float, Strict()]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Text = Annotated[str, StringConstraints(max_length=2000)]
Document = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=200, description="At most so many.")]


class Body(BaseModel):
    """What a caller sends. Names that mean nothing here are refused: they are usually misspelt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def given(self) -> dict[str, Any]:
        """What the caller named, without what it left out."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Shown(BaseModel):
    """What is answered, read from a row or an object that has the same names."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Page(Shown, Generic[T]):
    """A part of a list, and where the next part begins."""

    items: Sequence[T]
    next_cursor: str | None = Field(
        default=None, description="Send it as `cursor` for the next page; null after the last."
    )


class Listed(Shown, Generic[T]):
    """A whole list."""

    items: Sequence[T]
