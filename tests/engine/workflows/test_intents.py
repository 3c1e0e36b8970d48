"""Intents and policy: every start from outside is asked for, judged and recorded."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from atlas.actors import system
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.switches.gate import switch, switch_engine
from atlas.engine.policy import judge as policy
from atlas.engine.policy.judge import check_policy
from atlas.engine.policy.rules import add_rule, list_rules, remove_rule
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.workflows.declared.store import enable_workflow
from atlas.engine.workflows.find_intents import list_intents
from atlas.engine.workflows.intents import NewIntent, _decide, request_workflow, request_workflows, take_intents
from atlas.engine.workflows.registry import registered_workflows
from atlas.engine.workflows.run_actions import cancel_run, retry_run
from atlas.engine.workflows.workflow_catalog import publish_workflows
from atlas.errors import Conflict, InvalidInput, NotFound
from atlas.ids import new_id
from tests.engine.workflows.kit import APPROVER, REQUESTER
from tests.support import until


async def rule(kit, label="rule", **facts):
    async with kit.pool.acquire() as conn:
        return await add_rule(conn, label=label, actor=APPROVER, **facts)


async def status_of(kit, intent_id):
    [intent] = await list_intents(kit.pool, id=intent_id)
    return intent.status


async def test_a_request_lives_and_dies_with_the_callers_transaction(kit):
    async with kit.pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        gone = await request_workflow(conn, SYSTEM_TENANT, "wf.plain", {}, REQUESTER)
        await transaction.rollback()

    assert await list_intents(kit.pool, id=gone) == []
    assert await kit.actions(gone) == []


async def test_a_poll_that_goes_on_from_a_moment_leaves_older_requests_to_one_from_the_head(kit):
    late, new = await kit.ask("wf.plain"), await kit.ask("wf.plain")
    await kit.pool.execute("update atlas.intents set created_at = created_at - interval '1 hour' where id = $1", late)
    async with kit.pool.acquire() as conn:
        since = (await take_intents(conn, "engine", limit=0)).asked_at - 60
        assert (await take_intents(conn, "engine", since=since)).claimed == 1
        assert (await status_of(kit, late), await status_of(kit, new)) == ("draft", "queued")
        assert (await take_intents(conn, "engine")).claimed == 1


async def test_an_intent_becomes_a_job_and_a_run_under_its_own_id(kit):
    intent_id = await kit.ask("wf.plain", {"a": 1}, correlation_id="c-1", priority=3)
    assert await status_of(kit, intent_id) == "draft"

    await kit.tick()
    run = await kit.get(intent_id)

    assert await status_of(kit, intent_id) == "queued"
    assert (run.input, run.correlation_id, run.requested_by, run.source) == ({"a": 1}, "c-1", "ada", "manual")
    assert await kit.pool.fetchval("select priority from atlas.jobs where id = $1", intent_id) == 3


async def test_nothing_is_taken_while_the_gate_or_the_engine_is_off(kit):
    intent_id = await kit.ask("wf.plain")
    async with kit.pool.acquire() as conn:
        await kit.online(False)
        assert (await take_intents(conn, "engine")).closed
        await kit.online()
        await switch_engine(conn, enabled=False, actor=APPROVER)
        assert (await take_intents(conn, "engine")).closed
        assert await status_of(kit, intent_id) == "draft"
        await conn.execute("delete from atlas.system_state where key = 'atlas_online'")
        assert (await take_intents(conn, "engine")).closed
    assert await status_of(kit, intent_id) == "draft"


async def test_the_engine_records_when_it_last_polled(kit):
    await kit.tick()
    first = await kit.pool.fetchval("select value->>'last_tick_at' from atlas.system_state where key = 'engine_tick'")
    await kit.pool.execute("update atlas.system_state set updated_at = updated_at - interval '1 minute'")
    await kit.tick()
    second = await kit.pool.fetchval("select value->>'last_tick_at' from atlas.system_state where key = 'engine_tick'")

    assert first is not None
    assert second > first


async def test_an_intent_that_an_engine_took_and_never_decided_comes_back(kit):
    intent_id = await kit.ask("wf.plain")
    async with kit.pool.acquire() as conn:
        await conn.fetchval("select atlas.claim_intents('lost engine', 10, 30)")
    await kit.tick()
    assert await status_of(kit, intent_id) == "validating"

    await kit.pool.execute("update atlas.intents set claimed_at = claimed_at - interval '1 minute'")
    await kit.tick()

    assert await status_of(kit, intent_id) == "queued"
    assert (await kit.actions(intent_id)).count("ENGINE_CLAIMED_INTENT") == 2


async def test_many_engines_make_one_run_of_each_intent(kit):
    asked = [await kit.ask("wf.plain") for _ in range(40)]

    async def engine(name):
        async with kit.pool.acquire() as conn:
            while await conn.fetchval("select count(*) from atlas.jobs") < len(asked):
                await take_intents(conn, name, limit=7)

    async with asyncio.timeout(60):
        await asyncio.gather(*(engine(f"engine {n}") for n in range(5)))

    assert await kit.pool.fetchval("select count(*) from atlas.jobs") == len(asked)
    assert await kit.pool.fetchval("select count(*) from atlas.workflow_runs") == len(asked)


async def test_an_intent_is_decided_although_another_engine_has_just_locked_its_row(kit):
    intent_id = await kit.ask("wf.plain")
    async with kit.pool.acquire() as engine, kit.pool.acquire() as other:
        await engine.fetchval("select atlas.claim_intents('engine', 10, 30)")
        async with other.transaction():
            # A claim that began earlier does so, before it sees that the intent is no draft any more.
            await other.execute("select from atlas.intents for update")
            deciding = asyncio.create_task(_decide(engine, [intent_id]))
            waits = "select exists (select from pg_locks where not granted and pid = $1)"
            await until(lambda: kit.pool.fetchval(waits, engine.get_server_pid()))
        await deciding
    assert await status_of(kit, intent_id) == "queued"


async def test_an_intent_that_cannot_be_started_fails_alone(kit, owner):
    good, bad = await kit.ask("wf.plain"), await kit.ask("wf.plain")
    # What no request lets through: an input too large for a job.
    await owner.execute(
        "update atlas.intents set input = jsonb_build_object('x', repeat('x', 300000)) where id = $1", bad
    )
    await kit.tick()

    assert await status_of(kit, good) == "queued"
    [intent] = await list_intents(kit.pool, id=bad)
    assert intent.status == "failed"
    assert "could not be started" in intent.reason


async def test_a_blocked_intent_says_why_and_is_audited(kit):
    await rule(kit, "closed", effect="block", workflow="wf.pl*")
    intent_id = await kit.ask("wf.plain")
    await kit.tick()

    [intent] = await list_intents(kit.pool, id=intent_id)
    assert intent.status == "blocked"
    assert intent.reason == "Rule 'closed' says block: it is for this workflow."
    assert (await kit.actions(intent_id))[-1] == "INTENT_BLOCKED"


@pytest.mark.parametrize(
    ("facts", "spends", "expected"),
    [
        ({"effect": "block", "runs_per_day": 2}, [0, 0, 0], ["queued", "queued", "blocked"]),
        ({"effect": "block", "spend_above_cents": 100}, [100, 101], ["queued", "blocked"]),
        ({"effect": "review", "spend_per_day_cents": 150}, [100, 100], ["queued", "awaiting_human"]),
        ({"effect": "block", "workflow": "*", "except_workflows": ["wf.plain"]}, [0], ["queued"]),
        ({"effect": "block", "workflow": "*", "except_workflows": ["other"]}, [0], ["blocked"]),
        ({"effect": "allow"}, [0], ["queued"]),
    ],
)
async def test_rules_judge_by_workflow_spend_and_number_of_the_day(kit, facts, spends, expected):
    await rule(kit, **facts)
    asked = [await kit.ask("wf.plain", spend_cents=spend) for spend in spends]
    await kit.tick()

    assert [await status_of(kit, one) for one in asked] == expected


async def test_the_strictest_rule_decides_and_a_tenants_rule_is_its_own(kit):
    async with kit.pool.acquire() as conn:
        other = await add_tenant(conn, slug="other", name="Other", actor=REQUESTER)
        await add_rule(conn, label="all", effect="review", actor=APPROVER)
        await add_rule(conn, label="theirs", effect="block", tenant_id=other.id, actor=APPROVER)
        mine = await check_policy(conn, SYSTEM_TENANT, "wf.plain")
        theirs = await check_policy(conn, other.id, "wf.plain")

    assert (mine.effect, theirs.effect) == ("review", "block")
    assert theirs.facts["rule"] == "theirs"


async def test_only_star_and_question_mark_stand_for_others_in_a_pattern(kit):
    await rule(kit, "one", effect="block", workflow="rep[1]")
    await rule(kit, "two", effect="review", workflow="*", except_workflows=["a[?]b*"])
    async with kit.pool.acquire() as conn:
        names = ("rep[1]", "rep1", "a[x]bc", "axb")
        found = [(await check_policy(conn, SYSTEM_TENANT, name)).effect for name in names]

    assert found == ["block", "review", "allow", "review"]


async def test_a_days_limit_holds_when_many_engines_decide_at_once(kit):
    await rule(kit, effect="block", runs_per_day=5)
    asked = [await kit.ask("wf.plain") for _ in range(30)]

    async def engine(name):
        async with kit.pool.acquire() as conn:
            for _ in range(6):
                await take_intents(conn, name, limit=2)

    await asyncio.gather(*(engine(f"engine {n}") for n in range(5)))
    async with kit.pool.acquire() as conn:
        # What each passed over because another was deciding it.
        await take_intents(conn, "the last engine", limit=30)

    states = [await status_of(kit, one) for one in asked]
    assert (states.count("queued"), states.count("blocked")) == (5, 25)


async def test_what_policy_costs_does_not_grow_with_the_names_of_the_day_times_the_batch(kit, owner, monkeypatch):
    await rule(kit, effect="block", workflow="wf.*", except_workflows=["wf.p*"], runs_per_day=1005)
    await owner.execute(
        f"""
        insert into atlas.intents (tenant_id, workflow, input_hash, status, requested_by, queued_at)
        select '{SYSTEM_TENANT}', 'wf.' || n, '', 'executed', 'ada', clock_timestamp() from generate_series(1, 1000) n
        """
    )
    asked = [await kit.ask(f"wf.x{n}") for n in range(20)]
    looks = 0

    def counted(*arguments):
        nonlocal looks
        looks += 1
        return fits(*arguments)

    fits = policy._fits
    monkeypatch.setattr(policy, "_fits", counted)
    await kit.tick()

    states = [await status_of(kit, one) for one in asked]
    assert (states.count("queued"), states.count("blocked")) == (5, 15)
    # Each name of the day once, by a pattern and an exception; each of the batch to be judged and to be counted.
    assert looks <= 2 * (1000 + 20 + 5)


async def test_a_day_is_the_tenants_own(kit, owner):
    await rule(kit, effect="block", runs_per_day=1)
    await kit.ask("wf.plain")
    await kit.tick()
    await owner.execute("update atlas.intents set queued_at = queued_at - $1::interval", timedelta(days=1))
    second = await kit.ask("wf.plain")
    await kit.tick()

    assert await status_of(kit, second) == "queued"


async def test_a_disabled_workflow_is_blocked_and_an_enabled_one_starts_again(kit):
    async with kit.pool.acquire() as conn:
        await publish_workflows(conn, [registered_workflows()["wf.plain"]], by="test")
        await enable_workflow(conn, "wf.plain", enabled=False, actor=APPROVER)
        first = await kit.ask("wf.plain")
        await kit.tick()
        await enable_workflow(conn, "wf.plain", enabled=True, actor=APPROVER)
    second = await kit.ask("wf.plain")
    await kit.tick()

    assert (await status_of(kit, first), await status_of(kit, second)) == ("blocked", "queued")


async def test_a_disabled_workflow_is_not_started_as_a_child_either(kit):
    async with kit.pool.acquire() as conn:
        await publish_workflows(conn, [registered_workflows()["wf.plain"]], by="test")
        await enable_workflow(conn, "wf.plain", enabled=False, actor=APPROVER)
        refused = await kit.run("wf.parent", {"child": "wf.plain"})
        assert await kit.pool.fetchval("select count(*) from atlas.workflow_runs") == 1

        await enable_workflow(conn, "wf.plain", enabled=True, actor=APPROVER)
        await retry_run(conn, refused.id, actor=APPROVER)
    await kit.work()

    assert (refused.status, refused.error["message"]) == (
        "failed",
        "Step 'child' failed: The workflow wf.plain is disabled.",
    )
    assert (await kit.get(refused.id)).status == "succeeded"


async def test_rules_are_listed_removed_and_their_changes_audited(kit):
    rule_id = await rule(kit, "cap", effect="block", runs_per_day=1)
    with pytest.raises(Conflict, match="There is a rule 'cap' already"):
        await rule(kit, "cap", effect="allow")
    with pytest.raises(InvalidInput, match="effect: is not one of allow, review, block"):
        await rule(kit, "odd", effect="maybe")

    async with kit.pool.acquire() as conn:
        assert [one.label for one in await list_rules(conn)] == ["cap"]
        await remove_rule(conn, "cap", actor=APPROVER)
        with pytest.raises(NotFound):
            await remove_rule(conn, "cap", actor=APPROVER)
        assert await list_rules(conn) == []

    assert await kit.actions(rule_id) == ["POLICY_ADDED", "POLICY_REMOVED"]


async def test_an_intent_that_waits_can_be_withdrawn(kit):
    intent_id = await kit.ask("wf.plain")
    async with kit.pool.acquire() as conn:
        assert await cancel_run(conn, intent_id, actor=REQUESTER) == "rejected"
    await kit.tick()

    assert await status_of(kit, intent_id) == "rejected"
    assert await kit.pool.fetchval("select count(*) from atlas.jobs") == 0


async def test_an_intent_that_is_accepted_while_it_is_canceled_is_canceled_as_a_run(kit):
    intent_id = await kit.ask("wf.plain")
    async with kit.pool.acquire() as engine, kit.pool.acquire() as conn:
        async with engine.transaction():
            await take_intents(engine, "engine")
            canceling = asyncio.create_task(cancel_run(conn, intent_id, actor=REQUESTER))
            await asyncio.sleep(0.3)
            assert not canceling.done()
        assert await canceling == "canceled"

    assert (await kit.get(intent_id)).status == "canceled"


async def test_bad_requests_are_refused_with_the_field(kit):
    for workflow, input, message in [
        ("", {}, "workflow: must not be empty"),
        ("wf.plain", {"x": "\0"}, "U\\+0000"),
        ("wf.plain", {"x": "x" * 300_000}, "larger than"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            await kit.ask(workflow, input)
    async with kit.pool.acquire() as conn:
        with pytest.raises(NotFound, match="tenant"):
            await request_workflow(conn, new_id(), "wf.plain", {}, REQUESTER)


async def test_a_switch_is_not_held_up_by_an_engine_and_nothing_starts_after_it(kit):
    for _ in range(5):
        for _ in range(20):
            await kit.ask("wf.plain")

        async def engine():
            async with kit.pool.acquire() as conn:
                while not (await take_intents(conn, "engine", limit=3)).closed:
                    pass

        running = asyncio.create_task(engine())
        await asyncio.sleep(0.01)
        async with kit.pool.acquire() as conn:
            await switch(conn, online=False, actor=system("test"))
            before = await conn.fetchval("select count(*) from atlas.jobs")
            await running
            assert await conn.fetchval("select count(*) from atlas.jobs") == before
        await kit.online()


async def test_a_workflow_that_nothing_knows_is_refused_with_names_like_it(kit, conn):
    known, typo = NewIntent("wf.plain"), NewIntent("wf.plian")
    with pytest.raises(InvalidInput, match=r"'wf.plian' is not known; names like it are .*wf.plain"):
        await request_workflows(conn, SYSTEM_TENANT, [known, typo], requested_by=REQUESTER)
    assert await list_intents(kit.pool, limit=5) == []

    await request_workflows(conn, SYSTEM_TENANT, [known, replace(typo, allow_unknown=True)], requested_by=REQUESTER)
    assert {intent.workflow for intent in await list_intents(kit.pool, limit=5)} == {"wf.plain", "wf.plian"}
