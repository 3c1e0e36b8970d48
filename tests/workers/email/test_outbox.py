"""The outbox: real mails as files, one a job, whole or not there at all."""

import email
import email.policy
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from atlas.cli.main import app
from atlas.engine.outbox_files import MailUnreadable, list_mails, outbox_folder
from atlas.engine.tenants.tenants import add_tenant
from atlas.ids import new_id
from atlas.settings import Settings
from atlas.workers.email.addresses import Address
from atlas.workers.email.message import EmailInput
from atlas.workers.email.mime import render
from atlas.workers.email.outbox import write_mail
from tests.support import DANA, PROOF
from tests.workers.email.given import MAIL

FULL = {
    "to": ["Ada Lovelace <ada@example.com>", {"address": "bob@example.com", "name": "Bücher, Bob"}],
    "cc": "carla@example.com",
    "bcc": ["dan@example.com"],
    "replyTo": "reply@example.com",
    "subject": "Grüße aus dem Süden",
    "text": "Plain words,\nin lines — two of them.",
    "html": "<p>Rich words</p>",
    "attachments": [{"name": "Übersicht.pdf", "contentType": "application/pdf", "base64": "JVBERi0="}],
    "traceId": "trace-1",
}


@pytest.fixture(autouse=True)
def by_outbox(post):
    post.use("outbox")


def files(post) -> list[Path]:
    return sorted(outbox_folder(post.settings.home).rglob("*"))


async def test_a_mail_becomes_a_file_that_any_mail_program_reads(post):
    job_id = await post.enqueue(FULL)

    job = await post.run(job_id)

    assert job.status == "succeeded", job.error
    path = outbox_folder(post.settings.home) / "system" / f"{job_id}.eml"
    message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    assert [str(address) for address in message["To"].addresses] == [
        "Ada Lovelace <ada@example.com>",
        '"Bücher, Bob" <bob@example.com>',
    ]
    assert (message["From"], message["Cc"], message["Bcc"]) == (
        "Atlas <mail@atlas.example>",
        "carla@example.com",
        "dan@example.com",
    )
    assert (message["Subject"], message["X-Atlas-Trace"]) == ("Grüße aus dem Süden", "trace-1")
    assert message.get_body(("plain",)).get_content().splitlines() == FULL["text"].splitlines()
    assert message.get_body(("html",)).get_content().strip() == FULL["html"]
    [file] = message.iter_attachments()
    assert (file.get_filename(), file.get_content()) == ("Übersicht.pdf", b"%PDF-")
    assert job.output == {
        "provider": "outbox",
        "messageId": message["Message-ID"].strip("<>"),
        "sender": message["From"],
    }
    assert await post.events(job_id) == ["JOB_CREATED", "EMAIL_SENT"]


async def test_each_tenant_has_a_folder_that_only_its_owner_may_read(post):
    async with post.pool.acquire() as conn:
        acme = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    job_id = await post.enqueue(tenant_id=acme.id)

    await post.run(job_id)

    path = outbox_folder(post.settings.home) / "acme" / f"{job_id}.eml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_job_that_runs_twice_makes_one_mail(post):
    job_id = await post.enqueue()
    await post.run(job_id)
    await post.pool.execute("update atlas.jobs set status = 'queued', finished_at = null where id = $1", job_id)

    await post.run(job_id)

    assert [path.name for path in files(post) if path.is_file()] == [f"{job_id}.eml"]


async def test_a_folder_that_cannot_be_written_is_tried_again(post, tmp_path):
    (tmp_path / "outbox").write_text("in the way")
    job_id = await post.enqueue()

    job = await post.run(job_id)
    assert (job.status, job.retry_count) == ("queued", 1)
    assert "cannot be written" in job.error["message"]

    (tmp_path / "outbox").unlink()
    assert (await post.finish(job_id)).status == "succeeded"


def test_a_mail_that_cannot_be_finished_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        write_mail(str(tmp_path), "system", "an-id", b"x")
    assert list((tmp_path / "system").iterdir()) == []


def test_the_outbox_is_the_default_of_the_embedded_set_up_and_nothing_is_elsewhere():
    assert Settings().email_order == ("outbox",)
    assert Settings(database_url="postgresql://db/atlas").email_order == ("none",)


def show(*arguments: str) -> Result:
    """Run the command in a thread: the tests have an event loop, and it makes its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(CliRunner().invoke, app, ["outbox", *arguments]).result()


async def test_the_outbox_is_listed_and_shown_by_the_command(post, monkeypatch):
    first, second = await post.enqueue(FULL), await post.enqueue()
    await post.drain()
    monkeypatch.setenv("ATLAS_HOME", str(post.settings.home))

    listed = orjson.loads(show("list", "--json").stdout)
    assert {mail["job_id"] for mail in listed["mails"]} == {str(first), str(second)}
    table = show("list", "--tenant", "system").stdout
    assert "Grüße aus dem Süden" in table

    shown = show("show", str(first)).stdout
    assert "Bcc: dan@example.com" in shown
    assert "in lines — two of them." in shown
    assert "Attachment: Übersicht.pdf" in shown
    document = orjson.loads(show("show", str(first), "--json").stdout)
    assert document["attachments"] == ["Übersicht.pdf"]
    raw = show("show", str(second), "--raw").stdout
    assert f"X-Atlas-Job: {second}" in raw


@pytest.mark.parametrize("name", ["nothing", "../../etc/passwd", "00000000-0000-7000-8000-000000000009"])
async def test_a_mail_that_does_not_exist_is_not_found(post, monkeypatch, name):
    monkeypatch.setenv("ATLAS_HOME", str(post.settings.home))

    assert "There is no mail of job" in str(show("show", name).exception)


async def test_a_mail_cannot_steer_the_terminal_that_shows_it(post, monkeypatch):
    evil = "\x1b]0;title\x07red\x1b[31m \x9b2Jdone \x1bc\u202eback"
    job_id = await post.enqueue({**MAIL, "to": "ada@example.com", "text": evil})
    await post.run(job_id)
    monkeypatch.setenv("ATLAS_HOME", str(post.settings.home))

    shown = show("show", str(job_id)).stdout
    assert shown.endswith("\n\nred done \\u202eback\n")
    assert orjson.loads(show("show", str(job_id), "--json").stdout)["body"].startswith(evil)


async def test_a_file_that_cannot_be_read_is_named_and_the_others_are_listed(post, monkeypatch):
    job_id = await post.enqueue()
    await post.run(job_id)
    monkeypatch.setenv("ATLAS_HOME", str(post.settings.home))
    folder, lost, odd, deep = outbox_folder(post.settings.home) / "system", new_id(), new_id(), new_id()
    (folder / f"{lost}.eml").symlink_to(folder / "gone")
    (folder / f"{odd}.eml").mkdir()
    (folder / f"{deep}.eml").write_bytes(b"From: " + 3000 * b"(" + b"\r\n\r\nHello")

    listed = {mail["job_id"]: mail["problem"] for mail in orjson.loads(show("list", "--json").stdout)["mails"]}
    assert listed == {
        str(job_id): None,
        str(lost): "it is a link to nothing",
        str(odd): "Is a directory",
        str(deep): "it is not a mail",
    }
    assert "(cannot be read: it is a link to nothing)" in show("list").stdout
    assert f"{lost}.eml cannot be read: it is a link to nothing." in str(show("show", str(lost)).exception)
    assert isinstance(show("show", str(odd)).exception, MailUnreadable)
    assert isinstance(show("show", str(deep)).exception, MailUnreadable)


@pytest.mark.parametrize(
    "content",
    [
        "Subject: café\r\n\r\ncafé".encode(),
        "Subject: café\r\n\r\ncafé".encode("latin-1"),
        b"Subject: caf\xe9\r\nContent-Type: text/plain; charset=nobody\r\n\r\ncaf\xe9",
        b"Content-Type: text/plain; charset=idna\r\n\r\ncaf\xe9",
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\ncaf\xe9",
        b"\xff\xfe\x00",
        b"",
    ],
)
async def test_a_mail_that_someone_else_wrote_is_shown_as_far_as_it_can_be(post, monkeypatch, content):
    monkeypatch.setenv("ATLAS_HOME", str(post.settings.home))
    job_id = new_id()
    write_mail(str(outbox_folder(post.settings.home)), "system", job_id, content)

    assert [mail["problem"] for mail in orjson.loads(show("list", "--json").stdout)["mails"]] == [None]
    document = orjson.loads(show("show", str(job_id), "--json").stdout)
    assert ("caf" in document["body"]) == (b"caf" in content)
    assert show("show", str(job_id)).exit_code == 0
    assert show("show", str(job_id), "--raw").stdout_bytes == content


def test_an_empty_outbox_is_an_empty_list(tmp_path):
    assert list_mails(outbox_folder(tmp_path)) == []


# What may stand in a head, and what may stand in a body.
HEAD = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=200).filter(str.strip)
BODY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=400)


@settings(max_examples=2000 if PROOF else 50)
@given(subject=HEAD, name=HEAD, text=BODY, html=st.none() | BODY, file=HEAD, trace=st.none() | HEAD)
def test_what_is_written_is_what_is_read(subject, name, text, html, file, trace):
    asked = EmailInput.model_validate(
        {
            **MAIL,
            "to": {"address": "ada@example.com", "name": name[:200]},
            "subject": subject,
            "text": text,
            "html": html,
            "attachments": [{"name": file[:200], "contentType": "application/pdf", "base64": "JVBERi0="}],
        }
    )
    headers = {} if trace is None else {"X-Atlas-Trace": trace}
    raw = render(asked, sender=Address("a@example.com"), message_id="x@example.com", headers=headers)

    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert b"\n" not in raw.replace(b"\r\n", b"")
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert [defect for part in message.walk() for defect in part.defects] == []
    assert {name.lower() for name in message} <= {
        "message-id",
        "date",
        "from",
        "to",
        "subject",
        "mime-version",
        "content-type",
        "x-atlas-trace",
    }
    assert as_words(str(message["Subject"])) == as_words(subject)
    assert len(message["To"].addresses) == 1
    [attached] = message.iter_attachments()
    assert attached.get_content() == b"%PDF-"
    body = message.get_body(("plain",))
    assert lines(body.get_payload(decode=True).decode(body.get_content_charset())) == lines(text)


def as_words(text: str) -> list[str]:
    """The reader of the standard library folds spaces."""
    return text.split()


def lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
