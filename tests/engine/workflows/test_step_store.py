"""The store of steps: durable before the next step begins, written together, read in small groups."""

import asyncio
from collections import Counter
from typing import Any

from atlas.engine.jobs.claim import Claimant, claim
from atlas.engine.jobs.lease import register_worker
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.engine.workflows.steps import step_store
from atlas.engine.workflows.steps.step_store import StepStore, record_steps
from atlas.ids import new_id
from tests.engine.workflows.kit import first_step

# Set by the tests that use them.
seen: dict[str, Any] = {}
ran: Counter[str] = Counter()


@workflow("store.steps")
async def steps(run: Run, input: dict[str, Any]) -> int:
    """Each step counts what was recorded before it began."""

    async def count(name: str) -> int:
        ran[name] += 1
        found = await seen["pool"].fetchval("select count(*) from atlas.workflow_steps where run_id = $1", run.id)
        return int(found)

    counted = [await run.step(name, count, name) for name in ("a", "b", "c")]
    assert counted == [0, 1, 2]
    return sum(counted)


async def test_a_step_is_durable_before_the_next_one_begins(kit):
    seen["pool"] = kit.pool
    run = await kit.run("store.steps")
    assert (run.status, run.output) == ("succeeded", 3)


async def test_steps_of_runs_at_work_together_are_written_together(kit, monkeypatch):
    seen["pool"] = kit.pool
    record = step_store.record_steps
    sizes: list[int] = []

    async def counted(conn, written, is_repeated, **options):
        sizes.append(len(written))
        return await record(conn, written, is_repeated, **options)

    monkeypatch.setattr(step_store, "record_steps", counted)
    runs = [await kit.ask("store.steps") for _ in range(40)]
    await kit.tick()
    await kit.work()

    assert {(await kit.get(run_id)).status for run_id in runs} == {"succeeded"}
    assert sum(sizes) == 3 * 40
    assert max(sizes) > 5


async def test_a_step_whose_response_was_lost_is_recorded_once_and_does_not_run_again(kit, monkeypatch):
    seen["pool"] = kit.pool
    ran.clear()
    record = step_store.record_steps
    calls: list[bool] = []

    async def lose_the_second_response(conn, written, is_repeated, **options):
        calls.append(is_repeated)
        results = await record(conn, written, is_repeated, **options)
        if len(calls) == 2:
            raise ConnectionResetError("after the commit")
        return results

    monkeypatch.setattr(step_store, "record_steps", lose_the_second_response)
    run = await kit.run("store.steps")

    assert run.status == "succeeded"
    assert calls == [False, False, True, False]
    assert ran == {"a": 1, "b": 1, "c": 1}


async def test_a_step_of_an_earlier_attempt_is_refused(kit, owner):
    for _ in range(2):
        await kit.ask("store.steps")
    await kit.tick()
    worker = Claimant("worker", ["ENGINE_RUN"])
    async with kit.pool.acquire() as conn:
        await register_worker(conn, worker.id, lease=60, job_types=["ENGINE_RUN"])
        first, again = await claim(conn, worker, limit=2)
        await owner.execute("update atlas.jobs set attempt_count = 2 where id = $1", again.id)

        alike = [first_step(first.id, 1), first_step(again.id, 1)]
        assert await record_steps(conn, alike, worker_id=worker.id) == [True, None]
        mixed = [first_step(first.id, 2), first_step(again.id, 2), first_step(again.id, 1)]
        assert await record_steps(conn, mixed, worker_id=worker.id) == [None, True, None]


async def test_histories_are_read_by_a_few_at_a_time(pool, monkeypatch):
    sizes: list[int] = []
    load = step_store.load_histories

    async def counted(conn: Any, run_ids: Any, is_repeated: bool) -> Any:
        sizes.append(len(run_ids))
        return await load(conn, run_ids, is_repeated)

    monkeypatch.setattr(step_store, "load_histories", counted)
    store = StepStore(pool, "worker")
    found = await asyncio.gather(*(store.load(new_id()) for _ in range(50)))

    assert [len(one) for one in found] == [0] * 50
    assert sizes == [16, 16, 16, 2]
