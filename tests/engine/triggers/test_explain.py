"""Explain: the one reason a trigger did not fire, by the scheduler's own conditions, and the way out."""

from datetime import timedelta
from uuid import uuid4

import orjson
import pytest

from atlas.engine.jobs.switches.gate import switch
from atlas.engine.triggers.explain import explain_trigger
from atlas.engine.triggers.fire_events import fire_due_events
from atlas.engine.triggers.fire_schedules import fire_due
from atlas.engine.triggers.store import edit_trigger
from atlas.engine.workflows.events import publish_event
from atlas.errors import NotFound
from tests.engine.triggers.given import given_event_trigger, given_schedule, wait_since
from tests.support import DANA, given_review, given_tenant, publish


@pytest.fixture(autouse=True)
async def published(conn) -> None:
    await publish(conn, "report.build")


async def why(conn, trigger):
    found = await explain_trigger(conn, trigger.id)
    assert found.sentence.endswith(".")
    assert found.kind == "trigger"
    return found


async def backdate(conn, trigger, hours=3):
    """It is as it is since some hours."""
    await conn.execute(
        "update atlas.job_triggers set updated_at = clock_timestamp() - $2::interval, created_at = updated_at where id = $1",
        trigger.id,
        timedelta(hours=hours),
    )


async def test_what_holds_every_trigger_comes_first(conn, acme):
    trigger = await given_schedule(conn, acme)
    assert (await why(conn, trigger)).reason == "scheduled"

    await conn.execute("delete from atlas.job_types")
    assert (await why(conn, trigger)).reason == "target_missing"
    unsaved = await given_schedule(conn, acme, workflow="nowhere")
    assert "The workflow 'nowhere'" in (await why(conn, unsaved)).sentence

    broken = orjson.dumps({"message": "no such zone", "open_since": None}).decode()
    await conn.execute("update atlas.job_triggers set last_error = $1", broken)
    found = await why(conn, trigger)
    assert (found.reason, "no such zone" in found.sentence) == ("broken", True)

    await switch(conn, online=False, actor=DANA, reason="disks")
    assert ((await why(conn, trigger)).reason, (await why(conn, trigger)).command) == ("gate", "atlas online")
    await edit_trigger(conn, trigger.id, {"is_enabled": False}, actor=DANA)
    found = await why(conn, trigger)
    assert (found.status, found.reason) == ("disabled", "disabled")
    assert found.command == f"atlas trigger edit {trigger.id} --enable"


async def test_a_schedule_is_late_skipped_failed_or_on_its_way(conn, acme):
    trigger = await given_schedule(conn, acme, "* * * * *", misfire="skip")
    await backdate(conn, trigger)
    now = await conn.fetchval("select clock_timestamp()")
    await wait_since(conn, trigger, now - timedelta(minutes=10))
    found = await why(conn, trigger)
    assert (found.reason, found.command) == ("late", "atlas scheduler")
    assert found.numbers["late_seconds"] >= 600

    await conn.execute("update atlas.job_triggers set next_fire_at = null")
    assert (await why(conn, trigger)).reason == "no_next_time"

    # As after an outage: the missed times are dropped.
    await wait_since(conn, trigger, now + timedelta(minutes=10))
    found = await why(conn, trigger)
    assert (found.reason, "the misfire policy is skip" in found.sentence) == ("skipped", True)

    await wait_since(conn, trigger, now.replace(second=0, microsecond=0) - timedelta(minutes=1))
    await edit_trigger(conn, trigger.id, {"misfire": "all"}, actor=DANA)
    assert (await fire_due(conn)).fired > 0
    found = await why(conn, trigger)
    assert (found.reason, "fired last at" in found.sentence) == ("scheduled", True)

    await conn.execute("update atlas.trigger_fires set result = 'failed', job_id = null, error = 'no template'")
    found = await why(conn, trigger)
    assert (found.reason, "no template" in found.sentence) == ("failed", True)


async def test_what_became_of_the_request_for_a_workflow_is_said(conn, acme):
    await conn.execute(
        "insert into atlas.workflows (tenant_id, key, version, kind, created_by) values ($1, 'pay', 0, 'code', 'x')",
        acme,
    )
    trigger = await given_event_trigger(conn, acme, workflow="pay")
    await publish_event(conn, acme, "invoice.paid", {}, actor=DANA)
    await fire_due_events(conn)
    assert (await why(conn, trigger)).reason == "fired"

    intent = await conn.fetchval("select id from atlas.intents")
    await given_review(conn, intent, "it costs much")
    await conn.execute("update atlas.intents set status = 'awaiting_human'")
    found = await why(conn, trigger)
    assert (found.reason, found.command.startswith("atlas workflow approve ")) == ("review", True)
    await conn.execute("update atlas.intents set status = 'blocked', reason = 'Rule x says block'")
    found = await why(conn, trigger)
    assert (found.reason, "Rule x says block" in found.sentence) == ("blocked", True)


async def test_the_last_events_say_why_none_of_them_fired_it(conn, acme):
    await publish_event(conn, await given_tenant(conn, "globex"), "invoice.paid", {}, actor=DANA)
    trigger = await given_event_trigger(conn, acme, "invoice.*", payload_template={"n": "{{ event.n }}"})
    assert (await why(conn, trigger)).reason == "no_event"

    await publish_event(conn, acme, "order.made", {"n": 1}, actor=DANA)
    found = await why(conn, trigger)
    assert (found.reason, "The newest are order.made" in found.sentence) == ("no_match", True)

    await publish_event(conn, acme, "invoice.paid", {"n": 1}, actor=DANA)
    assert (await why(conn, trigger)).reason == "unhandled"
    await fire_due_events(conn)
    assert (await why(conn, trigger)).reason == "fired"

    await publish_event(conn, acme, "invoice.paid", {"n": 1}, actor=DANA)
    await fire_due_events(conn)
    found = await why(conn, trigger)
    assert (found.reason, found.numbers) == ("swallowed", {"window_seconds": 300})

    await publish_event(conn, acme, "invoice.paid", {"x": 1}, actor=DANA)
    await fire_due_events(conn)
    assert (await why(conn, trigger)).reason == "failed"

    late = await given_event_trigger(conn, acme, "invoice.paid")
    assert (await why(conn, late)).reason == "before_active"


async def test_a_stranger_is_not_found(conn, acme):
    trigger = await given_schedule(conn, acme)
    with pytest.raises(NotFound):
        await explain_trigger(conn, uuid4())
    with pytest.raises(NotFound):
        await explain_trigger(conn, trigger.id, tenant_id=uuid4())
