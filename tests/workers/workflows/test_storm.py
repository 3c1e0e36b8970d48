"""Everything at once: branches, children, events, cancels and several engines and workers; every run ends rightly."""

import asyncio
import random

import pytest

from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.intents import NewIntent, request_workflows
from atlas.workers.worker import Worker, WorkerOptions
from atlas.workers.workflows import run_engine_loop
from tests.engine.workflows.flows import calls
from tests.engine.workflows.kit import APPROVER, REQUESTER
from tests.support import PROOF

RUNS = 300 if PROOF else 40
WIDTH = 4

OPEN = """select (select count(*) from atlas.jobs where status in ('queued', 'running'))
            + (select count(*) from atlas.intents where status in ('draft', 'validating', 'queued'))"""
WRONG = f"""
select count(*) from atlas.jobs where status <> 'canceled' and case input->>'workflow'
  when 'wf.fan' then output <> '{[2 * n for n in range(WIDTH)]}'
  when 'wf.waits' then output->'second'->'order' is distinct from input->'input'->'order'
  when 'wf.family' then output->'doubled'->>'value' is distinct from (2 * (input->'input'->>'x')::int)::text
  else false end"""
ORPHANS = """
select count(*) from atlas.jobs c join atlas.jobs p on p.id = c.parent_run_id
where p.status = 'canceled' and c.status in ('queued', 'running')"""


async def publish_all(pool) -> None:
    for order in range(RUNS):
        async with pool.acquire() as conn:
            for _ in range(2):
                await publish_event(conn, SYSTEM_TENANT, "paid", {"order": order}, actor=REQUESTER)


async def cancel_some(pool) -> None:
    dice = random.Random(11)
    for _ in range(15):
        await asyncio.sleep(0.02)
        async with pool.acquire() as conn:
            rows = await conn.fetch(
                """select id from atlas.jobs where status in ('queued', 'running') and input->>'workflow' = 'wf.family'
                   order by id limit 20"""
            )
            chosen = dice.sample([row["id"] for row in rows], min(3, len(rows)))
            await change_many(conn, "cancel", chosen, actor=APPROVER, tenant_id=None)


@pytest.mark.long
async def test_a_storm_of_runs_leaves_nothing_open_nothing_wrong_and_no_orphans(kit):
    calls.clear()
    stop = asyncio.Event()
    served = sorted(key for key in registered() if key == "ENGINE_RUN" or key.startswith("wf."))
    options = WorkerOptions(served, concurrency=30, poll=0.2, lease=60)
    workers = [Worker(kit.pool, kit.url, options) for _ in range(2)]
    asked = [NewIntent("wf.fan", {"width": WIDTH}) for _ in range(RUNS)]
    asked += [NewIntent("wf.family", {"x": n}) for n in range(RUNS)]
    asked += [NewIntent("wf.waits", {"order": n, "twice": True}) for n in range(RUNS)]
    async with asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(worker.run())
        group.create_task(run_engine_loop(kit.pool, stop, url=kit.url, poll=0.2))
        try:
            async with kit.pool.acquire() as conn:
                await request_workflows(conn, SYSTEM_TENANT, asked, requested_by=REQUESTER)
            await asyncio.gather(publish_all(kit.pool), cancel_some(kit.pool))
            async with asyncio.timeout(120):
                while await kit.pool.fetchval(OPEN):
                    await asyncio.sleep(0.05)
        finally:
            stop.set()
            for worker in workers:
                worker.stop()

    wrong, orphans = await kit.pool.fetchval(WRONG), await kit.pool.fetchval(ORPHANS)
    again = sum(count != RUNS for word, count in calls.items() if word.startswith(("begin", "end")))
    canceled = await kit.pool.fetchval("select count(*) from atlas.jobs where status = 'canceled'")
    print(
        f"storm: {len(asked)} runs, {canceled} jobs canceled, {wrong} wrong, {orphans} orphans, {again} steps run again"
    )
    assert (wrong, orphans, again) == (0, 0, 0)
