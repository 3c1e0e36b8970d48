"""Explain: the one reason a job is not running, by the claim's own predicates."""

from datetime import timedelta
from uuid import uuid4

import pytest

from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import finish, finish_and_claim
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import decide
from atlas.errors import NotFound
from atlas.models.explain import Remedy
from tests.engine.jobs.given import given_claimed, given_host, given_job, given_worker, lose_lease, success
from tests.support import DANA


async def reason(conn, job_id):
    found = await explain(conn, job_id)
    assert found.sentence.endswith(".")
    return found.reason


async def test_each_hindrance_is_named_in_the_order_a_claim_meets_them(conn):
    job_id = await given_job(conn, delay=timedelta(minutes=5))
    await switch(conn, online=False, actor=DANA, reason="maintenance")
    found = await explain(conn, job_id)
    assert (found.reason, found.action) == ("gate", Remedy(verb="bring_online"))
    assert "by dana: maintenance" in found.sentence

    await switch(conn, online=True, actor=DANA)
    assert await reason(conn, job_id) == "not_due"
    await conn.execute("update atlas.jobs set retry_count = 1")
    assert "after 1 failed attempt of at most" in (await explain(conn, job_id)).sentence

    await conn.execute("update atlas.jobs set next_retry_at = null, retry_count = 0")
    assert await reason(conn, job_id) == "no_worker"
    assert "No worker has ever served" in (await explain(conn, job_id)).sentence

    worker = await given_worker(conn, "report.build")
    assert await reason(conn, job_id) == "next"

    await given_job(conn, priority=9)
    assert await reason(conn, job_id) == "queue"
    await finish_and_claim(conn, worker, slots=1)

    await conn.execute("update atlas.jobs set careful = true, lost_count = 2 where id = $1", job_id)
    assert await reason(conn, job_id) == "alone"
    await conn.execute("update atlas.jobs set careful = false, lost_count = 0 where id = $1", job_id)

    await conn.execute("insert into atlas.job_types (key, concurrency) values ('report.build', 1)")
    found = await explain(conn, job_id)
    # Its limit is in the code of workers, which no button changes.
    assert (found.reason, found.action) == ("limit", None)

    await conn.execute("update atlas.job_types set concurrency = null")
    await conn.execute("update atlas.tenants set limits = '{\"in_flight\": 1}'")
    found = await explain(conn, job_id)
    assert (found.reason, "of this tenant" in found.sentence) == ("limit", True)
    assert found.action == Remedy(verb="edit_tenant", target=await conn.fetchval("select slug from atlas.tenants"))

    await conn.execute("update atlas.tenants set limits = '{}'")
    await lose_lease(conn, worker)
    assert await reason(conn, job_id) == "no_worker"


async def test_a_host_bound_job_waits_for_its_host(conn):
    assert await reason(conn, await given_job(conn, host_id=await given_host(conn))) == "host"


async def test_running_and_ended_jobs_say_so(conn):
    worker, job = await given_claimed(conn, max_retries=0)
    assert worker.id in (await explain(conn, job.id)).sentence
    await cancel(conn, job.id, actor=DANA)
    assert await reason(conn, job.id) == "stopping"
    await finish(conn, worker, [decide(job, worker.id, ValueError("no paper"), ATLAS)])
    found = await explain(conn, job.id)
    assert (found.reason, "no paper" in found.sentence) == ("dead_letter", True)
    assert found.action == Remedy(verb="retry", target=str(job.id))

    worker, job = await given_claimed(conn)
    await finish(conn, worker, [success(worker, job)])
    assert await reason(conn, job.id) == "succeeded"


async def test_what_explain_calls_next_the_claim_takes(conn):
    """The same predicates: a job is claimable exactly when explain finds no hindrance."""
    await conn.execute("insert into atlas.job_types (key, concurrency) values ('limited', 1)")
    jobs = [await given_job(conn, "limited"), await given_job(conn), await given_job(conn, delay=timedelta(minutes=5))]
    worker = await given_worker(conn)
    await conn.execute("update atlas.job_workers set job_types = array['limited', 'report.build']")

    said = {job_id for job_id in jobs if await reason(conn, job_id) == "next"}
    await finish_and_claim(conn, worker, slots=0, prefetch=9)
    taken = {job.id for _ in range(2) for job in await claim(conn, worker, limit=9)}
    running = {row["id"] for row in await conn.fetch("select id from atlas.jobs where status = 'running'")}
    assert said == running
    assert taken <= running


async def test_what_can_be_done_is_said_with_its_command(conn):
    job_id = await given_job(conn)
    await switch(conn, online=False, actor=DANA)
    found = await explain(conn, job_id)
    assert (found.kind, found.remedy, found.command) == ("job", "Bring Atlas online.", "atlas online")
    assert found.text.endswith("Bring Atlas online: `atlas online`")
    await switch(conn, online=True, actor=DANA)
    worker, job = await given_claimed(conn, "mail", max_retries=0)
    await finish(conn, worker, [decide(job, worker.id, ValueError("no paper"), ATLAS)])
    found = await explain(conn, job.id)
    assert (found.command, found.numbers) == (f"atlas jobs retry {job.id}", {"attempts": 1})


async def test_a_stranger_is_not_found(conn):
    with pytest.raises(NotFound):
        await explain(conn, uuid4())
