"""A paused trigger does not fire; afterwards its misfire policy decides about the times that it missed."""

from datetime import UTC, datetime, timedelta

import pytest

from atlas.engine.jobs.switches.pauses import pause, resume
from atlas.engine.triggers.explain import explain_trigger
from atlas.engine.triggers.fire_events import fire_due_events
from atlas.engine.triggers.fire_now import fire_now
from atlas.engine.triggers.fire_schedules import fire_due
from atlas.engine.workflows.events import publish_event
from tests.engine.triggers.given import (
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
from tests.support import DANA

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)


async def test_a_paused_schedule_does_not_fire_and_is_not_polled_for(conn, acme, owner):
    await set_clock(owner, NOON - hours(0.5))
    trigger = await given_schedule(conn, acme, misfire="latest")
    await fire_due(conn)
    made = await pause(conn, "trigger", str(trigger.id), actor=DANA, tenant_id=acme, reason="month's end")
    await set_clock(owner, NOON + timedelta(seconds=1))
    polled = await fire_due(conn)
    assert (polled.fired, polled.next_in) == (0, None)
    why = await explain_trigger(conn, trigger.id)
    assert (why.reason, why.command) == ("paused", f"atlas resume trigger {trigger.id}")
    assert "by dana: month's end" in why.sentence

    # By hand it fires all the same, as it does while Atlas is offline.
    await fire_now(conn, trigger.id, actor=DANA)
    await resume(conn, made.id, actor=DANA)
    await fire_due(conn)
    assert len(await jobs_of(conn, trigger)) == 2


@pytest.mark.parametrize("ends", ["resumed", "by itself", "paused again"])
async def test_times_that_pass_while_a_trigger_is_paused_are_missed_and_those_before_are_late(conn, acme, owner, ends):
    now = await conn.fetchval("select date_trunc('minute', clock_timestamp())")
    trigger = await given_schedule(conn, acme, "* * * * *", misfire="skip")
    await given_leader(conn)
    await wait_since(conn, trigger, now - timedelta(minutes=3))
    made = await pause(conn, "trigger", str(trigger.id), actor=DANA, tenant_id=acme)
    await conn.execute("update atlas.pauses set paused_at = $1", now - timedelta(minutes=2, seconds=30))
    if ends != "resumed":
        await conn.execute("update atlas.pauses set until = $1", now - timedelta(seconds=30))
    if ends == "paused again":
        await pause(conn, "trigger", str(trigger.id), actor=DANA, tenant_id=acme)
    if ends != "by itself":
        await conn.execute(
            "update atlas.pauses set paused_at = $1 where until is null", now - timedelta(minutes=2, seconds=30)
        )
        await resume(conn, made.id, actor=DANA)
    await set_clock(owner, now + timedelta(seconds=1))
    await fire_due(conn)

    passed = [now - timedelta(minutes=2), now - timedelta(minutes=1)]
    assert [at for at in await missed(conn, trigger) if at < now] == passed
    assert ("fired", now - timedelta(minutes=3)) in await fires(conn, trigger)


async def test_events_that_come_while_a_trigger_is_paused_do_not_fire_it(conn, acme):
    trigger = await given_event_trigger(conn, acme)
    made = await pause(conn, "trigger", str(trigger.id), actor=DANA)
    await publish_event(conn, acme, "invoice.paid", {"n": 1}, actor=DANA)
    assert (await fire_due_events(conn)).fired == 0
    await resume(conn, made.id, actor=DANA)
    assert (await fire_due_events(conn)).fired == 0
    await publish_event(conn, acme, "invoice.paid", {"n": 2}, actor=DANA)
    assert (await fire_due_events(conn)).fired == 1
    assert len(await jobs_of(conn, trigger)) == 1
