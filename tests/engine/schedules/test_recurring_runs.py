"""Runs of recurring functions: each leaves a row, one at a time, whatever became of its process or its schedule."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from atlas.engine.jobs.switches.gate import switch
from atlas.engine.schedules.recurring import find_owner, list_recurring, remove_recurring, save_recurring
from atlas.engine.schedules.recurring_runs import claim_runs, finish_run, list_runs, renew_run, sweep_runs
from atlas.errors import Conflict, NotFound
from tests.support import DANA, given_tenant

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
async def key(conn):
    """A function that is due, and registered."""
    await switch(conn, online=True, actor=DANA)
    key = (await given_tenant(conn), "tidy")
    await save_recurring(conn, key, start_at=START, repeat_every=DAY)
    return key


async def claim(conn, key, by="w", lease=60.0):
    [run] = await claim_runs(conn, by, [key], lease=lease)
    return run


async def make_due(conn):
    await conn.execute("update atlas.recurring_jobs set next_run_at = clock_timestamp()")


async def lose(conn):
    await conn.execute(
        "update atlas.recurring_runs set lease_expires_at = clock_timestamp() - interval '1 second',"
        " started_at = started_at - interval '5 seconds' where finished_at is null"
    )


async def failures(conn):
    rows = await conn.fetch(
        "select message, meta->>'outcome' as outcome, meta->>'attempt' as attempt, meta->>'worker' as worker"
        " from atlas.audit_log where action = 'RECURRING_FAILED' order by id"
    )
    return [tuple(row) for row in rows]


async def test_every_run_leaves_a_row_and_what_failed_is_audited(conn, key):
    for outcome, error in (("succeeded", None), ("failed", "no paper"), ("timeout", "too long"), ("stopped", None)):
        run = await claim(conn, key)
        assert await finish_run(conn, run, outcome=outcome, error=error) == "kept"
        await make_due(conn)

    runs = await list_runs(conn, key)
    assert [(one.outcome, one.error) for one in runs] == [
        *(("stopped", None), ("timeout", "too long"), ("failed", "no paper"), ("succeeded", None))
    ]
    assert all(one.duration_ms >= 0 and one.due_at <= one.started_at <= one.finished_at for one in runs)
    assert {one.worker_id for one in runs} == {"w"}
    assert await failures(conn) == [("no paper", "failed", "1", "w"), ("too long", "timeout", "1", "w")]
    assert [one.id for one in await list_runs(conn, key, after=(runs[0].started_at, runs[0].id), limit=2)] == [
        *(runs[1].id, runs[2].id)
    ]


async def test_a_run_in_progress_is_in_the_history_and_on_its_function(conn, key):
    await claim(conn, key)

    [run], [function] = await list_runs(conn, key), await list_recurring(conn)
    assert (run.outcome, run.finished_at, run.duration_ms) == (None, None, None)
    assert (function.worker_id, function.last_outcome, function.last_started_at) == ("w", None, run.started_at)


async def test_a_run_whose_process_died_is_lost_audited_and_tried_again(conn, key):
    run = await claim(conn, key, by="dies")
    assert await sweep_runs(conn) == []
    await lose(conn)
    ended = await conn.fetchval("select lease_expires_at from atlas.recurring_runs")

    assert [one.id for one in await sweep_runs(conn)] == [run.id]
    [lost] = await list_runs(conn, key)
    assert (lost.outcome, lost.finished_at) == ("lost", ended)
    assert "Its process ended" in lost.error
    assert not await renew_run(conn, run, lease=60)
    assert await finish_run(conn, run, outcome="succeeded") is None
    again = await claim(conn, key, by="takes over")
    assert (again.attempt, (await list_runs(conn, key))[0].due_at) == (2, lost.due_at)
    assert [failure[1:] for failure in await failures(conn)] == [("lost", "1", "dies")]


@pytest.mark.parametrize("repeat", [DAY, timedelta()])
async def test_a_run_that_is_lost_three_times_waits_for_its_next_interval(conn, key, repeat):
    await save_recurring(conn, key, start_at=START, repeat_every=repeat)
    run = await claim(conn, key)
    await finish_run(conn, run, outcome="stopped")  # an ordinary stop counts for nothing
    for attempt in (2, 3, 4):
        assert (await claim(conn, key)).attempt == attempt
        await lose(conn)
        await sweep_runs(conn)

    assert await claim_runs(conn, "w", [key], lease=60) == []
    found = await list_recurring(conn)
    assert (found[0].next_run_at > datetime.now(UTC)) if repeat else found == []
    # Registered anew, as every start of a program does, it does not run again either.
    assert await save_recurring(conn, key, start_at=START, repeat_every=repeat) is bool(repeat)
    assert await claim_runs(conn, "w", [key], lease=60) == []


async def test_the_history_of_a_function_that_was_removed_during_its_run_is_whole(conn, key):
    run = await claim(conn, key)
    await remove_recurring(conn, key)

    assert await renew_run(conn, run, lease=60)
    assert await finish_run(conn, run, outcome="succeeded") == "kept"
    assert [one.outcome for one in await list_runs(conn, key)] == ["succeeded"]
    assert await find_owner(conn, "tidy") == key[0]


async def test_a_process_that_dies_while_its_function_is_removed_is_not_running_for_ever(conn, key):
    await claim(conn, key)
    await remove_recurring(conn, key)
    await lose(conn)
    await sweep_runs(conn)

    assert [run.outcome for run in await list_runs(conn, key)] == ["lost"]


async def test_a_function_that_is_registered_anew_during_its_run_does_not_run_twice_at_a_time(conn, key):
    run = await claim(conn, key)
    await remove_recurring(conn, key)
    await save_recurring(conn, key, start_at=START, repeat_every=timedelta())
    assert await claim_runs(conn, "other", [key], lease=60) == []

    # The old run leaves the new schedule alone.
    await finish_run(conn, run, outcome="failed")
    await save_recurring(conn, key, start_at=START + DAY, repeat_every=timedelta())
    assert (await claim(conn, key, by="other")).attempt == 1


async def test_a_schedule_that_is_replaced_during_its_run_keeps_its_new_start(conn, key):
    once = {"repeat_every": timedelta()}
    await save_recurring(conn, key, start_at=START, **once)
    run = await claim(conn, key)
    await save_recurring(conn, key, start_at=START + DAY, **once)
    assert await finish_run(conn, run, outcome="succeeded") == "kept"

    assert [one.next_run_at for one in await list_recurring(conn)] == [START + DAY]


async def test_of_many_processes_one_claims_a_run(pool, key):
    async def one(by):
        async with pool.acquire() as conn:
            return await claim_runs(conn, by, [key], lease=60)

    claims = await asyncio.gather(*(one(f"w{n}") for n in range(5)))
    assert sum(map(len, claims)) == 1
    assert await pool.fetchval("select count(*) from atlas.recurring_runs") == 1


async def test_a_registration_waits_for_the_end_of_the_one_run_and_then_stores_nothing(pool, conn, key):
    once = {"start_at": START, "repeat_every": timedelta()}
    await save_recurring(conn, key, **once)
    run = await claim(conn, key)

    async def register():
        async with pool.acquire() as other:
            return await save_recurring(other, key, **once)

    async with conn.transaction():
        assert await finish_run(conn, run, outcome="succeeded") == "removed"
        registering = asyncio.create_task(register())
        await asyncio.sleep(0.2)
        assert not registering.done()

    assert await registering is False
    assert await list_recurring(conn) == []


async def test_an_id_is_found_in_its_tenant_and_ambiguous_in_several(conn, key):
    with pytest.raises(NotFound, match="There is no recurring function sweep"):
        await find_owner(conn, "sweep")
    other = await given_tenant(conn, "other")
    await save_recurring(conn, (other, "tidy"), start_at=START, repeat_every=DAY)

    with pytest.raises(Conflict, match="Name the tenant"):
        await find_owner(conn, "tidy")
    assert await find_owner(conn, "tidy", tenant_id=other) == other


HISTORY = """
insert into atlas.recurring_runs (tenant_id, recurring_id, due_at, attempt_no, worker_id, started_at, finished_at, outcome)
select $1, 'f' || n % 10, now(), 1, 'w', now() - n * interval '1 minute', now() - n * interval '1 minute', 'succeeded'
from generate_series(1, 20000) n"""


@pytest.mark.long
@pytest.mark.parametrize("analyzed", [False, True])
async def test_no_statement_reads_the_whole_history(pool, conn, owner, key, analyzed):
    await owner.execute(HISTORY, key[0])
    await owner.execute("insert into atlas.tenants (slug, name) select 'n' || n, 'n' from generate_series(1, 200) n")
    if analyzed:
        await owner.execute("analyze atlas.recurring_runs")
        await owner.execute("analyze atlas.tenants")

    async def scans():
        await conn.execute("select pg_stat_force_next_flush()")
        await owner.execute("select pg_stat_clear_snapshot()")
        return await owner.fetchval("select seq_scan from pg_stat_user_tables where relname = 'recurring_runs'")

    before = await scans()
    run = await claim(conn, key)
    await renew_run(conn, run, lease=60)
    await sweep_runs(conn)
    await finish_run(conn, run, outcome="failed")
    first = (await list_runs(conn, (key[0], "f1"), limit=3))[-1]
    await list_runs(conn, (key[0], "f1"), after=(first.started_at, first.id))
    await list_recurring(conn)
    assert [await find_owner(conn, id) for id in ("f1", "tidy")] == [key[0]] * 2
    await save_recurring(conn, (key[0], "once"), start_at=START, repeat_every=timedelta())
    await conn.fetchval("select atlas.prune_recurring($1, now() - interval '10 days', 500)", key[0])
    assert await scans() == before
