"""Secret fields: kept apart and encrypted, shown as fingerprints, in clear to the attempt alone."""

import asyncio
import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import uuid4

import orjson
import pytest
from pydantic import BaseModel, Field

from atlas.engine.admission import admit, enqueue_definition
from atlas.engine.commands.definitions import add_definition
from atlas.engine.hosts.leased_jobs import claim_for_worker
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.finish import Notes, redact_error
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob, make_dedupe_key
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.secrets.fields import has_secrets
from atlas.engine.secrets.key import SecretKey, SecretsUnreadable, key_file, load_key, use_secret_key
from atlas.engine.secrets.redact import Redactor
from atlas.engine.secrets.store import reveal, split_secrets
from atlas.engine.tenants.tenants import add_tenant
from atlas.errors import DedupeConflict, InvalidInput
from atlas.settings import load_settings
from tests.engine.jobs.given import load
from tests.support import DANA

KEY = SecretKey(bytes(range(32)))
SECRET = {"type": "string", "x-secret": True}


class Login(BaseModel):
    user: str
    password: str = Field(json_schema_extra={"x-secret": True})


class SignIn(BaseModel):
    login: Login
    others: list[Login] = []


@job("secret.sign_in")
async def sign_in(input: SignIn, ctx: JobContext) -> None:
    return None


@pytest.fixture(autouse=True)
def own_key():
    use_secret_key(KEY)
    yield
    use_secret_key(None)


async def in_clear(conn: Any, job_id: Any) -> Any:
    row = await load(conn, job_id)
    return orjson.loads((await reveal(conn, row["id"], row["tenant_id"], row["input"]))[0])


def split(schema: dict[str, Any], value: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    shown, found = split_secrets(schema, value, SYSTEM_TENANT, KEY)
    return shown, {one.field: one.value for one in found}


def test_a_marked_field_is_found_wherever_the_schema_puts_it():
    node = {"properties": {"token": SECRET, "next": {"$ref": "#/$defs/node"}}}
    schemas = [
        ({"properties": {"a": {"properties": {"b": SECRET}}}}, {"a": {"b": "s3cret"}}, "/a/b"),
        ({"properties": {"a": {"items": SECRET}}}, {"a": ["s3cret"]}, "/a/0"),
        ({"properties": {"a": {"prefixItems": [{}, SECRET]}}}, {"a": ["open", "s3cret"]}, "/a/1"),
        ({"properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": SECRET}}, {"a": "s3cret"}, "/a"),
        ({"allOf": [{"properties": {"a": SECRET}}]}, {"a": "s3cret"}, "/a"),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, SECRET]}}}, {"a": "s3cret"}, "/a"),
        ({"if": {}, "then": {"properties": {"a": SECRET}}}, {"a": "s3cret"}, "/a"),
        ({"patternProperties": {"^tok": SECRET}}, {"token": "s3cret"}, "/token"),
        ({"additionalProperties": SECRET}, {"any": "s3cret"}, "/any"),
        ({"dependentSchemas": {"b": {"properties": {"a": SECRET}}}}, {"a": "s3cret"}, "/a"),
        (
            {"$ref": "#/$defs/node", "$defs": {"node": node}},
            {"next": {"next": {"token": "s3cret"}}},
            "/next/next/token",
        ),
        ({"properties": {"a/b~c": SECRET}}, {"a/b~c": "s3cret"}, "/a~1b~0c"),
        ({"properties": {"a": {"type": "object", "x-secret": True}}}, {"a": {"pin": "s3cret"}}, "/a"),
    ]
    for schema, value, place in schemas:
        shown, found = split(schema, value)
        assert list(found) == [place], schema
        assert "s3cret" not in str(shown)
        assert has_secrets(schema)


def test_what_is_not_marked_stays_as_it_is():
    value = {"a": "open", "x-secret": {"x-secret": "f"}, "b": [1, None, {"c": True}]}

    assert split({"properties": {"token": SECRET}}, value) == (value, {})
    assert split({"properties": {"token": SECRET}}, {"token": None}) == ({"token": None}, {})
    assert not has_secrets({"properties": {"a": {"x-secret": False}}})


def test_a_fingerprint_says_whether_two_secrets_are_equal_and_nothing_else():
    other = SecretKey(bytes(32))
    prints = [KEY.fingerprint(SYSTEM_TENANT, "s3cret"), KEY.fingerprint(SYSTEM_TENANT, "s3cret")]

    assert prints[0] == prints[1]
    assert len({prints[0], KEY.fingerprint(SYSTEM_TENANT, "s3cre7"), other.fingerprint(SYSTEM_TENANT, "s3cret")}) == 3


def test_a_value_too_short_to_be_found_again_is_no_secret():
    with pytest.raises(InvalidInput, match="pin: has fewer than 4 characters"):
        split({"properties": {"pin": SECRET}}, {"pin": "123"})


async def test_a_typed_handlers_secret_leaves_the_input_and_comes_back_in_clear(conn):
    value = {"login": {"user": "dana", "password": "hunter22"}, "others": [{"user": "kim", "password": "swordfish"}]}
    [made] = await enqueue_many(conn, [NewJob("secret.sign_in", value)], actor=DANA)

    stored = orjson.loads((await load(conn, made.id))["input"])
    assert stored["login"]["user"] == "dana"
    assert set(stored["login"]["password"]) == {"x-secret"}
    assert await in_clear(conn, made.id) == value
    rows = await conn.fetch("select field, ciphertext from atlas.job_secrets order by field")
    assert [row["field"] for row in rows] == ["/login/password", "/others/0/password"]
    assert not any(b"hunter22" in row["ciphertext"] for row in rows)


async def test_a_definitions_secret_does_the_same_for_those_who_know_only_the_schema(conn):
    schema = {"type": "object", "properties": {"token": SECRET}, "required": ["token"]}
    await add_definition(
        conn, {"key": "push", "argv": ["/opt/x"], "arg_schema": schema, "env": {"T": "{{token}}"}}, actor=DANA
    )

    made = await enqueue_definition(conn, "push", {"token": "hunter22"}, actor=DANA)
    assert "hunter22" not in (await load(conn, made.id))["input"]
    assert await in_clear(conn, made.id) == {"token": "hunter22"}


async def test_the_secrets_are_deleted_with_their_job(conn):
    made = await enqueue(conn, NewJob("secret.sign_in", {"login": {"user": "d", "password": "hunter22"}}), actor=DANA)
    assert await conn.fetchval("select count(*) from atlas.job_secrets") == 1

    await delete(conn, made.id, actor=DANA)
    assert await conn.fetchval("select count(*) from atlas.job_secrets") == 0


async def test_a_refused_enqueue_leaves_no_secret_behind(conn):
    good = NewJob("secret.sign_in", {"login": {"user": "d", "password": "hunter22"}})
    stranger = NewJob("secret.sign_in", good.input, tenant_id=good.id)

    with pytest.raises(Exception, match="There is no tenant"):
        await enqueue_many(conn, [good, stranger], actor=DANA)
    assert (
        await conn.fetchval("select (select count(*) from atlas.jobs) + (select count(*) from atlas.job_secrets)") == 0
    )


async def test_a_dedupe_key_made_from_a_secret_shows_none_and_still_differs_by_input(conn):
    def request(password: str) -> NewJob:
        value = {"login": {"user": "d", "password": password}}
        return NewJob("secret.sign_in", value, dedupe_key=make_dedupe_key("secret.sign_in", None, value))

    first = await enqueue(conn, request("hunter22"), actor=DANA)
    again = await enqueue(conn, request("hunter22"), actor=DANA)
    other = await enqueue(conn, request("swordfish"), actor=DANA)

    assert (again.id, again.deduplicated, other.deduplicated) == (first.id, True, False)
    shown = [row["dedupe_key"] for row in await conn.fetch("select dedupe_key from atlas.jobs")]
    assert not any("hunter22" in key or "swordfish" in key for key in shown)
    await enqueue(conn, replace(request("hunter22"), dedupe_key="k"), actor=DANA)
    with pytest.raises(DedupeConflict):
        await enqueue(conn, replace(request("swordfish"), dedupe_key="k"), actor=DANA)


async def test_a_row_that_was_moved_or_changed_cannot_be_read(conn):
    value = {"login": {"user": "d", "password": "hunter22"}}
    first, second = [(await enqueue(conn, NewJob("secret.sign_in", value), actor=DANA)).id for _ in range(2)]
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)

    await conn.execute(
        "update atlas.job_secrets s set nonce = o.nonce, ciphertext = o.ciphertext"
        " from atlas.job_secrets o where s.job_id = $1 and o.job_id = $2",
        *(first, second),
    )
    with pytest.raises(SecretsUnreadable, match="was changed since"):
        await in_clear(conn, first)

    await conn.execute("update atlas.job_secrets set tenant_id = $1 where job_id = $2", tenant.id, second)
    await conn.execute("update atlas.jobs set tenant_id = $1 where id = $2", tenant.id, second)
    with pytest.raises(SecretsUnreadable):
        await in_clear(conn, second)


async def test_a_secret_stored_under_another_key_is_reported_as_such(conn):
    made = await enqueue(conn, NewJob("secret.sign_in", {"login": {"user": "d", "password": "hunter22"}}), actor=DANA)
    use_secret_key(SecretKey(bytes(32)))

    with pytest.raises(SecretsUnreadable, match="stored under another key"):
        await in_clear(conn, made.id)


async def test_a_remote_worker_gets_the_other_jobs_when_the_secrets_of_one_cannot_be_read(conn):
    sealed, bare = [
        (await enqueue(conn, NewJob("secret.sign_in", {"login": {"user": "d", "password": text}}), actor=DANA)).id
        for text in ("hunter22", "hunter23")
    ]
    await conn.execute("update atlas.job_secrets set ciphertext = ciphertext || 'x' where job_id = $1", sealed)

    [handed] = await claim_for_worker(conn, uuid4(), SYSTEM_TENANT, ["secret.sign_in"], limit=10, lease=30)
    assert (handed.job.id, handed.payload["login"]["password"]) == (bare, "hunter23")
    row = await load(conn, sealed)
    assert (row["status"], row["retry_count"], row["lost_count"]) == ("queued", 1, 0)
    assert orjson.loads(row["error"])["type"] == "SecretsUnreadable"


async def test_the_key_is_made_on_first_use_and_only_its_owner_may_read_it(tmp_path):
    file = key_file(load_settings(atlas_home=tmp_path / "home"))
    with ThreadPoolExecutor(8) as threads:
        loop = asyncio.get_running_loop()
        ids = {
            key.id for key in await asyncio.gather(*(loop.run_in_executor(threads, load_key, file) for _ in range(8)))
        }

    assert len(ids) == 1
    assert file == tmp_path / "home" / "keys" / "secret.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(file.parent) == ["secret.key"]


@pytest.mark.parametrize("text", ["", "zz", "00" * 31])
def test_a_file_without_a_key_is_refused(tmp_path, text):
    (tmp_path / "k").write_text(text)

    with pytest.raises(SecretsUnreadable):
        load_key(tmp_path / "k")


def test_a_secret_is_found_in_every_shape_it_takes():
    secret = 'p"ss/wörd\n&2'
    redactor = Redactor({secret: "f00d"})
    shapes = [
        secret,
        orjson.dumps({"a": secret}).decode(),
        repr(secret),
        repr(ValueError(secret)),
        orjson.dumps(repr({"a": secret})).decode(),
        "p%22ss%2Fw%C3%B6rd%0A%262",
        "cCJzcy93w7ZyZAomMg==",
        secret.encode().hex().upper(),
        'p"ss/w?rd\n&2',
        'p"ss/w??rd\n&2',
        secret.encode("latin-1").decode("utf-8", "replace"),
        'p"ss/wM-CM-6rd\n&2',
        "7022",
    ]
    for shape in shapes[:-1]:
        assert "[secret f00d]" in redactor.text(f"before {shape} after"), shape
    assert redactor.text(shapes[-1]) == "7022"
    assert Redactor({"日本語の秘密": "f00d"}).text("really ?????? yes") == "really ?????? yes"


QUOTED = {
    "café-geheim": [
        r"'caf'$'\303\251''-geheim'",  # ls
        r"$'caf\303\251-geheim'",  # bash
        r"caf\303\251-geheim",  # ls -b, git
        r"b'caf\xc3\xa9-geheim'",
        r"'b\'caf\\xc3\\xa9-geheim\''",
        r"\x63\x61\x66\xC3\xA9\x2d\x67\x65\x68\x65\x69\x6d",
        r"\u0063af\u00E9\U0000002dgeheim",
        r"%63af%c3%A9-geheim",
    ],
    'it\'s $5 "or" more': [
        """'it'\\''s $5 "or" more'""",
        r"""'it'"'"'s $5 "or" more'""",
        r"""it\'s\ \$5\ \"or\"\ more""",
        r"\x69\x74\x27\x73\x20\x24\x35\x20\x22\x6f\x72\x22\x20\x6d\x6f\x72\x65",
    ],
    "tab\there\\back": [r"'tab'$'\t''here\back'", r"$'tab\there\\back'", r"tab\011here\134back"],
    "100%41 sure": [r"'100%41 sure'", r"100\x2541\ sure", "100%2541%20sure"],
}


@pytest.mark.parametrize(("secret", "quoted"), [(secret, one) for secret, all in QUOTED.items() for one in all])
def test_a_secret_is_found_however_it_is_quoted(secret, quoted):
    shown = Redactor({secret: "f00d"}).text(f"é before {quoted} and after é")

    assert re.sub(r"[b\\'\"$]*\[secret f00d\][\\'\"]*", "it", shown) == "é before it and after é"


def test_a_piece_of_a_quoted_secret_at_a_cut_is_removed_too():
    secret, quoted = "café-geheim", r"'caf'$'\303\251''-geheim'"
    redactor = Redactor({secret: "f00d"})
    for at in range(len(quoted)):
        begun = redactor.cut(f"before {quoted[:at]}", at_end=True)
        ended = redactor.cut(f"{quoted[at:]} after", at_start=True)
        # Fewer than four bytes of the secret are not known as its own.
        assert begun.count("caf") == (4 <= at < 11), begun
        assert r"\303\251" not in begun
        assert "geh" not in ended


def test_quotes_without_end_are_read_in_time():
    redactor = Redactor({"hunter22-and-more": "f00d"})
    for flood in ("'", "\\", "\"\\'$", "\\303", "%41", "hunter2'"):
        text = flood * (65_536 // len(flood)) + "x"
        assert redactor.cut(text, at_start=True, at_end=True)


def test_a_piece_of_a_secret_at_a_cut_is_removed_too():
    redactor = Redactor({"hunter22-and-more": "f00d"})

    assert redactor.cut("the key is hunter22-an", at_end=True) == "the key is "
    assert redactor.cut("22-and-more, it said", at_start=True) == ", it said"
    assert redactor.cut("hunter22-an", at_start=True) == "hunter22-an"


def test_a_report_about_a_program_holds_no_piece_of_a_secret_at_the_ends_of_its_two_parts():
    redactor = Redactor({"hunter22-and-more": "f00d", "first\nsecond": "beef"})

    assert (
        redactor.report("It said hunter22-an\nter22-and-more, and\nwent on as hunter2")
        == "It said \n, and\nwent on as "
    )
    assert redactor.report("and-more first\nsecond") == " [secret beef]"


def test_an_error_keeps_its_class_and_loses_the_secrets():
    redactor, notes = Redactor({"hunter22": "f00d"}), Notes(audit_meta={"k": ["hunter22", 5]})
    permanent = redact_error(redactor, PermanentError("bad hunter22", remedy="not hunter22", outcome="unknown"), notes)
    assert isinstance(permanent, PermanentError)
    assert str(permanent) == "bad [secret f00d] not [secret f00d]"
    assert permanent.outcome == "unknown"
    assert notes.audit_meta == {"k": ["[secret f00d]", 5]}

    try:
        try:
            raise KeyError("hunter22")
        except KeyError as cause:
            raise RuntimeError("hunter22", {"nested": "hunter22"}) from cause
    except RuntimeError as error:
        received = redact_error(redactor, error, notes)
    assert type(received).__name__ == "RuntimeError"
    assert "hunter22" not in f"{received} {notes.detail}"
    assert "KeyError" in notes.detail["error_text"]


async def test_admission_checks_the_model_before_it_takes_the_secrets_out(conn):
    with pytest.raises(InvalidInput, match=r"login\.user"):
        await admit(conn, NewJob("secret.sign_in", {"login": {"password": "hunter22"}}))
