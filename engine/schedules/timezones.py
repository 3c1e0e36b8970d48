"""Time zones: their names, and when their clocks change."""

from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache, lru_cache
from zoneinfo import ZoneInfo, available_timezones

from atlas.errors import FieldError

# What a machine's zone database holds beside the zones of the world.
_NOT_A_ZONE = {"localtime", "Factory"}


@cache
def zone_names() -> frozenset[str]:
    """The names of the tz database."""
    return frozenset(available_timezones() - _NOT_A_ZONE)


def check_zone(field: str, name: str) -> list[FieldError]:
    """What is wrong with the name of a zone."""
    if name in zone_names():
        return []
    near = get_close_matches(name, zone_names(), n=1, cutoff=0.75)
    hint = f"did you mean {near[0]}?" if near else "it has names such as Europe/Berlin"
    return [FieldError(field, f"{name!r} is not a zone of the tz database; {hint}")]


def clock_changes(zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """When the zone's clock is set forward or back, after `start` up to `end`, in UTC and in order."""
    years = range(start.astimezone(UTC).year, end.astimezone(UTC).year + 1)
    return [change for year in years for change in _changes_in(zone, year) if start < change <= end]


@lru_cache(maxsize=4096)
def _changes_in(zone: ZoneInfo, year: int) -> tuple[datetime, ...]:
    """Found by comparing every day with the next: no zone sets its clock forward and back within one."""
    day = datetime(year, 1, 1, tzinfo=UTC)
    changes = []
    while day.year == year:
        following = day + timedelta(days=1)
        if _offset(zone, day) != _offset(zone, following):
            changes.append(_find_change(zone, day, following))
        day = following
    return tuple(changes)


def _find_change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    first = _offset(zone, before)
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        before, after = (middle, after) if _offset(zone, middle) == first else (before, middle)
    return after


def _offset(zone: ZoneInfo, time: datetime) -> timedelta | None:
    return time.astimezone(zone).utcoffset()
