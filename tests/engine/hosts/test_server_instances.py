"""Server instances are renamed, moved with their jobs, and removed when no job needs them."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from atlas.engine.hosts.hosts import add_host
from atlas.engine.hosts.leased_jobs import Failure, JobLease, claim_for_host, complete, fail, host_holder
from atlas.engine.hosts.server_instances import (
    add_server_instance,
    edit_server_instance,
    find_server_instance,
    remove_server_instance,
)
from atlas.engine.jobs.actions.bulk_previews import preview_bulk_action
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.finish import Notes
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import add_tenant, edit_tenant, find_tenant
from atlas.errors import Conflict, InvalidInput, NotFound
from atlas.models.hosts import Host, ServerInstance
from tests.engine.jobs.given import actions, load
from tests.support import DANA


@pytest.fixture
async def hosts(conn: Any) -> list[Host]:
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    return [await add_host(conn, tenant_id=tenant.id, name=name, actor=DANA) for name in ("rack-1", "rack-2")]


@pytest.fixture
async def instance(conn: Any, hosts: list[Host]) -> ServerInstance:
    return await add_server_instance(conn, hosts[0], name="db-1", actor=DANA)


async def given_job(conn: Any, instance: ServerInstance, **options: Any) -> UUID:
    job = NewJob("SERVER_STOP", {"serverInstanceId": str(instance.id)}, instance.tenant_id, **options)
    return (await enqueue(conn, job, actor=DANA)).id


async def given_failed_job(conn: Any, instance: ServerInstance) -> UUID:
    job_id = await given_job(conn, instance, max_retries=0)
    claimed = await claim_for_host(conn, instance.host_id, lease=30)
    assert claimed.lease.job_id == job_id
    assert await fail(conn, claimed.lease, Failure("no"), Notes()) == "failed"
    return job_id


async def move(conn: Any, instance: ServerInstance, host: Host) -> ServerInstance:
    return await edit_server_instance(conn, instance, host_id=host.id, actor=DANA)


async def test_a_move_takes_the_jobs_to_the_new_host(conn, hosts, instance, online):
    failed = await given_failed_job(conn, instance)
    queued = await given_job(conn, instance)
    elsewhere = await given_job(conn, await add_server_instance(conn, hosts[0], name="web-1", actor=DANA))
    moved = await edit_server_instance(conn, instance, name="db-main", host_id=hosts[1].id, actor=DANA)

    assert (moved.name, moved.host_id, moved.id) == ("db-main", hosts[1].id, instance.id)
    assert [(await load(conn, id))["host_id"] for id in (failed, queued)] == [hosts[1].id] * 2
    assert (await load(conn, elsewhere))["host_id"] == hosts[0].id
    assert (await claim_for_host(conn, hosts[1].id, lease=30)).lease.job_id == queued
    assert await actions(conn, instance.id) == ["SERVER_INSTANCE_ADDED", "SERVER_INSTANCE_EDITED"]
    facts = orjson.loads(
        await conn.fetchval("select meta from atlas.audit_log where action = 'SERVER_INSTANCE_EDITED'")
    )
    assert facts.pop("state")
    assert facts.pop("changes") == {
        "host_id": {"before": str(hosts[0].id), "after": str(hosts[1].id)},
        "name": {"before": "db-1", "after": "db-main"},
    }
    assert facts == {
        "name": "db-main",
        "host_id": str(hosts[1].id),
        "former_name": "db-1",
        "former_host_id": str(hosts[0].id),
        "jobs_moved": "1",
    }
    await edit_server_instance(conn, moved, name="db-main", host_id=hosts[1].id, actor=DANA)
    assert len(await actions(conn, instance.id)) == 2  # nothing has changed


async def test_an_instance_stays_where_it_is_while_a_job_of_it_runs(conn, hosts, instance, online):
    job_id = await given_job(conn, instance)
    await claim_for_host(conn, hosts[0].id, lease=30)
    for refused in (move(conn, instance, hosts[1]), remove_server_instance(conn, instance, actor=DANA)):
        with pytest.raises(Conflict, match="db-1 has jobs: 1 running. Wait until they have ended, or cancel them"):
            await refused

    assert (await edit_server_instance(conn, instance, name="db-main", actor=DANA)).host_id == hosts[0].id
    await complete(conn, JobLease(host_holder(hosts[0].id), job_id, 1), {}, Notes())
    assert (await move(conn, instance, hosts[1])).host_id == hosts[1].id
    assert (await load(conn, job_id))["host_id"] == hosts[0].id  # where it ran


async def test_a_job_that_is_enqueued_during_a_move_goes_to_the_new_host(conn, pool, hosts, instance):
    async with pool.acquire() as other:
        async with conn.transaction():
            moved = await move(conn, instance, hosts[1])
            enqueued = asyncio.create_task(given_job(other, instance))
            await until_someone_waits(conn)
        assert (await load(conn, await enqueued))["host_id"] == moved.host_id


async def test_a_removal_waits_for_what_is_being_enqueued(conn, pool, instance):
    async with pool.acquire() as other:
        async with other.transaction():
            await given_job(other, instance)
            removal = asyncio.create_task(remove_server_instance(conn, instance, actor=DANA))
            await until_someone_waits(other)
        with pytest.raises(Conflict, match="1 queued"):
            await removal


async def until_someone_waits(conn: Any) -> None:
    waiting = "select exists (select from pg_locks where not granted and locktype in ('transactionid', 'tuple'))"
    async with asyncio.timeout(20):
        while not await conn.fetchval(waiting):
            await asyncio.sleep(0.02)


async def test_what_was_removed_is_named_by_no_job(conn, hosts, instance, online):
    failed = await given_failed_job(conn, instance)
    waiting = await given_job(conn, instance)
    with pytest.raises(Conflict, match="1 queued"):
        await remove_server_instance(conn, instance, actor=DANA)
    await cancel(conn, waiting, actor=DANA)
    await remove_server_instance(conn, instance, actor=DANA)

    assert await actions(conn, instance.id) == ["SERVER_INSTANCE_ADDED", "SERVER_INSTANCE_REMOVED"]
    with pytest.raises(NotFound):
        await find_server_instance(conn, "db-1", tenant_id=instance.tenant_id)
    with pytest.raises(InvalidInput, match="there is no server instance"):
        await given_job(conn, instance)
    for ended in (failed, waiting):
        with pytest.raises(Conflict, match="was removed. Enqueue a job for a server instance that exists"):
            await retry_now(conn, ended, actor=DANA)
    retried = await preview_bulk_action(conn, "retry", JobFilter(statuses=("dead_letter",)), actor=DANA)
    assert (retried.count, retried.left_out) == (0, {"gone": 1})
    for gone in (move(conn, instance, hosts[1]), remove_server_instance(conn, instance, actor=DANA)):
        with pytest.raises(NotFound):
            await gone


async def test_an_instance_goes_to_a_host_of_its_tenant_that_has_room(conn, hosts, instance):
    other = await add_tenant(conn, slug="other", name="Other", actor=DANA)
    foreign = await add_host(conn, tenant_id=other.id, name="rack-1", actor=DANA)
    for host_id in (foreign.id, uuid4()):
        with pytest.raises(InvalidInput, match=f"host_id: there is no host {host_id}"):
            await edit_server_instance(conn, instance, host_id=host_id, actor=DANA)
    taken = await add_server_instance(conn, hosts[1], name="db-2", actor=DANA)
    with pytest.raises(Conflict, match="There is already a server instance db-2. Choose another name"):
        await edit_server_instance(conn, instance, name="db-2", host_id=hosts[1].id, actor=DANA)
    with pytest.raises(InvalidInput, match="must not look like an id"):
        await edit_server_instance(conn, instance, name=str(uuid4()), actor=DANA)
    limits = {"limits": {"quotas": {"servers_of_a_host": 1}}}
    await edit_tenant(conn, await find_tenant(conn, "acme"), limits, actor=DANA)
    with pytest.raises(Conflict, match="is reached"):
        await move(conn, instance, hosts[1])
    assert await find_server_instance(conn, "db-1", tenant_id=instance.tenant_id) == instance
    assert await find_server_instance(conn, str(taken.id)) == taken
