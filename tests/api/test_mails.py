"""Mails over the API: refused with the field and the reason when they are enqueued, by a process that sends none."""

import pytest

from atlas.engine.jobs.handlers.types import registered
from atlas.workers.email import know_email
from tests.api.test_bad_input import assert_problem

MAIL = {"to": "ada@example.com", "subject": "Hello", "text": "Hello"}
FILE = {"name": "a.pdf", "contentType": "application/pdf", "base64": "aGVsbG8="}


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """As in the programs, whatever other tests registered in this process."""
    monkeypatch.setattr("atlas.engine.jobs.handlers.types._registry", {})
    monkeypatch.setattr("atlas.engine.jobs.handlers.types._models", {})
    monkeypatch.setattr("atlas.engine.tenants.tenants._models", {})
    know_email()


@pytest.mark.parametrize("job_type", ["EMAIL_SEND", "email_send"])
@pytest.mark.parametrize(
    ("wrong", "field", "reason"),
    [
        ({"to": "ada@x"}, "to", "has a domain that cannot exist"),
        ({"to": "a..b@x.com"}, "to", "is not an address such as ada@example.com"),
        ({"to": "ü@x.com"}, "to", "is not an address such as ada@example.com"),
        (
            {"to": "Ada, Bob <a@x.com>"},
            "to",
            "must be a single address; a name with special characters must be in quotes",
        ),
        ({"to": {"address": "a@x.com", "name": "x" * 201}}, "to", "has a name that is not a text of at most 200"),
        ({"to": ["ada@example.com"] * 30, "cc": ["bob@example.com"] * 21}, "cc", "more than 50"),
        ({"text": None}, "text", "is required where there is no html"),
        ({"attachments": [{**FILE, "base64": "not base64!"}]}, "attachments.0.base64", "is not base64"),
        ({"attachments": [{**FILE, "contentType": "multipart/mixed"}]}, "attachments.0.contentType", "of a file"),
    ],
)
async def test_a_wrong_mail_is_refused_with_the_field_and_the_reason(admin, job_type, wrong, field, reason):
    answer = await admin.post("/jobs", json={"job_type": job_type, "payload": {**MAIL, **wrong}})

    received = assert_problem(answer, 422, field)
    assert reason in received["errors"][0]["reason"]


@pytest.mark.parametrize(
    ("email", "field", "reason"),
    [
        ({"providers": ["nonsense"]}, "limits.email.providers.0", "'microsoft', 'resend', 'smtp', 'outbox' or 'none'"),
        ({"providers": []}, "limits.email.providers", "at least 1"),
        ({"from": "nobody"}, "limits.email.from", "is not an address such as ada@example.com"),
        ({"form": "mail@acme.example"}, "limits.email.form", "not permitted"),
        ({"per_minute": 0}, "limits.email.per_minute", "greater than or equal to 1"),
        ([], "limits.email", "must be an object"),
    ],
)
async def test_wrong_mail_settings_of_a_tenant_are_refused(operator, email, field, reason):
    answer = await operator.patch("/tenants/acme", json={"limits": {"email": email}})

    first, *_ = assert_problem(answer, 422)["errors"]
    assert (first["field"], reason in first["reason"]) == (field, True)


async def test_right_mail_settings_are_kept_and_wrong_ones_from_before_stop_no_other_change(operator, pool):
    limits = {"email": {"providers": ["resend", "outbox"], "from": "Acme <mail@acme.example>", "per_minute": 20}}
    answer = await operator.patch("/tenants/acme", json={"limits": limits})
    assert (answer.status_code, answer.json()["limits"]) == (200, limits)

    await pool.execute(
        """update atlas.tenants set limits = '{"email": {"providers": ["sendmail"]}}' where slug = 'acme'"""
    )
    answer = await operator.patch("/tenants/acme", json={"name": "Acme & Sons"})
    assert (answer.status_code, answer.json()["name"]) == (200, "Acme & Sons")


async def test_none_may_be_written_in_two_ways(admin):
    answer = await admin.post("/jobs", json={"job_type": "EMAIL_SEND", "payload": {**MAIL, "attachments": None}})
    assert answer.status_code == 201, answer.text


async def test_a_process_that_only_checks_mails_does_not_run_them(admin, operator):
    made = (await admin.post("/jobs", json={"job_type": "EMAIL_SEND", "payload": MAIL})).json()

    assert (await operator.post("/jobs/tick")).json()["ran"] == 0
    assert "EMAIL_SEND" not in registered()
    assert (await admin.get(f"/jobs/{made['id']}")).json()["status"] == "queued"
