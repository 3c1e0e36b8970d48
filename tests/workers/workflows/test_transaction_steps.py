"""Steps in a transaction: what a step wrote and its record are one commit."""

import asyncio
from typing import Any

import pytest

from atlas.db.pool import Connection
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.workers.worker import Worker, WorkerOptions
from tests.pgbouncer import direct_url
from tests.proxy import FaultyProxy

# What happens in the first call of a step, by its name.
FAULTS: dict[str, Any] = {}


@pytest.fixture(autouse=True)
async def ledger(owner: Any) -> None:
    """The application's table."""
    FAULTS.clear()
    await owner.execute("create table ledger (run_id uuid, name text); grant all on ledger to public")


async def book(conn: Connection, run: Run, name: str) -> str:
    await conn.execute("insert into ledger values ($1, $2)", run.id, name)
    if (fault := FAULTS.pop(name, None)) is not None:
        await fault()
    return name


@workflow("tx.ledger")
async def books(run: Run, input: dict[str, Any]) -> list[str]:
    """Three bookings, then a step without a transaction."""

    async def booking(conn: Connection, name: str) -> str:
        return await book(conn, run, name)

    names = [await run.transaction(name, booking, name) for name in ("one", "two", "three")]
    both = [run.transaction("four", booking, "four"), run.transaction("five", booking, "five")]
    return [*names, *await run.gather(*both)]


async def booked(kit: Any) -> list[str]:
    return sorted(row[0] for row in await kit.pool.fetch("select name from ledger"))


async def test_what_a_step_wrote_and_its_record_are_one_commit(kit):
    run = await kit.run("tx.ledger")
    assert (run.status, run.output) == ("succeeded", ["one", "two", "three", "four", "five"])
    assert await booked(kit) == sorted(["one", "two", "three", "four", "five"])
    apart = """select count(*) from ledger l
    where not exists (select from atlas.workflow_steps s where s.xmin = l.xmin and s.name = l.name)"""
    assert await kit.pool.fetchval(apart) == 0


async def test_a_step_that_raises_leaves_nothing_and_is_tried_again(kit, monkeypatch):
    async def fail() -> None:
        raise ValueError("no paper")

    FAULTS["two"] = FAULTS["four"] = fail
    run_id = await kit.ask("tx.ledger")
    await kit.tick()
    for _ in range(3):
        await kit.work()
        await kit.pool.execute("update atlas.jobs set next_retry_at = null")
        await kit.pool.execute("update atlas.workflow_steps set wake_at = now() where status = 'retrying'")
    assert (await kit.get(run_id)).status == "succeeded"
    assert await booked(kit) == sorted(["one", "two", "three", "four", "five"])


async def test_a_worker_that_lost_its_lease_records_nothing_and_writes_nothing(kit, owner):
    async def lose() -> None:
        await owner.execute(
            "update atlas.job_workers set lease_expires_at = now() - interval '1 minute' where dead_at is null"
        )

    FAULTS["two"] = lose
    run_id = await kit.ask("tx.ledger")
    await kit.tick()
    await kit.work()
    assert await booked(kit) == ["one"]
    await owner.fetch("select * from atlas.reap_leases(10)")
    await kit.pool.execute("update atlas.jobs set next_retry_at = null")
    await kit.work()
    assert (await kit.get(run_id)).status == "succeeded"
    assert await booked(kit) == sorted(["one", "two", "three", "four", "five"])


@pytest.mark.parametrize("is_committed", [False, True], ids=["before the commit", "after it"])
async def test_the_network_is_cut(kit, database_url, is_committed):
    cutting: list[asyncio.Task[None]] = []
    async with FaultyProxy(direct_url(database_url)) as proxy:

        async def cut() -> None:
            if not is_committed:
                proxy.cut()
                return
            proxy.swallows = True

            async def cut_when_committed() -> None:
                while await kit.pool.fetchval("select count(*) from atlas.workflow_steps where name = 'two'") == 0:
                    await asyncio.sleep(0.01)
                proxy.cut()
                proxy.swallows = False

            cutting.append(asyncio.create_task(cut_when_committed()))

        FAULTS["two"] = cut
        run_id = await kit.ask("tx.ledger")
        await kit.tick()
        options = WorkerOptions(["ENGINE_RUN"], poll=0.2, lease=60, drain=True, application_url=proxy.url)
        for _ in range(2):
            await Worker(kit.pool, kit.url, options).run()
            await kit.pool.execute("update atlas.jobs set next_retry_at = null")
            await kit.pool.execute("update atlas.workflow_steps set wake_at = now() where status = 'retrying'")
    assert (await kit.get(run_id)).status == "succeeded"
    assert await booked(kit) == sorted(["one", "two", "three", "four", "five"])
