"""History: jobs that simply succeeded move into tables of their own, are read as before, and are dropped by the day."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from atlas.audit.guards import check_guards
from atlas.audit.verification.crosscheck import cross_check
from atlas.db.pool import connect
from atlas.db.prisma import prisma_on
from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action, find_bulk_action, take_step
from atlas.engine.jobs.actions.bulk_previews import preview_bulk_action
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.backoff import policy_of
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.lists.find import get_job, job_exists, list_attempts
from atlas.engine.jobs.lists.job_list import JobFilter, list_jobs
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.engine.metering.usage import meter_usage
from atlas.engine.retention.history import drop_expired, file_jobs, return_jobs
from atlas.engine.retention.retention import read_ages
from atlas.errors import AtlasError, NotFound
from tests.engine.jobs.given import given_claimed, given_job, success
from tests.engine.retention.test_retention import age, keep, old, sweep
from tests.support import DANA, given_tenant

PLACES = "select tableoid::regclass::text as place, id from atlas.jobs order by 1, 2"
MOVED = "select moved from atlas.move_to_history(array[$1::uuid], '00000000-0000-0000-0000-000000000000', 9, 30, true)"
MOVED_BEFORE = """
select looked, last, moved
from atlas.move_to_history($1::uuid, $2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 2, 30, true)"""
SIDES = """
select name, string_agg(distinct case when place like '%history%' then 'history' else 'hot' end, ', ') as places
from (
  select 'attempts' as name, tableoid::regclass::text as place from atlas.job_attempts union all
  select 'runs', tableoid::regclass::text from atlas.workflow_runs union all
  select 'steps', tableoid::regclass::text from atlas.workflow_steps) r
group by name"""
# Ends the session at the statement of a number, counted over all tables that a move writes to.
KILLER = """
create sequence atlas.statement_count;
create table atlas.kill (at int);
insert into atlas.kill values (0);
create function atlas.end_session() returns trigger language plpgsql security definer as $$
begin
  if nextval('atlas.statement_count') = (select at from atlas.kill) then
    perform pg_terminate_backend(pg_backend_pid());
    perform pg_sleep(9);
  end if;
  return null;
end $$;
do $$
declare
  name text;
begin
  for name in
    select c.oid::regclass from pg_class c
    where c.relnamespace = 'atlas'::regnamespace and c.relkind = 'r'
      and (c.relname = 'jobs' or c.relname in (select t.name from atlas.history_tables() t) or c.relname ~ '_history_')
  loop
    execute format('create trigger a_end before insert or delete on %s for each statement execute function atlas.end_session()', name);
    execute format('create trigger z_end after insert or delete on %s for each statement execute function atlas.end_session()', name);
  end loop;
end $$"""
# How a statement that removes jobs, or brings their attempts back, plans the checks of keys.
MODES = """
create table public.modes (op text, job_id uuid, mode text);
create function public.note_mode() returns trigger language plpgsql security definer as $$
begin
  insert into public.modes
  select tg_op, case when tg_op = 'DELETE' then (to_jsonb(old)->>'id')::uuid else (to_jsonb(new)->>'job_id')::uuid end,
    current_setting('plan_cache_mode');
  return null;
end $$;
create trigger a_mode after delete on atlas.jobs for each row execute function public.note_mode()"""
ATTEMPTS_MODE = """
create trigger a_mode after insert on atlas.job_attempts for each row execute function public.note_mode()"""
PRUNED = """
select tenant_id, meta->'jobs' as jobs, meta->'by_status' as by_status, meta->>'first' as first, meta->>'last' as last
from atlas.audit_log where action = 'JOBS_PRUNED' order by tenant_id"""


@pytest.fixture(autouse=True)
async def online(conn) -> None:
    await switch(conn, online=True, actor=DANA)


async def given_success(conn, tenant: UUID | None = None, **options) -> UUID:
    chosen = options if tenant is None else options | {"tenant_id": tenant}
    worker, job = await given_claimed(conn, "plain", **chosen)
    await finish(conn, worker, [success(worker, job)])
    return job.id


async def file_all(pool, batch: int = 500) -> int:
    tenants = await read_ages(pool)
    returned = sum([jobs for ages in tenants async for jobs in return_jobs(pool, ages)])
    return returned + sum([moved async for moved in file_jobs(pool, tenants, batch=batch)])


async def drop_all(pool) -> list[int]:
    return [dropped async for dropped in drop_expired(pool, await read_ages(pool))]


async def places(conn) -> dict[UUID, str]:
    rows = await conn.fetch(PLACES)
    assert len({row["id"] for row in rows}) == len(rows), "a job is in two places"
    return {row["id"]: row["place"].removeprefix("atlas.") for row in rows}


async def test_a_job_that_simply_succeeded_moves_and_is_read_as_before(conn, pool):
    job_id = await given_success(conn, id=old())
    assert await file_all(pool) == 0, "it is not metered yet"
    await age(conn, days=0)
    before, attempts = await get_job(conn, job_id), await list_attempts(conn, job_id)

    assert await file_all(pool) == 1
    [place] = (await places(conn)).values()
    assert place.startswith("jobs_history_30_")
    after = await get_job(conn, job_id)
    assert after == before
    assert await list_attempts(conn, job_id) == attempts
    assert await file_all(pool) == 0
    assert await cross_check(conn) == []
    await delete(conn, job_id, actor=DANA)
    assert await places(conn) == {}


async def given_failure(conn, error: Exception | None = None, **options) -> UUID:
    worker, job = await given_claimed(conn, **{"job_type": "bad", "max_retries": 0, "id": old(), **options})
    await finish(conn, worker, [decide(job, worker.id, error or PermanentError("no"), policy_of(None))])
    return job.id


async def given_run(conn, child: UUID | None = None, **options) -> UUID:
    """A failed run with two steps, the second of which waits for a child."""
    run_id = await given_failure(conn, job_type="ENGINE_RUN", **options)
    tenant = await conn.fetchval("select tenant_id from atlas.jobs where id = $1", run_id)
    await conn.execute(
        "insert into atlas.workflow_runs (id, tenant_id, workflow, requested_by) values ($1, $2, 'flow', 'dana')",
        run_id,
        tenant,
    )
    await conn.executemany(
        "insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status, child_id)"
        " values ($1, '', $3, $2, 'step', 'step', $4, $5)",
        [(run_id, tenant, 0, "succeeded", None), (run_id, tenant, 1, "waiting", child)],
    )
    return run_id


async def side_rows(conn) -> dict[str, str]:
    """In which tables the rows of jobs are."""
    rows = await conn.fetch(SIDES)
    return {row["name"]: row["places"] for row in rows}


async def test_a_move_takes_the_jobs_of_all_tenants_together_and_passes_over_those_that_stay(conn, pool, owner):
    tenants = [await given_tenant(conn, f"t{n}") for n in range(3)]
    early = [await given_success(conn, tenant, id=old()) for tenant in tenants]
    await enqueue_many(conn, [NewJob("waits", {}, id=old(days=39)) for _ in range(40)], actor=DANA)
    late = [await given_success(conn, tenant, id=old(days=38)) for tenant in tenants]
    await age(conn, days=0)

    assert [moved async for moved in file_jobs(pool, await read_ages(pool), batch=10)] == [3, 0, 3]
    assert {id for id, place in (await places(conn)).items() if place != "jobs"} == {*early, *late}
    stored = await owner.fetch("select tenant_id, jobs, min_id, max_id from atlas.history_contents order by tenant_id")
    assert [tuple(row) for row in stored] == sorted(zip(tenants, [2] * 3, early, late, strict=True))


async def test_a_scheduler_of_the_version_before_moves_the_jobs_of_one_tenant(conn):
    tenant = await given_tenant(conn)
    ids = {await given_success(conn, tenant, id=old()) for _ in range(5)}
    other = await given_success(conn, id=old())
    await age(conn, days=0)
    last, moved = UUID(int=0), []
    while last is not None:
        looked, last, count = await conn.fetchrow(MOVED_BEFORE, tenant, last)
        assert (looked < 2) == (last is None)
        moved.append(count)
    assert sum(moved) == len(ids)
    assert {id for id, place in (await places(conn)).items() if place == "jobs"} == {other}


async def test_what_may_still_change_stays(conn, pool):
    dead_letter = await given_failure(conn, ValueError("no"))
    assert await conn.fetchval("select dead_lettered_at is not null from atlas.jobs")
    queued = await given_job(conn, id=old())
    run = await given_job(conn, "ENGINE_RUN", id=old())
    await conn.execute("update atlas.jobs set next_retry_at = '9999-01-01' where id = any ($1::uuid[])", [queued, run])
    child = await given_success(conn, id=old(), parent_run_id=run)
    child_of_letter = await given_success(conn, id=old(), parent_run_id=dead_letter)
    await age(conn, days=0)

    assert await file_all(pool) == 0
    assert await places(conn) == dict.fromkeys([dead_letter, queued, run, child, child_of_letter], "jobs")


async def test_failed_and_retried_jobs_move_with_their_attempts_and_are_listed_as_before(conn, pool):
    failed = await given_failure(conn)
    worker, job = await given_claimed(conn, "again", max_retries=5, id=old())
    await finish(conn, worker, [decide(job, worker.id, ValueError("no"), policy_of(None))])
    await conn.execute("update atlas.jobs set next_retry_at = null where id = $1", job.id)
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, job)])
    await age(conn, days=0)

    async def read():
        shown = [(await get_job(conn, id), await list_attempts(conn, id)) for id in (failed, job.id)]
        lists = [await list_jobs(conn, filter) for filter in (JobFilter(), JobFilter(statuses=("failed",)))]
        return shown, [[found.id for found in jobs] for jobs in lists]

    before = await read()
    assert await file_all(pool) == 2
    assert "jobs" not in (await places(conn)).values()
    assert await read() == before
    assert before[1] == [sorted([failed, job.id], reverse=True), [failed]]
    assert await cross_check(conn) == []


async def test_a_run_moves_with_its_steps_and_comes_back_with_them_and_its_children(conn, pool, owner):
    child = await given_success(conn, id=old())
    run = await given_run(conn, child)
    await conn.execute("update atlas.jobs set parent_run_id = $1 where id = $2", run, child)
    await age(conn, days=0)
    hot = await side_rows(conn)
    assert hot == dict.fromkeys(hot, "hot")
    assert await file_all(pool) == 2
    assert await side_rows(conn) == dict.fromkeys(hot, "history")
    assert await check_guards(owner) == []

    await retry_now(conn, run, actor=DANA)
    assert await side_rows(conn) == hot
    assert await places(conn) == {run: "jobs", child: "jobs"}
    assert (await get_job(conn, run)).status == "queued"
    assert await conn.fetchval("select count(*) from only atlas.workflow_steps where status = 'waiting'") == 1
    assert await cross_check(conn) == []
    assert await file_all(pool) == 0, "a child of a run that goes on"


async def test_a_tenant_retries_and_deletes_its_own_jobs_in_history_alone(conn, pool):
    mine, other = await given_tenant(conn), await given_tenant(conn, "other")
    jobs = {tenant: [await given_run(conn, tenant_id=tenant) for _ in range(2)] for tenant in (mine, other)}
    await age(conn, days=0)
    assert await file_all(pool) == 4
    everyone = [job for of_tenant in jobs.values() for job in of_tenant]

    async with conn.transaction():
        await conn.execute("set local role atlas_tenant")
        await conn.execute("select set_config('atlas.tenant', $1, true)", str(mine))
        await conn.execute("select atlas.return_jobs($1)", everyone)
        await retry_now(conn, jobs[mine][0], actor=DANA)
        await delete(conn, jobs[mine][1], actor=DANA)
        for verb in (retry_now, delete):
            with pytest.raises(NotFound):
                await verb(conn, jobs[other][0], actor=DANA)
    assert {id: place == "jobs" for id, place in (await places(conn)).items()} == {
        jobs[mine][0]: True,
        **dict.fromkeys(jobs[other], False),
    }
    assert await conn.fetchval("select count(*) from atlas.workflow_steps") == 6
    assert await conn.fetchval("select count(*) from atlas.job_attempts") == 3


async def test_a_tenant_that_keeps_attempts_for_less_gets_its_jobs_back(conn, pool):
    tenant = await given_tenant(conn)
    failed, plain = await given_failure(conn, tenant_id=tenant), await given_success(conn, tenant, id=old())
    await age(conn, days=10)
    assert await file_all(pool) == 2
    await keep(conn, tenant, jobs=30, attempts=20)
    await file_all(pool)
    assert {id for id, place in (await places(conn)).items() if place == "jobs"} == {failed}
    await keep(conn, tenant, jobs=30, attempts=5)
    assert (await sweep(pool)).attempts == 1
    assert await file_all(pool) == 1, "without its attempts"
    assert set(await places(conn)) == {failed, plain}
    assert "jobs" not in (await places(conn)).values()


@pytest.mark.long
async def test_a_session_that_is_killed_at_any_statement_leaves_each_job_whole_in_one_place(
    conn, pool, owner, database_url
):
    await given_run(conn)
    await age(conn, days=0)
    assert await file_all(pool) == 1  # the tables of history are there, and can be watched
    runs = {await given_run(conn) for _ in range(2)} | set(await places(conn))
    await age(conn, days=0)
    tenant_id = await conn.fetchval("select tenant_id from atlas.jobs limit 1")
    await owner.execute(KILLER)
    moves, returns, at, killed = 0, 0, 0, 0
    while not returns:
        at += 1
        await owner.execute(f"alter sequence atlas.statement_count restart with 1; update atlas.kill set at = {at}")
        mover = await connect(database_url)
        try:
            if not moves:
                moves = await mover.fetchval(MOVED, tenant_id)
                assert moves == 2
            else:
                assert await mover.fetchval("select atlas.return_from_history($1, 7, 9)", tenant_id) == 3
                returns = 1
            at = 0
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            mover.terminate()
            killed += 1
        else:
            await mover.close()
        found = await places(conn)
        assert set(found) == runs
        hot = sum(place == "jobs" for place in found.values())
        for table, each in (("workflow_runs", 1), ("workflow_steps", 2), ("job_attempts", 1)):
            assert await conn.fetchval(f"select count(*) from atlas.{table}") == 3 * each
            assert await conn.fetchval(f"select count(*) from only atlas.{table}") == hot * each
    assert killed >= 24, "two kills around each statement of both"


async def test_the_keys_that_refer_to_jobs_are_not_planned_again_for_each_job_that_moves_or_is_removed(
    conn, pool, owner
):
    """Five keys refer to jobs; planning their checks for each job took longer than all the rest of a move."""
    await owner.execute(MODES)
    kept, removed = await given_tenant(conn, "kept"), await given_tenant(conn, "removed")
    await keep(conn, removed, jobs=2, attempts=2, steps=2)
    moved, old_job = await given_failure(conn, tenant_id=kept), await given_failure(conn, tenant_id=removed)
    await age(conn, days=10)
    assert await file_all(pool) == 1
    assert (await sweep(pool)).jobs == 1
    await owner.execute(ATTEMPTS_MODE)
    await retry_now(conn, moved, actor=DANA)
    seen = {(row["op"], row["job_id"]): row["mode"] for row in await owner.fetch("select * from public.modes")}
    assert seen == {("DELETE", moved): "auto", ("DELETE", old_job): "auto", ("INSERT", moved): "auto"}


async def test_a_day_of_history_is_dropped_with_its_counts_when_it_is_past_its_age(conn, pool, owner):
    one, other = await given_tenant(conn), await given_tenant(conn, "other")
    ids = {tenant: sorted([await given_success(conn, tenant, id=old()) for _ in range(3)]) for tenant in (one, other)}
    await age(conn)
    young = await given_success(conn, one, id=old())
    await age(conn, days=0)
    assert await file_all(pool) == 7
    assert await count_jobs(conn)

    assert await drop_all(pool) == [6]
    for table in ("history_changes", "history_bounds", "history_contents"):
        assert await owner.fetchval(f"select count(distinct part) from atlas.{table}") == 1
    assert list(await places(conn)) == [young]
    assert [tuple(row) for row in await conn.fetch(PRUNED)] == [
        (tenant, "3", '{"succeeded": 3}', str(ids[tenant][0]), str(ids[tenant][-1])) for tenant in sorted(ids)
    ]
    assert await cross_check(conn) == []
    while await meter_usage(conn):
        pass
    assert await conn.fetchval("select sum(jobs) from atlas.job_counts") == 1


STORED = "select jobs from atlas.history_contents order by jobs"


async def test_a_drop_counts_again_what_changed_after_it_was_counted(conn, pool, owner):
    """Before it locks the table, and by the stored numbers as long as only moves have changed it."""
    ids = [await given_success(conn, id=old()) for _ in range(3)] + [await given_failure(conn)]
    await age(conn)
    assert await file_all(pool) == 4
    [part] = set((await places(conn)).values())
    counts = (
        "select jobs, meta->'by_status' as by_status, meta->'attempts' as attempts from atlas.count_history_part($1)"
    )
    name = part.removeprefix("jobs_history_")
    stored = tuple(await owner.fetchrow(counts, name))
    assert [row["jobs"] for row in await owner.fetch(STORED)] == [4]
    await owner.execute("update atlas.history_contents set jobs = null")
    assert tuple(await owner.fetchrow(counts, name)) == stored

    async with pool.acquire() as writer, writer.transaction():
        await delete(writer, ids[0], actor=DANA)
        drop = asyncio.create_task(drop_all(pool))
        waiting = "select count(*) from pg_locks where mode = 'ShareRowExclusiveLock' and not granted"
        while not await conn.fetchval(waiting):
            assert not drop.done()
    assert await drop == [3]
    assert await cross_check(conn) == []


async def test_jobs_that_no_move_counted_are_found_and_counted(conn, pool, owner):
    """As by a transaction of the version before, which knows nothing of what tables hold."""
    tenant = await given_tenant(conn)
    first = await given_success(conn, tenant, id=old())
    await age(conn)
    assert await file_all(pool) == 1
    [part] = (await places(conn)).values()
    second = await given_success(conn, tenant, id=old())
    await age(conn)
    await owner.execute(
        f"with gone as (delete from only atlas.jobs returning *) insert into atlas.{part} select * from gone"
    )
    assert {job.id for job in await list_jobs(conn, JobFilter(tenant), limit=9)} == {first, second}
    assert (await get_job(conn, second)).id == second
    assert [row["jobs"] for row in await owner.fetch(STORED)] == [None]
    assert await drop_all(pool) == [2]


async def test_a_job_is_looked_for_in_the_tables_that_may_hold_it_alone(conn, pool, owner):
    """A table that is locked keeps nobody from a job of another day, nor a tenant from its list."""
    one, other = await given_tenant(conn), await given_tenant(conn, "other")
    early = await given_success(conn, one, id=old())
    await age(conn, days=10)
    late = await given_success(conn, other, id=old())
    await age(conn, days=0)
    await file_all(pool)
    tables = await places(conn)
    assert len(set(tables.values())) == 2
    for mine, theirs, tenant in ((early, late, one), (late, early, other)):
        async with owner.transaction():
            await owner.execute(f"lock table only atlas.{tables[theirs]} in access exclusive mode")
            async with asyncio.timeout(20):
                assert (await get_job(conn, mine)).id == mine
                assert await job_exists(conn, mine)
                assert (await explain(conn, mine)).status == "succeeded"
                assert [job.id for job in await list_jobs(conn, JobFilter(tenant), limit=9)] == [mine]
                assert [attempt["attempt_no"] for attempt in await list_attempts(conn, mine)] == [1]
                assert {job.id for job in await found_by_prisma(conn, mine)} == {str(mine)}


async def found_by_prisma(conn, job_id: UUID) -> list[Any]:
    """A job by each way in which the typed client names it, and those that are not there."""
    jobs, attempts = prisma_on(conn).job, prisma_on(conn).jobattempt
    assert await attempts.find_many(where={"jobId": str(job_id)}) == []
    assert await attempts.find_unique({"jobId_attemptNo": {"jobId": str(job_id), "attemptNo": 1}}) is None
    assert await jobs.count(where={"id": str(job_id)}) == 1
    found = [await jobs.find_unique({"id": str(job_id)}), await jobs.find_first(where={"id": {"equals": str(job_id)}})]
    both = await jobs.find_many(where={"id": {"in": [str(job_id), str(uuid4())]}, "status": "succeeded"}, take=2)
    return found + both


async def given_failures_of_two_days(conn, pool) -> tuple[UUID, UUID, dict[UUID, str]]:
    """Two failed jobs in history, and the table of each."""
    early = await given_failure(conn)
    await age(conn)
    late = await given_failure(conn)
    await age(conn, days=0)
    await file_all(pool)
    tables = await places(conn)
    assert len(set(tables.values())) == 2
    return early, late, tables


async def test_a_job_comes_back_from_the_tables_that_may_hold_it_alone(conn, pool, owner):
    early, late, tables = await given_failures_of_two_days(conn, pool)
    for mine, theirs, verb in ((early, late, retry_now), (late, early, delete)):
        async with owner.transaction():
            await owner.execute(f"lock table only atlas.{tables[theirs]} in access exclusive mode")
            async with asyncio.timeout(20):
                await verb(conn, mine, actor=DANA)
    assert await places(conn) == {early: "jobs"}


@pytest.mark.long
@pytest.mark.parametrize("verb", ["retry", "delete"])
async def test_a_step_of_a_bulk_action_reads_the_tables_that_may_hold_its_jobs_alone(conn, pool, owner, verb):
    early, late, tables = await given_failures_of_two_days(conn, pool)
    preview = await preview_bulk_action(conn, verb, JobFilter(statuses=("failed",)), actor=DANA)
    action = await begin_bulk_action(conn, verb, digest=preview.digest, actor=DANA, rate_per_second=1, reason="known")
    (left,) = [job_id for job_id, place in (await places(conn)).items() if place != "jobs"]
    await owner.execute("update atlas.bulk_actions set next_step_at = now()")
    other = tables[early if left == late else late]
    async with owner.transaction():
        await owner.execute(f"lock table only atlas.{other} in access exclusive mode")
        async with asyncio.timeout(20):
            assert await take_step(conn, action.id)
    assert (await find_bulk_action(conn, action.id)).changed == 2


async def test_a_tenant_reads_the_rows_of_its_own_jobs_in_the_tables_that_it_may_read(conn, pool):
    mine, other = await given_tenant(conn), await given_tenant(conn, "other")
    hot, filed = await given_failure(conn, tenant_id=mine), await given_failure(conn, tenant_id=mine)
    theirs = [await given_failure(conn, tenant_id=other) for _ in range(2)]
    await age(conn, days=0)
    assert await file_all(pool) == 4
    for job_id in (hot, theirs[0]):
        await conn.execute("select atlas.return_jobs($1)", [job_id])
    everyone = [hot, filed, *theirs]
    rows = "select r.{} from atlas.rows_of_jobs(null::atlas.{}, $1) r"
    assert await conn.fetchval("select count(*) from atlas.job_runs_of($1)", everyone) == 4
    for tenant, visible in ((mine, {hot, filed}), (other, set(theirs)), (None, set())):
        async with conn.transaction():
            await conn.execute("set local role atlas_tenant")
            await conn.execute("select set_config('atlas.tenant', $1, true)", "" if tenant is None else str(tenant))
            for key, table in (("id", "jobs"), ("job_id", "job_attempts")):
                assert {row[0] for row in await conn.fetch(rows.format(key, table), everyone)} == visible
            assert {
                row["job_id"] for row in await conn.fetch("select job_id from atlas.job_runs_of($1)", everyone)
            } == (visible)
    for table in ("job_secrets", "tenants"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match=table):
            async with conn.transaction():
                await conn.execute("set local role atlas_tenant")
                await conn.fetch(rows.format("*", table), everyone)


@pytest.mark.parametrize(("days", "left"), [(100, "jobs_history_100_"), (None, "jobs_history_kept_"), (2, None)])
async def test_a_tenant_that_changes_its_age_keeps_its_jobs_for_that_long(conn, pool, days, left):
    tenant = await given_tenant(conn)
    job_id = await given_success(conn, tenant, id=old())
    await age(conn, days=40)
    assert await file_all(pool) == 1
    await keep(conn, tenant, jobs=days)

    assert await drop_all(pool) == [], "it holds a job that is not kept for 30 days"
    await file_all(pool)
    await sweep(pool)
    assert [place[: len(left or "")] for place in (await places(conn)).values()] == ([left] if left else [])
    assert await drop_all(pool) == [0]
    assert (await get_job(conn, job_id) is not None) == (left is not None)


async def test_a_move_that_breaks_off_leaves_each_job_in_one_place(conn, pool, owner, database_url):
    ids = {await given_success(conn, id=old()) for _ in range(3)}
    await age(conn, days=0)
    tenant_id = await conn.fetchval("select tenant_id from atlas.jobs limit 1")
    mover = await connect(database_url)
    await mover.execute("begin")
    assert await mover.fetchval(MOVED, tenant_id) == 3
    assert set((await places(conn)).values()) == {"jobs"}
    await owner.execute("select pg_terminate_backend($1)", mover.get_server_pid())
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await mover.execute("commit")
    mover.terminate()
    assert await places(conn) == dict.fromkeys(ids, "jobs")
    assert await file_all(pool) == 3
    assert set(await places(conn)) == ids


@pytest.mark.parametrize("jobs", [1, 2])
async def test_the_id_of_a_job_in_history_is_taken(conn, pool, jobs):
    job_id = await given_success(conn, id=old())
    await age(conn, days=0)
    assert await file_all(pool) == 1

    with pytest.raises(AtlasError, match="is taken by another job"):
        await enqueue_many(conn, [NewJob("again", {}, id=job_id), NewJob("again", {})][:jobs], actor=DANA)
    with pytest.raises(AtlasError, match="is taken by another job"):
        await enqueue(conn, NewJob("again", {}, id=job_id), actor=DANA)


async def test_history_is_behind_row_level_security_and_leaves_with_its_tenant(conn, pool, owner):
    mine, other = await given_tenant(conn), await given_tenant(conn, "other")
    for tenant in (mine, other):
        await given_success(conn, tenant, id=old())
    await age(conn, days=0)
    assert await file_all(pool) == 2

    async with conn.transaction():
        await conn.execute("set local role atlas_tenant")
        await conn.execute("select set_config('atlas.tenant', $1, true)", str(mine))
        assert [row["tenant_id"] for row in await conn.fetch("select tenant_id from atlas.jobs")] == [mine]
    lines = await conn.fetch("select t.name, l from atlas.tenant_tables() t, atlas.tenant_rows($1, t.name) l", mine)
    names = [line["name"] for line in lines]
    assert names.count("jobs") == 1
    assert not any(name.startswith("jobs_history") for name in names)

    await conn.execute("select atlas.return_jobs(array(select id from atlas.jobs where tenant_id = $1))", mine)
    left = [row["tenant_id"] for row in await owner.fetch("select tenant_id from atlas.history_contents")]
    assert left == [other]


async def test_every_change_of_a_part_is_noted_for_backups(conn, pool, owner):
    job_id = await given_failure(conn)
    await given_failure(conn)
    await age(conn, days=0)
    assert await file_all(pool) == 2

    async def notes() -> set[UUID]:
        return {row["id"] for row in await owner.fetch("select id from atlas.history_changes")}

    moved = await notes()
    assert len(moved) == 1, "one for each transaction"
    await get_job(conn, job_id)
    assert await notes() == moved
    for changes in (
        "update atlas.jobs set input = '{}'",
        "update atlas.job_attempts set error_text = 'no'",
        "delete from atlas.job_attempts",
    ):
        before = await notes()
        await owner.execute(changes)
        assert len(await notes() - before) == 1
    await retry_now(conn, job_id, actor=DANA)
    assert len(await notes()) == 5
    await given_failure(conn)
    await age(conn, days=0)
    before = await notes()
    assert await file_all(pool) == 1
    assert len(await notes()) == 1, "a move replaces them"
    assert not await notes() & before
