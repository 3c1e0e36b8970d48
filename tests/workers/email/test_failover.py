"""An ordered list of providers: the next is tried only where the one before certainly does not have the mail."""

from datetime import UTC, datetime

import pytest

from atlas.errors import SettingsError
from tests.support import some
from tests.workers.email.server import Play

DENIED = {"error": {"code": "ErrorAccessDenied", "message": "Access is denied."}}
INVALID = {"statusCode": 403, "name": "invalid_api_key", "message": "The key is not valid."}


@pytest.fixture(autouse=True)
def by_both(post):
    post.use("microsoft", "resend")


@pytest.mark.parametrize(
    ("endpoint", "play"),
    some(
        [
            ("token", Play(status=400, body={"error": "invalid_client", "error_description": "No."})),
            ("token", Play(status=500, body={})),
            ("draft", Play(status=403, body=DENIED)),
            ("draft", Play(status=429, headers={"Retry-After": "600"})),
            ("draft", Play(status=500)),
            ("draft", Play(cut=True)),
            ("draft", Play(garbled=True)),
            ("send", Play(status=403, body=DENIED)),
            ("send", Play(status=429)),
        ],
        every=3,
    ),
    ids=some(
        [
            "token 400",
            "token 500",
            "draft 403",
            "draft 429",
            "draft 500",
            "draft cut",
            "draft garbled",
            "send 403",
            "send 429",
        ],
        every=3,
    ),
)
async def test_another_provider_sends_what_one_certainly_did_not_send(post, server, endpoint, play):
    server.play(endpoint, play)
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.attempt_count, job.output["provider"]) == ("succeeded", 1, "resend")
    assert server.deliveries == {str(job_id): 1}
    assert job.output["sender"] == "Atlas <mail@atlas.example>"
    # A draft whose making was never answered has no known id.
    assert len(server.drafts) == (play.cut or play.garbled)


async def test_a_provider_without_credentials_is_refused_at_the_start_whatever_stands_beside_it(post):
    with pytest.raises(SettingsError, match="microsoft, which needs MS_CLIENT_SECRET"):
        post.use(ms_client_secret=None)


@pytest.mark.parametrize("provider", ["microsoft", "resend"])
async def test_another_provider_sends_where_one_has_an_untrusted_certificate(post, server, monkeypatch, provider):
    post.use(provider, "outbox")
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")

    job = await post.run(await post.enqueue())

    assert (job.status, job.attempt_count, job.output["provider"]) == ("succeeded", 1, "outbox")
    assert server.requests == []


async def test_authorities_that_cannot_be_read_are_refused_at_the_start(post, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with pytest.raises(SettingsError, match="SSL_CERT_FILE"):
        post.use()
    post.use("outbox", resend_api_key=None, ms_client_secret=None)  # it needs none


async def test_another_provider_sends_where_one_cannot_be_reached(post, server):
    post.use(ms_graph_url="https://127.0.0.1:1/v1.0", ms_authority_url="https://127.0.0.1:1")

    assert (await post.run(await post.enqueue())).output["provider"] == "resend"


@pytest.mark.parametrize("delivered", [False, True])
@pytest.mark.parametrize(
    "play", some([{"cut": True}, {"status": 500}, {"status": 503}], every=3), ids=some(["cut", "500", "503"], every=3)
)
async def test_a_provider_that_may_have_sent_it_is_asked_again_and_no_other_is_tried(post, server, play, delivered):
    server.play("send", Play(**play, deliver=delivered))
    job_id = await post.enqueue()

    job = await post.finish(job_id)

    assert (job.status, job.output["provider"]) == ("succeeded", "microsoft")
    assert server.asked("resend") == []
    assert server.deliveries == {str(job_id): 1}


async def test_an_open_outcome_at_the_second_provider_stays_with_it(post, server):
    server.play("draft", Play(status=500))
    server.play("resend", Play(cut=True, deliver=True))
    job_id = await post.enqueue()

    job = await post.finish(job_id)

    assert (job.status, job.output["provider"]) == ("succeeded", "resend")
    assert len(server.asked("draft")) == 1
    assert server.deliveries == {str(job_id): 1}


async def test_an_open_outcome_is_resolved_also_by_a_provider_that_is_no_longer_chosen(post, server):
    server.play("send", Play(cut=True, deliver=True))
    job_id = await post.enqueue()
    await post.run(job_id)

    post.use("resend")

    assert (await post.finish(job_id)).output["provider"] == "microsoft"
    assert server.deliveries == {str(job_id): 1}


async def test_an_open_outcome_of_a_provider_without_credentials_is_unknown(post, server):
    server.play("send", Play(cut=True, deliver=True))
    job_id = await post.enqueue()
    await post.run(job_id)

    post.use("resend", ms_client_secret=None)
    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert "MS_CLIENT_SECRET" in job.error["message"]
    assert server.deliveries == {str(job_id): 1}


async def test_a_draft_that_was_refused_is_removed_before_another_provider_sends_the_mail(post, server):
    server.play("send", Play(status=429))
    server.play("resend", Play(status=429, body={"name": "rate_limit_exceeded", "message": "Slow."}))
    job_id = await post.enqueue()
    await post.run(job_id)
    assert [name for name, _ in server.requests][-4:] == ["lookup", "lookup", "delete", "resend"]
    assert not server.drafts
    server.play("send", Play(status=429))

    job = await post.finish(job_id)

    assert (job.output["provider"], server.deliveries) == ("resend", {str(job_id): 1})
    assert not server.drafts


async def test_when_all_are_throttled_the_first_that_is_free_again_counts(post, server):
    server.play("draft", Play(status=429, headers={"Retry-After": "600"}))
    body = {"name": "rate_limit_exceeded", "message": "Slow."}
    server.play("resend", Play(status=429, headers={"Retry-After": "90"}, body=body))

    job = await post.run(await post.enqueue())

    assert (job.status, job.retry_count) == ("queued", 1)
    assert 80 < (job.next_retry_at - datetime.now(UTC)).total_seconds() < 105


async def test_when_all_refuse_permanently_the_job_fails_with_all_their_messages(post, server):
    server.play("draft", Play(status=403, body=DENIED))
    server.play("resend", Play(status=403, body=INVALID))

    job = await post.run(await post.enqueue())

    assert (job.status, job.attempt_count) == ("failed", 1)
    assert "ErrorAccessDenied" in job.error["message"]
    assert "invalid_api_key" in job.error["message"]


async def test_none_refuses_with_a_clear_error(post):
    post.use("none")

    job = await post.run(await post.enqueue())

    assert (job.status, job.attempt_count) == ("failed", 1)
    assert "OUTBOUND_EMAIL_PROVIDER" in job.error["message"]
