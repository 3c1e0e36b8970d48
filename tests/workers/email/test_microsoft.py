"""Mail by Microsoft Graph: the real msal and httpx against a provider that can be received to misbehave."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.retry import retry_now
from atlas.errors import SettingsError
from atlas.workers.email import graph
from tests.support import DANA, some
from tests.workers.email.given import MAIL
from tests.workers.email.server import GARBAGE, Play

REFUSED = {"error": {"code": "ErrorSendAsDenied", "message": "The user account may not send as eve@contoso.example."}}


def seconds_until(job) -> float:
    return (job.next_retry_at - datetime.now(UTC)).total_seconds()


async def test_a_mail_goes_out_by_draft_and_send(post, server):
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert job.status == "succeeded", job.error
    assert server.deliveries == {str(job_id): 1}
    [draft] = server.drafts.values()
    assert job.output == {"provider": "microsoft", "messageId": draft["id"], "sender": "agent@contoso.example"}
    assert await post.events(job_id) == ["JOB_CREATED", "EFFECT_INTENDED", "EFFECT_DONE", "EMAIL_SENT"]
    assert [name for name, _ in server.requests] == ["discovery", "token", "draft", "send"]


async def test_everything_that_was_asked_for_is_in_the_draft(post, server):
    job_id = await post.enqueue(
        {
            "to": ["ada@example.com", {"address": "bob@example.com", "name": "Bob, the second"}],
            "cc": "Carla <carla@example.com>",
            "bcc": ["dan@example.com"],
            "replyTo": "reply@example.com",
            "subject": "Grüße",
            "text": "plain",
            "html": "<p>rich</p>",
            "attachments": [{"name": "a.txt", "contentType": "text/plain", "base64": "aGVsbG8="}],
            "traceId": "trace-1",
        }
    )

    assert (await post.run(job_id)).status == "succeeded"

    [draft] = server.drafts.values()
    assert draft["toRecipients"] == [
        {"emailAddress": {"address": "ada@example.com"}},
        {"emailAddress": {"address": "bob@example.com", "name": "Bob, the second"}},
    ]
    assert draft["ccRecipients"] == [{"emailAddress": {"address": "carla@example.com", "name": "Carla"}}]
    assert draft["bccRecipients"] == [{"emailAddress": {"address": "dan@example.com"}}]
    assert draft["replyTo"] == [{"emailAddress": {"address": "reply@example.com"}}]
    assert (draft["subject"], draft["body"]) == ("Grüße", {"contentType": "html", "content": "<p>rich</p>"})
    assert draft["attachments"][0]["contentBytes"] == "aGVsbG8="
    assert {"name": "X-Atlas-Trace", "value": "trace-1"} in draft["internetMessageHeaders"]
    assert server.asked("draft")[0].headers["prefer"] == 'IdType="ImmutableId"'
    assert server.asked("send")[0].headers["content-length"] == "0"


async def test_the_sender_is_the_agents_or_the_installations(post, server):
    post.use(agent_emails={"SALES_BOT": "sales@contoso.example"})
    named = await post.enqueue({**MAIL, "fromAgent": "sales-bot"})
    unknown = await post.enqueue({**MAIL, "fromAgent": "nobody"})

    await post.drain()

    assert (await post.job(named)).output["sender"] == "sales@contoso.example"
    assert (await post.job(unknown)).output["sender"] == "agent@contoso.example"
    assert {draft["mailbox"] for draft in server.drafts.values()} == {"sales@contoso.example", "agent@contoso.example"}


@pytest.mark.parametrize("endpoint", ["draft", "send"])
@pytest.mark.parametrize("status", some([400, 403, 404, 413, 422], every=3))
async def test_a_refusal_is_permanent_and_keeps_the_providers_message(post, server, endpoint, status):
    server.play(endpoint, Play(status=status, body=REFUSED))
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.attempt_count, job.dead_lettered_at) == ("failed", 1, None)
    assert "ErrorSendAsDenied: The user account may not send as e***@contoso.example" in job.error["message"]
    assert "outcome" not in job.error
    assert server.deliveries == {}
    assert not server.drafts  # a draft that will not be sent does not stay in the mailbox
    asked = ["EFFECT_INTENDED", "EFFECT_REFUSED"] if endpoint == "send" else []
    assert await post.events(job_id) == ["JOB_CREATED", *asked, "JOB_FAILED"]


@pytest.mark.parametrize("status", some([429, 503], every=2))
@pytest.mark.parametrize("endpoint", ["draft", "send"])
@pytest.mark.parametrize("as_date", [False, True])
async def test_a_provider_is_not_called_before_the_time_it_asks_for(post, server, endpoint, status, as_date):
    # The provider's clock is an hour ahead: a date is read by its own clock.
    now = datetime.now(UTC) + timedelta(hours=1)
    asked = format_datetime(now + timedelta(seconds=120), usegmt=True) if as_date else "120"
    server.play(
        endpoint, Play(status=status, headers={"Retry-After": asked, "Date": format_datetime(now, usegmt=True)})
    )
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.retry_count) == ("queued", 1)
    assert 110 < seconds_until(job) < 140
    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}
    assert len(server.drafts) == 1


@pytest.mark.parametrize(
    "play",
    some(
        [
            Play(status=500, body=REFUSED),
            Play(status=502, body=GARBAGE),
            Play(body=GARBAGE),
            Play(cut=True),
        ],
        every=2,
    ),
    ids=some(["500", "502 garbage", "201 garbage", "cut"], every=2),
)
async def test_a_failure_to_make_the_draft_is_retried(post, server, play):
    server.play("draft", play)
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.retry_count) == ("queued", 1)
    assert 9 < seconds_until(job) < 12
    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize("delivered", [False, True])
@pytest.mark.parametrize("status", some([500, 502, 504], every=3))
async def test_after_a_failure_of_the_provider_the_draft_is_looked_up_first(post, server, status, delivered):
    server.play("send", Play(status=status, deliver=delivered, body=REFUSED))
    job_id = await post.enqueue()
    assert (await post.run(job_id)).status == "queued"

    job = await post.finish(job_id)

    assert (job.status, job.attempt_count) == ("succeeded", 2)
    assert server.deliveries == {str(job_id): 1}
    assert len(server.asked("lookup")) == 1
    assert len(server.asked("send")) == (1 if delivered else 2)
    assert len(server.drafts) == 1


@pytest.mark.parametrize("delivered", [False, True])
async def test_a_connection_cut_after_the_request_is_an_unknown_outcome_that_is_resolved(post, server, delivered):
    server.play("send", Play(cut=True, deliver=delivered))
    job_id = await post.enqueue()

    job = await post.run(job_id)
    assert (job.status, job.error["outcome"]) == ("queued", "unknown")

    job = await post.finish(job_id)
    assert job.status == "succeeded"
    assert server.deliveries == {str(job_id): 1}
    assert [attempt[1] for attempt in await post.attempts(job_id)] == ["unknown", None]
    sent = await post.pool.fetchval("select meta from atlas.audit_log where action = 'EMAIL_SENT'")
    assert ('"found": "provider"' in sent) == delivered


@pytest.mark.parametrize("delivered", [False, True])
async def test_a_response_that_comes_too_late_is_an_unknown_outcome(post, server, monkeypatch, delivered):
    await post.run(await post.enqueue())
    monkeypatch.setattr(graph, "CALL_SECONDS", 0.5)
    server.deliveries.clear()
    server.play("send", Play(hold=5.0, deliver=delivered))
    job_id = await post.enqueue()

    assert (await post.run(job_id)).error["outcome"] == "unknown"

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize(
    "play",
    [
        Play(headers={"Retry-After": "300"}, body=REFUSED),
        Play(body=GARBAGE),
        Play(slow_body=True),
    ],
    ids=["with Retry-After and an error", "garbage", "slow body"],
)
async def test_202_is_success_whatever_else_the_response_says(post, server, monkeypatch, play):
    monkeypatch.setattr(graph, "REST_SECONDS", 0.2)
    server.play("send", play)
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.attempt_count) == ("succeeded", 1)
    assert server.deliveries == {str(job_id): 1}


async def test_a_slow_body_does_not_hold_the_job_for_ever(post, server, monkeypatch):
    await post.run(await post.enqueue())
    monkeypatch.setattr(graph, "CALL_SECONDS", 0.5)
    server.deliveries.clear()
    server.play("draft", Play(slow_body=True))
    job_id = await post.enqueue()

    assert (await post.run(job_id)).status == "queued"

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


async def test_an_unreachable_provider_is_tried_again(post, server):
    post.use(ms_graph_url="https://127.0.0.1:1/v1.0")
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.retry_count) == ("queued", 1)
    assert "could not be reached" in job.error["message"]


async def test_an_unknown_outcome_that_cannot_be_resolved_ends_the_job(post, server):
    server.play("send", Play(cut=True))
    server.play("lookup", Play(status=403, body=REFUSED))
    job_id = await post.enqueue()

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert "not known whether the mail was sent" in job.error["message"]
    assert (await post.attempts(job_id))[-1] == ("failed", "unknown")
    assert (await post.events(job_id))[-1] == "JOB_FAILED"
    assert len(server.asked("send")) == 1


async def test_an_outcome_that_stays_unknown_to_the_last_retry_ends_the_job_as_unknown(post, server):
    server.play("send", Play(cut=True, deliver=True))
    server.play("lookup", *(Play(cut=True) for _ in range(3)))
    job_id = await post.enqueue()

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"], job.dead_lettered_at is not None) == ("failed", "unknown", True)
    assert server.deliveries == {str(job_id): 1}
    assert (await post.events(job_id))[-1] == "JOB_EXHAUSTED_RETRIES"

    async with post.pool.acquire() as conn:
        await retry_now(conn, job_id, actor=DANA)
    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize(("delivered", "status"), [(True, "succeeded"), (False, "failed")])
async def test_without_retries_the_attempt_itself_looks_once(post, server, delivered, status):
    server.play("send", Play(cut=True, deliver=delivered))
    job_id = await post.enqueue(max_retries=0)

    job = await post.run(job_id)

    assert job.status == status
    assert server.deliveries == ({str(job_id): 1} if delivered else {})
    assert job.error.get("outcome") == (None if delivered else "unknown")


@pytest.mark.parametrize("delivered", [False, True])
async def test_a_draft_that_is_gone_leaves_the_outcome_unknown(post, server, delivered):
    server.play("send", Play(cut=True, deliver=delivered))
    job_id = await post.enqueue()
    await post.run(job_id)
    server.drafts.clear()

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert len(server.asked("send")) == 1


async def test_a_mailbox_that_is_gone_leaves_the_outcome_unknown(post, server):
    server.play("send", Play(cut=True))
    server.play("lookup", Play(status=404, body={"error": {"code": "ErrorInvalidUser", "message": "No such user."}}))
    job = await post.finish(await post.enqueue())

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")


async def test_a_draft_sent_between_the_look_and_the_next_try_is_not_sent_twice(post, server):
    server.play("send", Play(cut=True, deliver=True))
    server.play("lookup", Play(status=200, body={"id": "x", "isDraft": True}))
    job_id = await post.enqueue()

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize("variable", ["MS_TENANT_ID", "MS_CLIENT_ID", "MS_CLIENT_SECRET"])
async def test_a_missing_credential_is_refused_at_the_start(post, variable):
    with pytest.raises(SettingsError, match=f"microsoft, which needs {variable}"):
        post.use(**{variable.lower(): None})


async def test_a_missing_sender_is_a_permanent_error_that_names_its_setting(post):
    post.use(ms_sender_upn=None)

    job = await post.run(await post.enqueue())

    assert (job.status, job.attempt_count) == ("failed", 1)
    assert "MS_SENDER_UPN" in job.error["message"]


async def test_a_mail_canceled_while_the_provider_has_it_says_that_its_outcome_is_unknown(post, server):
    held = asyncio.Event()
    server.play("send", Play(hold=held, deliver=True))
    job_id = await post.enqueue()
    running = asyncio.create_task(post.drain())
    while not server.asked("send"):
        await asyncio.sleep(0.01)

    async with post.pool.acquire() as conn:
        await cancel(conn, job_id, actor=DANA)
    await running

    job = await post.job(job_id)
    assert job.status == "canceled"
    assert (await post.attempts(job_id))[-1] == ("canceled", "unknown")
    meta = await post.pool.fetchval("select meta from atlas.audit_log where action = 'JOB_CANCELED'")
    assert '"outcome": "unknown"' in meta

    async with post.pool.acquire() as conn:
        await retry_now(conn, job_id, actor=DANA)
    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


async def test_a_time_limit_that_strikes_while_the_provider_has_the_mail_leaves_an_unknown_outcome(post, server):
    server.play("send", Play(hold=30.0, deliver=True))
    job = None
    # On a busy machine it may strike earlier.
    while not server.asked("send"):
        job = await post.run(await post.enqueue(timeout_seconds=1, max_retries=0))

    assert job is not None
    assert (job.status, job.error["type"], job.error["outcome"]) == ("failed", "JobTimeout", "unknown")


async def test_a_worker_that_lost_its_job_does_not_ask_the_provider(post, server):
    held = asyncio.Event()
    server.play("draft", Play(hold=held))
    job_id = await post.enqueue()
    running = asyncio.create_task(post.drain())
    while not server.asked("draft"):
        await asyncio.sleep(0.01)

    # Another worker has the job by now.
    await post.pool.execute(
        "update atlas.jobs set claimed_by = 'another', attempt_count = attempt_count + 1 where id = $1", job_id
    )
    held.set()
    await running

    assert server.asked("send") == []
    assert server.deliveries == {}
    assert not server.drafts
