"""Groups: jobs that were enqueued together, and the one that follows them."""

import asyncio
from uuid import UUID, uuid4

import orjson
import pytest

from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.groups import COUNTS_KEY, settle_groups
from atlas.engine.jobs.lists.find_groups import find_group, list_groups
from atlas.engine.jobs.lists.job_list import JobFilter, list_jobs
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.errors import InvalidInput, NotFound
from tests.engine.jobs.given import actions, given_job, given_worker, load, success
from tests.support import DANA

THEN = "report.total"


def members(count, **options):
    return [NewJob("report.build", {"n": n}, allow_unknown=True, **options) for n in range(count)]


def then(**options):
    return NewJob(THEN, {"month": 3}, allow_unknown=True, **options)


async def given_group(conn, count, **options) -> UUID:
    return await enqueue_group(conn, members(count), then=then(), actor=DANA, **options)


async def followers(conn):
    """The jobs that follow groups."""
    return await conn.fetch("select * from atlas.jobs where job_type = $1", THEN)


async def test_a_group_ends_with_its_last_job_and_one_job_follows_with_the_counts(conn):
    group_id = await given_group(conn, 4, name="March")
    worker = await given_worker(conn, "report.build")
    first, second, third, fourth = await claim(conn, worker, limit=4)
    assert await settle_groups(conn) == 0
    await finish(conn, worker, [success(worker, first), success(worker, second)])
    await finish(conn, worker, [decide(third, worker.id, PermanentError("x"), ATLAS)])
    open_group = await find_group(conn, group_id)
    assert open_group.counts == {"succeeded": 2, "failed": 1, "running": 1}
    assert (open_group.total, open_group.name, open_group.ended_at, open_group.then_type) == (4, "March", None, THEN)
    assert await settle_groups(conn) == 0
    assert await followers(conn) == []
    await finish(conn, worker, [success(worker, fourth)])
    assert await settle_groups(conn) == 1
    assert await settle_groups(conn) == 0
    [job] = await followers(conn)
    counts = {"succeeded": 3, "failed": 1, "canceled": 0, "deleted": 0}
    assert orjson.loads(job["input"]) == {
        "month": 3,
        COUNTS_KEY: {"id": str(group_id), "total": 4, "counts": counts},
    }
    assert (job["source_ref"], job["created_by"]) == (f"group:{group_id}", "dana")
    ended = await find_group(conn, group_id)
    assert (ended.then_job_id, ended.ended_counts) == (job["id"], counts)
    assert ended.ended_at is not None
    assert await actions(conn, group_id) == ["GROUP_CREATED", "GROUP_ENDED"]
    assert [group.id for group in await list_groups(conn)] == [group_id]


async def test_a_group_without_jobs_ends_at_once(conn):
    group_id = await given_group(conn, 0)
    assert (await find_group(conn, group_id)).ended_at is not None
    [job] = await followers(conn)
    assert orjson.loads(job["input"])[COUNTS_KEY]["total"] == 0


async def test_a_group_without_a_job_that_follows_just_ends(conn):
    group_id = await enqueue_group(conn, members(1), actor="dana")
    [job] = await list_jobs(conn, JobFilter(group_id=group_id))
    await delete(conn, job.id, actor=DANA)
    await sweep(conn)
    ended = await find_group(conn, group_id)
    assert ended.ended_counts == {"succeeded": 0, "failed": 0, "canceled": 0, "deleted": 1}
    assert ended.then_job_id is None


async def test_a_group_that_is_settled_by_many_at_once_is_followed_once(pool):
    async with pool.acquire() as conn:
        for _ in range(5):
            await given_group(conn, 1)
        await conn.execute("update atlas.jobs set status = 'canceled', finished_at = now()")

    async def settle() -> int:
        async with pool.acquire() as one:
            return await settle_groups(one)

    assert sum(await asyncio.gather(*(settle() for _ in range(5)))) == 5
    assert len(await followers(pool)) == 5


async def test_who_dies_while_a_group_is_settled_leaves_it_to_the_next(pool, monkeypatch):
    async with pool.acquire() as conn:
        group_id = await given_group(conn, 1)
        await conn.execute("update atlas.jobs set status = 'canceled', finished_at = now()")

    async def die(dying, *_):
        await pool.execute("select pg_terminate_backend($1)", await dying.fetchval("select pg_backend_pid()"))
        await dying.fetch("select 1")

    async with pool.acquire() as conn:
        with monkeypatch.context() as patch:
            patch.setattr("atlas.engine.jobs.groups.record", die)
            with pytest.raises(Exception, match="terminat|closed"):
                await settle_groups(conn)
    assert await followers(pool) == []
    async with pool.acquire() as conn:
        assert (await find_group(conn, group_id)).ended_at is None
        assert await settle_groups(conn) == 1
    assert len(await followers(pool)) == 1


async def test_all_of_a_group_is_canceled_and_retried_and_it_is_followed_once(conn):
    group_id = await given_group(conn, 5)
    stranger = await given_job(conn)
    wanted = JobFilter(SYSTEM_TENANT, group_id=group_id)
    canceled = await begin_bulk_action(conn, "cancel", actor=DANA, job_filter=wanted, tenant_id=SYSTEM_TENANT)
    assert canceled.verdicts == {"canceled": 5}
    await settle_groups(conn)
    retried = await begin_bulk_action(conn, "retry", actor=DANA, job_filter=wanted, tenant_id=SYSTEM_TENANT)
    assert retried.verdicts == {"retried": 5}
    group = await find_group(conn, group_id)
    assert group.counts == {"queued": 5}
    assert group.ended_counts["canceled"] == 5
    await conn.execute("update atlas.jobs set status = 'canceled', finished_at = now() where group_id is not null")
    assert await settle_groups(conn) == 0
    assert len(await followers(conn)) == 1
    assert (await load(conn, stranger))["status"] == "queued"


async def test_a_job_whose_key_is_held_is_not_a_member(conn):
    await given_job(conn, dedupe_key="k", input={"n": 0})
    jobs = [*members(1, dedupe_key="k"), NewJob("report.build", {"n": 7}, allow_unknown=True)]
    group_id = await enqueue_group(conn, jobs, actor=DANA)
    group = await find_group(conn, group_id)
    assert (group.total, group.counts) == (1, {"queued": 1})


async def test_a_job_that_cannot_follow_holds_up_no_other_group(conn):
    broken, fine = await given_group(conn, 0), await given_group(conn, 1)
    await conn.execute("update atlas.jobs set status = 'canceled', finished_at = now()")
    await conn.execute(
        "update atlas.job_groups set ended_at = null, ended_counts = null, "
        """then_job = then_job || '{"input": {"n": "\\\\u0001"}, "priority": 2000000000}' where id = $1""",
        broken,
    )
    assert await settle_groups(conn) == 1
    assert (await find_group(conn, fine)).ended_at is not None
    assert (await find_group(conn, broken)).ended_at is None


@pytest.mark.parametrize(
    ("jobs", "following", "reason"),
    [
        (members(1) + members(1, tenant_id=uuid4()), None, "several tenants|no tenant"),
        (members(1), NewJob("report.total", {}, uuid4(), allow_unknown=True), "another tenant|no tenant"),
        (members(1), NewJob("SERVER_START", {}, server_instance_id=uuid4()), "host"),
        (members(1), NewJob("unheard.of"), "not known"),
    ],
)
async def test_a_group_that_makes_no_sense_is_refused(conn, jobs, following, reason):
    with pytest.raises((InvalidInput, NotFound), match=reason):
        await enqueue_group(conn, jobs, then=following, actor=DANA)
    assert await conn.fetchval("select count(*) from atlas.jobs") == 0
