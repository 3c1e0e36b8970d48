"""Runs that fail, are undone, canceled, retried and forked."""

import asyncio
from datetime import timedelta

import orjson
import pytest
from pydantic import BaseModel, Field

from atlas.engine.jobs.actions.bulk_previews import preview_bulk_action
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.lists.find import get_job
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.engine.policy.rules import add_rule
from atlas.engine.workflows.approvals import decide_approval, list_approvals
from atlas.engine.workflows.explain import explain_run
from atlas.engine.workflows.find_intents import list_intents
from atlas.engine.workflows.registry import registered_workflows, workflow
from atlas.engine.workflows.run_actions import cancel_run, fork_run, retry_run
from atlas.engine.workflows.run_context import Run
from atlas.engine.workflows.steps import recorder
from atlas.errors import AtlasError, Conflict, NotFound, Refused
from atlas.models.explain import Remedy
from atlas.workers.worker import Worker, WorkerOptions
from tests.engine.workflows.flows import calls
from tests.engine.workflows.kit import APPROVER, REQUESTER

MINUTE = timedelta(seconds=61)


@pytest.fixture(autouse=True)
def counted_from_zero():
    calls.clear()


async def verb(kit, function, *arguments, **options):
    async with kit.pool.acquire() as conn:
        return await function(conn, *arguments, actor=APPROVER, **options)


async def test_a_failed_run_undoes_what_it_did_last_first(kit):
    run = await kit.run("wf.saga")
    await kit.pass_time(MINUTE)
    await kit.work()
    run = await kit.get(run.id)
    steps = await kit.steps(run.id)

    assert (run.status, run.error["message"]) == ("failed", "RuntimeError: the parcel is lost")
    assert run.error["compensated"] == ["refund", "release"]
    assert list(steps)[-3:] == ["undo/failure", "undo/refund", "undo/release"]
    assert calls == {"reserve": 1, "charge": 1, "double": 1, "undo release": 1}
    assert (await kit.actions(run.id))[-1] == "WORKFLOW_FAILED"
    assert (await list_intents(kit.pool, id=run.id))[0].status == "failed"


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["two\nlines"], "Invalid step name 'two\\nlines'. Step names are one line of 1 to 200 printable characters."),
        (
            ["a", "b", "c"],
            "The run has recorded 3 steps or 64 MiB. Let it start children (run.child) for parts of its work.",
        ),
    ],
)
async def test_a_run_that_may_not_go_on_is_undone_too(kit, monkeypatch, names, reason):
    monkeypatch.setattr(recorder, "MAX_STEPS", 3)
    run = await kit.run("wf.misnames", {"names": names})

    assert (run.status, run.error["message"]) == ("failed", reason)
    assert run.error["compensated"] == ["refund", "release"]
    assert (calls["reserve"], calls["undo release"], calls["double"]) == (1, 1, 1)


async def test_a_failure_that_undoes_nothing_records_no_order(kit):
    run = await kit.run("wf.cure")

    assert run.status == "failed"
    assert "order" not in run.error


async def test_a_run_that_ends_well_undoes_nothing(kit):
    run = await kit.run("wf.saga", {"well": True})
    await kit.pass_time(MINUTE)
    await kit.work()

    assert (await kit.get(run.id)).output == {"sent": True}
    assert calls == {"reserve": 1, "charge": 1}


async def test_what_was_undone_is_not_retried(kit):
    run = await kit.run("wf.saga")
    await kit.pass_time(MINUTE)
    await kit.work()

    for retry in (retry_run, retry_now):
        with pytest.raises(Conflict, match="has undone what it did"):
            await verb(kit, retry, run.id)
    assert await verb(kit, change_many, "retry", [run.id], tenant_id=None) == {run.id: "compensated"}
    preview = await verb(kit, preview_bulk_action, "retry", JobFilter(job_type="ENGINE_RUN"))
    assert (preview.count, preview.left_out) == (0, {"compensated": 1})
    by_id = await verb(kit, preview_bulk_action, "retry", [run.id])
    assert (by_id.count, by_id.refused) == (0, {run.id: "compensated"})
    assert (await kit.get(run.id)).status == "failed"
    async with kit.pool.acquire() as conn:
        of_job, of_run = await explain(conn, run.id), await explain_run(conn, run.id)
    assert (of_job.reason, of_run.reason, of_run.action) == ("compensated", "compensated", None)
    assert of_job.action == Remedy(verb="open_run", target=str(run.id))


async def test_an_undo_that_fails_stops_there_and_retry_goes_on_with_it(kit):
    run = await kit.run("wf.saga", {"undo_fails": True})
    await kit.pass_time(MINUTE)
    await kit.work()
    run = await kit.get(run.id)
    assert "Undoing it failed too. Step 'break' failed: cannot be undone" in run.error["message"]
    assert calls["undo release"] == 0

    calls["cured"] = 1
    await verb(kit, retry_run, run.id)
    await kit.work()
    run = await kit.get(run.id)

    assert run.error["compensated"] == ["break", "refund", "release"]
    assert (calls["undo break"], calls["undo release"], calls["reserve"]) == (2, 1, 1)


async def test_undoing_goes_on_beside_branches_that_still_wait(kit, monkeypatch):
    monkeypatch.setattr(recorder, "MAX_STEPS", 6)
    run = await kit.run("wf.overflows")
    assert (run.status, (await kit.steps(run.id))["undo/sleep"].status) == ("waiting", "waiting")

    await kit.pass_time(MINUTE)
    async with asyncio.timeout(20):
        await kit.work()
    run = await kit.get(run.id)
    steps = await kit.steps(run.id)

    assert (run.status, run.error["compensated"]) == ("failed", ["pause", "refund"])
    assert "The run has recorded 6 steps" in run.error["message"]
    assert (steps["gather[0]/never"].status, calls["double"]) == ("waiting", 1)
    # What was to be tried again is not, once the run is undone.
    assert (steps["gather[1]/again"].status, calls["again"]) == ("failed", 1)


async def test_retry_goes_on_from_the_failed_step(kit):
    run = await kit.run("wf.cure")
    assert run.error["message"] == "Step 'work' failed: not yet"

    calls["cured"] = 1
    await verb(kit, retry_run, run.id)
    assert (await list_intents(kit.pool, id=run.id))[0].status == "queued"
    await kit.work()

    run = await kit.get(run.id)
    assert (run.status, run.output) == ("succeeded", {"before": "before", "work": "done"})
    assert (calls["before"], calls["work"]) == (1, 2)
    assert (await list_intents(kit.pool, id=run.id))[0].status == "executed"
    assert "JOB_RETRIED" in await kit.actions(run.id)


async def test_only_what_failed_or_was_canceled_is_retried(kit):
    run = await kit.run("wf.plain")

    with pytest.raises(Conflict, match="is succeeded"):
        await verb(kit, retry_run, run.id)


async def test_a_fork_reuses_what_was_recorded_before_its_step(kit):
    run = await kit.run("wf.stepping", {"steps": 4})
    assert run.status == "succeeded"

    forked = await verb(kit, fork_run, run.id, "step 2")
    await kit.tick()
    await kit.work()
    fork = await kit.get(forked)

    assert (fork.status, fork.forked_from, fork.requested_by) == ("succeeded", run.id, "grace")
    assert [calls[f"step {n}"] for n in range(4)] == [1, 1, 2, 2]
    facts = "select meta from atlas.audit_log where action = $1 and entity_id = $2"
    event = orjson.loads(await kit.pool.fetchval(facts, "RUN_FORKED", str(run.id)))
    assert event == {"fork": str(forked), "step": "step 2", "workflow": "wf.stepping"}
    requested = orjson.loads(await kit.pool.fetchval(facts, "INTENT_REQUESTED", str(forked)))
    assert (requested["forked_from"], requested["forked_step"]) == (str(run.id), "step 2")


async def test_a_fork_asks_for_every_approval_again(kit):
    run = await kit.run("wf.pays")
    [asked] = await list_approvals(kit.pool, run_id=run.id)
    await verb(kit, decide_approval, asked.id, True)
    await kit.work()
    assert (await kit.get(run.id)).output == {"by": "grace"}

    forked = await verb(kit, fork_run, run.id, "pay")
    await kit.tick()
    await kit.work()
    [again] = await list_approvals(kit.pool, run_id=forked)
    assert (again.requested_by, again.status, calls["draw up"], calls["pay"]) == ("grace", "pending", 1, 1)
    with pytest.raises(Refused):
        await verb(kit, decide_approval, again.id, True)
    with pytest.raises(Conflict, match="Fork it from 'may pay'"):
        await verb(kit, fork_run, run.id, "thank")


async def test_a_run_that_was_undone_is_forked_from_its_first_step_alone(kit):
    run = await kit.run("wf.saga")
    await kit.pass_time(MINUTE)
    await kit.work()
    assert (await kit.get(run.id)).error["compensated"] == ["refund", "release"]

    for step in ("charge", "sleep"):
        with pytest.raises(Conflict, match="has undone what it did"):
            await verb(kit, fork_run, run.id, step)
    await verb(kit, fork_run, run.id, "reserve")
    await kit.tick()
    await kit.work()

    assert (calls["reserve"], calls["charge"]) == (2, 2)


async def test_a_fork_whose_step_is_gone_before_it_begins_fails_and_does_nothing_again(kit):
    retried, deleted = await kit.run("wf.cure"), await kit.run("wf.cure")
    forks = [await verb(kit, fork_run, run.id, "work") for run in (retried, deleted)]
    other = await kit.ask("wf.plain")
    await verb(kit, retry_run, retried.id)
    await verb(kit, delete, deleted.id)
    await kit.tick()
    await kit.work()

    found = [(await list_intents(kit.pool, id=fork))[0] for fork in forks]
    assert [one.status for one in found] == ["failed", "failed"]
    assert "has begun anew and has not come to 'work' again" in found[0].reason
    assert f"Run {deleted.id}, which it is forked from, is gone" in found[1].reason
    assert (calls["before"], (await kit.get(other)).status) == (2, "succeeded")


async def test_a_fork_of_a_run_that_has_come_to_its_step_again_begins(kit):
    run = await kit.run("wf.cure")
    forked = await verb(kit, fork_run, run.id, "work")
    await verb(kit, retry_run, run.id)
    await kit.work()
    calls["cured"] = 1
    await kit.tick()
    await kit.work()

    assert ((await kit.get(forked)).status, calls["before"]) == ("succeeded", 1)


async def test_a_fork_waits_for_a_retry_of_its_source_that_is_under_way(kit):
    run = await kit.run("wf.cure")
    forked = await verb(kit, fork_run, run.id, "work")
    async with kit.pool.acquire() as conn:
        async with conn.transaction():
            await retry_run(conn, run.id, actor=APPROVER)
            ticking = asyncio.create_task(kit.tick())
            await asyncio.sleep(0.3)
            assert not ticking.done()
        await ticking

    assert (await list_intents(kit.pool, id=forked))[0].status == "failed"


async def test_a_fork_does_not_begin_with_what_was_undone_since_it_was_asked_for(kit):
    run = await kit.run("wf.saga")
    forked = await verb(kit, fork_run, run.id, "sleep")
    await kit.pass_time(MINUTE)
    await kit.work()
    assert (await kit.get(run.id)).error["compensated"] == ["refund", "release"]
    await kit.tick()

    [intent] = await list_intents(kit.pool, id=forked)
    assert (intent.status, "has undone what it did" in intent.reason) == ("failed", True)


async def test_a_reviewed_fork_is_not_approved_once_its_step_is_gone(kit):
    await verb(kit, add_rule, label="look", effect="review")
    run_id = await kit.ask("wf.cure")
    await kit.tick()
    [start] = await list_approvals(kit.pool, run_id=run_id)
    await verb(kit, decide_approval, start.id, True)
    await kit.work()
    run = await kit.get(run_id)
    async with kit.pool.acquire() as conn:
        forked = await fork_run(conn, run.id, "work", actor=REQUESTER)
    await kit.tick()
    await verb(kit, retry_run, run.id)
    [asked] = await list_approvals(kit.pool, run_id=forked)

    with pytest.raises(Conflict, match="has begun anew"):
        await verb(kit, decide_approval, asked.id, True)
    assert (await list_approvals(kit.pool, run_id=forked))[0].status == "pending"


async def test_a_fork_spends_what_the_run_did_and_has_its_rank(kit):
    run = await kit.run("wf.stepping", {"steps": 2}, spend_cents=100, priority=4)
    await verb(kit, add_rule, label="dear", effect="block", spend_above_cents=50)
    forked = await verb(kit, fork_run, run.id, "step 1")
    await kit.tick()

    [intent] = await list_intents(kit.pool, id=forked)
    assert (intent.status, intent.spend_cents, intent.priority) == ("blocked", 100, 4)


async def test_a_fork_from_a_name_that_two_steps_have_begins_with_the_first_of_them(kit):
    run = await kit.run("wf.namesakes")
    await kit.pool.execute("update atlas.workflow_steps set name = 'x#2' where position = 2")
    forked = await verb(kit, fork_run, run.id, "x#2")
    await kit.tick()

    assert (await kit.get(forked)).status == "queued"
    assert list(await kit.steps(forked)) == ["x"]


async def test_a_fork_from_a_step_that_is_not_there_names_those_near_it(kit):
    run = await kit.run("wf.stepping", {"steps": 2})

    with pytest.raises(NotFound, match=r"There is no step stp 1. It has step 1"):
        await verb(kit, fork_run, run.id, "stp 1")


async def test_a_fork_in_the_middle_of_branches_is_sound(kit):
    run = await kit.run("wf.fan", {"width": 3})
    before = dict(calls)
    forked = await verb(kit, fork_run, run.id, "gather[1]/double")
    await kit.tick()
    await kit.work()

    assert (await kit.get(forked)).output == run.output
    assert calls["begin 1"] == before["begin 1"]
    assert calls["end 1"] == before["end 1"] + 1


async def test_canceling_a_waiting_run_cancels_its_children_and_theirs(kit):
    run = await kit.run("wf.parent", {"child": "wf.parent", "input": {"child": "wf.waits", "input": {"order": 1}}})
    [child] = (await kit.steps(run.id)).values()
    [grandchild] = (await kit.steps(child.child_id)).values()

    assert await verb(kit, cancel_run, run.id) == "canceled"

    states = [(await kit.get(one)).status for one in (run.id, child.child_id, grandchild.child_id)]
    assert states == ["canceled"] * 3
    assert (await list_intents(kit.pool, id=run.id))[0].reason == "its run was canceled"
    with pytest.raises(Conflict):
        await verb(kit, cancel_run, run.id)


@pytest.mark.long
@pytest.mark.parametrize("side", [False, True])
async def test_a_workflow_that_calls_itself_without_end_fails_at_the_deepest(kit, side):
    run = await kit.run("wf.chain", {"deepest": None, "side": side})

    assert run.status == "failed"
    assert "50 runs wait for each other already" in run.error["message"]
    assert await kit.pool.fetchval("select count(*) from atlas.workflow_runs") == 50


@pytest.mark.long
async def test_a_chain_of_children_is_canceled_to_its_end(kit):
    run = await kit.run("wf.chain", {"deepest": 50, "side": False})
    assert await verb(kit, cancel_run, run.id) == "canceled"

    states = await kit.pool.fetch("select status::text, count(*) from atlas.jobs group by status")
    assert [tuple(row) for row in states] == [("canceled", 50)]


async def test_canceling_a_run_stops_the_jobs_it_waits_for(kit):
    run_id = await kit.ask("wf.idles")
    await kit.tick()
    worker = Worker(kit.pool, kit.url, WorkerOptions(["ENGINE_RUN", "wf.idle"], poll=0.1, lease=60))
    task = asyncio.create_task(worker.run())
    while (
        await kit.pool.fetchval("select count(*) from atlas.jobs where job_type = 'wf.idle' and status = 'running'") < 2
    ):
        await asyncio.sleep(0.02)

    await verb(kit, cancel_run, run_id)
    async with asyncio.timeout(10):
        while await kit.pool.fetchval("select count(*) from atlas.jobs where status in ('queued', 'running')"):
            await asyncio.sleep(0.02)
    worker.stop()
    await task

    states = await kit.pool.fetch("select distinct status::text from atlas.jobs")
    assert [row["status"] for row in states] == ["canceled"]


async def test_a_run_that_is_canceled_at_work_stops_with_its_children(kit):
    run_id = await kit.ask("wf.busy")
    await kit.tick()
    worker = Worker(kit.pool, kit.url, WorkerOptions(["ENGINE_RUN", "wf.idle"], poll=0.1, lease=60))
    task = asyncio.create_task(worker.run())
    while (
        await kit.pool.fetchval("select count(*) from atlas.jobs where job_type = 'wf.idle' and status = 'running'") < 1
    ):
        await asyncio.sleep(0.02)
    assert (await kit.get(run_id)).status == "running"

    assert await verb(kit, cancel_run, run_id) == "requested"
    async with asyncio.timeout(10):
        while await kit.pool.fetchval("select count(*) from atlas.jobs where status in ('queued', 'running')"):
            await asyncio.sleep(0.02)
    worker.stop()
    await task

    states = await kit.pool.fetch("select distinct status::text from atlas.jobs")
    assert [row["status"] for row in states] == ["canceled"]


async def test_a_canceled_run_that_is_retried_starts_its_children_anew(kit):
    run = await kit.run("wf.parent", {"child": "wf.waits", "input": {"order": 1}})
    [first] = (await kit.steps(run.id)).values()
    await verb(kit, cancel_run, run.id)
    await verb(kit, retry_run, run.id)
    await kit.work()

    [second] = (await kit.steps(run.id)).values()
    assert second.child_id != first.child_id
    assert (await kit.get(second.child_id)).status == "waiting"


async def test_a_canceled_run_is_not_retried_before_its_children_have_stopped(kit):
    run = await kit.run("wf.parent", {"child": "wf.waits", "input": {"order": 1}})
    [first] = (await kit.steps(run.id)).values()
    # A worker has the child, and takes its time to stop it.
    await kit.pool.execute(
        "update atlas.jobs set status = 'running', claimed_by = 'slow', next_retry_at = null where id = $1",
        first.child_id,
    )
    assert await verb(kit, cancel_run, run.id) == "canceled"

    with pytest.raises(Conflict, match="was asked to stop and still runs"):
        await verb(kit, retry_run, run.id)
    with pytest.raises(Conflict, match="was asked to stop and still runs"):
        await verb(kit, retry_now, run.id)
    assert (await kit.get(run.id)).status == "canceled"

    await kit.pool.fetch("select * from atlas.reap_leases(100)")
    await verb(kit, retry_run, run.id)
    await kit.work()
    [second] = (await kit.steps(run.id)).values()
    assert (second.status, second.child_id != first.child_id) == ("waiting", True)


async def test_nor_is_it_retried_before_the_children_of_its_children_have_stopped(kit):
    run = await kit.run("wf.parent", {"child": "wf.parent", "input": {"child": "wf.waits", "input": {"order": 1}}})
    [child] = (await kit.steps(run.id)).values()
    [below] = (await kit.steps(child.child_id)).values()
    await kit.pool.execute(
        "update atlas.jobs set status = 'running', claimed_by = 'slow', next_retry_at = null where id = $1",
        below.child_id,
    )
    assert await verb(kit, cancel_run, run.id) == "canceled"

    with pytest.raises(Conflict, match="was asked to stop and still runs"):
        await verb(kit, retry_run, run.id)
    preview = await verb(kit, preview_bulk_action, "retry", [run.id])
    assert (preview.count, preview.refused) == (0, {run.id: "stopping"})
    await kit.pool.fetch("select * from atlas.reap_leases(100)")
    await verb(kit, retry_run, run.id)


async def test_a_run_asked_to_stop_whose_worker_died_takes_its_children_along(kit):
    run_id = await kit.ask("wf.parent", {"child": "wf.waits", "input": {"order": 1}})
    await kit.tick()
    await kit.work()
    [step] = (await kit.steps(run_id)).values()
    # A worker took it up and died.
    await kit.pool.execute(
        "update atlas.jobs set status = 'running', claimed_by = 'gone', next_retry_at = null where id = $1", run_id
    )
    await verb(kit, cancel_run, run_id)
    await kit.pool.fetch("select * from atlas.reap_leases(100)")

    assert (await get_job(kit.pool, run_id)).status == "canceled"
    assert (await get_job(kit.pool, step.child_id)).status == "canceled"


async def test_a_change_of_code_is_refused_with_what_was_expected_and_found(kit):
    run = await kit.run("wf.changing", {"way": "old"})
    assert run.status == "waiting"
    calls["changed"] = 1
    await kit.pass_time(MINUTE)
    await kit.work()
    run = await kit.get(run.id)

    assert (run.status, run.error["type"]) == ("failed", "ReplayDiverged")
    assert run.error["diverged"] == {"at": "step 2", "expected": "sleep 'sleep'", "found": "step 'new'"}
    assert (calls["new"], (await kit.actions(run.id))[-1]) == (0, "WORKFLOW_FAILED")


async def test_a_job_that_may_not_be_enqueued_fails_its_step_with_the_reason(kit):
    run = await kit.run("wf.misfit")

    assert run.status == "failed"
    assert "Step 'misfit' failed: The input of wf.strict is not valid: amount" in run.error["message"]
    assert await kit.pool.fetchval("select count(*) from atlas.jobs where job_type = 'wf.strict'") == 0


class WithSecret(BaseModel):
    key: str = Field(json_schema_extra={"x-secret": True})


def test_a_workflow_with_a_secret_in_its_input_is_refused():
    async def deploy(run: Run, input: WithSecret) -> None:
        """Would keep the key in its history."""

    with pytest.raises(AtlasError, match="as secret.*Give the secret to a job"):
        workflow("test.secret")(deploy)
    assert "test.secret" not in registered_workflows()
