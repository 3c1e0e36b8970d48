"""A worker that lost its lease records nothing, and a lost response is not acted on twice."""

import asyncio
from typing import Any

import pytest

from atlas.engine.workflows import Run, workflow
from atlas.ids import new_id
from atlas.workers.workflows import journal
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
            "update job_workers set lease_expires_at = now() - interval '1 minute' where dead_at is null"
        )
        await owner.fetch("select * from atlas_reap(10)")

    faults["lose"] = lose
    run_id = await kit.ask("fence.lost")
    await kit.tick()
    await kit.work()
    steps = await kit.steps(run_id)
    assert list(steps) == ["step 1"]
    assert calls == {"work 1": 1, "work 2": 1}

    await kit.pool.execute("update jobs set next_retry_at = null")
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
async def test_a_wait_whose_answer_was_lost_starts_one_child_and_asks_one_question(kit, monkeypatch, kind):
    suspend = journal.suspend_runs
    answers = 0

    async def lose_the_first_answer(conn, worker_id, suspensions, **options):
        nonlocal answers
        verdicts = await suspend(conn, worker_id, suspensions, **options)
        answers += 1
        if answers == 1:
            assert suspensions[0].stays
            raise ConnectionResetError("after the commit")
        return verdicts

    monkeypatch.setattr(journal, "suspend_runs", lose_the_first_answer)
    run_id = await kit.ask("fence.begins", {"kind": kind})
    await kit.tick()
    await kit.work()
    await kit.work()

    made = await kit.pool.fetchval(
        "select (select count(*) from jobs where parent_run_id = $1) + (select count(*) from approvals where run_id = $1)",
        run_id,
    )
    assert (answers > 1, made) == (True, 1)
    assert (await kit.get(run_id)).status == ("waiting" if kind == "approval" else "succeeded")


async def test_histories_are_read_by_a_few_at_a_time(pool, monkeypatch):
    sizes: list[int] = []
    load = journal.load_histories

    async def counted(conn: Any, run_ids: Any) -> Any:
        sizes.append(len(run_ids))
        return await load(conn, run_ids)

    monkeypatch.setattr(journal, "load_histories", counted)
    histories = journal.WorkerJournal(pool, "worker").histories
    found = await asyncio.gather(*(histories.submit(new_id()) for _ in range(50)))

    assert [len(one) for one in found] == [0] * 50
    assert sizes == [16, 16, 16, 2]
