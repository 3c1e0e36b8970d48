"""Explain: the one reason a run, or the request for one, does not go on, and the way out."""

from datetime import timedelta
from uuid import uuid4

import pytest

from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.switches.gate import switch_engine
from atlas.engine.policy.rules import add_rule
from atlas.engine.workflows.approvals import decide_approval, list_approvals
from atlas.engine.workflows.explain import explain_run
from atlas.engine.workflows.run_actions import cancel_run
from atlas.errors import NotFound
from tests.engine.workflows.kit import APPROVER


async def why(kit, run_id):
    async with kit.pool.acquire() as conn:
        found = await explain_run(conn, run_id)
    assert found.sentence.endswith(".")
    assert (found.kind, found.id) == ("run", str(run_id))
    return found


async def test_a_request_says_what_decides_about_it(kit):
    run_id = await kit.ask("wf.plain")
    found = await why(kit, run_id)
    assert (found.status, found.reason, found.command) == ("draft", "engine_silent", "atlas scheduler")

    async with kit.pool.acquire() as conn:
        await add_rule(conn, label="look", effect="review", workflow="wf.asks", actor=APPROVER)
        await add_rule(conn, label="closed", effect="block", workflow="wf.waits", actor=APPROVER)
        await switch_engine(conn, enabled=False, actor=APPROVER, reason="audit")
        found = await why(kit, run_id)
        assert (found.reason, found.command, "audit" in found.sentence) == ("engine_off", "atlas engine on", True)
        await switch_engine(conn, enabled=True, actor=APPROVER)
    await kit.online(False)
    assert (await why(kit, run_id)).reason == "gate"
    await kit.online()

    await kit.tick()
    assert (await why(kit, await kit.ask("wf.plain"))).reason == "requested"
    reviewed, blocked = await kit.ask("wf.asks"), await kit.ask("wf.waits", {"order": 1})
    await kit.tick()
    [asked] = await list_approvals(kit.pool, run_id=reviewed)
    found = await why(kit, reviewed)
    assert (found.reason, found.command) == ("review", f"atlas workflow approve {asked.id}")
    found = await why(kit, blocked)
    assert (found.reason, "Rule 'closed' says block" in found.sentence) == ("blocked", True)
    async with kit.pool.acquire() as conn:
        await decide_approval(conn, asked.id, False, actor=APPROVER)
    assert (await why(kit, reviewed)).reason == "rejected"


async def test_a_run_says_what_it_waits_for_and_until_when(kit):
    asks = await kit.run("wf.asks")
    [asked] = await list_approvals(kit.pool, run_id=asks.id)
    found = await why(kit, asks.id)
    assert (found.status, found.reason, found.numbers) == ("waiting", "approval", {"steps": 1})
    assert found.command == f"atlas workflow approve {asked.id}"
    assert found.sentence.startswith('Waiting for approval "ship" (expires at ')

    waits = await kit.run("wf.waits", {"order": 7})
    found = await why(kit, waits.id)
    assert (found.reason, found.sentence) == ("event", 'Waiting for event paid with {"order":7}.')
    assert found.command == f"atlas event publish paid --tenant {SYSTEM_TENANT} --context '{{\"order\":7}}'"

    parent = await kit.run("wf.parent", {"child": "wf.asks"})
    found = await why(kit, parent.id)
    assert (found.reason, found.remedy) == ("child", "That run is queued; see why.")
    assert found.command.startswith("atlas explain ")
    await kit.pool.execute("update atlas.workflow_steps set kind = 'job' where run_id = $1", parent.id)
    assert (await why(kit, parent.id)).reason == "job"
    await kit.pool.execute(
        "update atlas.workflow_steps set kind = 'sleep', wake_at = now() where run_id = $1", parent.id
    )
    found = await why(kit, parent.id)
    assert (found.reason, found.sentence[:15]) == ("sleeping", "Sleeping until ")

    flaky = await kit.run("wf.flaky", {"failures": 99, "retries": 5})
    found = await why(kit, flaky.id)
    assert (found.reason, 'Step "attempt" failed' in found.sentence) == ("retrying", True)
    await kit.pass_time(timedelta(hours=1))
    assert (await why(kit, flaky.id)).reason in ("no_worker", "next", "queue")


async def test_a_run_that_is_due_or_over_says_what_its_job_does(kit):
    done = await kit.run("wf.plain")
    assert ((await why(kit, done.id)).reason, (await why(kit, done.id)).status) == ("succeeded", "succeeded")
    failed = await kit.run("wf.flaky", {"failures": 99, "retries": 0})
    found = await why(kit, failed.id)
    assert found.reason in ("failed", "dead_letter")
    assert found.command == f"atlas workflow retry {failed.id}"

    due = await kit.ask("wf.plain")
    await kit.tick()
    await kit.pool.execute("update atlas.job_workers set dead_at = now()")
    assert (await why(kit, due)).reason == "no_worker"
    await kit.online(False)
    assert (await why(kit, due)).reason == "gate"
    await kit.online()
    async with kit.pool.acquire() as conn:
        await cancel_run(conn, due, actor=APPROVER)
    assert (await why(kit, due)).reason == "canceled"
    await kit.pool.execute("delete from atlas.jobs where id = $1", done.id)
    assert (await why(kit, done.id)).reason == "gone"


async def test_a_stranger_is_not_found(kit):
    run_id = await kit.ask("wf.plain")
    async with kit.pool.acquire() as conn:
        for id, tenant_id in ((uuid4(), None), (run_id, uuid4())):
            with pytest.raises(NotFound):
                await explain_run(conn, id, tenant_id=tenant_id)
