"""Plans: the hot statements never scan the table, and a claim costs the same whatever stands in front of it."""

import re

import orjson
import pytest

from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.attempts.progress import report_progress
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim, solo_waits
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.finish import finish, finish_and_claim
from atlas.engine.jobs.lease import canceled, heartbeat, held, promote, reap, record_undone
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import decide
from tests.engine.jobs.given import given_job, given_worker, success
from tests.support import DANA, ROOT, given_tenant

CROWD = 20_000

FILL = """
insert into atlas.jobs (id, tenant_id, job_type, status, finished_at, next_retry_at, host_id, careful, claimed_by)
select gen_random_uuid(), '00000000-0000-7000-8000-000000000001', $1, $2::text::atlas.job_status,
  case when $2 = 'succeeded' then now() end, case when $3 then now() + interval '1 day' end,
  case when $4 then gen_random_uuid() end, $5, 'x'
from generate_series(1, $6)
"""


CROWDS = [
    ("finished jobs", ("mine", "succeeded", False, False, False)),
    ("future jobs", ("mine", "queued", True, False, False)),
    ("host-bound jobs", ("mine", "queued", False, True, False)),
    ("queued jobs of other types", ("theirs", "queued", False, False, False)),
]
LIMIT_BLOCKED = ("limit-blocked jobs", ("limited", "queued", False, False, True))


async def scans(owner) -> int:
    await owner.execute("select pg_stat_force_next_flush()")
    await owner.execute("select pg_stat_clear_snapshot()")
    return await owner.fetchval("select seq_scan from pg_stat_user_tables where relname = 'jobs'")


@pytest.mark.parametrize("analyzed", [False, True])
async def test_no_hot_verb_scans_the_table(conn, owner, analyzed):
    """Also on a table whose statistics were taken while nothing ran, or never."""
    await owner.execute(FILL, "done", "succeeded", False, False, False, CROWD)
    if analyzed:
        await owner.execute("vacuum analyze atlas.jobs")
    worker = await given_worker(conn, "hot")
    several = await given_worker(conn, "hot", "other")
    await conn.execute("select pg_stat_force_next_flush()")
    before = await scans(owner)

    await enqueue(conn, NewJob("hot", {}, dedupe_key="k"), actor=DANA)
    await enqueue_many(conn, [NewJob("hot", {"n": n}) for n in range(500)], actor=DANA)
    await enqueue(conn, NewJob("stranger", {}), actor=DANA)
    jobs = await claim(conn, worker, limit=200)
    jobs += await claim(conn, several, limit=100)
    await report_progress(conn, worker.id, jobs[0].id, jobs[0].attempt, percent=1, message=None)
    await heartbeat(conn, worker.id, lease=60, running=5)
    await held(conn, worker.id)
    await canceled(conn, worker.id, [job.id for job in jobs])
    await solo_waits(conn, ["hot", "other"])
    await record_undone(conn, worker.id, [(job.id, job.attempt + 1) for job in jobs])
    await finish_and_claim(conn, worker, [success(worker, job) for job in jobs[:100]], slots=50)
    await finish(conn, worker, [decide(job, worker.id, ValueError(), ATLAS) for job in jobs[100:150]])
    await change_many(conn, "cancel", [job.id for job in jobs[150:180]], actor=DANA, tenant_id=None)
    await reap(conn)
    await promote(conn)

    await conn.execute("select pg_stat_force_next_flush()")
    assert await scans(owner) == before


# The statistics targets of the columns of jobs, and of expressions in its indexes; those of plain columns in indexes count for nothing.
TARGETS = """
select a.attrelid::regclass || '.' || a.attname as name, coalesce(nullif(a.attstattarget, -1), 100) as target
from pg_attribute a
left join pg_index i on i.indexrelid = a.attrelid
where a.attnum > 0 and not a.attisdropped
  and (a.attrelid = 'atlas.jobs'::regclass or i.indrelid = 'atlas.jobs'::regclass and i.indkey[a.attnum - 1] = 0)
"""


async def test_analyzing_jobs_reads_few_rows(owner):
    """ANALYZE reads 300 rows for each step of the largest target, and evaluates the condition of every index for each."""
    targets = {row["name"]: row["target"] for row in await owner.fetch(TARGETS)}
    assert any("jobs_tenant_listed" in name for name in targets)
    assert {name: target for name, target in targets.items() if target > 20} == {}


# What claims say by a function, and the index that holds just that.
CONDITIONS = {
    "select from only atlas.jobs j where atlas.is_ready(j) and j.job_type = 'mine' order by j.tenant_id, j.priority desc, j.created_at limit 1": "jobs_ready_by_tenant",
    "select from only atlas.jobs j where atlas.is_ready_limited(j) order by j.tenant_id, j.job_type limit 1": "jobs_ready_careful",
    "select from atlas.system_state s where atlas.is_open(s)": "system_state_pkey",
    "update only atlas.jobs j set updated_at = now() where j.id = '00000000-0000-7000-8000-000000000001' returning (atlas.claimed_row(j)).*": "jobs_pkey",
    "select (atlas.turn_signal('closed', p_id => j.id)).* from only atlas.jobs j order by j.id": "jobs_pkey",
}


@pytest.mark.parametrize("is_analyzed", [False, True])
async def test_the_conditions_of_a_claim_become_parts_of_the_statement(conn, owner, is_analyzed):
    if is_analyzed:
        await owner.execute(FILL, *CROWDS[0][1], 300)
        await owner.execute("analyze atlas.jobs, atlas.system_state")
    await conn.execute("set enable_seqscan = off; set enable_sort = off; set enable_bitmapscan = off")
    for query, index in CONDITIONS.items():
        plan = "\n".join(row[0] for row in await conn.fetch(f"explain (verbose) {query}"))
        assert f" using {index} on " in plan, plan
        assert not re.search(r"\b(is_ready|is_ready_limited|is_open|claimed_row|turn_signal)\(", plan), plan


def test_the_condition_of_ready_jobs_is_written_once():
    condition = re.compile(r"next_retry_at is null\s+and \w*\.?host_id is null\s+and (?:not )?\w*\.?careful")
    folders = ("engine", "api", "workers", "scheduler", "cli", "audit")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.sql")]
    assert sorted(path.stem for path in paths if condition.search(path.read_text())) == ["is_ready", "is_ready_limited"]


IN_A_TURN = "atlas.turn($1, 1, 0, $2, null, '{}', null, null, null, null, null, null, null, null, null, null, null, null, null, null, false, true, null, '{}', '{}', '{}')"
ALONE = "atlas.claim($1, 1, 0, $2, null, true, true, null)"


async def cost_of_a_claim(conn, worker, call=IN_A_TURN) -> int:
    """Buffers touched by a claim of one job, all functions included."""
    for _ in range(3):
        explained = await conn.fetchval(
            f"explain (analyze, buffers, format json) select * from {call}", worker.id, worker.job_types
        )
        plan = orjson.loads(explained)[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.parametrize(("crowd", "values"), [*CROWDS, LIMIT_BLOCKED])
async def test_a_claim_costs_the_same_behind(conn, owner, crowd, values):
    await conn.execute("insert into atlas.job_types (key, concurrency) values ('limited', 1)")
    await given_job(conn, "limited")
    limited = await given_worker(conn, "limited")
    for _ in range(2):
        await claim(conn, limited, limit=1)  # the one that may run, so that the others are blocked
    for _ in range(8):
        await given_job(conn, "mine")
    worker = await given_worker(conn, "mine", "second", "limited")
    empty = await cost_of_a_claim(conn, worker)
    await owner.execute(FILL, *values, CROWD)
    await owner.execute("vacuum analyze atlas.jobs")
    crowded = await cost_of_a_claim(conn, worker)
    print(f"claim behind {CROWD:,} {crowd}: {crowded} buffers, {empty} without")
    assert crowded <= empty * 1.5 + 40


@pytest.mark.long
@pytest.mark.parametrize(("crowd", "values"), CROWDS)
async def test_an_idle_worker_s_claim_costs_the_same_behind(conn, owner, crowd, values):
    for _ in range(8):
        await given_job(conn, "mine")
    worker = await given_worker(conn, "mine")
    empty = await cost_of_a_claim(conn, worker, ALONE)
    await owner.execute(FILL, *values, CROWD)
    await owner.execute("vacuum analyze atlas.jobs")
    crowded = await cost_of_a_claim(conn, worker, ALONE)
    print(f"claim behind {CROWD:,} {crowd}: {crowded} buffers, {empty} without")
    assert crowded <= empty * 1.5 + 40
    assert (await claim(conn, worker, limit=5))[0].job_type == "mine"


HOLD = """
insert into atlas.jobs (id, tenant_id, job_type, next_retry_at, limit_id, limit_key, held_by)
select gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 'mine', '9999-12-31 00:00:00+00', l.id, l.key, l.id
from (select md5((n % 200)::text)::uuid as id, (n % 200)::text as key from generate_series(1, $1) n) l
"""


@pytest.mark.long
async def test_a_claim_costs_the_same_behind_jobs_that_keys_hold(conn, owner):
    await conn.execute(
        "insert into atlas.job_types (key, concurrency, concurrency_key) values ('mine', 1, '{{ input.n }}')"
    )
    for n in range(8):
        await given_job(conn, "mine", input={"n": n})
    worker = await given_worker(conn, "mine")
    await claim(conn, worker, limit=1)
    empty = await cost_of_a_claim(conn, worker, ALONE)
    await owner.execute(HOLD, CROWD)
    await owner.execute("vacuum analyze atlas.jobs")
    crowded = await cost_of_a_claim(conn, worker, ALONE)
    print(f"claim behind {CROWD:,} jobs that 200 keys hold: {crowded} buffers, {empty} without")
    assert crowded <= empty * 1.2 + 20


async def test_a_claim_reads_little_of_a_backlog_beside_another_tenant(conn, owner):
    light = await given_tenant(conn, "light")
    await owner.execute(FILL, "mine", "queued", False, False, False, CROWD)
    await owner.execute("vacuum analyze atlas.jobs")
    for _ in range(4):
        await given_job(conn, "mine", tenant_id=light)
    worker = await given_worker(conn, "mine")
    assert await cost_of_a_claim(conn, worker, ALONE) < 300


READY_ENTRIES = "select pg_stat_get_xact_tuples_returned('atlas.jobs_ready_by_tenant'::regclass)"


async def test_a_claim_among_many_types_reads_about_a_group_for_each_job(conn):
    tenants = [await given_tenant(conn, f"t{n}") for n in range(40)]
    types = [f"type_{n:02}" for n in range(30)]
    jobs = [NewJob(types[(7 * n + k) % 30], {}, tenant) for n, tenant in enumerate(tenants) for k in (0, 9, 17)]
    await enqueue_many(conn, jobs, actor=DANA)

    for worker in (await given_worker(conn, *types), await given_worker(conn)):
        async with conn.transaction():
            before = await conn.fetchval(READY_ENTRIES)
            claimed = await claim(conn, worker, limit=60)
            read = await conn.fetchval(READY_ENTRIES) - before
        assert len(claimed) == 60
        # Each type for each of a few looks, and each group once to find it and once to lock its job.
        assert read < 3 * len(types) + 4 * len(claimed)


@pytest.mark.parametrize(("in_blocks", "most"), [(False, 1.5), (True, 2.7)], ids=["types in turn", "types in blocks"])
async def test_a_claim_of_many_types_of_a_tenant_takes_the_oldest_and_locks_few_more(conn, in_blocks, most):
    types = [f"type_{n:02}" for n in range(40)]
    await enqueue_many(
        conn, [NewJob(types[n // 15 if in_blocks else n % 40], {"n": n}) for n in range(600)], actor=DANA
    )
    worker = await given_worker(conn, *types)
    async with conn.transaction():
        before = await conn.fetchval(READY_ENTRIES)
        claimed = await claim(conn, worker, limit=200)
        read = await conn.fetchval(READY_ENTRIES) - before
    assert sorted(orjson.loads(job.input)["n"] for job in claimed) == list(range(200))
    # Each type once to find it, and so many jobs for one that is taken.
    assert read < len(types) + most * len(claimed)


async def test_a_claim_costs_the_same_however_many_types_a_worker_serves(conn):
    for _ in range(12):
        await given_job(conn, "mine")
    few = await given_worker(conn, "mine", "second")
    many = await given_worker(conn, "mine", *(f"type_{n:03}" for n in range(300)))

    assert await cost_of_a_claim(conn, many) <= await cost_of_a_claim(conn, few) + 40
