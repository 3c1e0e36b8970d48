"""Durations as people type them: 90s, 10m, 2h, 30d, 1h30m."""

import re
from datetime import timedelta

import typer

LONGEST = timedelta(days=36_500)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WHOLE = re.compile(r"(?:\d{1,12}[smhdw])+", re.ASCII)
_PART = re.compile(r"(\d+)([smhdw])", re.ASCII)


def is_duration(text: str) -> bool:
    """Whether a text looks like a duration."""
    return _WHOLE.fullmatch(text) is not None


def parse_duration(text: str) -> timedelta:
    """Parse a duration of a second or more. Raises a usage error if the text is none."""
    duration = parse_duration_or_zero(text)
    if not duration:
        raise typer.BadParameter(f"{text!r} is not between a second and {LONGEST.days} days.")
    return duration


def parse_duration_or_zero(text: str) -> timedelta:
    """Parse a duration where none at all is a choice too: 0 and 0s are zero."""
    if text == "0":
        return timedelta()
    if not _WHOLE.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is not a duration such as 90s, 10m, 2h, 30d or 1h30m.")
    seconds = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds > LONGEST.total_seconds():
        raise typer.BadParameter(f"{text!r} is more than {LONGEST.days} days.")
    return timedelta(seconds=seconds)
