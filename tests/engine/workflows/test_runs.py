"""Durable runs: what they ask for is done once, and waiting holds no worker."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.lists.find import get_job
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.switches.gate import switch, wait_until_closed
from atlas.engine.workflows.approvals import list_approvals
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.run_actions import retry_run
from atlas.engine.workflows.steps import step_call
from atlas.workers.worker import Worker, WorkerOptions
from tests.engine.workflows.flows import SWITCHES, calls
from tests.engine.workflows.kit import REQUESTER
from tests.support import DANA

MINUTE = timedelta(seconds=61)
DAY = timedelta(days=1)
FAR = datetime(9000, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def counted_from_zero():
    calls.clear()


async def test_steps_run_once_in_order_and_repeated_names_are_numbered(kit):
    run = await kit.run("wf.plain")
    steps = await kit.steps(run.id)

    assert (run.status, run.output) == ("succeeded", "one two")
    assert list(steps) == ["note", "note#2"]
    assert steps["note"].input == ["one"]
    assert calls == {"one": 1, "two": 1}
    assert await kit.actions(run.id) == [
        "INTENT_REQUESTED",
        "ENGINE_CLAIMED_INTENT",
        "JOB_CREATED",
        "WORKFLOW_COMPLETE",
    ]


async def test_a_typed_result_is_the_same_type_when_it_is_replayed(kit):
    run = await kit.run("wf.typed", {"item": "cup", "amount": 2})
    assert run.status == "waiting"

    await kit.pass_time(MINUTE)
    await kit.work()
    run = await kit.get(run.id)

    assert run.output == {"cents": 600, "at": "2026-01-02T00:00:00+00:00"}
    assert calls["price"] == 1


async def test_a_replay_sees_every_result_as_it_was_returned(kit):
    run = await kit.run("wf.faithful")

    assert run.status == "succeeded", run.error
    answers = run.output["answers"]
    assert answers[0] == "{'zeta': 1e+16, 'b': -0.0, 'aa': {'2': 1, '10': 1.0}}"
    assert calls[str(answers)] == 2


async def test_a_result_with_aliases_is_read_back_and_one_that_cannot_be_fails_its_step(kit):
    run = await kit.run("wf.invoices")

    assert run.status == "succeeded", run.error
    assert run.output["invoices"] == [[7, 100, ["tea"], 19]] * 2
    assert "cannot be read back as its annotated type" in run.output["reason"]
    assert (await kit.steps(run.id))["ratios"].status == "failed"
    assert calls["ratios"] == 1


async def test_an_input_that_does_not_fit_fails_the_run_with_the_field(kit):
    run = await kit.run("wf.typed", {"amount": 2})

    assert run.status == "failed"
    assert "item: Field required" in run.error["message"]
    assert (await kit.actions(run.id))[-1] == "WORKFLOW_FAILED"


async def test_a_failing_step_is_tried_again_after_its_delay_and_holds_no_worker_meanwhile(kit):
    run = await kit.run("wf.flaky", {"failures": 2})
    [step] = (await kit.steps(run.id)).values()
    assert (run.status, step.status, step.attempts) == ("waiting", "retrying", 1)
    assert step.error == {"type": "ValueError", "message": "ValueError: failure 1"}

    for _ in range(2):
        await kit.pass_time(MINUTE)
        await kit.work()
    run = await kit.get(run.id)
    [step] = (await kit.steps(run.id)).values()

    assert (run.status, run.output, step.attempts) == ("succeeded", 3, 3)


async def test_a_step_that_used_its_retries_fails_the_run(kit):
    run = await kit.run("wf.flaky", {"failures": 9, "retries": 1})
    await kit.pass_time(MINUTE)
    await kit.work()
    run = await kit.get(run.id)

    assert (run.status, calls["attempt"]) == ("failed", 2)
    assert run.error["message"] == "Step 'attempt' failed: ValueError: failure 2"
    assert (run.error["type"], run.error["step"]) == ("ValueError", "attempt")


async def test_a_step_may_snooze_uncounted_or_ask_for_a_later_retry(kit):
    run = await kit.run("wf.steered")
    [step] = (await kit.steps(run.id)).values()
    assert step.attempts == 0

    await kit.pass_time(timedelta(seconds=101))
    await kit.work()
    [step] = (await kit.steps(run.id)).values()
    waits = step.wake_at - step.started_at
    assert step.attempts == 1
    assert waits > timedelta(seconds=300)

    await kit.pass_time(DAY)
    await kit.work()
    assert (await kit.get(run.id)).output == "there"


async def test_a_step_may_say_what_postgres_refuses(kit):
    run = await kit.run("wf.spells")

    assert (run.status, run.output[0]) == ("succeeded", "caf\ufffd")
    steps = await kit.steps(run.id)
    assert steps["spell"].output["item"] == "caf\ufffd"
    assert (steps["misspell"].input, steps["misspell"].error["message"]) == (["caf\ufffd"], "ValueError: caf\ufffd")


async def test_a_plain_step_may_ask_an_iterator_for_one_too_many(kit):
    async with asyncio.timeout(20):
        run = await kit.run("wf.exhausts")
    assert (run.status, "StopIteration" in run.error["message"]) == ("failed", True)


async def test_a_step_or_a_workflow_that_tries_to_end_the_program_fails(kit):
    run = await kit.run("wf.exits")

    assert (run.status, run.error["message"]) == ("failed", "KeyboardInterrupt")
    assert (await kit.steps(run.id))["note"].input == ["KeyboardInterrupt SystemExit"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"step": 2**20, "run": 0}, "Step 'produce' failed: The step's result has 1,048,578 bytes as JSON; 1,048,576"),
        ({"step": 0, "run": 2**20}, "What the handler returned has 1,048,578 bytes as JSON; 1,048,576 are allowed"),
    ],
)
async def test_results_of_steps_and_runs_are_bounded(kit, sizes, message):
    run = await kit.run("wf.returns", sizes)

    assert run.status == "failed"
    assert message in run.error["message"]


async def test_a_step_that_does_not_end_in_time_fails(kit):
    run = await kit.run("wf.slow")

    assert run.status == "failed"
    assert "did not end within 0.02 s" in run.error["message"]


async def test_the_time_of_a_plain_step_begins_with_its_thread(kit, monkeypatch):
    with ThreadPoolExecutor(1) as threads:
        monkeypatch.setattr(step_call, "_threads", lambda: threads)
        run = await kit.run("wf.queues")

    assert run.status == "succeeded", run.error


async def test_a_slot_stays_taken_while_a_plain_step_hangs(kit, monkeypatch):
    let_go = threading.Event()
    monkeypatch.setitem(SWITCHES, "hang", let_go.wait)
    hanging = await kit.ask("wf.hangs")
    await kit.tick()
    worker = Worker(kit.pool, kit.url, WorkerOptions(["ENGINE_RUN"], concurrency=1, poll=0.05, lease=60))
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(20):
        while (await kit.get(hanging)).status != "failed":
            await asyncio.sleep(0.01)
        other = await kit.ask("wf.plain")
        await kit.tick()
        await asyncio.sleep(0.3)
        begun = calls["one"]
        let_go.set()
        while (await kit.get(other)).status != "succeeded":
            await asyncio.sleep(0.01)
    worker.stop()
    await task
    assert begun == 0


async def test_a_run_goes_back_at_a_stop_when_its_plain_step_has_ended(kit, monkeypatch):
    """Before, another worker would begin the step that still runs here."""
    begun, let_go = threading.Event(), threading.Event()
    monkeypatch.setitem(SWITCHES, "hold", lambda: (begun.set(), let_go.wait(20)))
    held = await kit.ask("wf.holds")
    await kit.tick()
    worker = Worker(kit.pool, kit.url, WorkerOptions(["ENGINE_RUN"], poll=0.05, lease=60, grace=0.1))
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(20):
        while not begun.is_set():
            await asyncio.sleep(0.01)
        worker.stop()
        await asyncio.sleep(1)
        before = (await kit.get(held)).status
        let_go.set()
        await task
    assert before == "running"
    found = await kit.pool.fetchrow("select status::text, retry_count, lost_count from atlas.jobs where id = $1", held)
    assert tuple(found) == ("queued", 0, 0)
    assert not worker.has_running_handlers


async def test_a_run_whose_plain_step_outlasts_its_worker_is_the_workers_own_until_it_lets_go(kit, monkeypatch):
    monkeypatch.setattr("atlas.workers.worker.CLEANUP_SECONDS", 0.2)
    begun, let_go = threading.Event(), threading.Event()
    monkeypatch.setitem(SWITCHES, "hold", lambda: (begun.set(), let_go.wait(20)))
    held = await kit.ask("wf.holds")
    await kit.tick()
    worker = Worker(kit.pool, kit.url, WorkerOptions(["ENGINE_RUN"], poll=0.05, lease=60, grace=0.1))
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(20):
        while not begun.is_set():
            await asyncio.sleep(0.01)
        worker.stop()
        await task
    assert worker.has_running_handlers
    assert (await kit.get(held)).status == "running"
    await worker.let_go()
    let_go.set()
    found = await kit.pool.fetchrow("select status::text, retry_count, lost_count from atlas.jobs where id = $1", held)
    assert tuple(found) == ("queued", 0, 0)


async def test_each_step_has_an_idempotency_key_of_its_own_at_every_attempt(kit):
    run = await kit.run("wf.charges")

    branches = ["", "gather[0]/", "gather[1]/"]
    keys = [[[f"{run.id}:{branch}{name}"] * 2 for name in ("charge", "charge#2")] for branch in branches]
    assert [run.output["root"], *run.output["sides"]] == keys
    assert set(calls.values()) == {2}


async def test_a_run_hears_that_the_job_it_waits_for_has_expired(kit):
    run = await kit.run("wf.impatient")
    await kit.pool.execute("update atlas.jobs set start_by = clock_timestamp() where job_type = 'wf.unserved'")
    async with kit.pool.acquire() as conn:
        await sweep(conn)
    await kit.work()
    found = await kit.get(run.id)
    assert found.status == "succeeded"
    assert "It expired: it was not started by" in found.output["reason"]


async def test_a_caught_failure_is_replayed_as_the_same_failure(kit):
    run = await kit.run("wf.catches")

    assert run.output == {"reason": "no stock", "kind": "PermanentError", "other": "other"}
    assert (await kit.steps(run.id))["refuse"].status == "failed"


async def test_a_run_waits_for_a_job_and_for_another_run_and_has_their_outputs(kit):
    run = await kit.run("wf.family", {"x": 4})
    steps = await kit.steps(run.id)

    assert run.output == {"doubled": {"value": 8}, "child": "one two"}
    child_job = await get_job(kit.pool, steps["double"].child_id)
    child_run = await kit.get(steps["child"].child_id)
    assert (child_job.parent_run_id, child_job.source) == (run.id, "workflow")
    assert (child_run.parent_run_id, child_run.requested_by) == (run.id, REQUESTER.id)


async def test_the_output_of_a_job_is_what_its_function_returned_and_has_its_type(kit):
    run = await kit.run("wf.typed_jobs")
    assert run.status == "waiting"
    await kit.pass_time(MINUTE)
    await kit.work()

    assert (await kit.get(run.id)).output == [500, 2026, 4, 4, None]
    [price, number, *_] = (await kit.steps(run.id)).values()
    assert (price.output["cents"], number.output) == (500, 4)


async def test_a_child_that_takes_too_long_is_canceled_and_fails_the_step(kit):
    run = await kit.run("wf.parent", {"child": "wf.waits", "input": {"order": 1}, "timeout": 60})
    [step] = (await kit.steps(run.id)).values()
    assert run.status == "waiting"

    await kit.pass_time(MINUTE)
    await kit.work()

    assert "did not end in time" in (await kit.get(run.id)).error["message"]
    assert (await kit.get(step.child_id)).status == "canceled"


async def test_a_run_whose_child_is_deleted_goes_on_and_says_so(kit, owner):
    run = await kit.run("wf.parent", {"child": "wf.waits", "input": {"order": 1}})
    [step] = (await kit.steps(run.id)).values()

    await owner.execute("delete from atlas.jobs where id = $1", step.child_id)
    await kit.work()

    assert "It was deleted." in (await kit.get(run.id)).error["message"]
    assert await kit.pool.fetchval("select count(*) from atlas.workflow_runs where id = $1", step.child_id) == 0
    assert await kit.pool.fetchval("select count(*) from atlas.workflow_steps where run_id = $1", step.child_id) == 0


async def test_branches_go_on_side_by_side_and_are_named_by_their_position(kit):
    run = await kit.run("wf.fan", {"width": 5})
    steps = await kit.steps(run.id)

    assert run.output == [0, 2, 4, 6, 8]
    assert {f"gather[{number}]/{name}" for number in range(5) for name in ("begin", "double", "end")} == set(steps)
    assert all(calls[f"{word} {number}"] == 1 for number in range(5) for word in ("begin", "end"))


async def test_a_gather_waits_for_all_and_retry_runs_every_failed_branch_again(kit):
    run = await kit.run("wf.fan_fails")
    assert run.error["message"] == "Step 'b' failed: b is bad"
    assert [step["branch"] for step in run.error["steps"]] == ["fan[1]/", "fan[2]/"]

    calls["cured"] = 1
    async with kit.pool.acquire() as conn:
        await retry_run(conn, run.id, actor=REQUESTER)
    await kit.work()

    assert (await kit.get(run.id)).status == "succeeded"
    assert calls["a"] == 1


async def test_steps_at_once_without_gather_are_refused_by_name(kit):
    run = await kit.run("wf.careless")

    assert run.status == "failed"
    assert "'b 1' began while 'a 1' was not done" in run.error["message"]


async def test_drawn_values_stay_the_same(kit):
    run = await kit.run("wf.values")
    recorded = [step.output for step in (await kit.steps(run.id)).values() if step.kind == "value"]

    await kit.pass_time(MINUTE)
    await kit.work()

    drawn = (await kit.get(run.id)).output["drawn"]
    assert drawn == recorded
    assert drawn[1] != drawn[3]


async def test_a_workflow_that_swallows_everything_still_waits(kit):
    run = await kit.run("wf.stubborn")

    assert run.status == "waiting"
    assert calls == {"caught": 1}

    await kit.pass_time(MINUTE)
    await kit.work()
    assert (await kit.get(run.id)).status == "succeeded"


@pytest.mark.long
@pytest.mark.parametrize(
    "input",
    [
        {"sleep": 1e12},
        {"sleep": "inf"},
        {"sleep": 1e300},
        {"until": "9999-12-31T23:59:59-14:00"},
        {"approval": 1e12, "title": "Pay?"},
        {"approval": 60, "title": "Pay NUL?"},
        {"retry": 1e12},
        {"retry": "inf"},
        {"cap": 1e12},
    ],
)
async def test_a_wait_without_a_sane_end_waits_and_can_be_read(kit, input):
    run = await kit.run("wf.far", input)

    assert run.status == "waiting"
    assert (run.wakes_at or FAR).year <= 9000
    assert (await get_job(kit.pool, run.id)).error == {}
    [step] = (await kit.steps(run.id)).values()
    assert step.status in ("waiting", "retrying")
    for asked in await list_approvals(kit.pool, run_id=run.id):
        assert asked.expires_at.year < 2200


async def test_times_that_have_passed_long_ago_and_long_timeouts_are_nothing_special(kit):
    past = await kit.run("wf.far", {"until": "0001-01-01T00:00:00+14:00"})
    late = await kit.run("wf.far", {"job": 1e12})

    assert (past.status, late.status) == ("succeeded", "succeeded")


async def test_a_wait_for_no_number_of_seconds_fails_the_run_at_once(kit):
    for input in ({"sleep": "nan"}, {"approval": "nan", "title": "x"}):
        run = await kit.run("wf.far", input)
        assert run.status == "failed"
        assert "is not a number of seconds" in run.error["message"]


async def test_an_unknown_workflow_fails_with_names_near_it(kit):
    run = await kit.run("wf.plian")

    assert run.status == "failed"
    assert "wf.plain" in run.error["message"]
    assert (await kit.actions(run.id))[-1] == "WORKFLOW_NOT_FOUND"


async def test_a_raw_engine_run_job_is_refused(kit):
    async with kit.pool.acquire() as conn:
        made = await enqueue(conn, NewJob("ENGINE_RUN", {"workflow": "wf.plain"}), actor=REQUESTER)
    await kit.work()

    assert "was not made from an intent" in (await get_job(kit.pool, made.id)).error["message"]


async def test_a_run_in_progress_suspends_at_its_next_step_while_atlas_is_offline(kit):
    SWITCHES["off"] = lambda: kit.online(False)
    run_id = await kit.ask("wf.offline")
    await kit.tick()
    await kit.work()
    run = await kit.get(run_id)
    assert (run.status, calls["first"], calls["second"]) == ("queued", 1, 0)

    await kit.online()
    await kit.work()
    assert (await kit.get(run_id)).status == "succeeded"
    assert (calls["first"], calls["second"]) == (1, 1)


async def test_a_step_does_not_start_when_atlas_went_offline_since_the_last_was_recorded(kit):
    async def take_offline() -> None:
        async with kit.pool.acquire() as conn:
            await wait_until_closed(conn, await switch(conn, online=False, actor=DANA))

    SWITCHES["off"] = take_offline
    run_id = await kit.ask("wf.offline_between")
    await kit.tick()
    await kit.work()
    assert ((await kit.get(run_id)).status, calls["first"], calls["second"]) == ("queued", 1, 0)

    await kit.online()
    await kit.work()
    assert (await kit.get(run_id)).status == "succeeded"
    assert (calls["first"], calls["second"]) == (1, 1)


async def test_counters_of_failures_and_losses_go_back_to_zero_with_a_new_step(kit):
    run = await kit.run("wf.typed", {"item": "cup"})
    await kit.pool.execute(
        "update atlas.jobs set retry_count = 2, lost_count = 1, careful = true where id = $1", run.id
    )
    await kit.pass_time(MINUTE)
    await kit.work()

    job = await get_job(kit.pool, run.id)
    assert (job.status, job.retry_count, job.lost_count) == ("succeeded", 0, 0)


async def test_an_event_that_came_before_the_run_waited_is_not_lost(kit):
    run_id = await kit.ask("wf.waits", {"order": 7})
    async with kit.pool.acquire() as conn:
        await publish_event(conn, SYSTEM_TENANT, "paid", {"order": 7, "by": "card"}, actor=REQUESTER)
    await kit.tick()
    await kit.work()

    assert (await kit.get(run_id)).output == {"first": {"order": 7, "by": "card"}}
