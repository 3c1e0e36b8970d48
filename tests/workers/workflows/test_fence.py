"""A worker that lost its lease records nothing, and a lost response is not acted on twice."""

import asyncio
from typing import Any

import pytest

from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.engine.workflows.steps import step_store
from tests.engine.workflows.flows import calls

# Set by the tests that use them.
faults: dict[str, Any] = {}


@workflow("fence.lost")
async def lost(run: Run, input: dict[str, Any]) -> str:
    async def work(number: int) -> int:
        calls[f"work {number}"] += 1
        if number == 2 and calls["work 2"] == 1:
            await faults["lose"]()
        return number

    for number in (1, 2, 3):
        try:
            await run.step(f"step {number}", work, number, retries=0)
        except Exception:
            calls["swallowed"] += 1
    return "done"


async def test_what_a_worker_did_after_it_lost_its_lease_is_not_recorded(kit, owner):
    calls.clear()

    async def lose() -> None:
        await owner.execute(
            "update atlas.job_workers set lease_expires_at = now() - interval '1 minute' where dead_at is null"
        )
        await owner.fetch("select * from atlas.reap_leases(10)")

    faults["lose"] = lose
    run_id = await kit.ask("fence.lost")
    await kit.tick()
    await kit.work()
    steps = await kit.steps(run_id)
    assert list(steps) == ["step 1"]
    assert calls == {"work 1": 1, "work 2": 1}

    # The first sweep passes over what the worker itself has locked, and the worker may stop its handlers before it.
    await owner.fetch("select * from atlas.reap_leases(10)")
    await kit.pool.execute("update atlas.jobs set next_retry_at = null")
    await kit.work()

    assert (await kit.get(run_id)).status == "succeeded"
    assert calls == {"work 1": 1, "work 2": 2, "work 3": 1}


@workflow("fence.begins")
async def begins(run: Run, input: dict[str, Any]) -> Any:
    wait = {
        "child": lambda: run.child("wait", "wf.plain"),
        "job": lambda: run.job("wait", "wf.double", {"x": 1}),
        "approval": lambda: run.approval("wait", title="Go on?"),
    }[input["kind"]]
    await run.gather(wait(), run.step("doze", asyncio.sleep, 0.3))
    return {"well": True}


@pytest.mark.parametrize("kind", ["child", "job", "approval"])
async def test_a_wait_whose_response_was_lost_starts_one_child_and_asks_one_question(kit, monkeypatch, kind):
    suspend = step_store.suspend_runs
    responses = 0

    async def lose_the_first_response(conn, suspensions, is_repeated, **options):
        nonlocal responses
        verdicts = await suspend(conn, suspensions, is_repeated, **options)
        responses += 1
        if responses == 1:
            assert suspensions[0].stays
            raise ConnectionResetError("after the commit")
        return verdicts

    monkeypatch.setattr(step_store, "suspend_runs", lose_the_first_response)
    run_id = await kit.ask("fence.begins", {"kind": kind})
    await kit.tick()
    await kit.work()
    await kit.work()

    made = await kit.pool.fetchval(
        "select (select count(*) from atlas.jobs where parent_run_id = $1) + (select count(*) from atlas.approvals where run_id = $1)",
        run_id,
    )
    assert (responses > 1, made) == (True, 1)
    assert (await kit.get(run_id)).status == ("waiting" if kind == "approval" else "succeeded")
