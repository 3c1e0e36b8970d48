"""Cron on the clocks of the world, beside a table made without cron: every minute of the days around a clock change."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from atlas.engine.schedules.timezones import clock_changes
from atlas.engine.triggers.cron import check_cron, read_cron
from atlas.errors import InvalidInput
from tests.support import PROOF, until

MINUTE = timedelta(minutes=1)

# Forty whose clocks change by an hour, half an hour or two, at midnight or later, and four whose clocks never do.
ZONES = (
    "Africa/Cairo,Africa/Casablanca,Africa/El_Aaiun,America/Anchorage,America/Chicago,America/Denver,America/Halifax,"
    "America/Havana,America/Los_Angeles,America/Miquelon,America/New_York,America/Nuuk,America/Port-au-Prince,"
    "America/Santiago,America/Scoresbysund,America/St_Johns,America/Tijuana,America/Toronto,Antarctica/Troll,Asia/Beirut,"
    "Asia/Famagusta,Asia/Gaza,Asia/Jerusalem,Asia/Nicosia,Atlantic/Azores,Australia/Adelaide,Australia/Lord_Howe,"
    "Australia/Sydney,Europe/Athens,Europe/Berlin,Europe/Chisinau,Europe/Dublin,Europe/Kyiv,Europe/Lisbon,Europe/London,"
    "Europe/Paris,Pacific/Auckland,Pacific/Chatham,Pacific/Easter,Pacific/Norfolk,"
    "America/Asuncion,America/Phoenix,Asia/Kathmandu,Asia/Tokyo"
)
YEARS = (2026, 2027, 2028)

# Whether the minute and the hour are both named, and the wall times that are meant.
EXPRESSIONS: dict[str, tuple[bool, Callable[[datetime], bool]]] = {
    "30 2 * * *": (True, lambda wall: (wall.hour, wall.minute) == (2, 30)),
    "0 0 * * *": (True, lambda wall: (wall.hour, wall.minute) == (0, 0)),
    "15,45 0-3 * * *": (True, lambda wall: wall.hour <= 3 and wall.minute in (15, 45)),
    "*/20 * * * *": (False, lambda wall: wall.minute % 20 == 0),
    "30 * * * *": (False, lambda wall: wall.minute == 30),
    "*/15 2 * * *": (False, lambda wall: wall.hour == 2 and wall.minute % 15 == 0),
}


def walk(zone: ZoneInfo, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Every minute as it passes, in UTC and in local time."""
    minutes = int((end - start) / MINUTE)
    return [
        (at, at.astimezone(zone).replace(tzinfo=None, fold=0)) for at in (start + n * MINUTE for n in range(minutes))
    ]


def table(minutes: list[tuple[datetime, datetime]], fixed: bool, meant: Callable[[datetime], bool]) -> set[datetime]:
    """The due times: of a fixed schedule each wall time once, else every minute that passes and is meant."""
    if not fixed:
        return {at for at, wall in minutes if meant(wall)}
    first: dict[datetime, datetime] = {}
    for at, wall in minutes:
        first.setdefault(wall, at)
    for (_, wall), (after, next_wall) in pairwise(minutes):
        missing = wall + MINUTE
        while missing < next_wall:
            first.setdefault(missing, after)
            missing += MINUTE
    return {at for wall, at in first.items() if meant(wall)}


@pytest.mark.long
@pytest.mark.parametrize("name", ZONES.split(",") if PROOF else ["Australia/Lord_Howe", *ZONES.split(",")[::20]])
def test_around_every_clock_change_each_due_time_comes_exactly_once(name):
    zone = ZoneInfo(name)
    year = datetime(YEARS[0], 1, 1, tzinfo=UTC), datetime(YEARS[-1], 12, 31, tzinfo=UTC)
    # Zones whose clock never changes are looked at as well, on two ordinary days of each year.
    changes = clock_changes(zone, *year) or [
        datetime(one, month, 29, 1, tzinfo=UTC) for one in YEARS for month in (3, 10)
    ]
    checked = 0
    for change in changes:
        start, end = change - timedelta(hours=36), change + timedelta(hours=60)
        # The table begins a day earlier: a wall time in the window may have come first before it.
        minutes = walk(zone, start - timedelta(days=1), end + timedelta(days=1))
        for expression, (fixed, meant) in EXPRESSIONS.items():
            expected = sorted(at for at in table(minutes, fixed, meant) if start < at <= end)
            found = list(read_cron(expression, name).times(start, end))
            assert found == expected, (expression, change)
            checked += len(found)
    print(f"{name}: {len(changes)} changes, {len(EXPRESSIONS)} expressions, {checked} due times")
    assert checked


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana"])
def test_a_schedule_that_begins_at_any_minute_of_a_changing_day_goes_on_alike(name, expression):
    cron = read_cron(expression, name)
    for change in clock_changes(cron.zone, datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 12, 31, tzinfo=UTC)):
        start, end = change - timedelta(hours=4), change + timedelta(hours=30)
        due = list(cron.times(start, end))
        for minutes in range(0, 8 * 60, 7):
            after = start + minutes * MINUTE + timedelta(seconds=13)
            assert cron.after(after) == next(one for one in due if one > after)


@pytest.mark.parametrize("expression", ["*/2 3 * * *", "*/7 3 * * *", "15 */3 * * *", "* 3-4/1 * * *"])
def test_a_clock_that_is_set_back_within_an_hour_does_not_lead_a_schedule_back(expression):
    # Chatham's clock goes from 03:45 to 02:45.
    cron = read_cron(expression, "Pacific/Chatham")
    for change in clock_changes(cron.zone, datetime(2026, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)):
        minutes = walk(cron.zone, change - timedelta(hours=30), change + timedelta(hours=30))
        expected = [at for at, wall in minutes if cron.matches(wall)]
        due = cron.after(minutes[0][0] - MINUTE)
        for one in expected:
            assert due == one
            due = cron.after(due)


def test_a_due_time_that_is_not_later_is_refused_instead_of_walked_in_a_circle(monkeypatch):
    monkeypatch.setattr("atlas.engine.triggers.cron.clock_changes", lambda *_: [])
    with pytest.raises(InvalidInput, match="no clear due time after"):
        read_cron("*/7 3 * * *", "Pacific/Chatham").after(datetime(2027, 4, 3, 13, 59, tzinfo=UTC))


def test_a_time_that_does_not_exist_comes_once_at_the_first_minute_after_the_gap():
    spring = read_cron("30 2 * * *", "Europe/Berlin").times(
        datetime(2027, 3, 27, 12, tzinfo=UTC), datetime(2027, 3, 28, 22, tzinfo=UTC)
    )
    assert [f"{at.astimezone(ZoneInfo('Europe/Berlin')):%d %H:%M}" for at in spring] == ["28 03:00"]


def test_a_time_that_exists_twice_comes_once():
    autumn = read_cron("30 1 * * *", "America/New_York").times(
        datetime(2027, 11, 7, tzinfo=UTC), datetime(2027, 11, 8, tzinfo=UTC)
    )
    assert list(autumn) == [datetime(2027, 11, 7, 5, 30, tzinfo=UTC)]


def test_an_hourly_schedule_runs_25_hours_on_the_long_day_and_23_on_the_short_one():
    hourly = read_cron("@hourly", "Europe/Berlin")
    berlin = ZoneInfo("Europe/Berlin")

    def on(month: int, day: int) -> int:
        start = datetime(2027, month, day, tzinfo=berlin) - timedelta(seconds=1)
        return len(list(hourly.times(start, datetime(2027, month, day, 23, 59, tzinfo=berlin))))

    assert (on(3, 28), on(6, 1), on(10, 31)) == (23, 24, 25)


def test_the_last_due_time_of_years_is_found_without_counting_them():
    start, end = datetime(2017, 1, 1, tzinfo=UTC), datetime(2027, 3, 8, 12, 5, 30, tzinfo=UTC)
    assert read_cron("* * * * *", "UTC").latest(start, end) == datetime(2027, 3, 8, 12, 5, tzinfo=UTC)
    assert read_cron("0 0 29 2 *", "UTC").latest(start, end) == datetime(2024, 2, 29, tzinfo=UTC)
    assert read_cron("0 0 29 2 *", "UTC").latest(datetime(2025, 1, 1, tzinfo=UTC), end) is None


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("61 * * * *", "at character 1: '61' is no minute, which is 0 to 59"),
        (" 5  25 * * *", "at character 5: '25' is no hour, which is 0 to 23"),
        ("0 9,17,99 * * *", "at character 8: '99' is no hour"),
        ("0 17-9 * * *", "at character 3: the range 17-9 of the hour ends before it begins"),
        ("*/0 * * * *", "a step of 0 in the minute leads nowhere"),
        ("*/100 * * * *", "at character 1: a step of 100 in the minute leads nowhere, it is 1 to 60"),
        ("0 0 1/32 * *", "at character 5: a step of 32 in the day of the month leads nowhere, it is 1 to 31"),
        ("0 0 L/2 * *", "at character 5: L is one day of a month and has no steps"),
        ("0 0 1,lw/3 * *", "at character 7: LW is one day of a month and has no steps"),
        ("0 0 * * MON#6", "at character 9: no month has a day MON number 6, which is 1 to 5; 1L is the last one"),
        ("0 0 * * 5#0", "at character 9: no month has a day 5 number 0, which is 1 to 5"),
        ("0 0 * * sat-sun", "the range SAT-SUN of the day of the week ends before it begins: a week begins with SUN"),
        ("0 0 * nov-feb *", "at character 7: the range NOV-FEB of the month ends before it begins"),
        ("0 0 * * FRIL", "'FRIL' is no day of the week, which is 0 to 7, SUN to SAT, 0L to 7L"),
        ("0 0 * * 1#2/3", "is no day of the week"),
        ("0 0 30 2 *", "at character 5: the day '30' never comes in the month '2'"),
        ("0,,5 * * * *", "at character 3: an element of the minute is empty"),
        ("* * * *", "has 4 fields instead of 5"),
        ("0 * * * * *", "has 6 fields instead of 5"),
        ("", "has 0 fields instead of 5"),
        ("@reboot", "'@reboot' is not one of the names @annually, @daily"),
        ("٣ * * * *", "at character 1: '٣' is no minute"),
        (f"{'9' * 180} * * * *", "is no minute"),
        ("0 " * 200, "is longer than"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_position_and_the_reason(expression, reason):
    with pytest.raises(InvalidInput) as refused:
        read_cron(expression, "UTC")

    [error] = refused.value.errors
    assert error.field == "cron_expr"
    assert reason in error.reason


@pytest.mark.parametrize(
    ("expression", "due"),
    [
        ("0 0 * * 5L", "2027-01-29"),
        ("0 0 LW * *", "2027-01-29"),
        ("0 0 L * *", "2027-01-31"),
        ("0 0 5/15 * *", "2027-01-05 2027-01-20 2027-02-05"),
        ("0 0 * * SAT-7", "2027-01-02 2027-01-03 2027-01-09"),
        ("0 0 * * MON#2", "2027-01-11 2027-02-08"),
        ("*/60 0 1 * *", "2027-02-01"),
    ],
)
def test_days_counted_from_the_end_and_steps_from_a_start_are_those_of_the_calendar(expression, due):
    start = datetime(2027, 1, 1, tzinfo=UTC)
    times = read_cron(expression, "UTC").times(start, datetime(2028, 1, 1, tzinfo=UTC))
    assert all(f"{time:%Y-%m-%d}" == day for time, day in zip(times, due.split(), strict=False))


def test_every_mistake_of_an_expression_is_named():
    assert len(check_cron("61 24 0 13 8")) == 5


@pytest.mark.parametrize("zone", ["Europe/Berln", "CEST", "", "localtime", "../etc/passwd", "europe/berlin"])
def test_a_zone_that_does_not_exist_is_refused_by_its_name(zone):
    with pytest.raises(InvalidInput, match="is not a zone of the tz database") as refused:
        read_cron("@daily", zone)
    assert refused.value.errors[0].field == "timezone"


async def test_apscheduler_runs_a_job_at_the_due_times_of_an_expression():
    """The second is in the hour that the clocks of Berlin left out in 2025, and comes at its end."""
    seen: list[datetime] = []
    scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"coalesce": False, "misfire_grace_time": None})
    scheduler.add_listener(lambda event: seen.append(event.scheduled_run_time.astimezone(UTC)), EVENT_JOB_EXECUTED)
    first = datetime(2025, 3, 29, 1, 30, tzinfo=UTC)

    async def work() -> None:
        """Nothing but the time matters."""

    scheduler.add_job(work, read_cron("30 2 29-31 3 *", "Europe/Berlin"), next_run_time=first)
    scheduler.start()
    try:
        await until(lambda: len(seen) >= 3)
    finally:
        scheduler.shutdown(wait=False)

    assert seen[:3] == [first, datetime(2025, 3, 30, 1, 0, tzinfo=UTC), datetime(2025, 3, 31, 0, 30, tzinfo=UTC)]
