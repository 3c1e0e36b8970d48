"""The commands of the ground floor: what they change, what they print, how they end."""

import os
import pwd

import asyncpg
import orjson
import pytest
from typer.testing import CliRunner

from atlas.cli.main import app
from atlas.cli.terminal.output import dump_json, say, table
from atlas.db.migrations import FUNCTIONS, load_migrations
from atlas.test_databases import TestDatabases
from tests.pgbouncer import direct_url


async def test_migrate_applies_everything_once_and_says_so(atlas, databases: TestDatabases):
    names = [*(migration.name for migration in load_migrations()), FUNCTIONS]
    async with databases.database(migrated=False) as url:
        first = await atlas("migrate", "--json", DATABASE_URL=url)
        second = await atlas("migrate", DATABASE_URL=url)

    assert first.document["applied"] == names
    assert (second.code, second.stdout) == (0, "Nothing to do: all migrations are applied.\n")


@pytest.mark.long
async def test_migrate_says_what_is_missing_and_what_that_locks_without_changing_anything(atlas, owner):
    up_to_date = await atlas("migrate", "--check")
    assert (up_to_date.code, up_to_date.stdout) == (0, "Nothing to do: all migrations are applied.\n")
    await owner.execute("""update atlas.system_state set value = value || '{"sha256": ""}' where key = 'functions'""")

    for _ in range(2):
        missing = await atlas("migrate", "--check", "--json")
        assert missing.code == 1
        assert missing.document["pending"] == [{"name": FUNCTIONS, "locks": []}]
    assert "locks no table that is there now\nEach lock is waited for 2 s" in (await atlas("migrate", "--check")).stdout


async def test_a_tenant_is_added_listed_and_refused_the_second_time(atlas):
    added = await atlas("tenant", "add", "acme", "--name", "Acme", "--timezone", "Europe/Berlin", "--json")
    again = await atlas("tenant", "add", "acme")
    listed = await atlas("tenant", "list", "--json")
    shown = await atlas("tenant", "list")

    assert added.document["slug"] == "acme"
    assert again.refusal == "error: There is already a tenant acme. Choose another slug."
    assert [tenant["slug"] for tenant in listed.document["tenants"]] == ["acme", "system"]
    assert "Europe/Berlin" in shown.stdout


async def test_a_tenant_is_changed_by_what_is_named_and_shown(atlas):
    await atlas("tenant", "add", "acme", "--name", "Acme")
    limits = {"in_flight": 5, "email": {"providers": ["outbox"], "per_minute": 20}}
    edited = await atlas("tenant", "edit", "acme", "--limits", "-", "--json", stdin=orjson.dumps(limits))
    named = await atlas("tenant", "edit", "acme", "--name", "Acme Ltd", "--retention", '{"jobs": null}', "--json")
    shown = await atlas("tenant", "show", "acme")
    nothing = await atlas("tenant", "edit", "acme")
    wrong = await atlas("tenant", "edit", "acme", "--limits", '{"email": {"providers": ["pigeon"]}}')
    missing = await atlas("tenant", "show", "nobody")

    assert edited.document["limits"] == limits
    assert (named.document["limits"], named.document["retention"]) == (limits, {"jobs": None})
    assert named.document["name"] == "Acme Ltd"
    assert '"in_flight":5' in shown.stdout
    assert '{"jobs":null}' in shown.stdout
    assert "give what to change" in nothing.refusal
    assert "limits.email.providers.0" in wrong.refusal
    assert "There is no tenant nobody" in missing.refusal


def test_characters_that_hide_or_turn_text_are_printed_by_their_number(capsys):
    name = "Pay EUR \u202e99.1\u202c \u200bnaïve שלום \U000e0041"
    say({}, [name, table(("NAME",), [[name]])], json=False)

    shown = "Pay EUR \\u202e99.1\\u202c \\u200bnaïve שלום \\u{e0041}"
    assert capsys.readouterr().out == f"{shown}\nNAME\n{shown}\n"
    assert dump_json({"name": name}).isprintable()
    assert orjson.loads(dump_json({"name": name})) == {"name": name}


def test_a_document_orders_no_terminal_about():
    document = {"words": "\x1b[2J \x9b2J \x7f naïve", "more": [1, None]}

    for text in (dump_json(document), dump_json(document, indent=True)):
        assert orjson.loads(text) == document
        assert not {"\x1b", "\x9b", "\x7f"} & set(text)


async def test_a_token_is_shown_once_and_can_be_revoked(atlas):
    await atlas("tenant", "add", "acme")
    added = await atlas(
        *(
            "token",
            "add",
            "--subject",
            "billing",
            "--role",
            "enqueuer",
            "--tenant",
            "acme",
            "--expires",
            "30d",
            "--json",
        )
    )
    token = added.document
    listed = await atlas("token", "list", "--tenant", "acme")
    revoked = await atlas("token", "revoke", token["prefix"])

    assert token["token"].startswith(f"atl_{token['prefix']}_")
    assert token["expires_at"] is not None
    assert token["prefix"] in listed.stdout
    assert token["token"] not in listed.stdout
    assert revoked.stdout == f"Token {token['prefix']} of billing revoked.\n"


async def test_a_change_names_the_person_at_the_terminal_in_the_audit(atlas, database_url):
    await atlas("tenant", "add", "acme", LOGNAME="mallory", USER="mallory")

    conn = await asyncpg.connect(direct_url(database_url))
    try:
        body = await conn.fetchval("select body from atlas.audit_log where action = 'TENANT_ADDED'")
    finally:
        await conn.close()
    event = orjson.loads(body)
    assert (event["actor_type"], event["actor_id"]) == ("user", f"cli:{pwd.getpwuid(os.getuid()).pw_name}")
    # Without a credential, an address and a request: the command calls the API within its process.
    about = {"action", "actor_id", "actor_type", "entity_id", "entity_type", "level", "message", "meta", "tenant_id"}
    assert (set(event), set(event["meta"])) == (about, {"slug", "name", "timezone", "state"})


async def test_the_gate_is_turned_off_with_a_reason_and_on_again(atlas):
    assert (await atlas("offline")).stdout.endswith("No worker is running.\n")
    offline = await atlas("offline", "--reason", "new disks", "--for", "2h", "--json")
    status = await atlas("status")
    online = await atlas("online", "--json")
    after = await atlas("status", "--json")

    assert (offline.document["online"], offline.document["reason"]) == (False, "new disks")
    assert offline.document["until"] is not None
    assert (offline.document["confirmed"], offline.document["workers"]) == (0, 0)
    assert "new disks" in status.stdout
    assert online.document["online"] is True
    assert after.document["gate"]["online"] is True
    assert after.document["queue"] == []


async def test_the_engine_is_switched_off_with_a_reason_and_on_again(atlas):
    refused = await atlas("engine", "off")
    await atlas("online")
    off = await atlas("engine", "off", "--reason", "new rules", "--json")
    status = await atlas("status")
    on = await atlas("engine", "on")

    assert (refused.code, "never brought online" in refused.stderr) == (1, True)
    assert (off.document["engine_enabled"], off.document["engine_reason"]) == (False, "new rules")
    assert "The engine is off since " in status.stdout
    assert ": new rules." in status.stdout
    assert on.stdout == "The engine is on.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("tenant", "show", "a\udcff"),
        ("definition", "disable", "\udcff"),
        ("audit", "tail", "--action", "\udcff"),
        ("audit", "export", "--out", "\udcff.jsonl"),
        ("workflow", "run", "w", "--tenant", "\udcff"),
    ],
)
async def test_bytes_that_are_no_text_are_refused_before_anything_is_done(atlas, tmp_path, arguments):
    ran = await atlas(*arguments, "--json")

    assert ran.code == 2
    assert f"argument {len(arguments)}, " in ran.document["error"]["message"]
    assert "is not text in UTF-8" in ran.document["error"]["message"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "text"), [("--from", "0001-01-01T00:00:00+14:00"), ("--to", "9999-12-31T23:59:59-12:00")]
)
async def test_a_time_beyond_the_calendar_is_refused(atlas, option, text):
    assert "is beyond the years 1 to 9999" in (await atlas("usage", option, text)).refusal


@pytest.mark.parametrize(
    "arguments",
    [
        ("tenant", "ad"),
        ("tenant", "add"),
        ("nonsense",),
        ("token", "add", "--subject", "x", "--role", "operator", "--expires", "soon"),
        ("offline", "--for", "0s"),
    ],
)
async def test_wrong_usage_ends_with_2_and_with_a_document_where_one_was_asked_for(atlas, arguments):
    ran = await atlas(*arguments, "--json")

    assert ran.code == 2
    assert "Usage: atlas" in ran.stderr
    assert ran.document["error"]["type"] == "Usage"
    assert ran.document["error"]["message"] in ran.stderr
    assert "--help`" in ran.document["error"]["remedy"]


async def test_a_refusal_with_json_is_a_document_with_fields_and_reasons(atlas):
    ran = await atlas("token", "add", "--subject", "", "--role", "king", "--json")

    assert ran.code == 1
    assert [error["field"] for error in ran.document["error"]["errors"]] == ["subject", "role"]
    assert ran.stderr.startswith("error: The request is not valid: subject: ")


@pytest.mark.parametrize(
    "command",
    [
        "up", "worker", "migrate", "doctor", "status", "online", "offline", "pause", "resume", "pauses", "engine on", "tenant add", "tenant list", "tenant show",
        "tenant edit", "token add", "token list", "token revoke",
    ],
)  # fmt: skip
def test_every_command_explains_itself_and_takes_json(command):
    assert "--json" in CliRunner().invoke(app, [*command.split(), "--help"]).output


async def test_usage_says_whose_it_is(atlas, conn):
    for slug in ("acme", "other"):
        await atlas("tenant", "add", slug)
        await conn.execute(
            "insert into atlas.usage_hourly (tenant_id, job_type, hour, runs)"
            " select id, 'a.work', date_trunc('hour', now()) - interval '2 hours', 3 from atlas.tenants where slug = $1",
            slug,
        )

    shown = (await atlas("usage", ATLAS_CURRENCY="CHF")).stdout.splitlines()

    assert [line.split()[:3] for line in shown] == [
        ["TENANT", "JOB", "TYPE"],
        ["acme", "a.work", "3"],
        ["other", "a.work", "3"],
    ]
    assert [line.split()[-2:] for line in shown[1:]] == [["0.00", "CHF"]] * 2


async def test_what_chooses_among_dead_letters_does_not_go_with_one_job(atlas):
    ran = await atlas("jobs", "retry", "01a1e110-0000-7000-8000-000000000000", "--type", "a.work")
    assert "only go with --dead-letters" in ran.refusal
