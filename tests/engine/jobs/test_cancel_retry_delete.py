"""What operators order: cancel, retry, delete."""

from inspect import Parameter, signature
from uuid import uuid4

import pytest

from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import decide
from atlas.errors import Conflict, NotFound
from tests.engine.jobs.given import actions, given_claimed, given_job, given_worker, load, success
from tests.support import DANA


async def failed_job(conn, error: Exception | None = None, **options):
    worker, job = await given_claimed(conn, max_retries=0, **options)
    await finish(conn, worker, [decide(job, worker.id, error or ValueError("x"), ATLAS)])
    return job.id


async def test_a_queued_job_is_canceled_at_once(conn):
    job_id = await given_job(conn)
    assert await cancel(conn, job_id, actor=DANA) == "canceled"
    row = await load(conn, job_id)
    assert (row["status"], row["cancel_requested_by"]) == ("canceled", "dana")
    assert await actions(conn, job_id) == ["JOB_CREATED", "JOB_CANCELED"]


async def test_a_running_job_is_asked_to_stop_once(conn):
    _, job = await given_claimed(conn)
    assert await cancel(conn, job.id, actor=DANA) == "requested"
    assert await cancel(conn, job.id, actor=DANA) == "requested"
    assert await actions(conn, job.id) == ["JOB_CREATED", "JOB_CANCEL_REQUESTED"]


async def test_an_ended_job_and_a_stranger_are_refused(conn):
    job_id = await failed_job(conn)
    with pytest.raises(Conflict, match="already finished"):
        await cancel(conn, job_id, actor=DANA)
    with pytest.raises(NotFound):
        await cancel(conn, uuid4(), actor=DANA)


async def test_another_tenants_job_is_not_there(conn):
    job_id = await given_job(conn)
    for verb in (cancel, retry_now, delete):
        with pytest.raises(NotFound):
            await verb(conn, job_id, actor=DANA, tenant_id=uuid4())


async def test_many_are_canceled_in_one_call(conn):
    made = await enqueue_many(conn, [NewJob("t", {}) for _ in range(50)], actor=DANA)
    verdicts = await change_many(conn, "cancel", [one.id for one in made], actor=DANA, tenant_id=None)
    assert set(verdicts.values()) == {"canceled"}


async def test_a_retry_opens_a_dead_letter_as_new(conn):
    job_id = await failed_job(conn)
    await retry_now(conn, job_id, actor=DANA)

    row = await load(conn, job_id)
    assert (row["status"], row["retry_count"], row["lost_count"], row["dead_lettered_at"]) == ("queued", 0, 0, None)
    assert await actions(conn, job_id) == ["JOB_CREATED", "JOB_EXHAUSTED_RETRIES", "JOB_RETRIED"]
    worker = await given_worker(conn, "report.build")
    [job] = await claim(conn, worker, limit=1)
    assert job.attempt == 2
    await finish(conn, worker, [success(worker, job)])


@pytest.mark.parametrize("status", ["queued", "running", "succeeded"])
async def test_only_failed_and_canceled_jobs_can_be_retried(conn, status):
    if status == "queued":
        job_id = await given_job(conn)
    else:
        worker, job = await given_claimed(conn)
        job_id = job.id
        if status == "succeeded":
            await finish(conn, worker, [success(worker, job)])
    with pytest.raises(Conflict, match=status):
        await retry_now(conn, job_id, actor=DANA)


async def test_a_retry_whose_key_is_taken_is_a_conflict_and_spares_the_others(conn):
    blocked = await failed_job(conn, dedupe_key="k")
    free = await failed_job(conn)
    await enqueue(conn, NewJob("report.build", {"n": 1}, dedupe_key="k"), actor=DANA)

    with pytest.raises(Conflict, match="dedupe key"):
        await retry_now(conn, blocked, actor=DANA)
    assert await change_many(conn, "retry", [blocked, free], actor=DANA, tenant_id=None) == {
        blocked: "conflict",
        free: "retried",
    }
    assert await actions(conn, blocked) == ["JOB_CREATED", "JOB_EXHAUSTED_RETRIES"]


async def test_a_deleted_job_is_gone_and_its_story_stays(conn):
    job_id = await failed_job(conn)
    await delete(conn, job_id, actor=DANA)
    assert await load(conn, job_id) is None
    assert await conn.fetchval("select count(*) from atlas.job_attempts") == 0
    assert await actions(conn, job_id) == ["JOB_CREATED", "JOB_EXHAUSTED_RETRIES", "JOB_DELETED"]


async def test_a_running_job_is_not_deleted(conn):
    _, job = await given_claimed(conn)
    with pytest.raises(Conflict, match="running"):
        await delete(conn, job.id, actor=DANA)


def test_a_change_of_many_jobs_has_no_default_for_the_tenant():
    tenant = signature(change_many).parameters["tenant_id"]
    assert (tenant.kind, tenant.default) == (Parameter.KEYWORD_ONLY, Parameter.empty)
