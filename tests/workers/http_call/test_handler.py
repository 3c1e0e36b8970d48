"""HTTP_CALL: what is sent, what is kept of the response, and what is tried again."""

import base64
import hashlib
import hmac
import time
from datetime import UTC, datetime

import pytest

from atlas.engine.admission import admit
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.webhooks.signature import new_secret
from atlas.errors import InvalidInput
from atlas.workers.http_call import know_http_call
from tests.support import DANA
from tests.workers.http_call.receiver import CUT, SILENCE, response

TOKEN = "t0ken-of-the-receiver"


async def test_a_call_sends_its_body_as_json_with_the_jobs_id(calls, receiver):
    receiver.responses.append(response(201, b'{"id": 7}', content_type="application/json", set_cookie="a=b"))
    job_id = await calls.enqueue(
        url=f"{receiver.url}/orders?a=1", method="PUT", headers={"X-Kind": "new"}, body={"n": 1}
    )

    job = await calls.run(job_id)

    assert job.status == "succeeded", job.error
    [sent] = receiver.received
    assert (sent.method, sent.path, sent.json) == ("PUT", "/orders?a=1", {"n": 1})
    assert sent.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["x-kind"] == "new"
    assert sent.headers["idempotency-key"] == str(job_id)
    assert "webhook-signature" not in sent.headers
    assert job.output == {
        "status": 201,
        "headers": {"content-length": "9", "content-type": "application/json"},
        "body": {"id": 7},
        "truncated": False,
    }


async def test_a_text_is_sent_as_it_is(calls, receiver):
    assert (await calls.call(url=receiver.url, body="a=1&b=ü")).status == "succeeded"
    assert (await calls.call(url=receiver.url, method="GET")).status == "succeeded"

    text, bare = receiver.received
    assert (text.body, text.headers["content-type"]) == ("a=1&b=ü".encode(), "text/plain; charset=utf-8")
    assert (bare.body, "content-type" in bare.headers) == (b"", False)


async def test_only_the_beginning_of_a_large_response_is_kept(calls, receiver):
    receiver.responses.append(response(200, b"[" + b"1," * 200_000, content_type="application/json"))

    job = await calls.call(url=receiver.url)

    assert (job.status, job.output["truncated"]) == ("succeeded", True)
    assert len(job.output["body"]) == 64 * 1024


async def test_secrets_are_sent_and_shown_nowhere(calls, receiver, owner):
    receiver.responses.append(response(200, f"welcome {TOKEN}".encode(), echo=TOKEN))
    job_id = await calls.enqueue(
        url=f"{receiver.url}/${{path}}",
        headers={"Authorization": "Bearer ${token}"},
        secrets={"token": TOKEN, "path": "s3cret-path"},
    )
    before = await owner.fetchval("select input::text from atlas.jobs where id = $1", job_id)

    job = await calls.run(job_id)

    [sent] = receiver.received
    assert (sent.headers["authorization"], sent.path) == (f"Bearer {TOKEN}", "/s3cret-path")
    shown = before + str(job) + "".join([str(row) for row in await owner.fetch("select * from atlas.audit_log")])
    assert TOKEN not in shown
    assert "s3cret-path" not in shown
    assert job.output["body"].startswith("welcome [secret ")


@pytest.mark.parametrize("secret", [new_secret(), "a text of one's own"], ids=["new", "chosen"])
async def test_a_signature_is_that_of_standard_webhooks(calls, receiver, secret):
    job_id = await calls.enqueue(url=receiver.url, body={"n": 1}, secrets={"key": secret}, sign="key")

    assert (await calls.run(job_id)).status == "succeeded"

    [sent] = receiver.received
    key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
    signed = f"{job_id}.{sent.headers['webhook-timestamp']}.".encode() + sent.body
    digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert sent.headers["webhook-id"] == str(job_id)
    assert sent.headers["webhook-signature"] == f"v1,{digest}"
    assert abs(int(sent.headers["webhook-timestamp"]) - time.time()) < 60


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
async def test_a_passing_failure_is_tried_again_when_the_server_asks_for_it(calls, receiver, status):
    receiver.responses.append(response(status, b"not now", retry_after="120"))
    job_id = await calls.enqueue(url=receiver.url)

    job = await calls.run(job_id)

    assert (job.status, job.retry_count) == ("queued", 1)
    assert 110 < (job.next_retry_at - datetime.now(UTC)).total_seconds() < 140
    assert job.error["message"] == f"The server responded with {status}: not now"
    await calls.make_due(job_id)
    assert (await calls.run(job_id)).status == "succeeded"
    assert [one.headers["idempotency-key"] for one in receiver.received] == [str(job_id)] * 2


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422])
async def test_other_refusals_are_permanent(calls, receiver, status):
    receiver.responses.append(response(status, b"no\n such   thing"))

    job = await calls.call(url=receiver.url)

    assert (job.status, job.attempt_count) == ("failed", 1)
    assert job.error["message"] == f"The server responded with {status}: no such thing"
    assert job.error["status"] == status


async def test_a_redirect_is_not_followed(calls, receiver):
    receiver.responses.append(response(307, location=f"{receiver.url}/elsewhere"))

    job = await calls.call(url=receiver.url)

    assert (job.status, len(receiver.received)) == ("failed", 1)
    assert "redirects with 307" in job.error["message"]


@pytest.mark.parametrize(("reply", "words"), [(CUT, "The request failed"), (SILENCE, "did not respond within 1 s")])
async def test_a_call_without_a_response_is_tried_again(calls, receiver, reply, words):
    receiver.responses.append(reply)
    job_id = await calls.enqueue(url=receiver.url, timeout_seconds=1)

    job = await calls.run(job_id)

    assert job.status == "queued"
    assert words in job.error["message"]
    await calls.make_due(job_id)
    assert (await calls.run(job_id)).status == "succeeded"


@pytest.mark.parametrize(
    ("input", "field", "words"),
    [
        ({}, "url", "is required"),
        ({"url": "ftp://example.com"}, "url", "is not the address of a server"),
        ({"url": "https:///path"}, "url", "is not the address of a server"),
        ({"url": "https://a b.example"}, "url", "holds a space"),
        ({"url": "https://user:pass@example.com"}, "url", "send them in a header"),
        ({"url": "https://example.com/${token}"}, "url", "which is not in `secrets`"),
        ({"headers": {"Bad Name": "x"}}, "headers", "is not the name of a header"),
        ({"headers": {"X": "a\r\nInjected: b"}}, "headers", "holds a control character"),
        ({"headers": {"X": "a${key}"}, "secrets": {"key": "line\nbreak"}}, "headers", "holds a control character"),
        ({"headers": {"Host": "other.example"}}, "headers", "is written by Atlas"),
        ({"headers": {"webhook-signature": "v1,x"}}, "headers", "is written by Atlas"),
        ({"headers": {"X": "1", "x": "2"}}, "headers", "named twice"),
        ({"sign": "key"}, "sign", "is not a name in `secrets`"),
        ({"secrets": {"key": "abc"}}, "secrets.key", "at least 4 characters"),
        ({"method": "TRACE"}, "method", "Input should be"),
        ({"timeout_seconds": 301}, "timeout_seconds", "less than or equal to 300"),
    ],
)
async def test_what_cannot_be_sent_is_refused_when_it_is_enqueued(calls, conn, input, field, words):
    asked = {"url": "https://example.com", **input} if input else {}
    with pytest.raises(InvalidInput) as refused:
        await enqueue(conn, NewJob("HTTP_CALL", asked), actor=DANA)

    assert [error for error in refused.value.errors if error.field == field and words in error.reason], (
        refused.value.errors
    )


async def test_secrets_are_taken_out_before_any_worker_has_published_the_type(conn, monkeypatch):
    monkeypatch.setattr("atlas.engine.jobs.handlers.types._registry", {})
    know_http_call()
    asked = {"url": "https://example.com/${token}", "secrets": {"token": TOKEN}}

    for job in (NewJob("HTTP_CALL", asked), await admit(conn, NewJob("HTTP_CALL", asked))):
        made = await enqueue(conn, job, actor=DANA)
        assert TOKEN not in await conn.fetchval("select input::text from atlas.jobs where id = $1", made.id)
        assert await conn.fetchval("select count(*) from atlas.job_secrets where job_id = $1", made.id) == 1
