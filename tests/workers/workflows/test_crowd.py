"""Many runs at once: sleeping ones cost no memory, and all wake in time."""

import asyncio
import gc
from datetime import timedelta
from typing import Any

import psutil
import pytest

from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.workflows.intents import NewIntent, request_workflows
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.workers.worker import Worker, WorkerOptions
from tests.engine.workflows.kit import REQUESTER
from tests.support import PROOF, until

RUNS = 10_000 if PROOF else 600


@workflow("crowd.sleeps")
async def sleeps(run: Run, input: dict[str, Any]) -> dict[str, Any]:
    """A payload in memory, a long sleep, the end."""
    kept = await run.step("load", load, input["n"])
    await run.sleep(timedelta(hours=1))
    return {"n": input["n"], "kept": len(kept)}


async def load(number: int) -> str:
    return f"{number:04}" * 500


def memory() -> float:
    gc.collect()
    return psutil.Process().memory_info().rss / 2**20


async def reach(kit, query: str, wanted: int) -> float:
    return await until(lambda: kit.pool.fetchval(f"select ({query}) >= $1", wanted), within=300)


async def measure(kit) -> tuple[float, float, float]:
    """Memory when half and when all of them sleep, and the seconds until all have ended after their time."""
    sleeping = "select count(*) from atlas.workflow_steps where kind = 'sleep' and status = 'waiting'"
    await reach(kit, sleeping, RUNS // 2)
    half = memory()
    await reach(kit, sleeping, RUNS)
    await asyncio.sleep(0.5)
    full = memory()
    await kit.pass_time(timedelta(hours=1))
    return half, full, await reach(kit, "select count(*) from atlas.jobs where status = 'succeeded'", RUNS)


@pytest.mark.long
async def test_sleeping_runs_hold_no_memory_and_all_wake_within_a_minute_of_their_time(kit):
    async with kit.pool.acquire() as conn:
        for start in range(0, RUNS, 1000):
            asked = [NewIntent("crowd.sleeps", {"n": n}) for n in range(start, min(RUNS, start + 1000))]
            await request_workflows(conn, SYSTEM_TENANT, asked, requested_by=REQUESTER)
    await kit.tick()
    worker = Worker(kit.pool, kit.url, WorkerOptions(["ENGINE_RUN"], concurrency=100, lease=60))
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        try:
            half, full, took = await measure(kit)
        finally:
            worker.stop()

    right = await kit.pool.fetchval("select count(*) from atlas.jobs where output->'n' = input->'input'->'n'")
    print(
        f"crowd: {RUNS} sleeping runs, memory {half:.1f} → {full:.1f} MiB from half to all, all awake in {took:.1f} s"
    )
    assert right == RUNS
    assert full - half < 20
    assert took < 60
