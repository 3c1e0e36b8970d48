"""Mail by Resend: the real SDK against a provider that keeps idempotency keys, and can be received to misbehave."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from atlas.engine.jobs.actions.retry import retry_now
from atlas.errors import SettingsError
from atlas.workers.email import resend
from tests.support import DANA, some
from tests.workers.email.given import KEY, MAIL
from tests.workers.email.server import GARBAGE, Play

REFUSED = {"statusCode": 422, "name": "validation_error", "message": "The `to` field ada@example.com is not allowed."}


@pytest.fixture(autouse=True)
def by_resend(post):
    post.use("resend")


async def test_a_mail_goes_out_under_the_jobs_id(post, server):
    job_id = await post.enqueue(
        {
            **MAIL,
            "to": ["ada@example.com", "Bob <bob@example.com>"],
            "cc": {"address": "carla@example.com", "name": "Carla, second"},
            "html": "<p>rich</p>",
            "replyTo": "reply@example.com",
            "attachments": [{"name": "a.txt", "contentType": "text/plain", "base64": "aGVsbG8="}],
            "traceId": "trace-1",
        }
    )

    job = await post.run(job_id)

    assert job.status == "succeeded", job.error
    [request] = server.asked("resend")
    assert request.headers["idempotency-key"] == str(job_id)
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "from": "Atlas <mail@atlas.example>",
        "to": ["ada@example.com", "Bob <bob@example.com>"],
        "cc": ['"Carla, second" <carla@example.com>'],
        "reply_to": ["reply@example.com"],
        "subject": "Hello",
        "text": "How are you?",
        "html": "<p>rich</p>",
        "headers": {"X-Atlas-Job": str(job_id), "X-Atlas-Trace": "trace-1"},
        "attachments": [{"filename": "a.txt", "content": "aGVsbG8=", "content_type": "text/plain"}],
    }
    assert job.output["messageId"] == server.keys[str(job_id)][1]
    assert await post.events(job_id) == ["JOB_CREATED", "EFFECT_INTENDED", "EFFECT_DONE", "EMAIL_SENT"]


@pytest.mark.parametrize("status", some([400, 401, 403, 404, 413, 422], every=3))
async def test_a_refusal_is_permanent_and_keeps_the_providers_message(post, server, status):
    server.play("resend", Play(status=status, body=REFUSED))

    job = await post.run(await post.enqueue())

    assert (job.status, job.attempt_count) == ("failed", 1)
    if status != 401:  # the SDK has words of its own for that one
        assert "validation_error: The `to` field a***@example.com is not allowed" in job.error["message"]
    assert server.deliveries == {}


@pytest.mark.parametrize("status", some([429, 503], every=2))
@pytest.mark.parametrize("as_date", [False, True])
async def test_a_provider_is_not_called_before_the_time_it_asks_for(post, server, status, as_date):
    now = datetime.now(UTC) - timedelta(hours=1)
    asked = format_datetime(now + timedelta(seconds=120), usegmt=True) if as_date else "120"
    headers = {"Retry-After": asked, "Date": format_datetime(now, usegmt=True)}
    server.play(
        "resend", Play(status=status, headers=headers, body={"name": "rate_limit_exceeded", "message": "Slow."})
    )
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.retry_count) == ("queued", 1)
    assert 110 < (job.next_retry_at - datetime.now(UTC)).total_seconds() < 140
    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize(
    "asked",
    some(
        ["Mon, 01 Jan 2026 00:00:00 +99999999999999999999", "Sun, 31 Dec 9999 23:59:59 -1200", "9" * 4000, "-3"],
        every=2,
    ),
)
async def test_a_malformed_retry_after_is_ignored(post, server, asked):
    body = {"name": "rate_limit_exceeded", "message": "Slow."}
    server.play("resend", Play(status=429, headers={"Retry-After": asked}, body=body))
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.error["message"]) == (
        "queued",
        "Resend refused the mail with 429: rate_limit_exceeded: Slow.",
    )
    assert (await post.finish(job_id)).status == "succeeded"


@pytest.mark.long
@pytest.mark.parametrize(
    ("play", "unknown"),
    [
        (Play(status=500, body={"name": "application_error", "message": "Oops."}), False),
        (Play(status=500, body={"name": "application_error", "message": "Oops."}, deliver=True), False),
        (Play(status=502, body=GARBAGE), False),
        (Play(body=GARBAGE), False),
        (Play(body={"no": "id"}), False),
        (Play(cut=True, deliver=False), True),
        (Play(cut=True, deliver=True), True),
        (Play(hold=5.0, deliver=False), True),
        (Play(hold=5.0, deliver=True), True),
        (Play(slow_body=True), True),
    ],
    ids=[
        "500",
        "500 but delivered",
        "502 garbage",
        "200 garbage",
        "200 without an id",
        "cut before",
        "cut after",
        "late, not delivered",
        "late, delivered",
        "slow body",
    ],
)
async def test_whatever_happens_to_the_response_the_mail_goes_out_once(post, server, monkeypatch, play, unknown):
    monkeypatch.setattr(resend, "CALL_SECONDS", 0.5)
    server.play("resend", play)
    job_id = await post.enqueue()

    job = await post.run(job_id)
    assert job.status == "queued"
    assert (job.error.get("outcome") == "unknown") == unknown

    job = await post.finish(job_id)
    assert (job.status, job.attempt_count) == ("succeeded", 2)
    assert server.deliveries == {str(job_id): 1}
    assert job.output["messageId"] == server.keys[str(job_id)][1]


async def test_a_request_that_still_runs_at_the_provider_is_waited_for(post, server):
    body = {"statusCode": 409, "name": "concurrent_idempotent_requests", "message": "Still at it."}
    server.play("resend", Play(cut=True, deliver=True), Play(status=409, body=body))
    job_id = await post.enqueue()

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


async def test_the_same_request_is_made_again_also_when_the_sender_has_changed(post, server):
    server.play("resend", Play(cut=True, deliver=True))
    job_id = await post.enqueue()
    await post.run(job_id)

    post.use(outbound_email_from="other@atlas.example")

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


async def test_a_key_that_was_used_for_another_mail_is_an_unknown_outcome(post, server):
    job_id = await post.enqueue()
    server.keys[str(job_id)] = (b"something else", "an id")

    job = await post.run(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert server.deliveries == {}


async def test_an_unknown_outcome_is_not_tried_again_past_the_life_of_the_key(post, server):
    server.play("resend", Play(cut=True, deliver=True))
    job_id = await post.enqueue()
    await post.run(job_id)
    await a_day_passes(post, job_id)

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert len(server.asked("resend")) == 1
    assert (await post.events(job_id))[-1] == "JOB_FAILED"

    # An operator has read that, and wants it sent.
    server.keys.clear()
    async with post.pool.acquire() as conn:
        await retry_now(conn, job_id, actor=DANA)
    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 2}


async def test_a_certain_refusal_may_be_tried_again_after_any_time(post, server):
    server.play("resend", Play(status=429, body={"name": "daily_quota_exceeded", "message": "Tomorrow."}))
    job_id = await post.enqueue()
    await post.run(job_id)
    await a_day_passes(post, job_id)

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


async def test_a_refusal_after_an_unknown_outcome_leaves_it_unknown(post, server):
    server.play("resend", Play(cut=True, deliver=True), Play(status=403, body=REFUSED))
    job_id = await post.enqueue()

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert "validation_error" in job.error["message"]


async def test_a_throttled_retry_after_an_unknown_outcome_still_ends_well(post, server):
    throttled = Play(
        status=429, headers={"Retry-After": "60"}, body={"name": "rate_limit_exceeded", "message": "Slow."}
    )
    server.play("resend", Play(cut=True, deliver=True), throttled)
    job_id = await post.enqueue()

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}
    assert [outcome for _, outcome in await post.attempts(job_id)] == ["unknown", "unknown", None]


async def test_a_missing_key_is_refused_at_the_start(post):
    with pytest.raises(SettingsError, match="resend, which needs RESEND_API_KEY"):
        post.use(resend_api_key=None)


async def test_a_missing_sender_is_a_permanent_error_that_names_its_setting(post):
    post.use(outbound_email_from=None)

    job = await post.run(await post.enqueue())

    assert (job.status, job.attempt_count) == ("failed", 1)
    assert "OUTBOUND_EMAIL_FROM" in job.error["message"]


async def test_connections_are_reused(post, server):
    jobs = [await post.enqueue() for _ in range(40)]

    await post.drain()

    assert server.deliveries == {str(job_id): 1 for job_id in jobs}
    before = server.connections
    await post.run(await post.enqueue())
    assert server.connections == before


async def a_day_passes(post, job_id) -> None:
    await post.pool.execute(
        "update atlas.effects set first_called_at = first_called_at - interval '25 hours' where job_id = $1",
        job_id,
    )
