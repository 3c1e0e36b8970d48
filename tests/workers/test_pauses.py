"""When pausing a type has returned, no handler of it starts, in whatever state a worker is; others go on.

As in the test of the gate: workers prefetch under load, and are killed and frozen.
"""

import asyncio
import time

import pytest

from atlas.engine.jobs.start_right import LAPSE_SECONDS, NotStarted, StartRights, boot_seconds
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.switches.pauses import list_pauses, pause, resume, wait_until_paused
from tests.support import DANA, PROOF, until
from tests.workers.processes import Faults, workers
from tests.workers.test_gate import OPTIONS, SLACK_SECONDS, TYPES, feed, late, marks

TOGGLES, WORKERS = (80, 3) if PROOF else (4, 2)
PAUSED, OTHER = TYPES


async def _pause(conn, kind, name):
    return await wait_until_paused(conn, await pause(conn, kind, name, actor=DANA))


async def _wait_for_marks(folder):
    before = len(marks(folder))
    await until(lambda: len(marks(folder)) > before + 20, within=60)


@pytest.mark.slow
async def test_no_handler_of_a_paused_type_starts_after_the_pause_has_returned(pool, database_url, tmp_path):
    held, confirmed, lapsed, longest = [], 0, 0, 0.0
    folders = {one: tmp_path / one for one in TYPES}
    for folder in folders.values():
        folder.mkdir()
    feeders = [asyncio.create_task(feed(pool, folder, (one,))) for one, folder in folders.items()]
    async with workers(database_url, WORKERS, **OPTIONS) as running, pool.acquire() as conn:
        faults = Faults(running, database_url, seed=7, **OPTIONS)
        await faults.wait_for_all(pool)
        for number in range(TOGGLES):
            await _wait_for_marks(folders[PAUSED])
            await faults.strike(number)
            asked_at = time.monotonic()
            made = await _pause(conn, "type", PAUSED)
            returned_at = boot_seconds()
            longest = max(longest, time.monotonic() - asked_at)
            confirmed, lapsed = confirmed + made.confirmed, lapsed + made.workers - made.confirmed
            await faults.thaw()
            await _wait_for_marks(folders[OTHER])
            held.append((returned_at, boot_seconds()))
            await resume(conn, made.id, actor=DANA)
            await faults.replace()
        for feeder in feeders:
            feeder.cancel()
    starts = marks(folders[PAUSED])
    too_late = late((mark.started_at for mark in starts), held)
    frozen = len(late((mark.began_at for mark in starts), held))
    print(
        f"pauses: {TOGGLES} toggles, {len(starts)} starts, {confirmed} confirmations, {lapsed} rights lapsed,"
        f" a pause took at most {longest:.2f} s, {len(too_late)} starts after it had returned,"
        f" {frozen} handlers began after it that had started before"
    )
    assert too_late == []
    assert confirmed > 0
    assert lapsed > 0
    assert longest < LAPSE_SECONDS + SLACK_SECONDS


async def test_a_worker_gives_back_what_it_prefetched_and_goes_on_with_the_rest(pool, serving, given, eventually):
    await given("test.sleeps", *({"seconds": 30} for _ in range(3)))
    async with serving("test.sleeps", "test.effect", concurrency=3, grace=0) as worker, pool.acquire() as conn:
        status = "select status::text from atlas.jobs where id = $1"
        await eventually("select count(*) from atlas.jobs where status = 'running'", equals=3)
        [prefetched] = await given("test.sleeps", {"seconds": 30})
        # As a fast worker would: it holds one job more than it has slots.
        worker._demand.prefetch._rate = 20.0
        worker._claim_loop.hint()
        await eventually(status, prefetched, equals="running")
        made = await _pause(conn, "type", "test.sleeps")
        assert (made.confirmed, made.workers) == (1, 1)
        assert await conn.fetchval(status, prefetched) == "queued"
        # What runs goes on.
        assert await conn.fetchval("select count(*) from atlas.jobs where status = 'running'") == 3


async def test_a_worker_goes_on_with_a_type_that_is_resumed_or_whose_pause_is_over(pool, serving, given, eventually):
    async with serving("test.effect", "test.sleeps") as worker, pool.acquire() as conn:
        await eventually("select count(*) from atlas.job_workers", equals=1)
        for number, is_over in enumerate((False, True)):
            made = await _pause(conn, "type", "test.sleeps")
            [held] = await given("test.sleeps", {"seconds": 0})
            await asyncio.sleep(0.05)
            assert await conn.fetchval("select status::text from atlas.jobs where id = $1", held) == "queued"
            if is_over:
                await conn.execute("update atlas.pauses set until = clock_timestamp()")
                await sweep(conn)
                assert await list_pauses(conn) == []
            else:
                await resume(conn, made.id, actor=DANA)
            await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=number + 1)
        assert worker.outcomes == {"succeeded": 2}


@pytest.mark.long
async def test_a_worker_that_never_confirms_is_waited_for_until_its_right_has_lapsed(conn):
    await switch(conn, online=True, actor=DANA)
    await conn.execute(
        "insert into atlas.job_workers (worker_id, hostname, version, job_types, lease_expires_at)"
        " values ('host:1:silent', 'host', '1', '{}', clock_timestamp() + interval '1 minute')"
    )
    began = time.monotonic()
    made = await _pause(conn, "type", "EMAIL_SEND")
    assert (made.confirmed, made.workers) == (0, 1)
    assert time.monotonic() - began >= LAPSE_SECONDS


async def test_what_was_claimed_before_a_pause_has_no_right_to_start_and_what_comes_after_has():
    rights, asked_at = StartRights(), boot_seconds()
    rights.present.grant(asked_at)
    before = rights.present
    before.check()
    rights.renew(1)
    # Neither a later claim nor the open gate gives it back.
    before.grant(boot_seconds())
    with pytest.raises(NotStarted):
        before.check()
    with pytest.raises(NotStarted):
        await before.wait()
    rights.present.grant(boot_seconds())
    rights.present.check()
    # A claim that was sent before, and did not know of the pause, brought what may not start.
    assert not rights.covers(0, asked_at)
    assert rights.covers(1, asked_at)
    assert rights.covers(0, boot_seconds())
