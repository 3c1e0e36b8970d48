"""Cron expressions, and their due times on a zone's clock: a trigger of APScheduler.

`cronsim` reads the five fields and walks the calendar. On a clock change the rule is Debian cron's: a fixed local time
that does not exist comes once, at the first minute after the gap, and one that exists twice comes once, the first time;
where the minute or the hour is a wildcard (`*`, `*/5`) the schedule keeps its real rhythm, every minute that matches.

For fixed times cronsim walks the local clock and is right everywhere. For wildcards it jumps by whole hours and minutes
of real time. That is wrong for a day or so after a change that is not a whole hour (Lord Howe) or that is at midnight,
and on the day before a change, where the jump may end at the wrong one of two equal local times. From a day before a
change until two days after it, the minutes are therefore checked one by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from apscheduler.triggers.base import BaseTrigger
from cronsim import CronSim, CronSimError
from cronsim.cronsim import SYMBOLIC_DAYS, SYMBOLIC_MONTHS

from atlas.engine.schedules.timezones import check_zone, clock_changes
from atlas.errors import FieldError, InvalidInput

LONGEST = 200
INSTANT = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)

NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# The name, the range and the number of values of each field, in the order of the expression.
FIELDS = (
    ("minute", "0 to 59", 60),
    ("hour", "0 to 23", 24),
    ("day of the month", "1 to 31, L or LW", 31),
    ("month", "1 to 12 or JAN to DEC", 12),
    ("day of the week", "0 to 7, SUN to SAT, 0L to 7L, or one of these days with #1 to #5", 7),
)
# The names of months and days of the week, in the order of their numbers.
NAMED = {name: number for names in (SYMBOLIC_MONTHS, SYMBOLIC_DAYS) for number, name in enumerate(names)}
# What cronsim raises over a field that it does not expect.
_UNREADABLE = (CronSimError, AssertionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Cron(BaseTrigger):  # type: ignore[misc]  # APScheduler has no types
    """An expression on a zone's clock. Make it with `read_cron`, which checks both."""

    fields: str
    zone: ZoneInfo

    @property
    def is_fixed(self) -> bool:
        """True where both the minute and the hour are named, so that its times are local times."""
        minute, hour, *_ = self.fields.split()
        return not minute.startswith("*") and not hour.startswith("*")

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """The first due time after the previous one, missed or not; without a previous one, the first from now on."""
        return self.after(now - INSTANT if previous_fire_time is None else previous_fire_time)

    # Many triggers share a schedule, and are due at the same time.
    @lru_cache(maxsize=16384)  # noqa: B019  # the schedules are cached themselves
    def after(self, time: datetime) -> datetime:
        """The first due time after this time, in UTC."""
        start = time.astimezone(self.zone)
        due = self._fixed_after(start) if self.is_fixed else self._real_after(start)
        # A caller that iterates over the times would never end.
        if due <= time:
            raise _unclear(self.fields, time)
        return due

    def times(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The due times after `start` up to `end`, in UTC."""
        due = self.after(start)
        while due <= end:
            yield due
            due = self.after(due)

    def latest(self, start: datetime, end: datetime) -> datetime | None:
        """The last due time after `start` up to `end`; quick however many lie between."""
        back = timedelta(hours=1)
        while True:
            since = max(start, end - back)
            last = None
            for due in self.times(since, end):
                last = due
            if last is not None or since == start:
                return last
            back *= 24

    def matches(self, local: datetime) -> bool:
        """Whether the fields match a local time."""
        sim = _simulator(self.fields)
        return (
            local.minute in sim.minutes
            and local.hour in sim.hours
            and local.month in sim.months
            and sim.match_day(local.date())
        )

    def _fixed_after(self, start: datetime) -> datetime:
        # In the second pass of a repeated hour the first result is the first pass, which is over.
        for due in CronSim(self.fields, start):
            if due.astimezone(UTC) > start.astimezone(UTC):
                return due.astimezone(UTC)
        raise _never(self.fields)

    def _real_after(self, start: datetime) -> datetime:
        while True:
            moment = next(CronSim(self.fields, start), None)
            if moment is None:
                raise _never(self.fields)
            # In UTC: Python compares two times of one zone by their local clocks.
            now, due = start.astimezone(UTC), moment.astimezone(UTC)
            changes = clock_changes(self.zone, now - DAY, max(now, due) + DAY)
            if not changes:
                return due
            minute = max(_whole(now) + MINUTE, _whole(changes[0] - DAY))
            end = changes[0] + 2 * DAY
            while minute <= end:
                if self.matches(minute.astimezone(self.zone)):
                    return minute
                minute += MINUTE
            start = end.astimezone(self.zone)


def read_cron(expression: str, zone: str) -> Cron:
    """The schedule of an expression in a zone; InvalidInput says where it is wrong and why."""
    wrong = check_cron(expression)
    if wrong:
        raise InvalidInput("The schedule", wrong + check_zone("timezone", zone))
    return known_cron(expression, zone)


@lru_cache(maxsize=16384)
def known_cron(expression: str, zone: str) -> Cron:
    """The same for an expression that was checked when it was saved. Its zone may be gone since."""
    wrong = check_zone("timezone", zone)
    if wrong:
        raise InvalidInput("The schedule", wrong)
    text = expression.strip()
    return Cron(NAMES.get(text.lower(), " ".join(text.upper().split())), ZoneInfo(zone))


def check_cron(expression: str) -> list[FieldError]:
    """What is wrong with an expression, with the position of each mistake."""
    text = expression.strip()
    if text.startswith("@"):
        names = ", ".join(sorted(NAMES))
        return [] if text.lower() in NAMES else [FieldError("cron_expr", f"{text!r} is not one of the names {names}")]
    parts = text.split()
    if len(expression) > LONGEST:
        return [FieldError("cron_expr", f"is longer than {LONGEST} characters")]
    if len(parts) != 5:
        expected = "minute, hour, day of the month, month, day of the week"
        return [FieldError("cron_expr", f"has {len(parts)} fields instead of 5 ({expected})")]
    wrong = [FieldError("cron_expr", reason) for reason in _wrong_terms(expression, parts)]
    return wrong or _check_whole(expression, parts)


def _wrong_terms(expression: str, parts: list[str]) -> Iterator[str]:
    """Each term that is wrong by itself: every field alone, every element of a list alone."""
    position = 0
    for number, part in enumerate(parts):
        position = expression.index(part, position)
        at = position
        for term in part.split(","):
            reason = _wrong_term(number, term)
            if reason is not None:
                yield f"at character {at + 1}: {reason}"
            at += len(term) + 1
        position += len(part)


def _wrong_term(number: int, term: str) -> str | None:
    name, range_, count = FIELDS[number]
    if not term:
        return f"an element of the {name} is empty"
    if not term.isascii():
        return f"{term!r} is no {name}"
    base, slash, step = term.upper().partition("/")
    if slash and step.isdigit() and not 0 < int(step) <= count:
        return f"a step of {step} in the {name} leads nowhere, it is 1 to {count}"
    if slash and number == 2 and base in ("L", "LW"):
        return f"{base} is one day of a month and has no steps"
    fields = ["*"] * 5
    fields[number] = term
    # Whether a day exists in a month is checked later, for the whole expression.
    if _reads(" ".join(fields)):
        return None
    return _ends_early(name, base) or _no_such_week(number, term.upper()) or f"{term!r} is no {name}, which is {range_}"


def _ends_early(name: str, range_: str) -> str | None:
    start, dash, end = range_.partition("-")
    first, last = _number(start), _number(end)
    if not dash or first is None or last is None or first <= last:
        return None
    reason = f"the range {range_} of the {name} ends before it begins"
    return f"{reason}: a week begins with SUN, and 7 is Sunday too, so write {start}-7" if end == "SUN" else reason


def _no_such_week(number: int, term: str) -> str | None:
    day, _, week = term.partition("#")
    weekday = _number(day)
    if number != 4 or weekday is None or not _reads(f"* * * * {day}") or not week.isdigit():
        return None
    return f"no month has a day {day} number {week}, which is 1 to 5; {weekday}L is the last one of a month"


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else NAMED.get(text)


def _check_whole(expression: str, parts: list[str]) -> list[FieldError]:
    """Check the fields together: they may name a day that no month has."""
    text = " ".join(parts)
    if _reads(text) and next(CronSim(text, datetime(2024, 1, 1)), None) is not None:
        return []
    at = expression.index(parts[2], expression.index(parts[1], len(parts[0])) + len(parts[1])) + 1
    return [FieldError("cron_expr", f"at character {at}: the day {parts[2]!r} never comes in the month {parts[3]!r}")]


def _reads(text: str) -> bool:
    try:
        CronSim(text, datetime(2024, 1, 1))
    except _UNREADABLE:
        return False
    return True


@lru_cache(maxsize=16384)
def _simulator(fields: str) -> CronSim:
    return CronSim(fields, datetime(2024, 1, 1))


def _whole(time: datetime) -> datetime:
    return time.replace(second=0, microsecond=0)


def _never(fields: str) -> InvalidInput:
    return InvalidInput("The schedule", [FieldError("cron_expr", f"{fields!r} has no due time in the next 50 years")])


def _unclear(fields: str, time: datetime) -> InvalidInput:
    return InvalidInput("The schedule", [FieldError("cron_expr", f"{fields!r} has no clear due time after {time}")])
