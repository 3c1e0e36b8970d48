"""Approvals: bound to the exact input, never by the requester, never after their time."""

import asyncio
from datetime import timedelta

import pytest

from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.policy.rules import add_rule, edit_rule, remove_rule
from atlas.engine.workflows.approvals import decide_approval, expire_approvals, list_approvals
from atlas.engine.workflows.declared.store import enable_workflow, save_workflow
from atlas.engine.workflows.find_intents import list_intents
from atlas.engine.workflows.registry import registered_workflows
from atlas.engine.workflows.review import SubjectChanged
from atlas.engine.workflows.run_actions import cancel_run
from atlas.engine.workflows.workflow_catalog import publish_workflows
from atlas.errors import Conflict, NotFound, Refused
from atlas.ids import new_id
from tests.engine.workflows.kit import APPROVER, REQUESTER


async def decide(kit, approval_id, approve=True, *, actor=APPROVER, **options):
    async with kit.pool.acquire() as conn:
        return await decide_approval(conn, approval_id, approve, actor=actor, **options)


async def test_a_run_goes_on_with_what_a_person_decided(kit):
    run = await kit.run("wf.asks")
    [asked] = await list_approvals(kit.pool, run_id=run.id)
    assert (run.status, asked.status, asked.title, asked.detail) == ("waiting", "pending", "Ship it?", {"to": "Paris"})

    explained = await explain(kit.pool, run.id)
    assert (explained.reason, explained.sentence[:39]) == ("waiting", 'The run waits for approval "ship" (expi')

    await decide(kit, asked.id, comment="fine")
    await kit.work()

    assert (await kit.get(run.id)).output == {"approved": True, "by": "grace", "status": "approved", "comment": "fine"}
    assert await kit.actions(asked.id) == ["APPROVAL_REQUESTED", "APPROVAL_DECIDED"]


async def test_a_rejection_is_a_decision_and_not_a_failure(kit):
    run = await kit.run("wf.asks")
    [asked] = await list_approvals(kit.pool, run_id=run.id)
    await decide(kit, asked.id, False)
    await kit.work()

    run = await kit.get(run.id)
    assert (run.status, run.output["approved"], run.output["status"]) == ("succeeded", False, "rejected")


async def test_an_approval_waits_for_the_transaction_that_holds_its_intent(kit, pool):
    async with pool.acquire() as conn:
        await add_rule(conn, label="look", effect="review", actor=APPROVER)
    intent_id = await kit.ask("wf.plain")
    await kit.tick()
    [asked] = await list_approvals(kit.pool, run_id=intent_id)

    async with pool.acquire() as conn:
        async with conn.transaction():
            await conn.execute("select from atlas.intents where id = $1 for update", intent_id)
            deciding = asyncio.create_task(decide(kit, asked.id))
            await asyncio.sleep(0.3)
            assert not deciding.done()
        assert await deciding == "approved"

    assert (await list_intents(kit.pool, id=intent_id))[0].status == "queued"


async def test_a_workflow_that_was_disabled_meanwhile_is_not_started_by_an_approval(kit, pool):
    async with pool.acquire() as conn:
        await add_rule(conn, label="look", effect="review", actor=APPROVER)
        await publish_workflows(conn, [registered_workflows()["wf.plain"]], by="test")
        intent_id = await kit.ask("wf.plain")
        await kit.tick()
        [asked] = await list_approvals(kit.pool, run_id=intent_id)
        await enable_workflow(conn, "wf.plain", enabled=False, actor=APPROVER)

        with pytest.raises(Conflict, match="The workflow wf.plain is disabled"):
            await decide(kit, asked.id)
        assert await pool.fetchval("select count(*) from atlas.jobs") == 0
        assert (await list_approvals(kit.pool, run_id=intent_id))[0].status == "pending"

        await enable_workflow(conn, "wf.plain", enabled=True, actor=APPROVER)
        assert await decide(kit, asked.id) == "approved"


@pytest.mark.parametrize("limit", [{"runs_per_day": 2}, {"spend_per_day_cents": 250}])
async def test_approvals_do_not_go_past_what_a_rule_blocks(kit, pool, limit):
    async with pool.acquire() as conn:
        await add_rule(conn, label="look", effect="review", spend_above_cents=10, actor=APPROVER)
        await add_rule(conn, label="enough", effect="block", actor=APPROVER, **limit)
    asked = [await kit.ask("wf.plain", spend_cents=100) for _ in range(5)]
    await kit.tick()
    pending = await list_approvals(kit.pool, status="pending")
    assert len(pending) == 5

    results = await asyncio.gather(*(decide(kit, one.id) for one in pending), return_exceptions=True)

    refused = [result for result in results if isinstance(result, Conflict)]
    assert (results.count("approved"), len(refused)) == (2, 3)
    assert "Rule 'enough' says block" in str(refused[0])
    states = [(await list_intents(kit.pool, id=one))[0].status for one in asked]
    assert (states.count("queued"), states.count("awaiting_human")) == (2, 3)
    assert len(await list_approvals(kit.pool, status="pending")) == 3


async def test_an_intent_is_approved_or_withdrawn_and_nothing_between(kit, pool):
    async with pool.acquire() as conn:
        await add_rule(conn, label="look", effect="review", actor=APPROVER)

    async def withdraw(intent_id):
        async with pool.acquire() as conn:
            return await cancel_run(conn, intent_id, actor=REQUESTER)

    for _ in range(10):
        intent_id = await kit.ask("wf.plain")
        await kit.tick()
        [asked] = await list_approvals(kit.pool, run_id=intent_id)
        decided, withdrawn = await asyncio.gather(decide(kit, asked.id), withdraw(intent_id), return_exceptions=True)
        [intent] = await list_intents(kit.pool, id=intent_id)
        if decided == "approved":
            assert (intent.status, withdrawn) == ("failed", "canceled")
        else:
            assert isinstance(decided, Conflict)
            assert (intent.status, withdrawn) == ("rejected", "rejected")


async def test_the_requester_may_not_decide(kit):
    run = await kit.run("wf.asks")
    [asked] = await list_approvals(kit.pool, run_id=run.id)

    with pytest.raises(Refused, match="ada requested this"):
        await decide(kit, asked.id, actor=REQUESTER)
    assert (await list_approvals(kit.pool, run_id=run.id))[0].status == "pending"


async def test_an_expired_approval_is_closed_for_everyone_and_the_run_goes_on_without_it(kit):
    run = await kit.run("wf.asks")
    [asked] = await list_approvals(kit.pool, run_id=run.id)
    await kit.pass_time(timedelta(hours=5))

    with pytest.raises(Conflict, match="has expired"):
        await decide(kit, asked.id)
    await kit.work()

    assert (await kit.get(run.id)).output["status"] == "expired"
    assert (await kit.actions(asked.id))[-1] == "APPROVAL_DECIDED"


async def test_a_decision_counts_once(kit):
    run = await kit.run("wf.asks")
    [asked] = await list_approvals(kit.pool, run_id=run.id)

    results = await asyncio.gather(*(decide(kit, asked.id, n % 2 == 0) for n in range(6)), return_exceptions=True)

    assert len([result for result in results if isinstance(result, str)]) == 1
    assert len([result for result in results if isinstance(result, Conflict)]) == 5


async def test_a_decision_is_for_the_input_that_was_seen(kit):
    run = await kit.run("wf.asks")
    [asked] = await list_approvals(kit.pool, run_id=run.id)

    with pytest.raises(Conflict, match="another input"):
        await decide(kit, asked.id, input_hash="00" * 32)
    assert await decide(kit, asked.id, input_hash=asked.input_hash) == "approved"


async def test_an_approval_that_is_not_there_is_not_found(kit):
    with pytest.raises(NotFound):
        await decide(kit, new_id())


async def test_an_intent_under_review_starts_when_another_person_approves_it(kit):
    async with kit.pool.acquire() as conn:
        await add_rule(conn, label="look first", effect="review", workflow="wf.plain", actor=APPROVER)
    run_id = await kit.ask("wf.plain")
    await kit.tick()
    [intent] = await list_intents(kit.pool, id=run_id)
    [asked] = await list_approvals(kit.pool, run_id=run_id)
    assert (intent.status, asked.kind, asked.subject["workflow"]) == ("awaiting_human", "intent", intent.workflow)

    with pytest.raises(Refused):
        await decide(kit, asked.id, actor=REQUESTER)
    await decide(kit, asked.id)
    await kit.work()

    assert (await kit.get(run_id)).status == "succeeded"
    assert (await list_intents(kit.pool, id=run_id))[0].status == "executed"


async def test_an_intent_that_is_rejected_or_whose_input_was_changed_never_starts(kit, owner):
    async with kit.pool.acquire() as conn:
        await add_rule(conn, label="look first", effect="review", actor=APPROVER)
    rejected, changed = await kit.ask("wf.plain"), await kit.ask("wf.plain", {"cents": 1})
    await kit.tick()
    [first] = await list_approvals(kit.pool, run_id=rejected)
    [second] = await list_approvals(kit.pool, run_id=changed)
    await owner.execute("update atlas.intents set input = '{\"cents\": 100}' where id = $1", changed)

    await decide(kit, first.id, False, comment="no")
    with pytest.raises(Conflict, match="another input"):
        await decide(kit, second.id)

    [intent] = await list_intents(kit.pool, id=rejected)
    assert (intent.status, intent.reason) == ("rejected", "grace rejected it: no")
    assert await kit.pool.fetchval("select count(*) from atlas.jobs") == 0


async def test_a_review_without_a_decision_ends_as_rejected(kit):
    async with kit.pool.acquire() as conn:
        await add_rule(conn, label="look first", effect="review", actor=APPROVER)
    run_id = await kit.ask("wf.plain")
    await kit.tick()
    await kit.pass_time(timedelta(days=8))
    async with kit.pool.acquire() as conn:
        await expire_approvals(conn)

    assert (await list_intents(kit.pool, id=run_id))[0].status == "rejected"


async def test_a_canceled_run_closes_its_question(kit):
    run = await kit.run("wf.asks")
    async with kit.pool.acquire() as conn:
        assert await cancel_run(conn, run.id, actor=APPROVER) == "canceled"

    [asked] = await list_approvals(kit.pool, run_id=run.id)
    assert asked.status == "canceled"


@pytest.mark.long
async def test_a_decision_and_a_run_that_suspends_at_the_same_time_always_meet(kit):
    runs = [await kit.ask("wf.asks") for _ in range(12)]
    await kit.tick()
    await kit.work()
    asked = [(await list_approvals(kit.pool, run_id=run_id))[0] for run_id in runs]
    # Wake them all for nothing, and decide while they wait anew.
    await kit.pool.execute("update atlas.jobs set next_retry_at = null where status = 'queued'")
    await asyncio.gather(kit.work(), *(decide(kit, one.id) for one in asked))
    await kit.work()

    assert [(await kit.get(run_id)).status for run_id in runs] == ["succeeded"] * 12


async def test_an_approval_is_for_the_document_that_was_requested(kit, pool):
    def document(word):
        return {"key": "pay", "steps": [{"id": "do", "job": "wf.double", "with": {"x": word}}]}

    async with pool.acquire() as conn:
        await add_rule(conn, label="look", effect="review", actor=APPROVER)
        await save_workflow(conn, document(1), actor=REQUESTER)
        intent_id = await kit.ask("pay")
        await kit.tick()
        [asked] = await list_approvals(kit.pool, run_id=intent_id)
        assert asked.subject["version"] == 1

        await save_workflow(conn, document(1_000_000), actor=REQUESTER)
        with pytest.raises(SubjectChanged, match="The workflow pay was version 1 and is version 2 now") as changed:
            await decide(kit, asked.id)

    assert changed.value.changes == ["The workflow pay was version 1 and is version 2 now."]
    assert (await list_approvals(kit.pool, run_id=intent_id))[0].status == "pending"
    assert await pool.fetchval("select count(*) from atlas.jobs") == 0
    assert await decide(kit, asked.id, False) == "rejected"


async def test_an_approval_is_for_the_build_of_the_code_that_was_requested(kit, pool):
    async with pool.acquire() as conn:
        await publish_workflows(conn, [registered_workflows()["wf.plain"]], by="test")
        await add_rule(conn, label="look", effect="review", actor=APPROVER)
        intent_id = await kit.ask("wf.plain")
        await kit.tick()
        [asked] = await list_approvals(kit.pool, run_id=intent_id)
        await conn.execute("update atlas.workflows set build = repeat('0', 64) where key = 'wf.plain'")

        with pytest.raises(SubjectChanged, match="and is build 000000000000 now"):
            await decide(kit, asked.id)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("edit", "The rule 'look' had spend_above_cents 10 and has 5000 now."),
        ("remove", "The rule 'look' (review) was removed."),
        ("add", "The rule 'another' (review) was added."),
    ],
)
async def test_an_approval_is_for_the_rules_that_judged_the_request(kit, pool, change, difference):
    async with pool.acquire() as conn:
        await add_rule(conn, label="look", effect="review", spend_above_cents=10, actor=APPROVER)
        intent_id = await kit.ask("wf.plain", spend_cents=100)
        await kit.tick()
        [asked] = await list_approvals(kit.pool, run_id=intent_id)
        if change == "edit":
            await edit_rule(conn, "look", {"spend_above_cents": 5000}, actor=REQUESTER)
        elif change == "remove":
            await remove_rule(conn, "look", actor=REQUESTER)
        else:
            await add_rule(conn, label="another", effect="review", actor=REQUESTER)

    with pytest.raises(SubjectChanged) as changed:
        await decide(kit, asked.id)
    assert changed.value.changes == [difference]


async def test_a_rule_for_other_workflows_does_not_touch_a_pending_review(kit, pool):
    async with pool.acquire() as conn:
        await add_rule(conn, label="look", effect="review", workflow="wf.plain", actor=APPROVER)
        intent_id = await kit.ask("wf.plain")
        await kit.tick()
        [asked] = await list_approvals(kit.pool, run_id=intent_id)
        await add_rule(conn, label="elsewhere", effect="block", workflow="wf.other", actor=APPROVER)

    assert await decide(kit, asked.id) == "approved"
