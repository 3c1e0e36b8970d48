"""The repository: applications that run jobs themselves, in their own transactions."""

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.lease import reap
from atlas.engine.jobs.lists.find import get_job
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.prisma.prisma_client import AtlasPrisma
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.repository import EnqueueJob, JobsRepository
from atlas.errors import InvalidInput, LeaseLost, NotClaimed
from tests.engine.jobs.given import actions, attempts, given_worker, load, make_due
from tests.support import DANA

pytestmark = pytest.mark.usefixtures("online")


async def test_an_output_that_is_too_large_is_refused_and_the_job_is_still_held(conn):
    jobs = JobsRepository()
    await jobs.enqueue(conn, EnqueueJob("t"))
    [job] = await jobs.claim(conn)
    with pytest.raises(PermanentError, match="returned has 1,048,578 bytes as JSON; 1,048,576 are allowed"):
        await jobs.mark_success(conn, job.id, "x" * 2**20)
    await jobs.mark_success(conn, job.id, "x")


async def test_a_job_goes_from_enqueue_to_success(conn):
    jobs = JobsRepository()
    job_id = await jobs.enqueue(conn, EnqueueJob("invoice.send", payload={"n": 1}))
    [job] = await jobs.claim(conn)
    await jobs.mark_success(conn, job.id, {"sent": True})

    found = await jobs.get(conn, job_id)
    assert (found.status, found.output, found.tenant_id) == ("succeeded", {"sent": True}, SYSTEM_TENANT)
    assert await actions(conn, job_id) == ["JOB_CREATED", "JOB_SUCCEEDED"]


async def test_a_failure_follows_the_policy_and_a_permanent_one_ends_it(conn):
    jobs = JobsRepository(policy="capped")
    job_id = await jobs.enqueue(conn, EnqueueJob("invoice.send"))
    [job] = await jobs.claim(conn)
    await jobs.mark_failure(conn, job.id, "no paper")
    row = await load(conn, job_id)
    assert (row["status"], row["retry_count"], row["max_retries"]) == ("queued", 1, 5)
    assert orjson.loads(row["error"])["message"] == "RuntimeError: no paper"

    await make_due(conn, job_id)
    [job] = await jobs.claim(conn)
    await jobs.mark_failure(conn, job.id, PermanentError("wrong address"))
    assert (await load(conn, job_id))["status"] == "failed"
    assert await attempts(conn, job_id) == [(1, "failed", None), (2, "failed", None)]


async def test_a_failure_stores_the_retries_it_was_decided_by_unless_the_job_has_its_own(conn):
    jobs = JobsRepository()
    for_all, own = [await jobs.enqueue(conn, EnqueueJob("invoice.send", payload={"n": n})) for n in (1, 2)]
    assert [(await load(conn, one))["max_retries"] for one in (for_all, own)] == [3, 3]

    await conn.execute("insert into atlas.job_types (key, max_retries) values ('invoice.send', 1)")
    await jobs.claim(conn, limit=2)
    await AtlasPrisma.on(conn).job.update({"maxRetries": 7}, {"id": str(own)})
    for job_id in (for_all, own):
        await jobs.mark_failure(conn, job_id, "no paper")
    rows = [await load(conn, job_id) for job_id in (for_all, own)]
    assert [(row["status"], row["retry_count"], row["max_retries"]) for row in rows] == [
        ("queued", 1, 1),
        ("queued", 1, 7),
    ]
    assert [(await get_job(conn, job_id)).max_retries for job_id in (for_all, own)] == [1, 7]


async def test_it_ends_only_what_it_claimed(conn):
    jobs, others = JobsRepository(), JobsRepository()
    job_id = await jobs.enqueue(conn, EnqueueJob("invoice.send"))
    await others.claim(conn)
    with pytest.raises(NotClaimed, match="is not claimed by this caller. Claim jobs with `claim`"):
        await jobs.mark_success(conn, job_id)


async def test_a_lapsed_lease_refuses_the_ending_and_the_job_comes_back(conn):
    jobs = JobsRepository(lease=30)
    job_id = await jobs.enqueue(conn, EnqueueJob("invoice.send"))
    [job] = await jobs.claim(conn)
    await jobs.heartbeat(conn, job.id)
    await conn.execute("update atlas.jobs set lease_expires_at = clock_timestamp() - interval '1 second'")

    with pytest.raises(LeaseLost, match="Call `heartbeat` while the job runs, or give JobsRepository a longer `lease`"):
        await jobs.heartbeat(conn, job.id)
    assert [row[2] for row in await reap(conn)] == ["requeued"]
    with pytest.raises(LeaseLost):
        await jobs.mark_success(conn, job.id)
    assert (await load(conn, job_id))["lost_count"] == 1


async def test_an_ending_rolls_back_with_the_applications_own_work(conn):
    jobs = JobsRepository()
    job_id = await jobs.enqueue(conn, EnqueueJob("invoice.send"))
    [job] = await jobs.claim(conn)
    with pytest.raises(RuntimeError):
        async with conn.transaction():
            await jobs.mark_success(conn, job.id)
            raise RuntimeError("the application failed")

    assert (await load(conn, job_id))["status"] == "running"
    await jobs.mark_success(conn, job.id)
    assert (await load(conn, job_id))["status"] == "succeeded"


async def test_a_failure_of_a_job_that_was_asked_to_stop_ends_it(conn):
    jobs = JobsRepository()
    job_id = await jobs.enqueue(conn, EnqueueJob("invoice.send"))
    await jobs.claim(conn)
    await cancel(conn, job_id, actor=DANA)

    await jobs.mark_failure(conn, job_id, "no paper")
    assert (await load(conn, job_id))["status"] == "canceled"
    with pytest.raises(LeaseLost):
        await jobs.mark_failure(conn, job_id, "no paper")


async def test_the_gate_holds_it_too(conn):
    jobs = JobsRepository()
    await jobs.enqueue(conn, EnqueueJob("invoice.send"))
    await switch(conn, online=False, actor=DANA)
    assert await jobs.claim(conn) == []


async def test_equal_keys_coalesce_and_lists_page(conn):
    jobs = JobsRepository()
    first = await jobs.enqueue(conn, EnqueueJob("t", payload={"n": 1}, dedupe_key="k"))
    assert await jobs.enqueue(conn, EnqueueJob("t", payload={"n": 2}, dedupe_key="k")) == first
    later = await jobs.enqueue(conn, EnqueueJob("t", run_at=datetime.now(UTC) + timedelta(hours=1)))

    page = await jobs.list(conn, limit=1)
    rest = await jobs.list(conn, before=page[-1].id)
    assert [job.id for job in [*page, *rest]] == [later, first]
    assert [job.shown_status for job in [*page, *rest]] == ["waiting", "queued"]
    assert [job.id for job in await jobs.list(conn, JobFilter(statuses=("waiting",)))] == [later]


async def test_workers_leave_its_jobs_alone_while_its_lease_lives(conn):
    jobs = JobsRepository()
    await jobs.enqueue(conn, EnqueueJob("t"))
    await jobs.claim(conn)
    worker = await given_worker(conn, "t")
    assert await claim(conn, worker, limit=1) == []
    assert await reap(conn) == []


async def test_a_job_is_checked_against_what_is_published_about_its_type(conn):
    await conn.execute(
        'insert into atlas.job_types (key, input_schema) values (\'far.away\', \'{"required": ["n"], "type": "object"}\')'
    )
    with pytest.raises(InvalidInput):
        await JobsRepository().enqueue(conn, EnqueueJob("far.away", payload={}))
    assert await JobsRepository().enqueue(conn, EnqueueJob("far.away", payload={"n": 1}))
