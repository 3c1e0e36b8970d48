"""The next due times of a schedule, local and in UTC, with a note where a clock change affects them."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice

from atlas.engine.schedules.timezones import clock_changes
from atlas.engine.triggers.cron import MINUTE, Cron
from atlas.models.triggers import Occurrence

MAX_OCCURRENCES = 500


def preview(cron: Cron, after: datetime, *, count: int = 20) -> list[Occurrence]:
    """The next due times after a time; fewer if the calendar ends."""
    return [_occurrence(cron, due) for due in islice(_times(cron, after), min(count, MAX_OCCURRENCES))]


def _times(cron: Cron, after: datetime) -> Iterator[datetime]:
    # A rare schedule leads past the last year that Python knows.
    with suppress(OverflowError):
        while True:
            after = cron.after(after)
            yield after


def _occurrence(cron: Cron, due: datetime) -> Occurrence:
    return Occurrence(utc=due, local=due.astimezone(cron.zone).isoformat(), note=_note(cron, due))


def _note(cron: Cron, due: datetime) -> str:
    local = due.astimezone(cron.zone)
    if local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
        if cron.is_fixed:
            return f"{local:%H:%M} comes twice on this day; the first one counts"
        return f"{local:%H:%M} comes twice on this day; this is the {'second' if local.fold else 'first'}"
    changes = clock_changes(cron.zone, due - MINUTE, due)
    if changes and _forward(cron, changes[0]):
        before = (changes[0] - timedelta(microseconds=1)).astimezone(cron.zone).replace(tzinfo=None)
        gap = f"the clock goes from {before + timedelta(microseconds=1):%H:%M} to {local:%H:%M}"
        return gap if cron.matches(local) else f"{gap}; the time between does not exist, so it comes now"
    return ""


def _forward(cron: Cron, change: datetime) -> bool:
    # A clock that is set back shows an earlier time after the change than it did before.
    before, after = ((change + step).astimezone(cron.zone).replace(tzinfo=None) for step in (-MINUTE, timedelta()))
    return after - before > MINUTE
