"""Hosts fetch their own jobs, one at a time, and only the holder of a job's lease may report on it."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from atlas.db.pool import Pool, open_pool
from atlas.engine.admission import admit
from atlas.engine.hosts.hosts import add_host, find_host, list_hosts
from atlas.engine.hosts.leased_jobs import (
    Failure,
    JobLease,
    claim_for_host,
    complete,
    fail,
    host_holder,
    renew_lease,
    report_leased_progress,
)
from atlas.engine.hosts.server_instances import add_server_instance
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import Notes
from atlas.engine.jobs.lease import reap
from atlas.engine.jobs.lists.find import list_attempts
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.start_right import LAPSE_SECONDS
from atlas.engine.jobs.switches.gate import switch, wait_until_closed
from atlas.engine.secrets.key import SecretKey, use_secret_key
from atlas.engine.tenants.tenants import add_tenant
from atlas.errors import Conflict, InvalidInput, LeaseLost, NotClaimed, NotFound, Refused
from atlas.models.hosts import Host
from tests.engine.jobs.given import actions, attempts, given_worker, load, make_due
from tests.support import DANA, PROOF

HOSTS, JOBS_EACH = (20, 200) if PROOF else (5, 20)
# Seconds: so long that a busy machine does not lose a job so often that it is given up.
LEASE = 1.0


@pytest.fixture
async def host(conn: Any) -> Host:
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    return await add_host(conn, tenant_id=tenant.id, name="rack-1", actor=DANA)


@pytest.fixture
async def crowd(database_url: str) -> AsyncIterator[Pool]:
    """Room for many hosts at once."""
    pool = await open_pool(database_url, size=30)
    yield pool
    await pool.close()


async def given_host_job(conn: Any, host: Host, job_type: str = "backup.take", **options: Any) -> UUID:
    job = NewJob(job_type, options.pop("input", {"n": 1}), host.tenant_id, host_id=host.id, **options)
    return (await enqueue(conn, job, actor=DANA)).id


async def fetched(conn: Any, host: Host, lease: float = 30) -> Any:
    return await claim_for_host(conn, host.id, lease=lease)


async def test_the_switch_waits_for_what_was_just_given_to_a_host(conn, host, online):
    job_id = await given_host_job(conn, host)
    await fetched(conn, host)
    gate = await switch(conn, online=False, actor=DANA)
    closing = asyncio.create_task(wait_until_closed(conn, gate))
    await asyncio.sleep(0.3)
    assert not closing.done()
    await closing
    age = "select extract(epoch from clock_timestamp() - started_at)::float8 from atlas.jobs where id = $1"
    assert await conn.fetchval(age, job_id) >= LAPSE_SECONDS


def lease_of(host: Host, job_id: UUID, attempt: int = 1) -> JobLease:
    return JobLease(host_holder(host.id), job_id, attempt)


async def fall_silent(conn: Any, job_id: UUID) -> None:
    """Time passes: the job's own lease is over."""
    await conn.execute(
        "update atlas.jobs set lease_expires_at = clock_timestamp() - interval '1 s' where id = $1", job_id
    )


async def test_a_host_belongs_to_a_tenant_and_has_a_name_of_its_own_there(conn, host):
    assert (await find_host(conn, "rack-1", tenant_id=host.tenant_id)).id == host.id
    assert [one.name for one in await list_hosts(conn, tenant_id=host.tenant_id)] == ["rack-1"]
    assert await actions(conn, host.id) == ["HOST_ADDED"]
    with pytest.raises(Conflict):
        await add_host(conn, tenant_id=host.tenant_id, name="rack-1", actor=DANA)
    with pytest.raises(NotFound):
        await find_host(conn, str(host.id), tenant_id=uuid4())


async def test_a_server_job_goes_to_the_host_that_has_the_server(conn, host):
    instance = await add_server_instance(conn, host, name="db-1", actor=DANA)
    started = NewJob("SERVER_START", {}, host.tenant_id, server_instance_id=instance.id)
    stopped = NewJob("SERVER_STOP", {"serverInstanceId": str(instance.id)}, host.tenant_id)
    both = {"serverInstanceId": str(instance.id).upper()}
    restarted = NewJob("SERVER_RESTART", both, host.tenant_id, server_instance_id=instance.id)
    await enqueue_many(conn, [started, stopped, restarted], actor=DANA)

    for job in (started, stopped, restarted):
        row = await load(conn, job.id)
        assert (row["host_id"], row["server_instance_id"], row["max_retries"]) == (host.id, instance.id, 2)
    given = await fetched(conn, host)
    assert (given.job.id, given.server_instance_id) == (started.id, instance.id)
    assert given.job_run_id == f"{started.id}:1"
    assert given.lease == lease_of(host, started.id)


async def test_a_server_job_without_its_server_is_refused(conn, host):
    other = await add_tenant(conn, slug="other", name="Other", actor=DANA)
    second = await add_host(conn, tenant_id=host.tenant_id, name="rack-2", actor=DANA)
    instance = await add_server_instance(conn, host, name="db-1", actor=DANA)
    wrong = [
        (NewJob("SERVER_START", {}, host.tenant_id), "server_instance_id: is needed by SERVER_START"),
        (NewJob("SERVER_START", {"serverInstanceId": "x"}, host.tenant_id), "is needed by SERVER_START"),
        (NewJob("SERVER_START", {}, host.tenant_id, host_id=host.id), "is needed by SERVER_START"),
        (NewJob("SERVER_STOP", {}, host.tenant_id, server_instance_id=uuid4()), "there is no server instance"),
        (NewJob("SERVER_STOP", {}, other.id, server_instance_id=instance.id), "there is no server instance"),
        (
            NewJob("SERVER_STOP", {}, host.tenant_id, server_instance_id=instance.id, host_id=second.id),
            "is not the host of the server instance",
        ),
        (
            NewJob("SERVER_STOP", {"serverInstanceId": str(uuid4())}, host.tenant_id, server_instance_id=instance.id),
            "is not the server instance that the input names",
        ),
        (NewJob("backup.take", {}, host.tenant_id, host_id=uuid4()), "there is no host"),
        (NewJob("backup.take", {}, other.id, host_id=host.id), "there is no host"),
    ]
    for job, reason in wrong:
        with pytest.raises(InvalidInput) as refusal:
            await enqueue(conn, job, actor=DANA)
        assert reason in str(refusal.value)
    assert await conn.fetchval("select count(*) from atlas.jobs") == 0


async def test_local_workers_never_claim_a_hosts_job(conn, host):
    job_id = await given_host_job(conn, host)

    assert await claim(conn, await given_worker(conn), limit=10) == []
    assert await claim(conn, await given_worker(conn, "backup.take"), limit=10) == []
    assert (await explain(conn, job_id)).reason == "host"


async def test_a_host_has_one_running_job_and_gets_the_best_first(conn, host):
    low = await given_host_job(conn, host, priority=1)
    high = await given_host_job(conn, host, priority=5)

    first = await fetched(conn, host)
    assert first.job.id == high
    assert await fetched(conn, host) is None
    assert await complete(conn, first.lease, {"ok": True}, Notes()) == "succeeded"
    assert (await fetched(conn, host)).job.id == low


@pytest.mark.long
async def test_two_calls_of_one_host_at_once_get_one_job(crowd, conn, host):
    for _ in range(10):
        await given_host_job(conn, host)

    async def ask() -> Any:
        async with crowd.acquire() as own:
            return await fetched(own, host)

    answers = await asyncio.gather(*(ask() for _ in range(20)))
    assert sum(answer is not None for answer in answers) == 1


async def test_a_success_is_recorded_with_what_the_host_measured(conn, host):
    job_id = await given_host_job(conn, host)
    given = await fetched(conn, host)

    await report_leased_progress(conn, given.lease, percent=40, message="copying")
    assert orjson.loads((await load(conn, job_id))["progress"])["percent"] == 40
    await complete(conn, given.lease, {"files": 3}, Notes(detail={"result": {"duration_ms": 1200}}))

    row = await load(conn, job_id)
    assert (row["status"], orjson.loads(row["output"])) == ("succeeded", {"files": 3})
    [attempt] = await list_attempts(conn, job_id)
    assert (attempt["host_id"], attempt["worker_id"]) == (host.id, f"host:{host.id}")
    assert attempt["result"] == {"duration_ms": 1200}
    assert await actions(conn, job_id) == ["JOB_CREATED", "JOB_SUCCEEDED"]


async def test_a_failure_is_retried_twice_by_two_seconds_doubled(conn, host):
    job_id = await given_host_job(conn, host)
    delays = []
    for attempt, expected in [(1, "queued"), (2, "queued"), (3, "failed")]:
        given = await fetched(conn, host)
        assert given.lease.attempt == attempt
        assert await fail(conn, given.lease, Failure("the disk is full"), Notes()) == expected
        delays.append(
            await conn.fetchval(
                "select extract(epoch from next_retry_at - updated_at) from atlas.jobs where id = $1", job_id
            )
        )
        await make_due(conn, job_id) if expected == "queued" else None

    assert 1.9 < delays[0] < 2.3
    assert 3.9 < delays[1] < 4.5
    row = await load(conn, job_id)
    assert row["dead_lettered_at"] is not None
    assert orjson.loads(row["error"])["message"] == "the disk is full"
    assert (await actions(conn, job_id))[1:] == ["JOB_RETRY_SCHEDULED", "JOB_RETRY_SCHEDULED", "JOB_EXHAUSTED_RETRIES"]


async def test_a_heartbeat_keeps_a_lease_and_says_when_to_stop(conn, host):
    job_id = await given_host_job(conn, host)
    given = await fetched(conn, host, lease=5)

    await conn.execute("update atlas.hosts set last_seen_at = now() - interval '2 hours'")
    assert await renew_lease(conn, given.lease, seconds=60) is False
    assert await conn.fetchval(
        "select clock_timestamp() - last_seen_at < '5 s' from atlas.hosts where id = $1", host.id
    )
    left = await conn.fetchval("select extract(epoch from lease_expires_at - clock_timestamp()) from atlas.jobs")
    assert 50 < left <= 60
    assert await cancel(conn, job_id, actor=DANA) == "requested"
    assert await renew_lease(conn, given.lease, seconds=60) is True
    assert await fail(conn, given.lease, Failure("stopped"), Notes()) == "canceled"
    assert (await load(conn, job_id))["status"] == "canceled"


async def test_the_sweep_requeues_a_silent_hosts_job_and_its_late_report_is_refused(conn, host):
    job_id = await given_host_job(conn, host)
    late = await fetched(conn, host)
    await fall_silent(conn, job_id)

    assert [(one[0], one[2]) for one in await reap(conn)] == [(job_id, "requeued")]
    await make_due(conn, job_id)
    again = await fetched(conn, host)
    assert again.lease == lease_of(host, job_id, 2)

    with pytest.raises(LeaseLost, match="is no longer leased to this worker. Renew the lease"):
        await complete(conn, late.lease, {}, Notes())
    with pytest.raises(LeaseLost):
        await renew_lease(conn, late.lease, seconds=30)
    with pytest.raises(LeaseLost):
        await report_leased_progress(conn, late.lease, percent=1, message=None)
    with pytest.raises(NotClaimed, match="is not claimed by this caller. Claim it first"):
        await complete(conn, JobLease(host_holder(uuid4()), job_id, 2), {}, Notes())
    with pytest.raises(NotClaimed):
        await complete(conn, lease_of(host, job_id, 3), {}, Notes())
    assert await complete(conn, again.lease, {}, Notes()) == "succeeded"
    with pytest.raises(LeaseLost, match="report each attempt once"):
        await complete(conn, again.lease, {}, Notes())
    assert await attempts(conn, job_id) == [(1, "lost", None), (2, "succeeded", None)]


async def test_a_result_after_the_lease_is_refused_even_if_no_other_has_the_job(conn, host):
    job_id = await given_host_job(conn, host)
    given = await fetched(conn, host)
    await fall_silent(conn, job_id)

    with pytest.raises(LeaseLost):
        await complete(conn, given.lease, {}, Notes())


async def test_a_host_that_comes_back_need_not_wait_for_the_sweep(conn, host):
    silent = await given_host_job(conn, host, priority=9)
    other = await given_host_job(conn, host)
    await fetched(conn, host)
    await fall_silent(conn, silent)

    assert (await fetched(conn, host)).job.id == other
    assert await attempts(conn, silent) == [(1, "lost", None)]


async def test_nothing_is_claimed_while_atlas_is_offline(conn, host):
    await given_host_job(conn, host)
    await switch(conn, online=False, actor=DANA)
    assert await fetched(conn, host) is None

    await switch(conn, online=True, actor=DANA)
    assert await fetched(conn, host) is not None


async def test_a_host_keeps_to_the_limits_of_its_tenant_and_of_the_type(conn, host):
    second = await add_host(conn, tenant_id=host.tenant_id, name="rack-2", actor=DANA)
    await conn.execute("insert into atlas.job_types (key, concurrency) values ('backup.take', 1)")
    for one in (host, second):
        await given_host_job(conn, one, priority=5)
        await given_host_job(conn, one, "disk.check")

    assert (await fetched(conn, host)).job.job_type == "backup.take"
    blocked = await fetched(conn, second)
    assert blocked.job.job_type == "disk.check"
    await complete(conn, blocked.lease, {}, Notes())

    await conn.execute("""update atlas.tenants set limits = '{"in_flight": 1}' where id = $1""", host.tenant_id)
    await conn.execute("delete from atlas.job_types where key = 'backup.take'")
    assert await fetched(conn, second) is None
    await conn.execute("""update atlas.tenants set limits = '{"in_flight": 2}' where id = $1""", host.tenant_id)
    assert (await fetched(conn, second)).job.job_type == "backup.take"


async def test_a_host_that_is_unknown_or_not_active_gets_nothing(conn, host):
    await given_host_job(conn, host)
    with pytest.raises(NotFound):
        await claim_for_host(conn, uuid4(), lease=30)

    await conn.execute("update atlas.hosts set is_active = false where id = $1", host.id)
    with pytest.raises(Refused):
        await fetched(conn, host)
    with pytest.raises(InvalidInput, match="is not active"):
        await given_host_job(conn, host)


async def test_an_output_that_is_too_large_is_refused(conn, host):
    await given_host_job(conn, host)
    given = await fetched(conn, host)

    with pytest.raises(InvalidInput, match="has 300,008 bytes as JSON, which is larger than 256 KiB"):
        await complete(conn, given.lease, {"a": "x" * 300_000}, Notes())


async def test_a_host_gets_the_secrets_of_its_job_and_its_reports_are_redacted(conn, host):
    use_secret_key(SecretKey(bytes(32)))
    schema = {"properties": {"token": {"type": "string", "x-secret": True}}}
    await conn.execute(
        "insert into atlas.job_types (key, input_schema) values ('backup.push', $1)", orjson.dumps(schema).decode()
    )
    job = await admit(conn, NewJob("backup.push", {"token": "hunter22"}, host.tenant_id, host_id=host.id))
    job_id = (await enqueue(conn, job, actor=DANA)).id
    given = await fetched(conn, host)
    assert given.payload == {"token": "hunter22"}

    await report_leased_progress(conn, given.lease, percent=1, message="with hunter22")
    await fail(conn, given.lease, Failure("401 for hunter22"), Notes())
    whole = await conn.fetchval("select string_agg(t::text, '') from atlas.jobs t")
    whole += await conn.fetchval(
        "select string_agg(t::text || convert_from(t.body, 'UTF8'), '') from atlas.audit_log t"
    )
    assert "hunter22" not in whole

    await make_due(conn, job_id)
    given = await fetched(conn, host)
    await report_leased_progress(conn, given.lease, percent=1, message="with hunter2")
    assert "hunter2" not in (await load(conn, job_id))["progress"]
    output = {"stdout_tail": "unter22 was refused", "next": "unter22"}
    await complete(conn, given.lease, output, Notes())
    assert orjson.loads((await load(conn, job_id))["output"]) == {"stdout_tail": " was refused", "next": "unter22"}
    use_secret_key(None)


@pytest.mark.slow
async def test_hosts_that_are_killed_and_frozen_lose_nothing_and_never_run_two(crowd, conn, owner, host):
    """The database itself watches: a second running job on one host would break this index."""
    await owner.execute(
        "create unique index one_at_a_time on atlas.jobs (host_id) where status = 'running' and host_id is not null"
    )
    hosts = [host] + [
        await add_host(conn, tenant_id=host.tenant_id, name=f"rack-{n}", actor=DANA) for n in range(2, HOSTS + 1)
    ]
    jobs = [NewJob("backup.take", {"n": n}, host.tenant_id, host_id=one.id) for one in hosts for n in range(JOBS_EACH)]
    await enqueue_many(conn, jobs, actor=DANA)
    done: dict[UUID, int] = {}
    counts = {"killed": 0, "frozen": 0, "late": 0}

    async def serve(one: Host, seed: int) -> None:
        seeded = random.Random(seed)
        while sum(1 for job in jobs if job.host_id == one.id and job.id in done) < JOBS_EACH:
            async with crowd.acquire() as own:
                given = await claim_for_host(own, one.id, lease=LEASE)
            if given is None:
                await asyncio.sleep(0.02)
                continue
            fate = seeded.random()
            if fate < 0.03 and given.job.lost_count < 2:
                counts["killed"] += 1  # It forgets the job and comes back as a new process of the same host.
                continue
            if fate < 0.06 and given.job.lost_count < 2:
                counts["frozen"] += 1
                await asyncio.sleep(LEASE + 0.2)
            async with crowd.acquire() as own:
                try:
                    await complete(own, given.lease, {}, Notes())
                    done[given.job.id] = done.get(given.job.id, 0) + 1
                except LeaseLost:
                    counts["late"] += 1

    async def sweep() -> None:
        while True:
            async with crowd.acquire() as own:
                await reap(own)
                # What a lost lease puts off is due at once here.
                await own.execute(
                    "update atlas.jobs set next_retry_at = clock_timestamp() where next_retry_at is not null"
                )
            await asyncio.sleep(0.05)

    watchdog = asyncio.create_task(sweep())
    try:
        async with asyncio.timeout(240):
            await asyncio.gather(*(serve(one, seed) for seed, one in enumerate(hosts)))
    finally:
        watchdog.cancel()

    print(f"{len(jobs)} jobs on {len(hosts)} hosts: {counts}")
    assert set(done) == {job.id for job in jobs}
    assert set(done.values()) == {1}
    assert counts["killed"]
    assert counts["late"] >= counts["frozen"] > 0
    assert await conn.fetchval("select count(*) from atlas.jobs where status <> 'succeeded'") == 0
    lost = await conn.fetchval("select count(*) from atlas.job_attempts where status = 'lost'")
    assert lost >= counts["killed"] + counts["frozen"]
