"""What people type as the value of an option, read as what it stands for; what is neither is refused by name."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from atlas.engine.validation import as_id
from atlas.errors import FieldError, InvalidInput
from atlas.strict_json import read_json

# How an option that takes a JSON object is shown; a command line ends at 128 KiB an argument, a file does not.
OBJECT = "JSON|@FILE|-"
# As many values as the API takes in one call.
MOST_NODES = 200_000


def read_object(option: str, given: str) -> dict[str, Any]:
    """A JSON object, written out, in the file that `@` names, or on stdin (`-`)."""
    text, where = _fetched(option, given)
    try:
        value = read_json(text if isinstance(text, bytes) else os.fsencode(text), most_nodes=MOST_NODES)
    except InvalidInput as error:
        raise InvalidInput("The call", [FieldError(option, f"{where}{error.errors[0].reason}")]) from None
    if not isinstance(value, dict):
        raise InvalidInput("The call", [FieldError(option, f"{where}is not a JSON object")])
    return value


def _fetched(option: str, given: str) -> tuple[str | bytes, str]:
    """What an option stands for, and where it was found, as the beginning of a reason."""
    if given == "-":
        return sys.stdin.buffer.read(), "what stands on stdin "
    if not given.startswith("@"):
        return given, ""
    file = Path(given[1:])
    try:
        return file.read_bytes(), f"what stands in {file} "
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput("The call", [FieldError(option, f"{file} cannot be read: {reason}")]) from None


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
    try:
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise InvalidInput("The call", [FieldError(option, f"{text!r} is beyond the years 1 to 9999")]) from None
