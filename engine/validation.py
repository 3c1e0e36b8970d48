"""Checks of single fields."""

from atlas.errors import FieldError

LONGEST_NAME = 200


def check_name(field: str, value: str) -> list[FieldError]:
    """What is wrong with a name, which is one line of text without control characters."""
    if not value.strip():
        return [FieldError(field, "must not be empty")]
    if len(value) > LONGEST_NAME:
        return [FieldError(field, f"must not be longer than {LONGEST_NAME} characters")]
    if not value.isprintable():
        return [FieldError(field, "must not hold line breaks or control characters")]
    return []
