"""Deliveries to webhooks: signed with the webhook's secret, and a webhook that fails for long is disabled."""

import pytest

from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.webhooks.deliver import deliver_events, send_test
from atlas.engine.webhooks.signature import is_signed
from atlas.engine.webhooks.store import add_webhook, edit_webhook, find_webhook, remove_webhook, rotate_webhook_secret
from atlas.workers.http_call import handler
from tests.support import DANA, given_tenant
from tests.workers.http_call.receiver import response


@pytest.fixture
async def tenant(conn):
    return await given_tenant(conn)


@pytest.fixture(autouse=True)
def reachable(monkeypatch):
    """The receiver's network is one that calls may reach."""
    monkeypatch.setenv("ATLAS_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8")


@pytest.fixture
async def added(conn, tenant, receiver):
    """A webhook to the receiver, and its secret."""
    return await add_webhook(conn, tenant, f"{receiver.url}/hook", ["job.*"], actor=DANA)


@pytest.fixture
def webhook(added):
    return added[0]


async def test_an_event_arrives_signed(calls, conn, tenant, added, receiver):
    webhook, secret = added
    receiver.responses.append(response(200, f"signed with {secret}".encode()))
    job_id = await send_test(conn, webhook, actor=DANA)

    job = await calls.run(job_id)

    assert (job.status, job.output["status"]) == ("succeeded", 200), job.error
    [sent] = receiver.received
    assert (sent.method, sent.path, sent.json["type"]) == ("POST", "/hook", "webhook.test")
    assert sent.headers["webhook-id"] == str(job_id)
    assert is_signed([secret], sent.headers, sent.body)
    assert not is_signed([secret], sent.headers, sent.body + b" ")
    assert secret not in str(job)


async def test_a_message_is_signed_with_both_secrets_until_the_old_one_ends(calls, conn, owner, added, receiver):
    webhook, first = added
    _, second = await rotate_webhook_secret(conn, webhook.id, actor=DANA, overlap_seconds=60)
    await calls.run(await send_test(conn, webhook, actor=DANA))
    _, third = await rotate_webhook_secret(conn, webhook.id, actor=DANA, overlap_seconds=0)
    await calls.run(await send_test(conn, webhook, actor=DANA))

    signed = [
        [is_signed([key], sent.headers, sent.body) for key in (first, second, third)] for sent in receiver.received
    ]
    assert signed == [[True, True, False], [False, False, True]]


async def test_a_webhook_fails_until_a_delivery_succeeds(calls, conn, webhook, receiver):
    receiver.responses.append(response(500, b"oops"))
    job_id = await send_test(conn, webhook, actor=DANA)

    assert (await calls.run(job_id)).status == "failed"
    failing = await find_webhook(conn, webhook.id)
    assert failing.failing_since is not None
    assert failing.last_error == "The server responded with 500: oops"
    assert failing.etag == webhook.etag

    assert (await calls.run(await send_test(conn, webhook, actor=DANA))).status == "succeeded"
    works = await find_webhook(conn, webhook.id)
    assert (works.failing_since, works.last_error) == (None, None)


@pytest.mark.parametrize(
    ("status", "days", "reason"),
    [
        (500, 2.9, None),
        (500, 3.1, "no delivery has succeeded for 3 days"),
        (410, 0, "its server responded with 410, gone"),
    ],
)
async def test_a_webhook_that_fails_for_long_is_disabled(calls, conn, owner, webhook, receiver, status, days, reason):
    await owner.execute("update atlas.webhooks set failing_since = now() - make_interval(secs => $1)", days * 86400)
    receiver.responses.append(response(status))

    await calls.run(await send_test(conn, webhook, actor=DANA))

    found = await find_webhook(conn, webhook.id)
    assert (found.is_enabled, found.disabled_reason) == (reason is None, reason)
    events = await conn.fetch("select message from atlas.audit_log where action = 'WEBHOOK_DISABLED'")
    assert [row["message"] for row in events] == ([] if reason is None else [reason])
    if reason is not None:
        late = await calls.run(await send_test(conn, webhook, actor=DANA))
        assert (late.status, late.error["message"]) == (
            "failed",
            f"The webhook {webhook.id} is disabled: {reason}. Enable it, then retry this job.",
        )
        assert len(receiver.received) == 1


async def test_a_delivery_to_a_removed_webhook_fails(calls, conn, webhook, receiver):
    job_id = await send_test(conn, webhook, actor=DANA)
    await remove_webhook(conn, webhook.id, actor=DANA)

    job = await calls.run(job_id)

    assert (job.status, receiver.received) == ("failed", [])
    assert "There is no webhook" in job.error["message"]


async def test_a_delivery_goes_where_the_webhook_leads_when_it_runs(calls, conn, webhook, receiver):
    job_id = await send_test(conn, webhook, actor=DANA)
    await edit_webhook(conn, webhook.id, {"url": f"{receiver.url}/moved"}, actor=DANA)

    assert (await calls.run(job_id)).status == "succeeded"
    assert receiver.received[0].path == "/moved"


async def test_few_deliveries_at_a_time_try_a_webhook_that_fails(calls, conn, owner, webhook, receiver, monkeypatch):
    monkeypatch.setattr(handler, "MAX_CONCURRENT_RETRIES", 0)
    job_id = await send_test(conn, webhook, actor=DANA)
    await owner.execute("update atlas.webhooks set failing_since = now()")

    waiting = await calls.run(job_id)

    assert (waiting.status, waiting.retry_count, receiver.received) == ("queued", 0, [])
    await owner.execute("update atlas.webhooks set failing_since = null")
    await calls.make_due(job_id)
    assert (await calls.run(job_id)).status == "succeeded"


@pytest.mark.parametrize("own", [True, False])
async def test_only_atlas_makes_deliveries(calls, conn, tenant, webhook, receiver, own):
    """Who may enqueue jobs cannot have messages signed as Atlas's own."""
    options = {"tenant_id": tenant} if own else {}
    asked = NewJob("HTTP_CALL", {"webhook": str(webhook.id), "body": {"forged": True}}, **options)
    made = await enqueue(conn, asked, actor=DANA)

    job = await calls.run(made.id)

    assert (job.status, receiver.received) == ("failed", [])
    assert "There is no webhook" in job.error["message"]


async def test_an_outcome_of_a_job_arrives_at_its_tenants_server(calls, conn, tenant, webhook, receiver):
    made = await enqueue(conn, NewJob("x.work", {}, tenant), actor=DANA)
    await deliver_events(conn)

    await calls.drain()

    [sent] = receiver.received
    assert (sent.json["type"], sent.json["data"]["job_id"]) == ("job.created", str(made.id))
