"""What a single field may hold, checked where people and programs hand it in."""

from uuid import UUID

from atlas.errors import FieldError

LONGEST_NAME = 200


def check_name(field: str, value: str) -> list[FieldError]:
    """A name is a line of text for people: neither empty nor endless, and without control characters."""
    if not value.strip():
        return [FieldError(field, "must not be empty")]
    if len(value) > LONGEST_NAME:
        return [FieldError(field, f"must not be longer than {LONGEST_NAME} characters")]
    if not value.isprintable():
        return [FieldError(field, "must not hold line breaks or control characters")]
    return []


def as_id(text: str) -> UUID | None:
    """The id that a text spells, or None where it spells none."""
    try:
        return UUID(text)
    except ValueError:
        return None
