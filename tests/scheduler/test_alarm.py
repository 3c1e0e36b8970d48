"""The alarm: APScheduler rings at our times, for what is due soon, and thousands of schedules cost little."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import psutil

from atlas.engine.triggers.cron import known_cron
from atlas.scheduler.alarm import Alarm, CronTrigger
from atlas.scheduler.firing import FiringLoop
from tests.support import PROOF

MANY = """
insert into atlas.job_triggers (tenant_id, label, trigger_type, cron_expr, timezone, job_type, next_fire_at, created_by)
select '00000000-0000-7000-8000-000000000001', 'n' || n, 'schedule', (n % 60) || ' ' || (n / 60 % 24) || ' * * *',
  (array['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Tokyo', 'Asia/Kolkata', 'Africa/Cairo', 'Pacific/Apia'])[1 + n / 1440 % 7],
  'report.build', clock_timestamp() + n * interval '1 day' / $1, 'dana'
from generate_series(0, $1::int - 1) n"""


class Soon:
    """A schedule that is due every 50 milliseconds."""

    def after(self, time: datetime) -> datetime:
        return time + timedelta(seconds=0.05)


def at_noon(*schedules: tuple[str, str]) -> dict[tuple[str, str], datetime]:
    return dict.fromkeys(schedules, datetime(2099, 6, 1, 12, tzinfo=UTC))


def test_apscheduler_gets_the_times_of_our_cron():
    trigger = CronTrigger(known_cron("30 2 * * *", "Europe/Berlin"))
    now = datetime(2027, 3, 27, 12, tzinfo=UTC)

    first = trigger.get_next_fire_time(None, now)
    second = trigger.get_next_fire_time(first, first)

    assert (first, second) == (datetime(2027, 3, 28, 1, tzinfo=UTC), datetime(2027, 3, 29, 0, 30, tzinfo=UTC))
    # A machine that slept does not ring for what has passed.
    late = trigger.get_next_fire_time(first, datetime(2027, 4, 1, tzinfo=UTC))
    assert late == datetime(2027, 4, 1, 0, 30, tzinfo=UTC)


async def test_an_alarm_rings_at_the_times_of_its_trigger_on_the_event_loop(monkeypatch):
    rung = []
    monkeypatch.setattr("atlas.scheduler.alarm.known_cron", lambda *schedule: Soon())
    alarm = Alarm(lambda: rung.append(asyncio.get_running_loop()))
    alarm.start()
    await alarm.set({("* * * * *", "UTC"): datetime.now(UTC)})
    async with asyncio.timeout(5):
        while len(rung) < 3:
            await asyncio.sleep(0.01)
    alarm.stop()

    assert set(rung) == {asyncio.get_running_loop()}


async def test_an_alarm_follows_the_schedules_it_is_set_to():
    alarm = Alarm(lambda: None)
    alarm.start()
    await alarm.set(at_noon(("@hourly", "UTC"), ("@daily", "UTC"), ("@daily", "Europe/Nowhere")))
    assert len(alarm) == 2  # a zone that this machine does not know is logged and passed over
    await alarm.set(at_noon(("@daily", "UTC"), ("@daily", "Asia/Tokyo"), ("@weekly", "UTC")))
    assert len(alarm) == 3
    await alarm.set({})
    assert len(alarm) == 0
    alarm.stop()


async def test_a_scheduler_over_thousands_of_triggers_is_ready_within_three_seconds(pool, conn, database_url):
    count = 10_000 if PROOF else 3000
    await conn.execute(MANY, count)
    before, began = psutil.Process().memory_info().rss, time.monotonic()
    stop, loop = asyncio.Event(), FiringLoop(pool, database_url)
    running = asyncio.create_task(loop.run(stop))
    async with asyncio.timeout(30):
        while not loop.is_ready:
            await asyncio.sleep(0.005)
    ready, held = time.monotonic() - began, (psutil.Process().memory_info().rss - before) / 2**20
    alarms = len(loop.alarm)
    stop.set()
    await running

    print(f"{count} triggers: ready in {ready:.2f} s, {alarms} alarms for the next five minutes, {held:.1f} MB")
    assert ready < 3
    assert count / 288 <= alarms <= count / 288 + 2
