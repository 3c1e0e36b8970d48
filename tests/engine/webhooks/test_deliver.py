"""What happens becomes one delivery for each webhook that wants it: none is lost, none is made twice."""

import asyncio

import orjson
import pytest

from atlas.db.pool import connect
from atlas.db.schema import in_schema
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.engine.tenants.removal import begin_removal
from atlas.engine.tenants.tenants import find_tenant
from atlas.engine.webhooks import deliver
from atlas.engine.webhooks.deliver import deliver_events, disable_overfull, send_test
from atlas.engine.webhooks.store import add_webhook, edit_webhook, find_webhook
from atlas.engine.workflows.intents import request_workflow
from tests.engine.jobs.given import given_claimed
from tests.support import DANA, given_review, given_tenant

URL = "https://shop.example/atlas"


@pytest.fixture
async def tenant(conn):
    return await given_tenant(conn)


async def given_webhook(conn, tenant, *events):
    return (await add_webhook(conn, tenant, URL, events, actor=DANA))[0]


async def deliveries(conn, webhook):
    """What was enqueued for a webhook, oldest first."""
    rows = await conn.fetch(
        "select input, tenant_id, max_retries, source::text as source, correlation_id from atlas.jobs"
        " where job_type = 'HTTP_CALL' and source_ref = $1 order by id",
        str(webhook.id),
    )
    assert all(row["correlation_id"] == f"webhook:{webhook.id}" for row in rows)
    return [orjson.loads(row["input"])["body"] for row in rows]


async def test_an_event_is_delivered_once_to_each_webhook_that_wants_it(conn, tenant):
    all_jobs = await given_webhook(conn, tenant, "job.*")
    some = await given_webhook(conn, tenant, "job.failed", "approval.*")
    everything = await given_webhook(conn, tenant, "*")

    job = await enqueue(conn, NewJob("x.work", {}, tenant, correlation_id="order-7"), actor=DANA)
    await cancel(conn, job.id, actor=DANA)
    for _ in range(3):
        assert not await deliver_events(conn)

    made, canceled = await deliveries(conn, all_jobs)
    row = await conn.fetchval(
        "select id from atlas.audit_log where action = 'JOB_CREATED' and entity_id = $1", str(job.id)
    )
    assert made["type"] == "job.created"
    assert made["data"] == {
        "job_id": str(job.id),
        "job_type": "x.work",
        "correlation_id": "order-7",
        "log_id": row,
    }
    assert (canceled["type"], canceled["data"]["job_id"]) == ("job.canceled", str(job.id))
    assert await deliveries(conn, some) == []
    assert await deliveries(conn, everything) == [made, canceled]


async def test_the_outcomes_of_jobs_have_names(conn, tenant):
    webhook = await given_webhook(conn, tenant, "job.failed", "job.retried")
    await switch(conn, online=True, actor=DANA)
    worker, job = await given_claimed(conn, "x.work", tenant_id=tenant)
    await finish(conn, worker, [decide(job, worker.id, PermanentError("It is broken."), ATLAS)])
    await retry_now(conn, job.id, actor=DANA)

    await deliver_events(conn)

    failed, retried = await deliveries(conn, webhook)
    assert (failed["type"], failed["data"]["attempt"], failed["data"]["message"]) == ("job.failed", 1, "It is broken.")
    assert retried["type"] == "job.retried"


async def test_runs_and_approvals_are_events_too(conn, tenant):
    webhook = await given_webhook(conn, tenant, "run.*", "approval.*")
    run = await request_workflow(conn, tenant, "greet", {}, DANA, allow_unknown=True)
    await given_review(conn, run)

    await deliver_events(conn)

    requested, asked = await deliveries(conn, webhook)
    assert (requested["type"], requested["data"]["run_id"]) == ("run.requested", str(run))
    assert requested["data"]["workflow"] == "greet"
    assert (asked["type"], asked["data"]["run_id"], asked["data"]["title"]) == (
        "approval.requested",
        str(run),
        "Start greet?",
    )


async def test_a_tenant_gets_its_own_events_from_now_on(conn, tenant):
    other = await given_tenant(conn, "other")
    await enqueue(conn, NewJob("x.before", {}, tenant), actor=DANA)
    webhook = await given_webhook(conn, tenant, "*")
    await enqueue(conn, NewJob("x.other", {}, other), actor=DANA)
    await enqueue(conn, NewJob("x.own", {}, tenant), actor=DANA)

    await deliver_events(conn)

    assert [delivery["data"]["job_type"] for delivery in await deliveries(conn, webhook)] == ["x.own"]


async def test_a_tenant_that_is_being_removed_stops_no_other(conn, tenant):
    other = await given_tenant(conn, "other")
    await given_webhook(conn, other, "*")
    webhook = await given_webhook(conn, tenant, "job.*")
    await enqueue(conn, NewJob("x.other", {}, other), actor=DANA)
    await enqueue(conn, NewJob("x.own", {}, tenant), actor=DANA)
    await begin_removal(conn, await find_tenant(conn, other), actor=DANA, cancel=True)

    await deliver_events(conn)

    assert [delivery["data"]["job_type"] for delivery in await deliveries(conn, webhook)] == ["x.own"]
    assert await conn.fetchval("select count(*) from atlas.jobs where job_type = 'HTTP_CALL'") == 1


async def test_deliveries_are_not_delivered(conn, tenant):
    webhook = await given_webhook(conn, tenant, "*")
    await enqueue(conn, NewJob("x.work", {}, tenant), actor=DANA)
    await send_test(conn, webhook, actor=DANA)

    for _ in range(3):
        await deliver_events(conn)

    types = [delivery["type"] for delivery in await deliveries(conn, webhook)]
    assert sorted(types) == ["job.created", "webhook.test"]


async def test_an_event_that_is_committed_late_is_not_lost(conn, tenant, pool):
    webhook = await given_webhook(conn, tenant, "job.*")
    async with pool.acquire() as slow:
        async with slow.transaction():
            await enqueue(slow, NewJob("x.late", {}, tenant), actor=DANA)
            await enqueue(conn, NewJob("x.early", {}, tenant), actor=DANA)
            await deliver_events(conn)
            assert [delivery["data"]["job_type"] for delivery in await deliveries(conn, webhook)] == ["x.early"]

    await deliver_events(conn)

    assert [delivery["data"]["job_type"] for delivery in await deliveries(conn, webhook)] == ["x.early", "x.late"]


async def test_a_crash_before_the_commit_loses_nothing(conn, tenant, monkeypatch):
    webhook = await given_webhook(conn, tenant, "job.*")
    await enqueue(conn, NewJob("x.work", {}, tenant), actor=DANA)

    async def crash(*_, **__):
        raise RuntimeError("killed")

    with monkeypatch.context() as broken:
        broken.setattr(deliver, "enqueue_many", crash)
        with pytest.raises(RuntimeError):
            await deliver_events(conn)

    await deliver_events(conn)
    assert len(await deliveries(conn, webhook)) == 1


async def test_one_of_several_readers_makes_the_deliveries(conn, tenant, pool):
    webhook = await given_webhook(conn, tenant, "job.*")
    for _ in range(30):
        await enqueue(conn, NewJob("x.work", {}, tenant), actor=DANA)

    async def read():
        async with pool.acquire() as own:
            for _ in range(10):
                await deliver_events(own, limit=7)

    await asyncio.gather(*(read() for _ in range(4)))
    while await deliver_events(conn):
        pass

    assert len(await deliveries(conn, webhook)) == 30


async def test_without_a_webhook_nothing_is_read(conn, tenant, pool):
    """The reader passes over what there is, and the first webhook gets what is committed after it."""
    await enqueue(conn, NewJob("x.work", {}, tenant), actor=DANA)
    await deliver_events(conn)
    place = await conn.fetchval("select value->>'prev' from atlas.system_state where key = 'webhook_reader'")
    assert place is not None
    await deliver_events(conn)
    assert place == await conn.fetchval("select value->>'prev' from atlas.system_state where key = 'webhook_reader'")

    webhook = await given_webhook(conn, tenant, "job.*")
    await enqueue(conn, NewJob("x.first", {}, tenant), actor=DANA)
    await deliver_events(conn)

    assert [delivery["data"]["job_type"] for delivery in await deliveries(conn, webhook)] == ["x.first"]


async def test_a_webhook_that_was_disabled_gets_nothing_of_that_time(conn, tenant):
    webhook = await given_webhook(conn, tenant, "job.*")
    await edit_webhook(conn, webhook.id, {"is_enabled": False}, actor=DANA)
    await enqueue(conn, NewJob("x.missed", {}, tenant), actor=DANA)
    await edit_webhook(conn, webhook.id, {"is_enabled": True}, actor=DANA)
    await enqueue(conn, NewJob("x.seen", {}, tenant), actor=DANA)

    await deliver_events(conn)

    assert [delivery["data"]["job_type"] for delivery in await deliveries(conn, webhook)] == ["x.seen"]


async def test_a_webhook_that_fails_with_too_many_waiting_is_disabled(conn, tenant, owner, monkeypatch):
    monkeypatch.setattr(deliver, "MAX_WAITING", 2)
    failing, working = await given_webhook(conn, tenant, "job.*"), await given_webhook(conn, tenant, "job.*")
    for _ in range(2):
        await enqueue(conn, NewJob("x.work", {}, tenant), actor=DANA)
    await deliver_events(conn)
    await owner.execute(in_schema("update atlas.webhooks set failing_since = now() where id = $1"), failing.id)

    assert await disable_overfull(conn) == 1

    disabled = await find_webhook(conn, failing.id)
    assert (disabled.is_enabled, disabled.disabled_reason) == (False, "it fails, and 2 deliveries wait")
    assert (await find_webhook(conn, working.id)).is_enabled
    row = await conn.fetchrow("select message, level::text from atlas.audit_log where action = 'WEBHOOK_DISABLED'")
    assert tuple(row) == ("it fails, and 2 deliveries wait", "warn")


async def test_the_readers_position_survives_an_old_and_a_new_epoch(conn, tenant, database_url):
    """A restored log begins a new epoch; what is written in it is delivered."""
    webhook = await given_webhook(conn, tenant, "job.*")
    await deliver_events(conn)
    owner = await connect(database_url)
    await owner.execute(
        "update atlas.system_state set value = value || '{\"cluster\": 42}' where key = 'webhook_reader'"
    )
    await owner.close()
    await enqueue(conn, NewJob("x.work", {}, tenant), actor=DANA)

    while await deliver_events(conn):
        pass

    assert [delivery["data"]["job_type"] for delivery in await deliveries(conn, webhook)] == ["x.work"]
