"""Events fire triggers: each event each trigger once, whatever the order of commits, with its window."""

import asyncio

import orjson
import pytest

from atlas.actors import Actor
from atlas.engine.commands.definitions import add_definition
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.triggers.fire_events import fire_due_events, matches_name, patterns_of
from atlas.engine.triggers.fire_now import fire_now
from atlas.engine.triggers.fire_schedules import fire_due
from atlas.engine.triggers.store import edit_trigger
from atlas.engine.workflows.events import publish_event, signal_run
from atlas.engine.workflows.intents import request_workflow
from tests.engine.triggers.given import actions, fires, given_event_trigger, jobs_of
from tests.support import DANA, MAX_HOLD, forget_compiled, given_tenant, max_hold


async def publish(conn, tenant, name="invoice.paid", **context):
    return (await publish_event(conn, tenant, name, context, actor=DANA)).id


async def results(conn, trigger) -> list[str]:
    return [result for result, _ in await fires(conn, trigger)]


async def test_an_event_becomes_a_job_with_the_rendered_payload(conn, acme):
    template = {
        "id": "{{ event.invoice }}",
        "text": "{{ event.name }} of {{ event.context.who }}",
        "all": "{{ event.context }}",
    }
    trigger = await given_event_trigger(conn, acme, payload_template=template)

    event = await publish_event(
        conn, acme, "invoice.paid", {"invoice": 7, "who": "Ada"}, actor=DANA, correlation_id="c1"
    )
    first, again = await fire_due_events(conn), await fire_due_events(conn)

    assert (first.fired, again.fired) == (1, 0)
    [job] = await jobs_of(conn, trigger)
    text = "invoice.paid of Ada"
    assert orjson.loads(job["input"]) == {"id": 7, "text": text, "all": {"invoice": 7, "who": "Ada"}}
    assert (job["source"], job["correlation_id"], job["tenant_id"]) == ("event", "c1", acme)
    assert await conn.fetchval("select event_id from atlas.trigger_fires") == event.id
    assert await actions(conn, trigger) == ["TRIGGER_ADDED", "TRIGGER_FIRED"]
    assert await conn.fetchval("select handled_at is not null from atlas.events")


@pytest.mark.parametrize(
    ("pattern", "name", "fit"),
    [
        ("stripe.invoice.paid", "stripe.invoice.paid", True),
        ("stripe.*", "stripe.invoice.paid", True),
        ("stripe.invoice.*", "stripe.invoice.paid", True),
        ("stripe.*", "stripe", False),
        ("stripe.*", "stripes.paid", False),
        ("stripe.invoice", "stripe.invoice.paid", False),
        ("paid", "stripe.paid", False),
    ],
)
def test_a_trigger_fits_an_exact_name_or_all_names_under_one(pattern, name, fit):
    assert matches_name(pattern, name) == fit
    assert (pattern in patterns_of(name)) == fit


async def test_an_event_fires_every_trigger_that_fits_and_no_other_tenants(conn, acme):
    other = await given_tenant(conn, "other")
    exact = await given_event_trigger(conn, acme)
    wide = await given_event_trigger(conn, acme, "invoice.*")
    deaf = [
        await given_event_trigger(conn, acme, "invoice.sent"),
        await given_event_trigger(conn, acme, is_enabled=False),
        await given_event_trigger(conn, other),
    ]

    await publish(conn, acme)
    await fire_due_events(conn)

    assert [len(await jobs_of(conn, one)) for one in (exact, wide, *deaf)] == [1, 1, 0, 0, 0]


async def test_an_event_that_commits_late_is_not_passed_over(pool, conn, acme):
    trigger = await given_event_trigger(conn, acme, payload_template={"n": "{{ event.n }}"})
    async with pool.acquire() as slow:
        late = slow.transaction()
        await late.start()
        await publish(slow, acme, n=1)  # has the lower number
        await publish(conn, acme, n=2)
        await fire_due_events(conn)
        await late.commit()
    await fire_due_events(conn)

    assert [orjson.loads(job["input"])["n"] for job in await jobs_of(conn, trigger)] == [2, 1]


async def test_equal_payloads_within_the_window_start_once_even_after_the_job_has_ended(conn, acme):
    windowed = await given_event_trigger(conn, acme, payload_template={"n": "{{ event.n }}"})
    eager = await given_event_trigger(conn, acme, payload_template={"n": "{{ event.n }}"}, dedupe_window_seconds=0)
    await publish(conn, acme, n=1)
    await fire_due_events(conn)
    await conn.execute("update atlas.jobs set status = 'canceled', finished_at = clock_timestamp()")

    for n in (1, 1, 2):
        await publish(conn, acme, n=n, noise="differs")
    await fire_due_events(conn)

    assert sorted(await results(conn, windowed)) == ["fired", "fired", "swallowed", "swallowed"]
    assert await results(conn, eager) == ["fired"] * 4
    swallowed = await conn.fetch("select job_id from atlas.trigger_fires where result = 'swallowed'")
    first = (await jobs_of(conn, windowed))[0]["id"]
    assert {row["job_id"] for row in swallowed} == {first}


async def test_a_firing_that_could_not_start_swallows_no_other(conn, acme):
    await add_definition(conn, {"key": "sync", "argv": ["/bin/true"]}, actor=DANA)
    trigger = await given_event_trigger(conn, acme, definition_key="sync")
    await conn.execute("update atlas.job_definitions set key = 'gone'")
    for _ in range(3):
        await publish(conn, acme)
    await fire_due_events(conn)
    assert await results(conn, trigger) == ["failed"] * 3

    await conn.execute("update atlas.job_definitions set key = 'sync'")
    for _ in range(3):
        await publish(conn, acme)
    await fire_due_events(conn)
    [job] = await jobs_of(conn, trigger)
    swallowed = await conn.fetch("select job_id from atlas.trigger_fires where result = 'swallowed'")
    assert [row["job_id"] for row in swallowed] == [job["id"]] * 2


async def test_a_window_that_has_passed_swallows_nothing(conn, acme):
    trigger = await given_event_trigger(conn, acme)
    await publish(conn, acme)
    await fire_due_events(conn)
    await conn.execute("update atlas.trigger_fires set fired_at = fired_at - interval '301 seconds'")
    await publish(conn, acme)
    await fire_due_events(conn)

    assert await results(conn, trigger) == ["fired", "fired"]


async def test_two_schedulers_at_once_see_each_others_window(pool, conn, acme):
    trigger = await given_event_trigger(conn, acme)
    for _ in range(40):
        await publish(conn, acme)

    async def scheduler() -> None:
        async with pool.acquire() as own:
            while await own.fetchval("select exists (select from atlas.events where handled_at is null)"):
                await fire_due_events(own, limit=3)

    await asyncio.gather(*(scheduler() for _ in range(4)))

    assert sorted(await results(conn, trigger)) == ["fired"] + ["swallowed"] * 39
    assert len(await jobs_of(conn, trigger)) == 1


async def test_a_template_that_fails_is_recorded_and_the_other_triggers_fire(conn, acme):
    broken = await given_event_trigger(conn, acme, payload_template={"n": "{{ event.missing.thing }}"})
    fine = await given_event_trigger(conn, acme)

    await publish(conn, acme)
    await fire_due_events(conn)

    assert await results(conn, broken) == ["failed"]
    assert await results(conn, fine) == ["fired"]
    error = await conn.fetchval("select last_error->>'message' from atlas.job_triggers where id = $1", broken.id)
    assert "payload_template.n" in error
    assert "there is no 'missing'" in error
    assert (await actions(conn, broken))[-1] == "TRIGGER_FAILED"


async def test_a_payload_that_cannot_even_be_checked_fails_its_own_firing_only(conn, acme, owner):
    broken = await given_event_trigger(conn, acme, job_type="odd")
    fine = await given_event_trigger(conn, await given_tenant(conn, "other"))
    # What no border lets through.
    await owner.execute("""insert into atlas.job_types (key, input_schema) values ('odd', '{"type": 5}')""")

    for trigger in (broken, fine):
        await publish(conn, trigger.tenant_id)
    await fire_due_events(conn)

    assert await results(conn, broken) == ["failed"]
    assert await results(conn, fine) == ["fired"]
    assert await conn.fetchval("select count(*) from atlas.events where handled_at is null") == 0


@pytest.mark.parametrize("template", ['{{ "\\ud800" }}', "{{ 2**60 * 2**60 }}", "{{ event | truncate(1) }}"])
async def test_a_template_that_makes_no_json_is_recorded_and_other_tenants_triggers_fire(conn, acme, template):
    broken = await given_event_trigger(conn, acme, payload_template={"n": template})
    fine = await given_event_trigger(conn, await given_tenant(conn, "other"))

    for trigger in (broken, fine):
        await publish(conn, trigger.tenant_id)
    await fire_due_events(conn)

    assert await results(conn, broken) == ["failed"]
    assert await results(conn, fine) == ["fired"]


async def test_events_that_fire_very_many_triggers_go_in_several_transactions(conn, acme, monkeypatch):
    monkeypatch.setattr("atlas.engine.triggers.fire_events.FIRINGS_AT_ONCE", 4)
    for _ in range(3):
        await given_event_trigger(conn, acme, dedupe_window_seconds=0)
    for _ in range(4):
        await publish(conn, acme)

    assert [(await fire_due_events(conn)).fired for _ in range(3)] == [6, 6, 0]


async def test_templates_that_take_long_share_the_time_of_their_event_and_the_others_fire(conn, acme, monkeypatch):
    heavy = {"x": ["{{ 9 in event.numbers }}"] * 4}
    first = await given_event_trigger(conn, acme, payload_template=heavy)
    await publish(conn, acme, numbers=[1] * 10_000)
    await fire_due_events(conn)
    monkeypatch.setattr("atlas.engine.triggers.fire.RENDERING_SECONDS", 0.0)
    fine = await given_event_trigger(conn, acme, payload_template={"n": "{{ event.numbers[0] }}"})

    await publish(conn, acme, numbers=[1] * 10_001)
    await fire_due_events(conn)

    assert await results(conn, first) == ["fired", "failed"]
    assert await results(conn, fine) == ["fired"]
    assert await conn.fetchval("select count(*) from atlas.events where handled_at is null") == 0


@pytest.mark.long
async def test_a_large_template_leaves_the_event_loop_to_others(conn, acme):
    expressions = [f"{{{{ {number}" + " | d" * 20 + " }}" for number in range(180)]
    trigger = await given_event_trigger(conn, acme, payload_template={"of": expressions})
    await publish(conn, acme)
    forget_compiled()
    longest = await max_hold(fire_due_events(conn))

    assert await results(conn, trigger) == ["fired"]
    print(f"longest hold {longest * 1000:.0f} ms")
    assert longest < MAX_HOLD


async def test_events_whose_templates_take_long_go_in_several_transactions(conn, acme, monkeypatch):
    monkeypatch.setattr("atlas.engine.triggers.fire_events.RENDERING_SECONDS", 0.0)
    await given_event_trigger(conn, acme, dedupe_window_seconds=0)
    for _ in range(3):
        await publish(conn, acme)

    assert [(await fire_due_events(conn)).fired for _ in range(4)] == [1, 1, 1, 0]


async def test_a_trigger_does_not_see_what_happened_before_it_was_made(conn, acme):
    await publish(conn, acme)
    late = await given_event_trigger(conn, acme)
    await fire_due_events(conn)

    assert await jobs_of(conn, late) == []


async def test_events_wait_while_atlas_is_offline(conn, acme):
    trigger = await given_event_trigger(conn, acme)
    await switch(conn, online=False, actor=DANA)
    await publish(conn, acme)
    assert (await fire_due_events(conn)).closed
    await switch(conn, online=True, actor=DANA)

    assert (await fire_due_events(conn)).fired == 1
    assert len(await jobs_of(conn, trigger)) == 1


async def test_an_event_may_ask_for_a_workflow(conn, acme):
    trigger = await given_event_trigger(
        conn, acme, workflow="WF-106", payload_template={"invoice": "{{ event.invoice }}"}
    )
    await publish(conn, acme, invoice=7)
    await fire_due_events(conn)

    intent = await conn.fetchrow("select * from atlas.intents")
    assert (intent["workflow"], intent["source"], intent["input"]) == ("WF-106", "event", '{"invoice": 7}')
    assert (await actions(conn, trigger))[-1] == "TRIGGER_FIRED"


async def test_a_workflow_is_requested_by_who_fired_the_trigger_or_last_changed_it(conn, acme):
    trigger = await given_event_trigger(conn, acme, workflow="WF-106", dedupe_window_seconds=0)
    ada, eve = Actor("user", "ada"), Actor("user", "eve")

    async def fired() -> str:
        await publish(conn, acme)
        await fire_due_events(conn)
        return await conn.fetchval("select requested_by from atlas.intents order by id desc limit 1")

    made = await fired()
    await edit_trigger(conn, trigger.id, {"label": "renamed"}, actor=eve)
    renamed = await fired()
    await edit_trigger(conn, trigger.id, {"payload_template": {"to": "eve"}}, actor=eve)
    edited = await fired()
    by_hand = await fire_now(conn, trigger.id, actor=ada)

    assert (made, renamed, edited) == ("dana", "dana", "eve")
    assert await conn.fetchval("select requested_by from atlas.intents where id = $1", by_hand) == "ada"


async def test_a_trigger_saved_before_for_the_job_of_a_run_starts_nothing(conn, acme, owner):
    trigger = await given_event_trigger(conn, acme, payload_template={"workflow": "wf", "requestedBy": "ada"})
    await owner.execute("update atlas.job_triggers set job_type = 'ENGINE_RUN'")
    await publish(conn, acme)
    await fire_due_events(conn)

    assert await results(conn, trigger) == ["failed"]
    assert await jobs_of(conn, trigger) == []
    error = await conn.fetchval("select last_error->>'message' from atlas.job_triggers")
    assert "ask for the workflow by its name" in error


async def test_a_signal_to_one_run_fires_no_trigger(conn, acme):
    trigger = await given_event_trigger(conn, acme, "approved")
    run = await request_workflow(conn, acme, "x", {}, DANA, allow_unknown=True)
    await signal_run(conn, run, "approved", actor=DANA)

    assert (await fire_due_events(conn)).fired == 0
    assert await jobs_of(conn, trigger) == []


async def test_schedules_do_not_fire_on_events_nor_event_triggers_by_time(conn, acme):
    trigger = await given_event_trigger(conn, acme)
    assert (await fire_due(conn)).fired == 0
    assert (await fire_due(conn)).next_in is None
    assert await jobs_of(conn, trigger) == []


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ({"is_enabled": False}, {"is_enabled": True}),
        ({"event_name": "invoice.sent"}, {"event_name": "invoice.paid"}),
        (
            {"trigger_type": "schedule", "event_name": None, "cron_expr": "@yearly"},
            {"trigger_type": "event", "event_name": "invoice.paid", "cron_expr": None},
        ),
    ],
)
async def test_a_trigger_sees_the_events_from_when_it_was_enabled_or_given_their_name(conn, acme, before, change):
    trigger = await given_event_trigger(conn, acme, dedupe_window_seconds=0)
    await edit_trigger(conn, trigger.id, before, actor=DANA)
    await publish_event(conn, acme, "invoice.paid", {"n": 1}, actor=DANA)
    await edit_trigger(conn, trigger.id, change, actor=DANA)
    await edit_trigger(conn, trigger.id, {"label": "the same"}, actor=DANA)
    await fire_due_events(conn)
    assert await results(conn, trigger) == []

    await publish_event(conn, acme, "invoice.paid", {"n": 2}, actor=DANA)
    await edit_trigger(conn, trigger.id, {"label": "another name for people"}, actor=DANA)
    await fire_due_events(conn)
    assert await results(conn, trigger) == ["fired"]
