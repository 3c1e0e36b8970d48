"""What the audit log, the logs and the rows hold about a mail: the facts, no secrets, and people only as commitments."""

import hashlib
import logging

import orjson
import pytest
import structlog

from atlas.audit.personal_data import erase
from tests.support import DANA
from tests.workers.email.given import KEY, MAIL, SECRET
from tests.workers.email.server import Play

# Letters that stand for a NUL in JSON, and are none here.
SUBJECT = r"About C:\u0000 and Ada"
PEOPLE = {**MAIL, "to": ["Ada <ada@example.com>", "bob@example.com"], "bcc": "eve@example.com", "subject": SUBJECT}


@pytest.mark.parametrize("provider", ["microsoft", "resend", "outbox"])
async def test_a_sent_mail_is_recorded_with_commitments_instead_of_people(post, server, provider):
    post.use(provider)
    job_id = await post.enqueue({**PEOPLE, "traceId": "trace-1"})

    job = await post.run(job_id)

    row = await post.pool.fetchrow("select * from atlas.audit_log where action = 'EMAIL_SENT'")
    meta = orjson.loads(row["meta"])
    assert (meta["provider"], meta["message_id"], meta["sender"], meta["trace_id"]) == (
        provider,
        job.output["messageId"],
        job.output["sender"],
        "trace-1",
    )
    assert row["entity_id"] == str(job_id)
    assert orjson.loads(row["body"])["meta"] == meta
    kept = {
        one["commitment"].hex(): (one["field"], one["value"], one["salt"])
        for one in await post.pool.fetch("select * from atlas.audit_private")
    }
    received = [one["commitment"] for one in [*meta["recipients"], meta["subject"]]]
    assert [kept[one][:2] for one in received] == [
        ("recipients", "ada@example.com"),
        ("recipients", "bob@example.com"),
        ("recipients", "eve@example.com"),
        ("subject", SUBJECT),
    ]
    for commitment, (_, value, salt) in kept.items():
        assert hashlib.sha256(salt + value.encode()).hexdigest() == commitment


async def test_a_person_can_be_erased_with_the_subjects_of_their_mails(post, server):
    post.use("outbox")
    await post.run(await post.enqueue(PEOPLE))

    async with post.pool.acquire() as conn:
        await erase(conn, "ada@example.com", actor=DANA)

    left = await post.pool.fetch("select field, value from atlas.audit_private order by value")
    assert [tuple(one) for one in left] == [("recipients", "bob@example.com"), ("recipients", "eve@example.com")]


@pytest.fixture
def logged(monkeypatch) -> list[str]:
    """Everything that is logged, by structlog and by the libraries, at any level."""
    lines: list[str] = []

    def keep(_logger, _name, event):
        lines.append(repr(event))
        raise structlog.DropEvent

    structlog.configure(processors=[keep], cache_logger_on_first_use=False)

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Keep()
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield lines
    root.removeHandler(handler)
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("provider", ["microsoft", "resend"])
async def test_secrets_and_whole_addresses_reach_no_log_no_row_and_no_event(post, server, logged, provider):
    post.use(provider)
    leaky = f"The key {KEY} and the secret {SECRET} of ada@example.com are wrong."
    graph = {"error": {"code": "Leaky", "message": leaky}}
    entra = {"error": "invalid_client", "error_description": leaky}
    resend = {"statusCode": 500, "name": "leaky", "message": leaky}
    server.play("token", Play(status=500, body=entra), Play(status=400, body=entra))
    server.play("draft", Play(status=500, body=graph), Play(status=403, body=graph))
    server.play("send", Play(status=500, body=graph), Play(cut=True), Play(status=403, body=graph))
    server.play("resend", Play(status=500, body=resend), Play(cut=True), Play(status=422, body=resend))
    for _ in range(5):
        await post.finish(await post.enqueue(PEOPLE))
    assert server.deliveries

    stored = await post.pool.fetch(
        "select error::text || output::text as received from atlas.jobs union all select error_text from atlas.job_attempts"
        " union all select message || meta::text || convert_from(body, 'UTF8') from atlas.audit_log"
        " union all select row_to_json(m)::text from atlas.effects m"
    )
    everything = "\n".join([*logged, *(one["received"] or "" for one in stored)])
    for secret in (KEY, SECRET, *server.tokens, "ada@example.com", "bob@example.com", "eve@example.com", SUBJECT):
        assert secret not in everything, secret
    assert "a***@example.com" in everything
    assert "[secret of the mail provider]" in everything
