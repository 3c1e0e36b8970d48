"""Events: each wakes whom it concerns, once, whatever the order in which waiting and happening meet."""

import asyncio
from datetime import timedelta

import pytest

from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.retention.retention import prune, read_ages
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.workflows.events import publish_event, signal_run
from atlas.engine.workflows.intents import NewIntent, request_workflows, take_intents
from atlas.engine.workflows.run_actions import cancel_run
from atlas.errors import Conflict, InvalidInput, NotFound
from atlas.ids import new_id
from atlas.workers.worker import Worker, WorkerOptions
from tests.engine.workflows.kit import REQUESTER
from tests.support import PROOF

RUNS = 500 if PROOF else 120


async def publish(pool, context, name="paid", **options):
    async with pool.acquire() as conn:
        return await publish_event(conn, SYSTEM_TENANT, name, context, actor=REQUESTER, **options)


async def test_an_event_wakes_the_runs_whose_match_it_holds(kit):
    mine = await kit.run("wf.waits", {"order": 1})
    other = await kit.run("wf.waits", {"order": 2})
    assert (mine.status, mine.wakes_at) == ("waiting", None)

    published = await publish(kit.pool, {"order": 1, "cents": 5})
    await kit.work()

    assert published.woken == 1
    assert (await kit.get(mine.id)).output == {"first": {"order": 1, "cents": 5}}
    assert (await kit.get(other.id)).status == "waiting"


async def test_an_event_ends_one_wait_of_a_run_and_the_next_needs_another(kit):
    run = await kit.run("wf.waits", {"order": 1, "twice": True})
    await publish(kit.pool, {"order": 1, "n": 1})
    await kit.work()
    assert (await kit.get(run.id)).status == "waiting"

    await publish(kit.pool, {"order": 1, "n": 2})
    await kit.work()

    assert (await kit.get(run.id)).output == {"first": {"order": 1, "n": 1}, "second": {"order": 1, "n": 2}}


async def test_two_early_events_are_given_to_the_two_waits_in_order(kit):
    run_id = await kit.ask("wf.waits", {"order": 1, "twice": True})
    for n in (1, 2):
        await publish(kit.pool, {"order": 1, "n": n})
    await kit.tick()
    await kit.work()

    assert (await kit.get(run_id)).output == {"first": {"order": 1, "n": 1}, "second": {"order": 1, "n": 2}}


async def test_an_event_from_before_the_request_does_not_count(kit):
    await publish(kit.pool, {"order": 1})
    run = await kit.run("wf.waits", {"order": 1})

    assert run.status == "waiting"


async def test_a_wait_ends_without_an_event_after_its_time(kit):
    run = await kit.run("wf.waits", {"order": 1, "timeout": 60})
    assert run.wakes_at is not None

    await kit.pass_time(timedelta(seconds=61))
    await kit.work()

    assert (await kit.get(run.id)).output == {"first": None}


async def test_nothing_of_an_event_is_seen_when_its_transaction_is_rolled_back(kit):
    run = await kit.run("wf.waits", {"order": 1})
    async with kit.pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await publish_event(conn, SYSTEM_TENANT, "paid", {"order": 1}, actor=REQUESTER)
        await transaction.rollback()
    await kit.work()

    assert (await kit.get(run.id)).status == "waiting"
    assert await kit.pool.fetchval("select count(*) from atlas.events") == 0


@pytest.mark.long
async def test_a_run_that_begins_to_wait_while_an_event_is_being_published_finds_it(kit):
    run_id = await kit.ask("wf.waits", {"order": 1})
    await kit.tick()
    async with kit.pool.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await publish_event(conn, SYSTEM_TENANT, "paid", {"order": 1}, actor=REQUESTER)
        await kit.work()
        # The publisher is not done: the run neither waits for it nor trusts the silence.
        run = await kit.get(run_id)
        assert run.status == "waiting"
        assert run.wakes_at is not None
        await transaction.commit()
    await kit.pass_time(timedelta(seconds=1))
    await kit.work()

    assert (await kit.get(run_id)).output == {"first": {"order": 1}}


async def test_a_signal_to_a_run_that_is_only_asked_for_is_kept_for_it(kit):
    run_id = await kit.ask("wf.waits", {"order": 1})
    async with kit.pool.acquire() as conn:
        await signal_run(conn, run_id, "paid", {"order": 1}, actor=REQUESTER, tenant_id=SYSTEM_TENANT)
        with pytest.raises(NotFound):
            await signal_run(conn, run_id, "paid", {}, actor=REQUESTER, tenant_id=new_id())
    await kit.tick()
    await kit.work()

    assert (await kit.get(run_id)).output == {"first": {"order": 1}}


async def test_what_has_ended_takes_no_signal(kit):
    run = await kit.run("wf.plain")
    withdrawn = await kit.ask("wf.plain")
    async with kit.pool.acquire() as conn:
        await cancel_run(conn, withdrawn, actor=REQUESTER)
        with pytest.raises(Conflict, match="is succeeded and waits for nothing"):
            await signal_run(conn, run.id, "paid", {}, actor=REQUESTER)
        with pytest.raises(Conflict, match="is rejected"):
            await signal_run(conn, withdrawn, "paid", {}, actor=REQUESTER)
    assert await kit.pool.fetchval("select count(*) from atlas.events") == 0


async def test_an_event_is_not_pruned_before_the_run_it_woke_has_read_it(kit, owner):
    run = await kit.run("wf.waits", {"order": 1})
    await publish(kit.pool, {"order": 1, "cents": 5})
    await owner.execute("update atlas.events set handled_at = now(), created_at = now() - interval '40 days'")

    assert await sweep(kit) == 0
    await kit.work()

    assert (await kit.get(run.id)).output == {"first": {"order": 1, "cents": 5}}
    assert await sweep(kit) == 1


async def test_a_run_whose_event_is_gone_says_so(kit, owner):
    run = await kit.run("wf.waits", {"order": 1})
    await publish(kit.pool, {"order": 1})
    await owner.execute("delete from atlas.events")
    async with asyncio.timeout(20):
        await kit.work()

    run = await kit.get(run.id)
    assert (run.status, run.error["message"]) == ("failed", "Step 'paid' failed: Its event came and is removed by now.")


async def sweep(kit) -> int:
    """Remove what is past its age; how many events went."""
    return sum([one.events for ages in await read_ages(kit.pool) async for one in prune(kit.pool, ages)])


async def test_a_signal_reaches_one_run_alone_and_is_audited(kit):
    one = await kit.run("wf.waits", {"order": 1})
    two = await kit.run("wf.waits", {"order": 1})
    async with kit.pool.acquire() as conn:
        await signal_run(conn, one.id, "paid", {"order": 1}, actor=REQUESTER)
    await kit.work()

    assert (await kit.get(one.id)).status == "succeeded"
    assert (await kit.get(two.id)).status == "waiting"
    assert "RUN_SIGNALED" in await kit.actions(one.id)


async def test_events_of_another_tenant_wake_no_run(kit):
    run = await kit.run("wf.waits", {"order": 1})
    async with kit.pool.acquire() as conn:
        other = await add_tenant(conn, slug="other", name="Other", actor=REQUESTER)
        published = await publish_event(conn, other.id, "paid", {"order": 1}, actor=REQUESTER)
    await kit.work()

    assert published.woken == 0
    assert (await kit.get(run.id)).status == "waiting"


async def test_a_bad_event_is_refused_with_its_field(kit):
    with pytest.raises(InvalidInput, match="name: must not be empty"):
        await publish(kit.pool, {}, name="")
    with pytest.raises(InvalidInput, match="context: is larger than"):
        await publish(kit.pool, {"text": "x" * 300_000})
    with pytest.raises(InvalidInput, match=r"U\+0000"):
        await publish(kit.pool, {"text": "\0"})
    with pytest.raises(NotFound, match="There is no tenant"):
        async with kit.pool.acquire() as conn:
            await publish_event(conn, new_id(), "paid", {}, actor=REQUESTER)


@pytest.mark.long
async def test_events_that_arrive_in_the_instant_in_which_runs_begin_to_wait_are_never_lost(kit):
    asked = [NewIntent("wf.waits", {"order": number}) for number in range(RUNS)]
    async with kit.pool.acquire() as conn:
        await request_workflows(conn, SYSTEM_TENANT, asked, requested_by=REQUESTER)
        while (await take_intents(conn, "engine")).claimed:
            pass
    workers = [
        Worker(kit.pool, kit.url, WorkerOptions(["ENGINE_RUN"], concurrency=40, poll=0.2, lease=60)) for _ in range(2)
    ]
    tasks = [asyncio.create_task(worker.run()) for worker in workers]

    async def publish_some(numbers):
        for number in numbers:
            await publish(kit.pool, {"order": number})

    await asyncio.gather(*(publish_some(range(start, RUNS, 4)) for start in range(4)))
    async with asyncio.timeout(60):
        while await kit.pool.fetchval("select count(*) from atlas.jobs where status in ('queued', 'running')"):
            await asyncio.sleep(0.05)
    for worker in workers:
        worker.stop()
    await asyncio.gather(*tasks)

    ended = await kit.pool.fetchval("select count(*) from atlas.jobs where status = 'succeeded'")
    right = await kit.pool.fetchval(
        "select count(*) from atlas.jobs where output->'first'->'order' = input->'input'->'order'"
    )
    print(f"events in the instant of waiting: {RUNS} runs, {RUNS - ended} lost, {ended - right} with another's event")
    assert (ended, right) == (RUNS, RUNS)
