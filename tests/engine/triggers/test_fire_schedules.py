"""Schedules fire: each due time once, by the database's clock, under the gate, by the misfire policy."""

import asyncio
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.switches.pauses import pause
from atlas.engine.triggers.cron import read_cron
from atlas.engine.triggers.find import find_trigger
from atlas.engine.triggers.fire import prepare
from atlas.engine.triggers.fire_now import fire_now
from atlas.engine.triggers.fire_schedules import fire_due
from atlas.engine.triggers.preview import preview
from atlas.engine.triggers.store import edit_trigger, remove_trigger
from atlas.errors import Conflict
from tests.engine.triggers.given import (
    DANA,
    actions,
    fires,
    given_event_trigger,
    given_leader,
    given_schedule,
    hours,
    jobs_of,
    missed,
    set_clock,
    wait_since,
)

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)
A_SECOND = timedelta(seconds=1)


async def test_a_due_time_becomes_one_job_with_its_record_and_its_event(conn, acme, owner):
    await set_clock(owner, NOON - hours(0.5))
    trigger = await given_schedule(
        conn, acme, payload_template={"day": "{{ fire.due_at }}", "by": "{{ trigger.label }}"}
    )

    early = await fire_due(conn)
    await set_clock(owner, NOON + A_SECOND)
    first = await fire_due(conn)
    again = await fire_due(conn)

    assert (early.fired, first.fired, again.fired) == (0, 1, 0)
    assert early.next_in == pytest.approx(1800, abs=1)
    assert again.next_in == pytest.approx(3599, abs=1)
    [job] = await jobs_of(conn, trigger)
    assert (job["source"], job["job_type"], job["tenant_id"]) == ("schedule", "report.build", acme)
    assert job["input"] == '{"by": "a schedule", "day": "2027-06-01T12:00:00+00:00"}'
    assert await fires(conn, trigger) == [("fired", NOON)]
    assert await actions(conn, trigger) == ["TRIGGER_ADDED", "TRIGGER_FIRED"]
    row = await conn.fetchrow("select last_fire_at, next_fire_at from atlas.job_triggers")
    assert tuple(row) == (NOON, NOON + hours(1))


@pytest.mark.parametrize(("policy", "count"), [("skip", 0), ("latest", 1), ("all", 36)])
async def test_after_three_hours_down_each_policy_gives_its_count(conn, acme, owner, policy, count):
    await set_clock(owner, NOON)
    trigger = await given_schedule(conn, acme, "*/5 * * * *", misfire=policy)
    await set_clock(owner, NOON + hours(3) + timedelta(minutes=2))

    while (await fire_due(conn)).fired:
        pass

    found = await fires(conn, trigger)
    assert len(found) == len(await jobs_of(conn, trigger)) == count
    if found:
        assert found[-1] == ("fired", NOON + hours(3))
    next_fire_at = await conn.fetchval("select next_fire_at from atlas.job_triggers")
    assert next_fire_at == NOON + hours(3) + timedelta(minutes=5)
    assert ("TRIGGER_MISSED" in await actions(conn, trigger)) == (policy != "all")


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
async def test_a_time_that_is_a_few_seconds_late_is_not_missed(conn, acme, owner, policy):
    await set_clock(owner, NOON - hours(0.5))
    trigger = await given_schedule(conn, acme, misfire=policy)
    await set_clock(owner, NOON + timedelta(seconds=20))

    assert (await fire_due(conn)).fired == 1
    assert await fires(conn, trigger) == [("fired", NOON)]


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
async def test_what_fell_due_while_a_scheduler_led_fires_however_late(conn, acme, owner, policy):
    await set_clock(owner, NOON)
    trigger = await given_schedule(conn, acme, "* * * * *", misfire=policy)
    await given_leader(conn)
    await set_clock(owner, NOON + timedelta(minutes=5, seconds=40))

    assert (await fire_due(conn)).fired == 5
    assert await fires(conn, trigger) == [("fired", NOON + timedelta(minutes=n)) for n in range(1, 6)]
    assert await missed(conn, trigger) == []
    assert "TRIGGER_MISSED" not in await actions(conn, trigger)


@pytest.mark.parametrize(("policy", "fired"), [("skip", [1, 4, 5]), ("latest", [1, 3, 4, 5]), ("all", [1, 2, 3, 4, 5])])
async def test_every_due_time_of_an_outage_that_does_not_fire_has_a_row(conn, acme, owner, policy, fired):
    await set_clock(owner, NOON)
    trigger = await given_schedule(conn, acme, "0 * * * *", misfire=policy)
    # Open when the outage began; two due times in it; two since a scheduler leads again.
    await given_leader(conn, (NOON + hours(1.5), NOON + hours(3.5)))
    await set_clock(owner, NOON + hours(5.5))

    assert (await fire_due(conn)).fired == len(fired)
    assert [at for _, at in await fires(conn, trigger)] == [NOON + hours(n) for n in fired]
    assert await missed(conn, trigger) == [NOON + hours(n) for n in (2, 3) if n not in fired]
    reasons = await conn.fetch("select distinct error from atlas.trigger_fires where result = 'missed'")
    assert all(f"the misfire policy is {policy}" in row["error"] for row in reasons)


async def test_a_long_outage_has_a_row_for_each_time_of_its_last_week_and_one_for_those_before(conn, acme, owner):
    await set_clock(owner, NOON)
    often = await given_schedule(conn, acme, "0 * * * *", misfire="latest")
    seldom = await given_schedule(conn, acme, "0 0 1 * *", misfire="latest")
    await given_leader(conn, (NOON, NOON + hours(24 * 89)))
    await set_clock(owner, NOON + hours(24 * 89) + timedelta(minutes=5))
    await fire_due(conn)

    last = NOON + hours(24 * 89)
    assert [at for _, at in await fires(conn, often)] == [last]
    assert await missed(conn, often) == [NOON + hours(1), *(last - hours(n) for n in range(24 * 7 - 1, 0, -1))]
    shared = await conn.fetchval("select error from atlas.trigger_fires where due_at = $1", NOON + hours(1))
    assert shared.endswith("So were all due times up to 2027-08-22 12:00 UTC.")
    # The only one of the last months fires, and the others have rows.
    assert [f"{at:%d.%m.}" for _, at in await fires(conn, seldom)] == ["01.08."]
    assert [f"{at:%d.%m.}" for at in await missed(conn, seldom)] == ["01.07."]


async def test_a_long_catch_up_takes_several_polls_and_misses_nothing(conn, acme, owner):
    await set_clock(owner, NOON)
    trigger = await given_schedule(conn, acme, "* * * * *", misfire="all")
    await set_clock(owner, NOON + hours(10) + A_SECOND)

    rounds = 0
    while (await fire_due(conn)).fired:
        rounds += 1

    due = [at for _, at in await fires(conn, trigger)]
    assert due == [NOON + timedelta(minutes=n) for n in range(1, 601)]
    assert rounds == 3


async def test_many_schedules_that_catch_up_go_in_several_transactions(conn, acme, owner, monkeypatch):
    monkeypatch.setattr("atlas.engine.triggers.fire_schedules.FIRINGS_AT_ONCE", 50)
    await set_clock(owner, NOON)
    triggers = [await given_schedule(conn, acme, "*/5 * * * *", misfire="all") for _ in range(4)]
    await set_clock(owner, NOON + hours(3) + A_SECOND)

    rounds = [(await fire_due(conn)).fired for _ in range(5)]

    assert rounds == [50, 50, 44, 0, 0]
    assert [len(await jobs_of(conn, trigger)) for trigger in triggers] == [36] * 4


async def test_schedules_whose_templates_take_long_go_in_several_transactions(conn, acme, owner, monkeypatch):
    monkeypatch.setattr("atlas.engine.triggers.fire_schedules.RENDERING_SECONDS", 0.0)
    await set_clock(owner, NOON)
    triggers = [await given_schedule(conn, acme, "0 * * * *", misfire="all") for _ in range(3)]
    await set_clock(owner, NOON + hours(2) + A_SECOND)

    rounds = [(await fire_due(conn)).fired for _ in range(4)]

    assert rounds == [2, 2, 2, 0]
    assert [len(await jobs_of(conn, trigger)) for trigger in triggers] == [2] * 3


@pytest.mark.parametrize(("policy", "count"), [("skip", 0), ("latest", 1), ("all", 2)])
async def test_nothing_fires_while_atlas_is_offline_and_the_policy_applies_on_return(conn, acme, policy, count):
    trigger = await given_schedule(conn, acme, "* * * * *", misfire=policy)
    await switch(conn, online=False, actor=DANA)
    now = await conn.fetchval("select date_trunc('minute', clock_timestamp())")
    await wait_since(conn, trigger, now - timedelta(minutes=1))
    await given_leader(conn)
    await conn.execute(
        "update atlas.system_state set value = jsonb_set(value, '{since}', to_jsonb($1::timestamptz)) where key = 'atlas_online'",
        now - timedelta(minutes=2),
    )

    closed = await fire_due(conn)
    await switch(conn, online=True, actor=DANA)
    # However short it was: what came due while nothing could fire is missed.
    while (await fire_due(conn)).fired:
        pass

    assert closed.closed
    # The minute may have turned meanwhile; that time is an ordinary one.
    found = [at for _, at in await fires(conn, trigger) if at <= now]
    assert len(found) == count


async def test_any_number_of_schedulers_at_once_fire_each_time_once(pool, conn, acme, owner):
    await set_clock(owner, NOON)
    triggers = [await given_schedule(conn, acme, "*/10 * * * *", misfire="all", label=f"t{n}") for n in range(20)]
    await set_clock(owner, NOON + hours(2) + A_SECOND)

    async def scheduler() -> int:
        fired = 0
        async with pool.acquire() as own:
            for _ in range(12):
                fired += (await fire_due(own, limit=7)).fired
        return fired

    fired = await asyncio.gather(*(scheduler() for _ in range(5)))

    assert sum(fired) == 20 * 12
    for trigger in triggers:
        assert len(await jobs_of(conn, trigger)) == 12


async def test_a_scheduler_that_stalls_between_planning_and_firing_holds_no_lock_and_fires_nothing_late(
    pool, conn, acme, owner, monkeypatch
):
    await set_clock(owner, NOON)
    trigger = await given_schedule(conn, acme)
    await set_clock(owner, NOON + hours(1))
    planned, go_on = asyncio.Event(), asyncio.Event()

    async def stall(conn, firings, actor):
        await prepare(conn, firings, actor)
        if not planned.is_set():
            planned.set()
            await go_on.wait()

    monkeypatch.setattr("atlas.engine.triggers.fire_schedules.prepare", stall)
    async with pool.acquire() as own:
        stalled = asyncio.create_task(fire_due(own))
        await planned.wait()
        assert (await fire_due(conn)).fired == 1
        await switch(conn, online=False, actor=DANA)
        go_on.set()
        assert (await stalled).fired == 0

    assert await fires(conn, trigger) == [("fired", NOON + hours(1))]
    assert len(await jobs_of(conn, trigger)) == 1


@pytest.mark.parametrize("change", ["edit", "pause", "another scheduler", "offline"])
async def test_what_changed_since_it_was_planned_is_not_fired(pool, conn, acme, owner, monkeypatch, change):
    await set_clock(owner, NOON)
    trigger, other = await given_schedule(conn, acme), await given_schedule(conn, acme)
    await set_clock(owner, NOON + hours(1))

    async def prepare_then_change(own, firings, actor):
        await prepare(own, firings, actor)
        monkeypatch.undo()
        if change == "edit":
            await edit_trigger(conn, trigger.id, {"is_enabled": False}, actor=DANA)
        elif change == "pause":
            await pause(conn, "trigger", str(trigger.id), actor=DANA, tenant_id=acme)
        elif change == "another scheduler":
            assert (await fire_due(conn, without=[other.id])).fired == 1
        else:
            await switch(conn, online=False, actor=DANA)

    monkeypatch.setattr("atlas.engine.triggers.fire_schedules.prepare", prepare_then_change)
    async with pool.acquire() as own:
        await fire_due(own)

    assert len(await jobs_of(conn, trigger)) == (1 if change == "another scheduler" else 0)
    assert len(await jobs_of(conn, other)) == (0 if change == "offline" else 1)


async def test_a_clock_that_is_set_back_fires_nothing_twice(conn, acme, owner):
    await set_clock(owner, NOON)
    trigger = await given_schedule(conn, acme)
    await set_clock(owner, NOON + hours(1))
    await fire_due(conn)

    await set_clock(owner, NOON)
    await wait_since(conn, trigger, NOON + hours(1))
    await set_clock(owner, NOON + hours(1))
    again = await fire_due(conn)

    assert again.fired == 0
    assert len(await jobs_of(conn, trigger)) == 1


async def test_a_disabled_or_removed_trigger_does_not_fire(conn, acme, owner):
    await set_clock(owner, NOON)
    disabled, removed = await given_schedule(conn, acme), await given_schedule(conn, acme)
    await edit_trigger(conn, disabled.id, {"is_enabled": False}, actor=DANA)
    await remove_trigger(conn, removed.id, actor=DANA)
    await set_clock(owner, NOON + hours(5))

    assert (await fire_due(conn)).fired == 0


async def test_a_firing_that_cannot_start_is_recorded_and_the_others_fire(conn, acme, owner):
    await set_clock(owner, NOON)
    await conn.execute(
        """insert into atlas.job_types (key, input_schema) values ('report.strict',
           '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}')"""
    )
    wrong = await given_schedule(conn, acme, job_type="report.strict", payload_template={"n": "{{ trigger.label }}"})
    right = await given_schedule(conn, acme, job_type="report.strict", payload_template={"n": 3})
    divides = await given_schedule(conn, acme, payload_template={"n": "{{ 1 / (trigger.label | length - 10) }}"})
    await set_clock(owner, NOON + hours(1))

    await fire_due(conn)

    assert len(await jobs_of(conn, right)) == 1
    for trigger in (wrong, divides):
        assert await jobs_of(conn, trigger) == []
        assert await fires(conn, trigger) == [("failed", NOON + hours(1))]
        assert "TRIGGER_FAILED" in await actions(conn, trigger)
    error = await conn.fetchval("select last_error->>'message' from atlas.job_triggers where id = $1", wrong.id)
    assert "The input of report.strict is not valid" in error


async def test_a_firing_that_works_clears_the_error_of_the_one_before(conn, acme, owner):
    await set_clock(owner, NOON)
    trigger = await given_schedule(conn, acme, payload_template={"n": "{{ 1 / (trigger.label | length - 10) }}"})
    await set_clock(owner, NOON + hours(1))
    await fire_due(conn)
    assert await conn.fetchval("select last_error from atlas.job_triggers") is not None

    await conn.execute("update atlas.job_triggers set label = 'a longer label'")
    await set_clock(owner, NOON + hours(2))
    await fire_due(conn)

    assert await conn.fetchval("select last_error from atlas.job_triggers") is None
    assert [result for result, _ in await fires(conn, trigger)] == ["failed", "fired"]


async def test_a_workflow_is_requested_on_behalf_of_who_made_the_trigger(conn, acme, owner):
    await set_clock(owner, NOON)
    trigger = await given_schedule(conn, acme, workflow="WF-010", payload_template={"topic": "rain"})
    await set_clock(owner, NOON + hours(1))

    await fire_due(conn)

    intent = await conn.fetchrow("select * from atlas.intents")
    assert (intent["workflow"], intent["source"], intent["source_ref"]) == ("WF-010", "schedule", str(trigger.id))
    assert (intent["requested_by"], intent["input"]) == ("dana", '{"topic": "rain"}')
    assert await conn.fetchval("select job_id from atlas.trigger_fires") == intent["id"]


async def test_a_schedule_without_a_next_time_gets_one_and_does_not_fire_for_the_past(conn, acme, owner):
    await set_clock(owner, NOON + A_SECOND)
    await given_schedule(conn, acme)
    await conn.execute("update atlas.job_triggers set next_fire_at = null")

    assert (await fire_due(conn)).fired == 0
    assert await conn.fetchval("select next_fire_at from atlas.job_triggers") == NOON + hours(1)


async def test_a_scheduler_that_does_not_lead_fires_only_what_is_late(conn, acme, owner):
    await set_clock(owner, NOON)
    await given_schedule(conn, acme)
    await set_clock(owner, NOON + hours(1) + timedelta(seconds=2))
    waits = await fire_due(conn, late_by=3)
    await set_clock(owner, NOON + hours(1) + timedelta(seconds=4))
    fires_now = await fire_due(conn, late_by=3)

    assert (waits.fired, fires_now.fired) == (0, 1)
    assert waits.next_in == pytest.approx(1, abs=0.1)


async def test_turning_atlas_on_while_it_is_on_makes_no_due_time_a_missed_one(conn, owner, acme):
    now = await conn.fetchval("select date_trunc('minute', clock_timestamp())")
    await conn.execute(
        "update atlas.system_state set value = jsonb_set(value, '{since}', to_jsonb($1::timestamptz)) where key = 'atlas_online'",
        now - hours(1),
    )
    await conn.execute("update atlas.scheduler_leader set outages = '{}'")
    await set_clock(owner, now + timedelta(seconds=5))
    trigger = await given_schedule(conn, acme, "* * * * *", misfire="skip")
    await wait_since(conn, trigger, now)
    await switch(conn, online=True, actor=DANA)
    await fire_due(conn)

    assert await fires(conn, trigger) == [("fired", now)]


async def test_a_schedule_whose_zone_is_back_goes_on_with_its_own_times(conn, acme, owner):
    await set_clock(owner, NOON)
    daily = await given_schedule(conn, acme, "30 14 * * *", timezone="Europe/Berlin")
    hourly = await given_schedule(conn, acme, "30 * * * *", timezone="Europe/Berlin", misfire="all")
    await conn.execute("update atlas.job_triggers set timezone = 'Europe/Atlantis'")
    for look in range(1, 5):
        await set_clock(owner, NOON + hours(look))
        await fire_due(conn)
    error = orjson.loads(await conn.fetchval("select last_error from atlas.job_triggers where id = $1", daily.id))
    await conn.execute("update atlas.job_triggers set timezone = 'Europe/Berlin'")
    await edit_trigger(conn, hourly.id, {"label": "renamed"}, actor=DANA)
    await set_clock(owner, NOON + hours(5.25))
    await fire_due(conn)

    assert "'Europe/Atlantis' is not a zone" in error["message"]
    assert await fires(conn, daily) == [("fired", NOON + hours(0.5))]
    assert await fires(conn, hourly) == [("fired", NOON + hours(0.5 + n)) for n in range(5)]
    assert (await find_trigger(conn, daily.id)).next_fire_at == NOON + hours(24.5)
    assert (await find_trigger(conn, daily.id)).last_error is None


async def test_a_due_time_by_the_old_rules_of_its_zone_fires_by_the_new_ones(conn, acme, owner):
    await set_clock(owner, NOON)
    earlier = await given_schedule(conn, acme, "0 11 * * *", misfire="latest")
    later = await given_schedule(conn, acme, "30 12 * * *", misfire="latest")
    hourly = await given_schedule(conn, acme, "0 * * * *", misfire="all")
    for trigger in (earlier, later):
        await wait_since(conn, trigger, NOON)
    await wait_since(conn, hourly, NOON - A_SECOND)
    await fire_due(conn)
    await fire_due(conn)

    # By the old rules all were due at noon, or just before.
    assert await fires(conn, earlier) == [("fired", NOON - hours(1))]
    assert (await find_trigger(conn, earlier.id)).next_fire_at == NOON + hours(23)
    assert await fires(conn, later) == []
    assert (await find_trigger(conn, later.id)).next_fire_at == NOON + hours(0.5)
    assert await fires(conn, hourly) == [("fired", NOON - hours(1)), ("fired", NOON)]


async def test_a_person_fires_a_trigger_even_offline(conn, acme):
    trigger = await given_event_trigger(conn, acme, payload_template={"id": "{{ event.invoice }}"})
    await switch(conn, online=False, actor=DANA)

    job_id = await fire_now(conn, trigger.id, actor=DANA, context={"invoice": 7})
    await fire_now(conn, trigger.id, actor=DANA, context={"invoice": 7})
    with pytest.raises(Conflict, match="there is no 'invoice'"):
        await fire_now(conn, trigger.id, actor=DANA)

    first, second = await jobs_of(conn, trigger)
    assert (first["id"], first["source"], first["created_by"]) == (job_id, "manual", "dana")
    assert first["input"] == second["input"] == '{"id": 7}'
    assert await conn.fetchval("select count(*) from atlas.trigger_fires") == 2


@pytest.mark.long
def test_a_preview_ends_with_the_calendar():
    rare = preview(read_cron("0 0 * 2 1#5", "UTC"), NOON, count=500)

    assert 200 < len(rare) < 500
    assert rare[-1].utc.year > 9900


def test_a_preview_marks_what_touches_a_clock_change():
    berlin = read_cron("30 2 * * *", "Europe/Berlin")
    spring = preview(berlin, datetime(2027, 3, 26, 12, tzinfo=UTC), count=3)
    autumn = preview(berlin, datetime(2027, 10, 30, 12, tzinfo=UTC), count=2)
    rhythm = preview(read_cron("*/30 * * * *", "Europe/Berlin"), datetime(2027, 10, 30, 23, 59, tzinfo=UTC), count=7)

    assert [f"{datetime.fromisoformat(one.local):%d %H:%M} {one.utc:%H:%M}" for one in spring] == [
        "27 02:30 01:30",
        "28 03:00 01:00",
        "29 02:30 00:30",
    ]
    gap = "the clock goes from 02:00 to 03:00; the time between does not exist, so it comes now"
    assert [one.note for one in spring] == ["", gap, ""]
    assert [one.note for one in autumn] == ["02:30 comes twice on this day; the first one counts", ""]
    assert [one.note.rpartition(" ")[2] for one in rhythm] == ["first", "first", "second", "second", "", "", ""]
