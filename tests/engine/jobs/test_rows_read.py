"""Plans at size: a hot verb reads the rows it handles, whatever stands in the table and whatever the statistics say.

The bound counts index entries that a verb reads of `jobs`, all functions inside included, so that it holds for what any
node of any plan removes by a filter too. Sessions keep plans: some were made while the table was empty.
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from atlas.db.pool import Connection, open_pool
from atlas.db.statements import fetch
from atlas.engine.hosts.leased_jobs import CLAIM as CLAIM_LEASED
from atlas.engine.jobs.attempts.progress import report_progress
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import Claimant, claim, claim_for_slots, claim_of_tenant, solo_waits
from atlas.engine.jobs.finish import finish, finish_and_claim
from atlas.engine.jobs.groups import settle_groups
from atlas.engine.jobs.lease import expire_queued, heartbeat, heartbeat_job, held, promote, reap, record_undone
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.switches.pauses import end_pauses
from atlas.engine.jobs.verdicts import decide
from atlas.engine.workflows.steps.step_store import record_steps
from tests.engine.jobs.given import given_worker, lose_lease, success
from tests.engine.workflows.kit import first_step
from tests.support import PROOF

QUEUED = 500_000 if PROOF else 3_000
FINISHED = 5_000_000 if PROOF else 4 * QUEUED
MAX_READ = 1_000

FINISHED_JOBS = f"""
insert into atlas.jobs (id, tenant_id, job_type, status, started_at, finished_at, attempt_count, claimed_by)
select atlas.new_id(), '{SYSTEM_TENANT}', 'mine', 'succeeded', now(), now(), 1, 'before'
from generate_series(1, {FINISHED}) n
"""

# Half of them ready, for one tenant or for forty; of the others each seventh has a deadline, is for later, or is for a host.
QUEUED_JOBS = f"""
insert into atlas.jobs (id, tenant_id, job_type, start_by, parent_run_id, next_retry_at, host_id)
select atlas.new_id(), case when n % 2 = 0 then '{SYSTEM_TENANT}' else md5((n % 80)::text)::uuid end,
  case when n % 2 = 0 then 'mine' else 'shared' end,
  case when n % 7 = 0 then now() + interval '1 hour' end, case when n % 14 = 0 then gen_random_uuid() end,
  case when n % 7 = 1 then now() + interval '1 day' end, case when n % 7 = 2 then gen_random_uuid() end
from generate_series(1, {QUEUED}) n
"""

DRAIN = """
update atlas.jobs set status = 'succeeded', next_retry_at = null, started_at = now(), finished_at = now(), claimed_by = 'before'
where status = 'queued'
"""

READ = """
select c.relname, pg_stat_get_xact_tuples_returned(c.oid) as entries
from pg_class c
left join pg_index i on i.indexrelid = c.oid
where coalesce(i.indrelid, c.oid) = 'atlas.jobs'::regclass and pg_stat_get_xact_tuples_returned(c.oid) > 0
"""

RUNS = """
insert into atlas.jobs (id, tenant_id, job_type, status, claimed_by, attempt_count, started_at)
select gen_random_uuid(), $1, 'ENGINE_RUN', 'running', $2, 1, now() from generate_series(1, 20) returning id
"""


class Reader:
    """Runs verbs on one connection, each in a transaction, and notes what they read beyond the bound."""

    def __init__(self, conn: Connection, state: str) -> None:
        self.conn = conn
        self.state = state
        self.excess: dict[str, dict[str, int]] = {}

    async def __call__(self, verb: str, call: Callable[[], Awaitable[Any]]) -> Any:
        async with self.conn.transaction():
            # What was counted before and not yet passed on is among it.
            before = dict(await self.conn.fetch(READ))
            result = await call()
            read = {name: entries - before.get(name, 0) for name, entries in await self.conn.fetch(READ)}
        if sum(read.values()) > MAX_READ:
            self.excess[f"{verb}, {self.state}"] = read
        return result


async def excess_of_all_verbs(conn: Connection, state: str) -> dict[str, dict[str, int]]:
    """Run every hot verb. Returns those that read too much, with the number of entries of each index."""
    run = Reader(conn, state)
    mine, none, shared, two, every = [
        await given_worker(conn, *types) for types in (["mine"], ["none"], ["shared"], ["mine", "none"], [])
    ]
    jobs = await run("claim", lambda: claim(conn, mine, limit=20))
    await run("claim of a type without jobs", lambda: claim(conn, none, limit=20))
    await run("claim among tenants", lambda: claim(conn, shared, limit=20))
    await run("claim of two types", lambda: claim(conn, two, limit=20))
    await run("claim of every type", lambda: claim(conn, every, limit=20))
    await run("claim of one tenant", lambda: claim_of_tenant(conn, mine, SYSTEM_TENANT, "mine", within=60))
    places = f'{{"places": [["mine", "{SYSTEM_TENANT}", 0, {time.time()}]], "due_since": {time.time()}}}'
    await run("claim from a place", lambda: claim_for_slots(conn, two, slots=20, resume=places))
    await conn.execute("insert into atlas.limit_events (limit_id, tenant_id) values ($1, $1)", SYSTEM_TENANT)
    await run("release of a limit", lambda: conn.fetch("select * from atlas.release_held(20, null)"))
    leased = {"claimant": "remote", "host_id": None, "tenant_id": SYSTEM_TENANT, "job_types": ["mine"], "limit": 5}
    [first, *_] = await run("claim of a remote worker", lambda: fetch(conn, CLAIM_LEASED, **leased, lease=60.0)) or [
        None
    ]
    host = {"claimant": "host", "host_id": uuid4(), "tenant_id": None, "job_types": None, "limit": 1}
    await run("claim of a host", lambda: fetch(conn, CLAIM_LEASED, **host, lease=60.0))
    if first is not None:
        await run("heartbeat of a job", lambda: heartbeat_job(conn, "remote", first["id"], 1, lease=60))
    await run("heartbeat", lambda: heartbeat(conn, mine.id, lease=60, running=5))
    await run("held", lambda: held(conn, mine.id))
    await run("solo", lambda: solo_waits(conn, ["mine", "none"]))
    if jobs:
        await run("progress", lambda: report_progress(conn, mine.id, jobs[0].id, 1, percent=1, message=None))
        await run("undone", lambda: record_undone(conn, mine.id, [(job.id, job.attempt + 1) for job in jobs]))
        done, failed = jobs[:10], jobs[10:]
        await run("turn", lambda: finish_and_claim(conn, mine, [success(mine, job) for job in done], slots=5))
        verdicts = [decide(job, mine.id, ValueError(), ATLAS) for job in failed]
        await run("finish", lambda: finish(conn, mine, verdicts))
    runs = [row["id"] for row in await conn.fetch(RUNS, SYSTEM_TENANT, mine.id)]
    steps = [first_step(run_id, 1)._replace(reset=True) for run_id in runs]
    await run("steps", lambda: record_steps(conn, steps, worker_id=mine.id))
    await run("steps again", lambda: record_steps(conn, steps, True, worker_id=mine.id))
    await lose_lease(conn, mine)
    await run("reap", lambda: reap(conn))
    # What the failed attempts and the lost workers left is due by now, and a deadline is over.
    await conn.execute(
        "update atlas.jobs set next_retry_at = now() where next_retry_at < now() + interval '1 minute' and status = 'queued'"
    )
    await conn.execute(
        "insert into atlas.jobs (tenant_id, job_type, start_by) values ($1, 'mine', now())", SYSTEM_TENANT
    )
    for part in (promote, expire_queued, end_pauses, settle_groups, sweep):
        await run(part.__name__, lambda part=part: part(conn))
    await run("claim after the sweep", lambda: claim(conn, Claimant("remote", ["mine"], lease=60), limit=20))
    # Jobs that were lost, and runs without a workflow, would be in the way of the next round.
    await conn.execute("delete from atlas.jobs where careful or status = 'running' or job_type = 'ENGINE_RUN'")
    return run.excess


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_no_hot_verb_reads_what_it_does_not_handle(pool, database_url, owner):
    await owner.execute("alter table atlas.jobs set (autovacuum_enabled = off)")

    @asynccontextmanager
    async def new_session():
        # As on a server whose settings are Postgres's own.
        other = await open_pool(database_url, size=1)
        async with other.acquire() as conn:
            await conn.execute("set random_page_cost = 4")
            yield conn
        await other.close()

    excess: dict[str, Any] = {}
    async with pool.acquire() as old, new_session() as ordinary:

        async def look(state: str) -> None:
            async with new_session() as new:
                for session, conn in (("old", old), ("ordinary", ordinary), ("new", new)):
                    excess.update(await excess_of_all_verbs(conn, f"{state}, {session} session"))

        await look("empty")
        await owner.execute(FINISHED_JOBS)
        await owner.execute(QUEUED_JOBS)
        await look("loaded")
        await owner.execute("vacuum analyze atlas.jobs")
        await look("analyzed")
        await owner.execute(DRAIN)
        await owner.execute("vacuum atlas.jobs")
        await look("drained")
        await owner.execute("vacuum analyze atlas.jobs")
        await look("analyzed after a drain")
        await owner.execute(QUEUED_JOBS)
        await look("loaded after a drain")
    assert not excess, "\n".join(f"{verb}: {read}" for verb, read in excess.items())


MANY_GROUPS = """
insert into atlas.jobs (id, tenant_id, job_type)
select atlas.new_id(), md5((n % 60)::text)::uuid, 'many ' || n from generate_series(1, 120) n
"""


async def test_a_claim_among_many_types_asks_each_of_them_about_once(conn):
    """It looks at a few tenants, then at more; a later look goes on with what the one before it has read."""
    await conn.execute(MANY_GROUPS)
    worker = await given_worker(conn, *(f"many {n}" for n in range(1, 121)))
    assert await ready_entries_read(conn, worker, jobs=120) <= 400


SMALL_TENANTS = """
insert into atlas.jobs (id, tenant_id, job_type)
select atlas.new_id(), md5((n / 10)::text)::uuid, 'few ' || n % 5 from generate_series(0, 1999) n
"""


async def test_a_claim_looks_at_few_more_tenants_than_have_the_jobs_it_asks_for(conn):
    """Each tenant has two jobs of each of five types. The first look finds the jobs of three tenants."""
    await conn.execute(SMALL_TENANTS)
    worker = await given_worker(conn, *(f"few {n}" for n in range(5)))
    assert await ready_entries_read(conn, worker, jobs=50) <= 120


async def ready_entries_read(conn: Connection, worker: Claimant, *, jobs: int) -> int:
    """How many entries of the index of ready jobs a claim reads that finds this number of them."""
    async with conn.transaction():
        before = dict(await conn.fetch(READ))
        assert len(await claim(conn, worker, limit=jobs)) == jobs
        after = dict(await conn.fetch(READ))
    return int(after["jobs_ready_by_tenant"] - before.get("jobs_ready_by_tenant", 0))
