"""What people type as the value of an option, read as what it stands for; what is neither is refused by name."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from atlas.errors import FieldError, InvalidInput
from engine.fields import as_id


def read_object(option: str, text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInput("The call", [FieldError(option, f"is not JSON: {error}")]) from None
    if not isinstance(value, dict):
        raise InvalidInput("The call", [FieldError(option, "is not a JSON object")])
    return value


def read_id(option: str, text: str) -> UUID:
    """An id."""
    found = as_id(text)
    if found is None:
        raise InvalidInput("The call", [FieldError(option, f"{text!r} is not an id")])
    return found


def read_moment(option: str, text: str) -> datetime:
    """A day or a moment in ISO 8601, in UTC where it names no zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        wanted = "is not a day or a moment such as 2027-03-01 or 2027-03-01T06:00:00Z"
        raise InvalidInput("The call", [FieldError(option, f"{text!r} {wanted}")]) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
