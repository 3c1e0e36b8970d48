"""The input of EMAIL_SEND: refused field by field at enqueue, and failed permanently if it got in some other way."""

import base64

import jsonschema_rs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from atlas.engine.jobs.handlers.types import canonical, field_errors
from atlas.errors import InvalidInput
from atlas.workers.email import EmailInput
from atlas.workers.email.addresses import Address, parse_address, shorten
from tests.workers.email.given import MAIL

# Thirty ways to smuggle a line into a head: every character that some reader takes for a line break.
BREAKS = [
    "\r\n",
    "\n",
    "\r",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x85",
    "\u2028",
    "\u2029",
    "\x00",
    "\n\n",
    "\r\r",
    "\n\r",
]
SMUGGLED = [f"Hello{mark}{line}" for mark in BREAKS for line in ("Bcc: eve@example.com", "\tX-Evil: 1")]
assert len(SMUGGLED) == 30

ATTACHMENT = {"name": "a.pdf", "contentType": "application/pdf", "base64": "aGVsbG8="}


def in_head_field(field: str, text: str) -> dict:
    """A mail with the text in one of the fields that become headers."""
    match field:
        case "to" | "cc" | "bcc" | "replyTo":
            return {**MAIL, field: f"{text}@example.com"}
        case "name":
            return {**MAIL, "to": {"address": "ada@example.com", "name": text}}
        case "quoted name":
            return {**MAIL, "to": f'"{text}" <ada@example.com>'}
        case "attachment":
            return {**MAIL, "attachments": [{**ATTACHMENT, "name": text}]}
        case "contentType":
            return {**MAIL, "attachments": [{**ATTACHMENT, "contentType": f"text/plain; x={text}"}]}
        case _:
            return {**MAIL, field: text}


HEAD_FIELDS = [
    "subject",
    "to",
    "cc",
    "bcc",
    "replyTo",
    "name",
    "quoted name",
    "fromAgent",
    "traceId",
    "attachment",
    "contentType",
]


@pytest.mark.parametrize("field", HEAD_FIELDS)
async def test_no_line_can_be_injected_into_a_header(post, field):
    for text in SMUGGLED:
        with pytest.raises(InvalidInput) as refused:
            await post.enqueue(in_head_field(field, text))
        assert text not in str(refused.value)

    assert await post.pool.fetchval("select count(*) from atlas.jobs") == 0


@pytest.mark.parametrize(
    ("input", "field", "reason"),
    [
        ({}, "to", "required"),
        ({"to": "ada@example.com", "text": "x"}, "subject", "required"),
        ({**MAIL, "subject": ""}, "subject", "at least 1"),
        ({**MAIL, "subject": "x" * 999}, "subject", "at most 998"),
        ({**MAIL, "subject": 7}, "subject", "valid string"),
        ({**MAIL, "to": []}, "to", "has no address"),
        ({**MAIL, "to": None}, "to", "has no address"),
        ({**MAIL, "to": 7}, "to", "must be an address"),
        ({**MAIL, "to": "nobody"}, "to", "is not an address"),
        ({**MAIL, "to": "a b@example.com"}, "to", "is not an address"),
        ({**MAIL, "to": "ada@example.com, bob@example.com"}, "to", "is not an address"),
        ({**MAIL, "to": "Ada, Bob <bob@example.com>"}, "to", "single address"),
        ({**MAIL, "to": "<ada@example.com> <bob@example.com>"}, "to", "single address"),
        ({**MAIL, "to": "ada@exa_mple.com"}, "to", "domain"),
        ({**MAIL, "to": "ada@intranet"}, "to", "domain"),
        ({**MAIL, "to": "ada@" + "x." * 130 + "com"}, "to", "domain"),
        ({**MAIL, "to": "a" * 65 + "@example.com"}, "to", "is not an address"),
        ({**MAIL, "to": "ädä@example.com"}, "to", "is not an address"),
        ({**MAIL, "to": ["ada@example.com", "nobody"]}, "to", "address 2 of 2 is not an address"),
        ({**MAIL, "to": {"address": "ada@example.com", "nme": "Ada"}}, "to", "object with address and name"),
        ({**MAIL, "to": ["ada@example.com"] * 51}, "to", "more than 50"),
        ({**MAIL, "to": ["ada@example.com"] * 30, "cc": ["bob@example.com"] * 21}, "cc", "more than 50"),
        ({**MAIL, "cc": ["ada@example.com"] * 30, "bcc": ["bob@example.com"] * 20}, "bcc", "more than 50"),
        ({"to": "ada@example.com", "subject": "x"}, "text", "required where there is no html"),
        ({"to": "ada@example.com", "subject": "x", "text": "", "html": ""}, "text", "required where there is no html"),
        ({**MAIL, "subjct": "x"}, "subjct", "not permitted"),
        ({**MAIL, "fromAgent": "../../etc"}, "fromAgent", "pattern"),
        ({**MAIL, "attachments": [{**ATTACHMENT, "base64": "not base64!"}]}, "attachments.0.base64", "is not base64"),
        ({**MAIL, "attachments": [{**ATTACHMENT, "contentType": "pdf"}]}, "attachments.0.contentType", "content type"),
        (
            {**MAIL, "attachments": [{**ATTACHMENT, "contentType": "message/rfc822"}]},
            "attachments.0.contentType",
            "file",
        ),
        (
            {**MAIL, "attachments": [{**ATTACHMENT, "contentType": f"text/plain; x={'y' * 242}"}]},
            "attachments.0.contentType",
            "at most 255",
        ),
        ({**MAIL, "attachments": [{"name": "a"}]}, "attachments.0.contentType", "required"),
    ],
)
async def test_wrong_input_is_refused_with_the_field_and_the_reason(post, input, field, reason):
    with pytest.raises(InvalidInput) as refused:
        await post.enqueue(input)

    assert any(error.field == field and reason in error.reason for error in refused.value.errors), refused.value.errors


async def test_a_mail_of_more_than_three_mebibytes_is_refused(post):
    half = base64.b64encode(bytes(1_200_000)).decode()
    fits = {**MAIL, "attachments": [{**ATTACHMENT, "base64": half}]}
    await post.enqueue(fits)

    with pytest.raises(InvalidInput) as refused:
        await post.enqueue({**fits, "attachments": fits["attachments"] * 2})

    assert [str(error) for error in refused.value.errors] == ["attachments: brings the mail to more than 3 MiB"]


@pytest.mark.parametrize(
    ("wrong", "received"),
    [
        ({"text": "ü" * 1_600_000}, "text: brings the mail to more than 3 MiB"),
        ({"html": "€" * 1_100_000}, "html: is larger than 3 MiB"),
        ({"html": "ü" * 800_000, "text": "ü" * 800_000}, "text: brings the mail to more than 3 MiB"),
        (
            {"text": "ü" * 1_500_000, "attachments": [{**ATTACHMENT, "base64": "aaaa" * 50_000}]},
            "attachments: brings the mail to more than 3 MiB",
        ),
    ],
)
def test_bytes_are_counted_not_characters(wrong, received):
    with pytest.raises(ValidationError) as refused:
        EmailInput.model_validate({**MAIL, **wrong})

    assert [str(error) for error in field_errors(refused.value)] == [received]


@pytest.mark.parametrize("alias", ["EMAIL_SEND", "EMAILSEND", "email_send"])
async def test_other_spellings_are_stored_as_the_one_and_checked_alike(post, alias):
    job_id = await post.enqueue(job_type=alias)

    assert canonical(alias) == (await post.job(job_id)).job_type == "EMAIL_SEND"
    with pytest.raises(InvalidInput):
        await post.enqueue({"to": "x"}, job_type=alias)


@pytest.mark.parametrize(
    "input", [{"to": "nobody", "subject": "x", "text": "y"}, {**MAIL, "subject": "a\nBcc: e@x.com"}]
)
async def test_wrong_input_that_got_in_some_other_way_fails_the_job_permanently(post, server, input):
    job_id = await post.pool.fetchval(
        "select id from atlas.enqueue('system', 'email_send', $1::text::jsonb)", orjson.dumps(input).decode()
    )

    job = await post.run(job_id)

    assert (job.status, job.attempt_count, job.retry_count, job.dead_lettered_at) == ("failed", 1, 1, None)
    assert "The input does not fit EMAIL_SEND" in job.error["message"]
    assert server.requests == []


@pytest.mark.parametrize(
    ("given_as", "meant"),
    [
        ("ada@example.com", Address("ada@example.com")),
        (" ada@example.com ", Address("ada@example.com")),
        ("Ada Lovelace <ada@example.com>", Address("ada@example.com", "Ada Lovelace")),
        ("<ada@example.com>", Address("ada@example.com")),
        ('"Lovelace, Ada" <ada@example.com>', Address("ada@example.com", "Lovelace, Ada")),
        (r'"The \"Countess\"" <ada@example.com>', Address("ada@example.com", 'The "Countess"')),
        ("Ädä <Ada+tag@sub.example.com>", Address("Ada+tag@sub.example.com", "Ädä")),
        ("ada@bücher.example", Address("ada@xn--bcher-kva.example")),
        # Another domain than strasse.example: that is what the rules of 2003 made of it.
        ("ada@straße.example", Address("ada@xn--strae-oqa.example")),
        ("root@localhost", Address("root@localhost")),
        ({"address": "ada@example.com"}, Address("ada@example.com")),
        ({"address": "ada@example.com", "name": None}, Address("ada@example.com")),
    ],
)
def test_an_address_may_be_written_in_several_ways(given_as, meant):
    assert parse_address(given_as) == meant
    assert parse_address(str(meant)) == meant


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=60))
def test_a_name_survives_being_written_and_read(name):
    address = Address("ada@example.com", name.strip())
    assert parse_address(str(address)) == address


def test_shown_addresses_are_shortened():
    assert shorten("to dana@example.com, <x.y+z@sub.example.org>!") == "to d***@example.com, <x***@sub.example.org>!"
    assert shorten("no address @ all") == "no address @ all"
    shorten("a" * 1_000_000)


async def test_the_published_schema_refuses_the_same_without_this_code():
    """An API or a client in another language checks by the schema alone."""
    schema = TypeAdapter(EmailInput).json_schema()
    fits = jsonschema_rs.validator_for(schema).is_valid

    assert fits(MAIL)
    assert fits({**MAIL, "to": ["ada@example.com", {"address": "bob@example.com", "name": None}], "cc": None})
    assert fits({**MAIL, "to": '"Lovelace, Ada" <ada@example.com>', "attachments": [ATTACHMENT]})
    assert fits({"to": "ada@example.com", "subject": "x", "html": "<p>"})
    assert fits({**MAIL, "attachments": None})
    assert fits({**MAIL, "attachments": [{**ATTACHMENT, "contentType": f"text/plain; x={'y' * 241}"}]})
    for field in HEAD_FIELDS:
        assert not any(fits(in_head_field(field, text)) for text in SMUGGLED), field
    for wrong in (
        {},
        {**MAIL, "to": []},
        {**MAIL, "to": "nobody"},
        {**MAIL, "to": ["ada@example.com"] * 51},
        {**MAIL, "subject": ""},
        {**MAIL, "subjct": "x"},
        {"to": "ada@example.com", "subject": "x"},
        {"to": "ada@example.com", "subject": "x", "text": ""},
        {**MAIL, "attachments": [{**ATTACHMENT, "contentType": f"text/plain; x={'y' * 242}"}]},
    ):
        assert not fits(wrong), wrong
