"""Verbs on jobs in history say what they say of jobs in the hot table, and read few tables for it."""

import asyncio

import pytest

from atlas.audit.verification.crosscheck import cross_check
from atlas.cli.doctor.history import check_history
from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.groups import settle_groups
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.retention import history
from atlas.engine.retention.history import count_unfiled
from atlas.engine.webhooks.deliver import deliver_events
from atlas.engine.webhooks.store import add_webhook
from atlas.errors import Conflict
from atlas.ids import new_id
from tests.engine.jobs.given import given_job, given_worker, success
from tests.engine.retention.test_history import file_all, given_failure, given_run, given_success, places
from tests.engine.retention.test_retention import age, keep, old
from tests.support import DANA, given_tenant


@pytest.fixture(autouse=True)
async def online(conn) -> None:
    await switch(conn, online=True, actor=DANA)


async def test_a_finished_job_can_be_neither_canceled_nor_discarded_wherever_it_is(conn, pool):
    mine, other = await given_tenant(conn), await given_tenant(conn, "other")
    filed = [await given_success(conn, mine, id=old()), await given_failure(conn, tenant_id=mine)]
    await age(conn, days=0)
    assert await file_all(pool) == 2
    hot = [await given_success(conn, mine), await given_failure(conn, tenant_id=mine, id=new_id())]
    queued = await given_job(conn, tenant_id=mine)

    for job_id in (hot[0], filed[0]):
        with pytest.raises(Conflict, match="has already finished"):
            await cancel(conn, job_id, actor=DANA)
    chosen = [*hot, *filed]
    ended = await change_many(conn, "cancel", [*chosen, queued], actor=DANA, tenant_id=mine)
    assert ended == {**dict.fromkeys(chosen, "ended"), queued: "canceled"}
    discarded = await change_many(conn, "discard", chosen, actor=DANA, tenant_id=mine)
    assert discarded == dict(zip(chosen, ["succeeded", "failed"] * 2, strict=True))
    for action in ("cancel", "discard"):
        assert await change_many(conn, action, chosen, actor=DANA, tenant_id=other) == {}
    assert {id for id, place in (await places(conn)).items() if place != "jobs"} == set(filed)
    assert await cross_check(conn) == []


async def test_verbs_on_hot_jobs_wait_for_no_table_of_history(conn, pool, owner):
    tenant = await given_tenant(conn)
    await given_success(conn, tenant, id=old())
    await age(conn, days=10)
    assert await file_all(pool) == 1
    [part] = (await places(conn)).values()
    # The reader of webhooks is past the job that is in history.
    await conn.execute(
        "update atlas.system_state set updated_at = updated_at - interval '1 hour' where key = 'webhook_reader'"
    )
    await deliver_events(conn)
    await add_webhook(conn, tenant, "https://shop.example/", ["*"], actor=DANA)
    async with owner.transaction():
        await owner.execute(f"lock table only atlas.{part} in access exclusive mode")
        async with asyncio.timeout(20):
            assert await cancel(conn, await given_job(conn, tenant_id=tenant), actor=DANA) == "canceled"
            group = await enqueue_group(conn, [NewJob("plain", {}, tenant, allow_unknown=True)], actor=DANA)
            assert await settle_groups(conn) == 0
            assert not await deliver_events(conn)
    deliveries = await conn.fetch(
        "select job_type from only atlas.jobs where source = 'system' and tenant_id = $1", tenant
    )
    assert len(deliveries) >= 2
    worker = await given_worker(conn, "plain")
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, job)])
    assert await settle_groups(conn) == 1
    assert await conn.fetchval("select ended_counts->>'succeeded' from atlas.job_groups where id = $1", group) == "1"


async def test_a_webhook_that_lags_hears_of_a_job_that_is_in_history(conn, pool):
    tenant = await given_tenant(conn)
    await deliver_events(conn)
    await add_webhook(conn, tenant, "https://shop.example/", ["*"], actor=DANA)
    await given_success(conn, tenant, id=old(), correlation_id="c 1")
    run = await given_run(conn, tenant_id=tenant)
    await conn.execute("""update atlas.jobs set input = '{"workflow": "flow"}' where id = $1""", run)
    await age(conn, days=0)
    assert await file_all(pool) == 2
    while await deliver_events(conn):
        pass
    bodies = await conn.fetch("select input->'body'->'data' as data from only atlas.jobs where job_type = 'HTTP_CALL'")
    said = "\n".join(row["data"] for row in bodies)
    assert '"job_type": "plain"' in said
    assert '"correlation_id": "c 1"' in said
    assert '"workflow": "flow"' in said


async def test_the_doctor_counts_the_finished_jobs_that_are_yet_to_be_moved(conn, pool, monkeypatch):
    tenant, brief = await given_tenant(conn), await given_tenant(conn, "brief")
    await keep(conn, brief, jobs=2)
    assert (await check_history(conn)).found == "all finished jobs were moved into it"
    for _ in range(3):
        await given_success(conn, tenant, id=old())
    await given_success(conn, brief, id=old())
    await given_failure(conn, ValueError("a dead letter"), tenant_id=tenant)
    await given_success(conn, tenant)
    assert (await count_unfiled(conn)).jobs == 3
    assert (await check_history(conn)).found.endswith("into it: 3")
    monkeypatch.setattr(history, "MAX_COUNTED", 1)
    unfiled = await count_unfiled(conn)
    assert unfiled.is_estimated
    assert unfiled.jobs >= 2
    monkeypatch.undo()
    await age(conn, days=0)
    assert await file_all(pool) == 3
    assert (await count_unfiled(conn)).jobs == 0
