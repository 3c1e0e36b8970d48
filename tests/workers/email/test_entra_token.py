"""Tokens of Microsoft Entra: shared, renewed in time, replaced when refused, and a clear reason where there is none."""

from urllib.parse import quote, quote_plus

import pytest

from tests.support import some
from tests.workers.email.given import SECRET
from tests.workers.email.server import GARBAGE, Play


@pytest.mark.long
async def test_many_mails_share_a_token_and_connections(post, server):
    jobs = [await post.enqueue() for _ in range(30)]

    await post.drain()

    assert server.deliveries == {str(job_id): 1 for job_id in jobs}
    assert len(server.asked("token")) == 1
    assert server.connections < 35


async def test_a_token_is_renewed_before_it_ends(post, server):
    server.token_life = 120
    first = await post.enqueue()
    await post.run(first)
    # As if 100 seconds had passed.
    post._mailers[-1]._providers["microsoft"]._graph._tokens._good_until -= 100

    second = await post.enqueue()
    assert (await post.run(second)).status == "succeeded"

    assert len(server.asked("token")) == 2


@pytest.mark.parametrize("endpoint", ["draft", "send"])
async def test_a_refused_token_is_replaced_once(post, server, endpoint):
    server.play(endpoint, Play(status=401))
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.attempt_count) == ("succeeded", 1)
    assert server.deliveries == {str(job_id): 1}
    assert len(server.asked("token")) == 2


async def test_a_token_that_is_always_refused_is_a_permanent_error(post, server):
    server.play("draft", Play(status=401), Play(status=401))
    job = await post.run(await post.enqueue())

    assert (job.status, job.attempt_count) == ("failed", 1)
    assert "InvalidAuthenticationToken: Access token is not accepted" in job.error["message"]


async def test_a_wrong_client_secret_is_a_permanent_error_with_entras_message(post, server):
    said = {"error": "invalid_client", "error_description": f"AADSTS7000215: Invalid client secret: {SECRET}."}
    server.play("token", Play(status=401, body=said))

    job = await post.run(await post.enqueue())

    assert (job.status, job.attempt_count) == ("failed", 1)
    assert "AADSTS7000215: Invalid client secret: [secret of the mail provider]" in job.error["message"]


async def test_a_secret_in_the_encoding_of_a_form_is_redacted_too(post, server, monkeypatch):
    secret = "p+q/r=s3cret&canary"
    post.use("microsoft", ms_client_secret=secret)

    def repeating(request, play):
        assert quote_plus(secret) in request.body.decode()
        return 400, {"error": "invalid_request", "error_description": f"{request.body.decode()} {quote(secret)}"}

    monkeypatch.setattr(server, "_token", repeating)
    job = await post.run(await post.enqueue())

    assert "client_secret=[secret of the mail provider]" in job.error["message"]
    received = await post.pool.fetch(
        "select error::text as received from atlas.jobs union all select error_text from atlas.job_attempts"
        " union all select message || meta::text from atlas.audit_log"
    )
    assert not any("canary" in (row["received"] or "") for row in received)


@pytest.mark.parametrize(
    "play", [Play(status=500, body=GARBAGE), Play(status=200, body=GARBAGE), Play(status=429, body={})]
)
async def test_a_token_endpoint_that_fails_is_asked_again(post, server, play):
    server.play("token", play)
    job_id = await post.enqueue()

    job = await post.run(job_id)
    assert job.status == "queued", job.error

    assert (await post.finish(job_id)).status == "succeeded"
    assert server.deliveries == {str(job_id): 1}


@pytest.mark.parametrize("endpoint", ["token", "discovery"])
@pytest.mark.parametrize("body", some([[], {"token_endpoint": "https://127.0.0.1/token"}, 7], every=3), ids=str)
async def test_a_malformed_response_is_no_token_and_another_provider_sends(post, server, monkeypatch, endpoint, body):
    post.use("microsoft", "outbox")
    monkeypatch.setattr(server, f"_{endpoint}", lambda request, play: (200, body))

    job = await post.run(await post.enqueue())

    assert (job.status, job.output.get("provider")) == ("succeeded", "outbox")
