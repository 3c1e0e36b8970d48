"""Checks of single fields."""

from atlas.errors import FieldError

MAX_NAME_LENGTH = 200


def check_name(field: str, value: str) -> list[FieldError]:
    """What is wrong with a name, which is one line of text without control characters."""
    if not value.strip():
        return [FieldError(field, "must not be empty")]
    if len(value) > MAX_NAME_LENGTH:
        return [FieldError(field, f"must not be longer than {MAX_NAME_LENGTH} characters")]
    if not value.isprintable():
        return [FieldError(field, "must not hold line breaks or control characters")]
    return []
