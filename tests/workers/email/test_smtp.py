"""Mail by SMTP, against a real server: what it accepts goes out once, and its replies decide what is tried again."""

from dataclasses import replace

import pytest

from atlas.engine.jobs.actions.retry import retry_now
from atlas.errors import SettingsError
from atlas.workers.email import register_email
from tests.support import DANA
from tests.workers.email.given import MAIL
from tests.workers.email.smtp_server import CUT, PASSWORD, USER, SmtpServer


@pytest.fixture
async def smtp(authority, post):
    """A server that takes mails over STARTTLS from those who sign in, and a post office that uses it."""
    server = SmtpServer(authority)
    async with server.running():
        post.use("smtp", smtp_host="127.0.0.1", smtp_port=server.port, smtp_user=USER, smtp_password=PASSWORD)
        yield server


async def test_a_mail_goes_to_all_of_its_recipients_under_the_jobs_id(post, smtp):
    job_id = await post.enqueue(
        {
            **MAIL,
            "cc": "carla@example.com",
            "bcc": "secretly@example.com",
            "text": "Hello.\n.\n..and a line that begins with dots",
            "html": "<p>Grüße</p>",
            "attachments": [{"name": "a.txt", "contentType": "text/plain", "base64": "aGVsbG8="}],
        }
    )

    job = await post.run(job_id)

    assert job.status == "succeeded", job.error
    [mail] = smtp.received
    assert mail.sender == "mail@atlas.example"
    assert mail.recipients == ["ada@example.com", "carla@example.com", "secretly@example.com"]
    assert mail.message["To"] == "Ada <ada@example.com>"
    assert mail.message["Bcc"] is None
    assert mail.message["Message-ID"] == f"<{job_id}@atlas.example>"
    assert mail.message["X-Atlas-Job"] == str(job_id)
    text, html = mail.message.get_body(("plain",)), mail.message.get_body(("html",))
    assert text.get_content().splitlines() == ["Hello.", ".", "..and a line that begins with dots"]
    assert html.get_content().strip() == "<p>Grüße</p>"
    assert job.output == {
        "provider": "smtp",
        "messageId": f"{job_id}@atlas.example",
        "sender": "Atlas <mail@atlas.example>",
    }
    assert await post.events(job_id) == ["JOB_CREATED", "EFFECT_INTENDED", "EFFECT_DONE", "EMAIL_SENT"]


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA"])
async def test_a_temporary_refusal_is_tried_again(post, smtp, command):
    smtp.replies[command].append("451 4.7.1 ada@example.com is greylisted")
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.retry_count) == ("queued", 1)
    assert job.error["message"] == (
        "The mail server 127.0.0.1 refused the mail with 451: 4.7.1 a***@example.com is greylisted."
    )
    assert (await post.finish(job_id)).status == "succeeded"
    assert len(smtp.received) == 1


@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA"])
async def test_a_permanent_refusal_fails_the_job(post, smtp, command):
    smtp.replies[command].append("550 5.1.1 no such user")

    job = await post.run(await post.enqueue({**MAIL, "to": ["ada@example.com", "bob@example.com"]}))

    assert (job.status, job.attempt_count) == ("failed", 1)
    assert "refused the mail with 550" in job.error["message"]
    assert "outcome" not in job.error
    assert smtp.received == []


async def test_no_one_gets_a_mail_that_one_recipient_cannot_get(post, smtp):
    smtp.replies["RCPT"].extend(["250 OK", "550 5.1.1 no such user"])

    job = await post.run(await post.enqueue({**MAIL, "to": ["ada@example.com", "bob@example.com"]}))

    assert job.status == "failed"
    assert smtp.received == []


async def test_a_mail_whose_reply_never_came_waits_for_an_operator(post, smtp):
    smtp.replies["DATA"].append(CUT)
    job_id = await post.enqueue()

    job = await post.finish(job_id)

    assert (job.status, job.error["outcome"]) == ("failed", "unknown")
    assert len(smtp.received) == 1
    async with post.pool.acquire() as conn:
        await retry_now(conn, job_id, actor=DANA)
    assert (await post.finish(job_id)).status == "succeeded"
    # Programs that compare the ids of messages show one of them.
    assert len({mail.message["Message-ID"] for mail in smtp.received}) == 1


async def test_a_connection_that_breaks_earlier_sends_nothing_and_is_tried_again(post, smtp):
    smtp.replies["RCPT"].append(CUT)
    job_id = await post.enqueue()

    job = await post.run(job_id)

    assert (job.status, job.error.get("outcome")) == ("queued", None)
    assert (await post.finish(job_id)).status == "succeeded"
    assert len(smtp.received) == 1


async def test_a_connection_serves_the_next_mail_unless_the_server_closed_it(post, smtp):
    for _ in range(2):
        assert (await post.run(await post.enqueue())).status == "succeeded"
    assert len(smtp.sessions) == 1

    smtp.hang_up()

    assert (await post.run(await post.enqueue())).status == "succeeded"
    assert len(smtp.sessions) == 2


async def test_a_server_that_is_away_leaves_the_mail_to_the_next_provider(post, smtp):
    post.use("smtp", "outbox", smtp_port=1)

    job = await post.run(await post.enqueue())

    assert (job.status, job.output["provider"]) == ("succeeded", "outbox")


async def test_a_wrong_password_is_said_without_the_password(post, smtp):
    post.use(smtp_password="an0ther s3cret")

    job = await post.run(await post.enqueue())

    assert job.status == "failed"
    assert "refused the mail with 535" in job.error["message"]
    assert "s3cret" not in str(job.error)


@pytest.mark.parametrize("named", ["localhost", "127.0.0.1"])
async def test_the_servers_certificate_must_be_for_its_name(post, smtp, named):
    post.use(smtp_host=named)

    job = await post.run(await post.enqueue())

    assert job.status == ("succeeded" if named == "127.0.0.1" else "queued"), job.error


async def test_a_server_without_starttls_gets_no_mail(post, authority):
    server = SmtpServer(authority)
    async with server.running(tls_context=None, require_starttls=False, auth_required=False):
        post.use("smtp", smtp_host="127.0.0.1", smtp_port=server.port)

        job = await post.run(await post.enqueue())
        assert job.status != "succeeded"
        assert server.received == []

        post.use(smtp_tls="none")
        assert (await post.run(await post.enqueue())).status == "succeeded"


async def test_tls_from_the_first_byte(post, authority):
    server = SmtpServer(authority)
    async with server.running(implicit_tls=True, auth_required=False):
        post.use("smtp", smtp_host="127.0.0.1", smtp_port=server.port, smtp_tls="tls")

        job = await post.run(await post.enqueue())

        assert job.status == "succeeded", job.error


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"smtp_user": "atlas"}, "SMTP_PASSWORD is not set"),
        ({"smtp_password": "x"}, "SMTP_USER is not set"),
        ({"smtp_user": "atlas", "smtp_password": "x", "smtp_tls": "none"}, "sent in clear"),
    ],
)
def test_a_login_that_is_half_or_in_clear_is_refused_at_start(settings, changes, named):
    with pytest.raises(SettingsError, match=named):
        register_email(replace(settings, **changes))
