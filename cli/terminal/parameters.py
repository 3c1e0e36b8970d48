"""Reads the values of options: JSON objects, ids and times."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from atlas.bounds import MAX_PAGE_SIZE, MAX_VALUES
from atlas.cli.terminal.durations import is_duration, parse_duration
from atlas.errors import AtlasError, FieldError, InvalidInput
from atlas.strict_json import read_json

TenantFilter = Annotated[str | None, typer.Option(help="Only this tenant's, by slug or id.")]
Limit = Annotated[int, typer.Option(min=1, max=MAX_PAGE_SIZE, help="Maximum number of rows.")]
# The help of an option that takes a JSON object. An argument ends at 128 KiB; a file and stdin do not.
OBJECT = "JSON|@FILE|-"


class UnreadableFile(AtlasError):
    """A file that a command was given cannot be read, or does not hold what it should."""


def read_object(option: str, given: str) -> dict[str, Any]:
    """A JSON object: the text itself, the content of a file (`@FILE`), or stdin (`-`)."""
    text, where = _text_of(option, given)
    try:
        value = read_json(text if isinstance(text, bytes) else os.fsencode(text), max_nodes=MAX_VALUES)
    except InvalidInput as error:
        raise InvalidInput("The command", [FieldError(option, f"{where}{error.errors[0].reason}")]) from None
    if not isinstance(value, dict):
        raise InvalidInput("The command", [FieldError(option, f"{where}is not a JSON object")])
    return value


def _text_of(option: str, value: str) -> tuple[str | bytes, str]:
    """The text of an option's value, and where it was read, to begin an error message with."""
    if value == "-":
        return sys.stdin.buffer.read(), "the text on stdin "
    if not value.startswith("@"):
        return value, ""
    file = Path(value[1:])
    try:
        return file.read_bytes(), f"the text in {file} "
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput("The command", [FieldError(option, f"{file} cannot be read: {reason}")]) from None


def read_json_file(file: Path) -> Any:
    """The value in a JSON file."""
    try:
        return orjson.loads(file.read_bytes())
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read: {error.strerror}.", remedy="Give a JSON file.") from None
    except orjson.JSONDecodeError as error:
        raise UnreadableFile(f"{file} is not JSON: {error}.", remedy="Correct the file.") from None


# The help of options that take a time.
AGO = "such as 5m (ago), 2027-03-01 or 2027-03-01T06:00Z"
FROM_NOW = "such as 10m (from now) or 2027-03-01T06:00Z"


def read_time(option: str, text: str, *, ahead: bool = False) -> datetime:
    """A day or a time in ISO 8601, in UTC if it has no zone; or a duration: how long ago, or how far `ahead`."""
    if is_duration(text):
        duration = parse_duration(text)
        return datetime.now(UTC) + duration if ahead else datetime.now(UTC) - duration
    try:
        # As RFC 3339 has it, and as Atlas prints it.
        time = datetime.fromisoformat(text.strip().upper().removesuffix(" UTC"))
    except ValueError:
        expected = f"is not a time {FROM_NOW if ahead else AGO}"
        raise InvalidInput("The command", [FieldError(option, f"{text!r} {expected}")]) from None
    try:
        return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise InvalidInput("The command", [FieldError(option, f"{text!r} is beyond the years 1 to 9999")]) from None
