"""Reading jobs: filters, pages that stay put, attempts alike, depth of the queue."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lists.find import count_due, get_job, job_exists, list_attempts, queue_depth, read_jobs
from atlas.engine.jobs.lists.job_list import JobFilter, list_jobs
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.errors import InvalidInput
from tests.engine.jobs.given import given_claimed, given_job, make_due, success
from tests.support import DANA, given_tenant


async def test_pages_are_stable_while_jobs_arrive(conn):
    made = [one.id for one in await enqueue_many(conn, [NewJob("t", {"n": n}) for n in range(25)], actor=DANA)]
    seen, before = [], None
    while page := await list_jobs(conn, before=before, limit=10):
        seen += [job.id for job in page]
        before = page[-1].id
        await given_job(conn, "late")
    assert seen[:25] == made[::-1]


async def test_every_status_finds_its_jobs(conn):
    worker, dead = await given_claimed(conn, max_retries=0)
    await finish(conn, worker, [decide(dead, worker.id, ValueError(), ATLAS)])
    worker, failed = await given_claimed(conn, "refused")
    await finish(conn, worker, [decide(failed, worker.id, PermanentError("no"), ATLAS)])
    _, running = await given_claimed(conn, "other")
    worker, ended = await given_claimed(conn, "third")
    await finish(conn, worker, [success(worker, ended)])
    waiting = await given_job(conn, "fourth", delay=timedelta(hours=1))
    queued = await given_job(conn, "fifth")

    found = {
        status: [job.id for job in await list_jobs(conn, JobFilter(statuses=(status,)))]
        for status in ("queued", "waiting", "running", "succeeded", "failed", "dead_letter", "canceled")
    }
    assert found == {
        "queued": [queued],
        "waiting": [waiting],
        "running": [running.id],
        "succeeded": [ended.id],
        "failed": [failed.id],
        "dead_letter": [dead.id],
        "canceled": [],
    }
    for status, ids in found.items():
        assert {(await get_job(conn, id)).shown_status for id in ids} <= {status}
    with pytest.raises(InvalidInput, match="is not one of queued, waiting"):
        await list_jobs(conn, JobFilter(statuses=("lost",)))


async def test_filters_narrow_together(conn):
    job_id = await given_job(conn, "t", correlation_id="c", source="event")
    await given_job(conn, "t")
    now = datetime.now(UTC)
    wanted = JobFilter(
        job_type="t",
        correlation_id="c",
        source="event",
        created_after=now - timedelta(minutes=1),
        created_before=now + timedelta(minutes=1),
    )
    assert [job.id for job in await list_jobs(conn, wanted)] == [job_id]
    assert await list_jobs(conn, JobFilter(tenant_id=uuid4())) == []
    assert await get_job(conn, job_id, tenant_id=uuid4()) is None
    assert await get_job(conn, job_id, tenant_id=SYSTEM_TENANT) == (await list_jobs(conn, wanted))[0]
    assert await job_exists(conn, job_id)
    assert not await job_exists(conn, job_id, tenant_id=uuid4())


async def test_jobs_of_a_page_are_read_in_its_order_behind_row_level_security(conn):
    tenant = await given_tenant(conn)
    other = await given_job(conn, "t")
    mine = [await given_job(conn, "t", input={"n": n}, tenant_id=tenant) for n in range(3)]
    error = {"type": "ValueError", "message": "x" * 1000, "outcome": "unknown", "traceback": "y" * 1000}
    await conn.execute("update atlas.jobs set error = $1::text::jsonb where id = $2", json.dumps(error), mine[0])

    assert [job.id for job in await read_jobs(conn, [mine[2], other, mine[0], uuid4()])] == [mine[2], other, mine[0]]
    assert [job.id for job in await read_jobs(conn, [other, mine[1]], tenant_id=tenant)] == [mine[1]]
    async with conn.transaction():
        await conn.execute(f"set local atlas.tenant = '{tenant}'; set local role atlas_tenant")
        [whole] = await read_jobs(conn, [other, mine[0]])
        [brief] = await read_jobs(conn, [other, mine[0]], whole=False)
    assert (whole.id, whole.input, whole.error) == (mine[0], {"n": 0}, error)
    short = {"type": "ValueError", "message": "x" * 300, "outcome": "unknown"}
    assert brief == replace(whole, input={}, output={}, error=short)


async def test_attempts_read_alike_wherever_they_are_kept(conn):
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [decide(job, worker.id, ValueError("no paper"), ATLAS)])
    await make_due(conn, job.id)
    [again] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, again, {"pages": 3})])

    first, second = await list_attempts(conn, job.id)
    assert (first["job_run_id"], first["status"], first["worker_id"]) == (f"{job.id}:1", "failed", worker.id)
    assert "no paper" in first["error_text"]
    assert (second["job_run_id"], second["status"], second["result"]) == (f"{job.id}:2", "succeeded", {"pages": 3})
    assert second["duration_ms"] >= 0
    assert await list_attempts(conn, job.id, after=1) == [second]
    assert await list_attempts(conn, job.id, limit=1) == [first]
    assert await list_attempts(conn, job.id, after=2**63 - 1) == []
    assert await list_attempts(conn, job.id, tenant_id=uuid4()) == []


async def test_the_depth_counts_what_is_active(conn):
    await enqueue_many(conn, [NewJob("a") for _ in range(3)], actor=DANA)
    await given_job(conn, "a", delay=timedelta(hours=1))
    await given_claimed(conn, "b")
    await conn.execute("update atlas.jobs set created_at = now() - interval '1 minute' where next_retry_at > now()")
    found = await queue_depth(conn)
    assert all(60 <= one.oldest_seconds < 90 for one in found if one.status == "waiting")
    depth = {(one.job_type, one.status): one.count for one in found}
    assert depth == {("a", "queued"): 3, ("a", "waiting"): 1, ("b", "running"): 1}
    assert await count_due(conn, ["a", "b"]) == 3
