"""Whole schedulers: killed, frozen, several at once, days passing in seconds. Each due time and each event fires once."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any
from uuid import uuid4

import pytest

import atlas.engine.triggers as triggers
from atlas.db.pool import open_pool
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.triggers.cron import read_cron
from atlas.engine.triggers.fire_schedules import Polled, Unfired, fire_due
from atlas.engine.triggers.store import forget_outages
from atlas.engine.workflows.events import publish_event
from atlas.scheduler.firing import TriggerTask
from atlas.scheduler.leader import Leader
from atlas.scheduler.quarantine import Quarantine
from atlas.scheduler.tasks import TaskScheduler
from tests.engine.triggers.given import given_event_trigger, given_schedule, jobs_of, set_clock
from tests.proxy import FaultyProxy
from tests.support import DANA, PROOF, given_tenant

HERE = "(select oid from pg_database where datname = current_database())"
LEADER = "select holder from atlas.scheduler_leader where expires_at > clock_timestamp()"
CANDIDATES = (
    "select count(*) from pg_stat_activity where application_name = 'atlas scheduler leader' and datid = " + HERE
)

# Two days that hold the end of summer time in Europe.
START = datetime(2027, 10, 30, 6, tzinfo=UTC)
END = START + timedelta(days=2)

ZONES = ("Europe/Berlin", "America/New_York", "Asia/Tokyo", "Europe/London", "UTC")
EXPRESSIONS = (
    *("*/10 * * * *", "0 * * * *", "30 2 * * *", "15,45 1-4 * * *"),
    *("*/20 2 * * *", "5 */6 * * *", "0 0 * * *", "@hourly"),
)


async def moved_from(pool: Any, leader: Any) -> float:
    """How long it takes until another scheduler leads."""
    began = time.monotonic()
    async with asyncio.timeout(20):
        while await pool.fetchval(LEADER) in (leader, None):
            await asyncio.sleep(0.02)
    return time.monotonic() - began


async def given_schedules(conn: Any, count: int) -> list[Any]:
    """Schedules of tenants in many zones."""
    tenants = [await given_tenant(conn, f"t{n}", zone) for n, zone in enumerate(ZONES)]
    pairs = zip(range(count), cycle(EXPRESSIONS), cycle(tenants), strict=False)
    return [await given_schedule(conn, tenant, cron, misfire="all", label=f"t{n}") for n, cron, tenant in pairs]


@pytest.mark.slow
async def test_schedulers_killed_and_frozen_fire_every_due_time_of_two_days_once(
    pool, conn, owner, scheduler, eventually
):
    schedulers, schedules, seconds, pause = (4, 200, 60.0, 3.0) if PROOF else (3, 24, 6.0, 2.0)
    await set_clock(owner, START)
    triggers = await given_schedules(conn, schedules)
    frozen, *others = [await scheduler() for _ in range(schedulers)]
    await eventually(CANDIDATES, equals=schedulers)

    await set_clock(owner, START, speed=(END - START).total_seconds() / seconds, until=END)
    began, killed = time.monotonic(), 0
    frozen.send_signal(signal.SIGSTOP)
    while time.monotonic() - began < seconds:
        await asyncio.sleep(pause)
        others[0].kill()
        others = [*others[1:], await scheduler()]
        killed += 1
        if time.monotonic() - began > seconds / 2:
            frozen.send_signal(signal.SIGCONT)
    frozen.send_signal(signal.SIGCONT)
    schedule_of = {trigger.id: read_cron(trigger.cron_expr, trigger.zone) for trigger in triggers}
    expected = {(id, due) for id, cron in schedule_of.items() for due in cron.times(START, END)}
    await eventually("select count(*) from atlas.jobs where source = 'schedule'", equals=len(expected), within=60)

    fired = [tuple(row) for row in await pool.fetch("select trigger_id, due_at from atlas.trigger_fires")]
    doubles, misses = len(fired) - len(set(fired)), len(expected - set(fired))
    print(
        f"{schedulers} schedulers, {schedules} schedules, 2 days in {seconds:.0f} s, {killed} kills, 1 freeze:"
        f" {len(fired)} fired of {len(expected)}, {doubles} doubles, {misses} misses"
    )
    assert set(fired) == expected
    assert doubles == 0
    assert await pool.fetchval("select count(*) from atlas.audit_log where action = 'TRIGGER_FIRED'") == len(expected)
    assert await pool.fetchval("select count(*) from atlas.jobs") == len(expected)


@pytest.mark.slow
async def test_leadership_moves_within_five_seconds_from_a_leader_that_freezes_or_dies(
    pool, conn, acme, scheduler, eventually
):
    first = await scheduler()
    await eventually(f"select ({LEADER}) is not null")
    led = await pool.fetchval(LEADER)
    second = await scheduler()
    await eventually(CANDIDATES, equals=2, within=60)
    trigger = await given_schedule(conn, acme, "* * * * *", misfire="all")

    first.send_signal(signal.SIGSTOP)
    from_frozen = await moved_from(pool, led)
    await conn.execute("update atlas.job_triggers set next_fire_at = next_fire_at - interval '5 minutes'")
    await eventually("select count(*) >= 5 from atlas.trigger_fires")
    first.send_signal(signal.SIGCONT)
    await eventually(CANDIDATES, equals=2, within=60)
    led = await pool.fetchval(LEADER)
    second.kill()
    from_dead = await moved_from(pool, led)

    print(f"leadership moved in {from_frozen:.2f} s from a frozen leader, in {from_dead:.2f} s from a dead one")
    assert from_frozen < 5
    assert from_dead < 5
    assert first.returncode is None
    rows = await pool.fetch("select due_at from atlas.trigger_fires")
    assert len(rows) == len({row["due_at"] for row in rows}) == len(await jobs_of(pool, trigger))


CROWD = """
insert into atlas.job_triggers (tenant_id, label, trigger_type, cron_expr, job_type, misfire, next_fire_at, created_by)
select $1, 'n' || n, 'schedule', '0 * * * *', 'report.build', 'skip', clock_timestamp() + interval '1 hour', 'dana'
from generate_series(1, $2::int) n"""


@pytest.mark.long
async def test_schedules_due_at_once_all_fire_once_though_their_leader_is_killed_among_them(
    pool, conn, acme, owner, scheduler, eventually
):
    count = 10_000 if PROOF else 2000
    await conn.execute(CROWD, acme, count)
    first = await scheduler()
    await eventually(f"select ({LEADER}) is not null")
    await scheduler()
    await eventually(CANDIDATES, equals=2)
    # As if it had led since before the full hour.
    await conn.execute("update atlas.scheduler_leader set outages = '{}'")
    await conn.execute("update atlas.job_triggers set next_fire_at = date_trunc('hour', clock_timestamp())")
    began = time.monotonic()
    await eventually("select count(*) > 0 from atlas.trigger_fires")
    first.kill()
    await eventually("select count(distinct trigger_id) from atlas.trigger_fires", equals=count, within=60)

    print(f"{count} schedules fired within {time.monotonic() - began:.1f} s, and their leader was killed")
    counted = await pool.fetchrow(
        """select (select count(*) from atlas.trigger_fires) as fires, count(*) as jobs, count(distinct source_ref) as triggers,
             (select count(*) from atlas.audit_log where action = 'TRIGGER_FIRED') as audited
           from atlas.jobs"""
    )
    assert tuple(counted) == (count, count, count, count)
    assert await pool.fetchval("select bool_and(result = 'fired') from atlas.trigger_fires")


async def test_who_leads_after_a_time_without_a_leader_records_the_outage(pool, conn, database_url, eventually):
    await conn.execute(
        "update atlas.scheduler_leader set outages = '{}', expires_at = clock_timestamp() - interval '5 minutes'"
    )
    for _ in range(2):
        # The second follows the first at once, which is no outage.
        stop, tasks = asyncio.Event(), TaskScheduler()
        Leader(database_url, tasks)
        leading = asyncio.create_task(tasks.run(stop))
        await eventually(f"select ({LEADER}) is not null")
        stop.set()
        await leading

    [outage] = await conn.fetchval("select outages from atlas.scheduler_leader")
    assert timedelta(minutes=4, seconds=20) < outage.upper - outage.lower < timedelta(minutes=4, seconds=45)
    await forget_outages(conn)
    assert await conn.fetchval("select isempty(outages) from atlas.scheduler_leader")


@pytest.mark.long
async def test_events_published_while_schedulers_are_killed_fire_each_trigger_once(
    pool, conn, acme, scheduler, eventually
):
    events, triggers, kills = (1000, 5, 12) if PROOF else (100, 5, 1)
    for n in range(triggers):
        template = {"n": "{{ event.n }}", "trigger": n}
        await given_event_trigger(conn, acme, "load.*", dedupe_window_seconds=0, payload_template=template)
    running = await scheduler()

    async def publish() -> None:
        for n in range(events):
            await publish_event(conn, acme, f"load.n{n % 7}", {"n": n}, actor=DANA)

    publishing = asyncio.create_task(publish())
    for killed in range(kills):
        await eventually("select count(*) >= $1 from atlas.trigger_fires", 1 + killed * events * triggers // kills)
        running.kill()
        running = await scheduler()
    await publishing
    await eventually("select count(*) from atlas.events where handled_at is null", equals=0, within=60)

    jobs = await pool.fetchval("select count(*) from atlas.jobs where source = 'event'")
    distinct = await pool.fetchval("select count(distinct input) from atlas.jobs where source = 'event'")
    print(f"{events} events, {triggers} triggers each, {kills} kills: {jobs} jobs, {distinct} different")
    assert jobs == distinct == events * triggers


@pytest.mark.long
async def test_a_running_scheduler_is_on_time_by_the_databases_clock_and_stops_in_good_order(
    pool, conn, acme, owner, scheduler, eventually
):
    running = await scheduler()
    await eventually(f"select ({LEADER}) is not null")
    # To it the database is months ahead, and two seconds before a full hour.
    await set_clock(owner, START - timedelta(seconds=2), speed=1.0)
    await given_schedule(conn, acme, "@hourly")
    await eventually("select count(*) from atlas.trigger_fires", equals=1)
    late = (await pool.fetchval("select fired_at from atlas.trigger_fires")) - START
    running.send_signal(signal.SIGTERM)
    status = await asyncio.wait_for(running.wait(), 10)

    print(f"fired {late.total_seconds():.3f} s after its due time")
    assert timedelta() <= late < timedelta(seconds=1)
    assert status == 0
    assert await pool.fetchval(LEADER) is None


@pytest.mark.long
async def test_nothing_fires_offline_and_what_was_missed_fires_once_after_the_return(
    pool, conn, acme, scheduler, eventually
):
    schedule = await given_schedule(conn, acme, "* * * * *", misfire="latest")
    on_event = await given_event_trigger(conn, acme)
    await switch(conn, online=False, actor=DANA)
    # Three hours ago: a minute that began right before the switch, while no scheduler led, would be late and not missed.
    await conn.execute(
        "update atlas.system_state set value = value || jsonb_build_object('since', now() - interval '3 hours') where key = 'atlas_online'"
    )
    await conn.execute("update atlas.job_triggers set next_fire_at = next_fire_at - interval '2 hours'")
    await publish_event(conn, acme, "invoice.paid", actor=DANA)
    await scheduler()
    await eventually(f"select ({LEADER}) is not null")
    assert await pool.fetchval("select count(*) from atlas.trigger_fires") == 0

    returned_at = await pool.fetchval("select clock_timestamp()")
    await switch(conn, online=True, actor=DANA)
    await eventually("select count(distinct trigger_id) from atlas.trigger_fires", equals=2)
    # Minutes that begin meanwhile fire too.
    missed = "select count(*) from atlas.trigger_fires where trigger_id = $1 and due_at <= $2 and job_id is not null"
    assert await pool.fetchval(missed, schedule.id, returned_at) == 1
    assert len(await jobs_of(pool, on_event)) == 1


@pytest.fixture
async def firing(pool, database_url):
    """What fires triggers in a scheduler, running once it is entered."""

    @asynccontextmanager
    async def run(through: Any = pool) -> AsyncIterator[None]:
        stop, tasks = asyncio.Event(), TaskScheduler()
        TriggerTask(through, Leader(database_url, tasks), tasks)
        running = asyncio.create_task(tasks.run(stop))
        try:
            yield
        finally:
            stop.set()
            await running

    return run


@pytest.mark.long
@pytest.mark.parametrize("kind", ["fire_events", "fire_schedules"])
async def test_what_cannot_be_fired_is_left_out_and_fires_when_its_cause_is_gone(
    conn, acme, firing, eventually, monkeypatch, kind
):
    bad = await given_tenant(conn, "bad")
    whole = getattr(triggers, kind)._firing
    broken = [True]

    def astray(trigger: Any, due: Any) -> Any:
        if trigger.tenant_id == bad and broken:
            raise MemoryError("a fault of ours")
        return whole(trigger, due)

    monkeypatch.setattr(f"atlas.engine.triggers.{kind}._firing", astray)
    monkeypatch.setattr("atlas.scheduler.quarantine.MIN_SECONDS", 2.0)
    for tenant in (bad, *[acme] * 5):
        if kind == "fire_events":
            await given_event_trigger(conn, tenant, dedupe_window_seconds=0)
        else:
            await given_schedule(conn, tenant, "* * * * *")
    for tenant in (bad, acme):
        await publish_event(conn, tenant, "invoice.paid", {}, actor=DANA)
    await conn.execute(
        "update atlas.job_triggers set next_fire_at = date_trunc('minute', clock_timestamp()) where trigger_type = 'schedule'"
    )
    fired = "select count(*) from atlas.trigger_fires where tenant_id = $1"
    async with firing():
        await eventually(f"select ({fired}) >= 5", acme)
        assert await conn.fetchval(fired, bad) == 0
        broken.clear()
        await eventually(f"select ({fired}) >= 1", bad)


@pytest.mark.long
async def test_a_poll_whose_connection_went_silent_is_repeated_over_another(
    conn, acme, firing, eventually, monkeypatch, database_url
):
    monkeypatch.setattr("atlas.scheduler.firing.TRANSACTION_SECONDS", 0.5)
    monkeypatch.setattr("atlas.db.pool.RELEASE_SECONDS", 0.5)
    async with FaultyProxy(database_url) as proxy:
        through = await open_pool(proxy.url, size=1)
        proxy.sink()
        await given_schedule(conn, acme, "* * * * *")
        await conn.execute("update atlas.job_triggers set next_fire_at = date_trunc('minute', clock_timestamp())")
        async with firing(through):
            await eventually("select count(*) from atlas.trigger_fires", equals=1)
        await through.close()


@pytest.mark.long
async def test_a_poll_that_takes_too_long_is_done_in_pieces(conn, acme, pool, firing, eventually, monkeypatch):
    monkeypatch.setattr("atlas.scheduler.firing.TRANSACTION_SECONDS", 1.0)
    whole = triggers.fire_schedules.fire_batch

    async def slow(conn: Any, batch: Any) -> Any:
        await asyncio.sleep(0.3 * len(batch.firings))
        return await whole(conn, batch)

    monkeypatch.setattr("atlas.engine.triggers.fire_schedules.fire_batch", slow)
    for _ in range(40):
        await given_schedule(conn, acme, "* * * * *")
    await conn.execute("update atlas.job_triggers set next_fire_at = date_trunc('minute', clock_timestamp())")
    async with firing(pool):
        await eventually("select count(*) > 3 from atlas.trigger_fires", equals=True)


async def test_a_connection_that_is_lost_again_and_again_makes_no_schedule_late(pool, conn, acme, owner, monkeypatch):
    whole = triggers.fire_schedules.fire_batch
    lost: list[Any] = []

    async def astray(conn: Any, batch: Any) -> Any:
        if batch.firings and batch.firings[0].due_at not in lost:
            lost.append(batch.firings[0].due_at)
            await owner.execute("select pg_terminate_backend($1)", await conn.fetchval("select pg_backend_pid()"))
        return await whole(conn, batch)

    monkeypatch.setattr("atlas.engine.triggers.fire_schedules.fire_batch", astray)
    await set_clock(owner, START)
    await given_schedule(conn, acme, "* * * * *", misfire="skip")
    around = Quarantine(fire_due)
    for minute in range(1, 4):
        await set_clock(owner, START + timedelta(minutes=minute, seconds=1))
        async with pool.acquire() as other:
            with pytest.raises(Unfired):
                await around.fire(other, late_by=0.0)
        async with pool.acquire() as other:
            assert (await around.fire(other, late_by=0.0)).fired == 1


async def test_what_fired_again_is_left_out_for_a_short_while_when_it_fails_later(conn, monkeypatch):
    clock, one, broken = [1.0], uuid4(), [True]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock[0])

    async def fire(conn: Any, *, without: Any, **options: Any) -> Polled:
        if broken and one not in without:
            raise Unfired([one])
        return Polled(fired=0 if one in without else 1)

    async def left_out() -> float:
        """For how long it is left out once it fails."""
        broken[:] = [True]
        for _ in range(2):
            with pytest.raises(Unfired):
                await around.fire(conn, late_by=0.0)
        broken.clear()
        began = clock[0]
        while (await around.fire(conn, late_by=0.0)).fired == 0:
            clock[0] += 1.0
        return clock[0] - began

    around = Quarantine(fire)
    assert [await left_out() for _ in range(3)] == [10.0] * 3


async def test_a_poll_that_fails_for_any_reason_is_repeated(conn, acme, firing, eventually, monkeypatch):
    tries = []

    async def astray(*given: Any, **options: Any) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("a fault of ours")
        return await fire_due(*given, **options)

    monkeypatch.setattr("atlas.scheduler.firing.fire_due", astray)
    await given_schedule(conn, acme, "* * * * *")
    await conn.execute("update atlas.job_triggers set next_fire_at = date_trunc('minute', clock_timestamp())")
    async with firing():
        await eventually("select count(*) from atlas.trigger_fires", equals=1)
