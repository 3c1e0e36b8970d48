"""`atlas audit`, as its users run it: mostly in this process, since a new one for each call would take minutes."""

import asyncio
import fcntl
import hashlib
import json
import logging
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atlas.audit.record import Event, record
from atlas.audit.sealing.seal import seal
from atlas.cli.main import app
from atlas.db.pool import connect
from atlas.engine.tenants.tenants import add_tenant
from atlas.errors import AtlasError
from tests.audit.given import CALLER, Installation, guard_again, roll_back, write_many
from tests.cli.conftest import Atlas, Ran, environment
from tests.state_check import STATE_CHECK
from tests.support import some


@pytest.fixture
def audit(tmp_path: Path, database_url: str) -> Atlas:
    """`await audit("tail", "-n", "3")`."""

    async def call(*arguments: str, **settings: str) -> Ran:
        env = {"ATLAS_HOME": str(tmp_path / "home"), "DATABASE_URL": database_url, **settings}
        async with STATE_CHECK.watching(env["DATABASE_URL"], f"atlas audit {' '.join(arguments)}"):
            return await asyncio.to_thread(invoked, ["audit", *arguments], env)

    return call


def invoked(arguments: list[str], env: dict[str, str]) -> Ran:
    handlers = logging.getLogger().handlers[:]
    done = CliRunner().invoke(app, arguments, env=env)
    logging.getLogger().handlers[:] = handlers
    if isinstance(done.exception, AtlasError):
        return Ran(1, done.stdout, f"error: {done.exception}\n")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ran(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
async def written(conn):
    """Some events, one with a personal value; the id of the tenant they belong to."""
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=CALLER)
    for number in range(5):
        event = Event("THING_CHANGED", "thing", str(number), CALLER, tenant.id, f"change {number}")
        await record(conn, event, personal={"to": "ann@example.org"} if number == 3 else None)
    return tenant.id


@pytest.fixture
def key(written, tmp_path, database_url):
    """The public key, after a first start has made and used the private one."""
    Installation(tmp_path / "home", database_url)
    return tmp_path / "home" / "keys" / "audit.pub"


async def test_the_newest_events_are_shown_last(audit, written):
    done = await audit("tail", "-n", "3", "--tenant", "acme")
    assert done.code == 0
    assert [line.split()[-2:] for line in done.stdout.splitlines()] == [
        ["change", "2"],
        ["change", "3"],
        ["change", "4"],
    ]

    found = (await audit("tail", "--json", "--text", "CHANGE 3")).document
    assert [event["entity_id"] for event in found["events"]] == ["3"]


async def test_an_unchanged_audit_log_verifies_and_a_changed_one_does_not(audit, key, owner):
    done = await audit("verify", "--json")
    assert done.code == 0, done
    assert done.document["ok"]
    assert done.document["rows"] == 7  # with the one that names the key
    assert (await audit("verify", "--incremental")).code == 0

    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute("update atlas.audit_log set message = 'forged' where entity_id = '2'")
    done = await audit("verify")
    assert done.code == 1
    assert "differ from its bytes: message" in done.stdout
    assert "The trigger audit_log_append_only of audit_log is disabled" in done.stdout
    await guard_again(owner)
    assert "1 finding." in (await audit("verify")).stdout


async def test_every_verification_leaves_its_verdict_in_the_audit_log(audit, key, owner):
    await audit("verify")
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute("update atlas.audit_log set message = 'forged' where entity_id = '2'")
    await guard_again(owner)
    await audit("verify", "--state")

    rows = await owner.fetch(
        "select level::text, meta->>'verdict' as verdict, meta->'findings' as findings, meta->>'state' as state"
        " from atlas.audit_log where action = 'AUDIT_VERIFIED' order by id"
    )
    assert [tuple(row) for row in rows] == [
        ("info", "whole", "{}", "false"),
        ("error", "damaged", '{"copies": 1}', "true"),
    ]


@pytest.mark.long
async def test_a_damaged_mark_of_the_last_verification_is_refused_with_its_path(audit, key, tmp_path):
    damaged = ["{", "[1]", '{"seal": 1}', '{"seal": "x", "root": "y"}', '{"seal": 1e3, "root": "y"}']
    for content in (*damaged, *(f'{{"seal": {number}, "root": "y"}}' for number in (-1, 2**63, 10**30))):
        (tmp_path / "home" / "audit.verified.json").write_text(content)
        assert "audit.verified.json" in (await audit("verify", "--incremental")).refusal, content


async def test_a_cut_off_end_is_found_with_the_signer_and_the_copies(audit, key, owner, written):
    await audit("verify")
    for table in ("audit_log", "audit_seal", "audit_seal_tenant", "audit_checkpoint"):
        await owner.execute(f"alter table atlas.{table} disable trigger all")
        await owner.execute(f"delete from atlas.{table}")

    done = await audit("verify", "--json")
    assert done.code == 1
    assert {"signer", "cut"} <= {finding["kind"] for finding in done.document["findings"]}


async def test_seals_that_went_without_their_numbers_are_findings_and_no_failure_of_atlas(audit, key, owner, conn):
    await audit("verify")
    await record(conn, Event("THING_CHANGED", "thing", "9", CALLER))
    await audit("verify")
    await owner.execute("alter table atlas.audit_seal disable trigger all")
    await owner.execute("delete from atlas.audit_seal where n = (select max(n) from atlas.audit_seal)")

    done = await audit("verify", "--json")
    assert done.code == 1
    received = {finding["kind"]: finding["message"] for finding in done.document["findings"]}
    assert "cannot continue from the last seal" in received["signer"]
    assert "cut" in received


LAST = "where n = (select max(n) from atlas.audit_seal)"


@pytest.mark.long
@pytest.mark.parametrize(
    ("waits", "change"),
    some(
        [
            (True, f"update atlas.audit_seal set frontier = '\\x00' {LAST}"),
            (True, f"update atlas.audit_seal set n = 9223372036854775807 {LAST}"),
            (True, "update atlas.audit_seal_tenant set first_number = 9223372036854775807"),
            (True, "update atlas.audit_seal_tenant set first_number = -9223372036854775808"),
            (True, "update atlas.audit_log set id = -7 where id = (select max(id) from atlas.audit_log)"),
            (False, f"update atlas.audit_seal set sealed_at = '-infinity' {LAST}"),
        ],
        every=3,
    ),
)
async def test_damage_that_stops_the_sealer_is_among_the_findings(
    audit, key, written, owner, conn, tmp_path, waits, change
):
    await audit("verify")
    await seal(conn)  # the verdict
    if waits:
        await record(conn, Event("THING_CHANGED", "thing", "9", CALLER, written))
    await owner.execute("alter table atlas.audit_log alter id set generated by default")
    for table in ("audit_log", "audit_seal", "audit_seal_tenant", "audit_epoch"):
        await owner.execute(f"alter table atlas.{table} disable trigger all")
    await owner.execute(change)

    done = await audit("verify", "--json")
    assert done.code == 1
    assert "signer" in {finding["kind"] for finding in done.document["findings"]}
    assert (await audit("export", "--out", str(tmp_path / "export"))).code == ("audit_epoch" in change)
    assert (await audit("proof", "2")).code in (0, 1)


@pytest.mark.long
async def test_without_an_epochs_row_verify_finds_it_and_export_refuses(audit, key, written, owner, tmp_path):
    await audit("verify")
    await owner.execute("alter table atlas.audit_epoch disable trigger all; delete from atlas.audit_epoch")

    done = await audit("verify", "--json")
    assert done.code == 1
    assert "signer" in {finding["kind"] for finding in done.document["findings"]}
    refused = await audit("export", "--out", str(tmp_path / "export"))
    assert refused.code == 1
    assert "the row of an epoch is missing in audit_epoch" in refused.stderr
    assert (await audit("proof", "2")).code in (0, 1)


@pytest.mark.long
async def test_commands_that_go_on_warn_that_the_signer_refused(audit, key, owner, tmp_path):
    await audit("verify")
    size = await owner.fetchval("select min(size) from atlas.audit_checkpoint")
    await audit("export", "--out", str(tmp_path / "first"))
    await audit("verify")
    for table in ("audit_seal", "audit_checkpoint"):
        await owner.execute(f"alter table atlas.{table} disable trigger all")
        await owner.execute(f"delete from atlas.{table} where size > {size}")
    await owner.execute(
        "alter table atlas.audit_seal_tenant disable trigger all; delete from atlas.audit_seal_tenant where n > 1"
    )

    for call in (["export", "--out", str(tmp_path / "second")], ["proof", "1"], ["prune", "--older-than", "400d"]):
        done = await audit(*call)
        assert done.code == 0, done
        assert "warning: The signer refuses" in done.stderr
        assert "warning" not in done.stdout


async def test_an_export_is_verified_without_a_database(audit, key, tmp_path):
    file = tmp_path / "export.jsonl"
    done = await audit("export", "--out", str(file), "--json")
    assert done.document["lines"] == len(file.read_text().splitlines())

    nowhere = {"DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    offline = ("verify", "--export", str(file), "--key", str(key), "--json")
    done = await audit(*offline, **nowhere)
    assert (done.code, done.document["rows"]) == (0, 7)  # with the one that names the key

    file.write_text(file.read_text().replace("change 1", "change 7"))
    assert (await audit(*offline, **nowhere)).code == 1
    assert (await audit("verify", "--export", "nowhere", "--key", str(key))).code == 1
    assert "cannot be written" in (await audit("export", "--out", str(tmp_path / "no" / "such" / "folder"))).refusal


async def test_copies_of_checkpoints_that_are_none_are_refused(audit, key, tmp_path):
    file, empty, folder = tmp_path / "all.jsonl", tmp_path / "empty", tmp_path / "folder"
    await audit("export", "--out", str(file))
    empty.write_text("no note\n")
    folder.mkdir()
    for place in (empty, folder):
        done = await audit("verify", "--export", str(file), "--key", str(key), "--checkpoints", str(place))
        assert "holds no copy of a checkpoint" in done.refusal
        assert "holds no copy of a checkpoint" in (await audit("verify", "--checkpoints", str(place))).refusal
    copies = tmp_path / "home" / "checkpoints"
    done = await audit("verify", "--export", str(file), "--key", str(key), "--checkpoints", str(copies), "--json")
    assert done.document["outside"] > 0


async def test_an_export_goes_to_stdout_where_no_file_is_named(audit, key):
    done = await audit("export", "--tenant", "acme")
    types = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert types == ["manifest", "checkpoint", *["row"] * 6, "end"]


@pytest.mark.long
async def test_a_path_that_is_not_a_regular_file_is_written_to_and_not_replaced(audit, key, tmp_path):
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    for place in (pipe, link):
        if place == link:
            link.symlink_to(pipe)
        read = asyncio.create_task(asyncio.to_thread(pipe.read_bytes))
        done = await audit("export", "--out", str(place), "--json")
        assert (await read).count(b"\n") == done.document["lines"]
        assert pipe.is_fifo()
    assert link.is_symlink()

    link.unlink()
    link.symlink_to(file)
    assert (await audit("export", "--out", str(link))).code == 0
    assert (link.is_symlink(), file.read_text().splitlines()[-1]) == (True, '{"type":"end"}')
    assert "cannot be written" in (await audit("export", "--out", str(tmp_path))).refusal


async def test_a_reader_that_closes_the_pipe_early_causes_no_error(audit, key, conn, tmp_path):
    await write_many(conn, 2000, message="x" * 200)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def look() -> bytes:
        with pipe.open("rb") as file:
            return file.read(10)

    read = asyncio.create_task(asyncio.to_thread(look))
    done = await audit("export", "--out", str(pipe))
    assert (await read, done.code, done.stderr) == (b'{"type":"m', 1, "")


async def test_a_proof_is_made_and_checked(audit, key, tmp_path, conn):
    id = await conn.fetchval("select id from atlas.audit_log where entity_id = '4'")
    done = await audit("proof", str(id))
    file = tmp_path / "proof.json"
    file.write_text(done.stdout)

    check = ("proof", "--check", str(file), "--key", str(key))
    done = await audit(*check, DATABASE_URL="postgresql://127.0.0.1:1/none")
    assert (done.code, done.stdout) == (0, "The proof holds.\n")
    file.write_text(file.read_text().replace("change 4", "change 5"))
    assert (await audit(*check)).code == 1

    size = await conn.fetchval("select min(size) from atlas.audit_checkpoint")
    file.write_text((await audit("proof", "--from", str(size))).stdout)
    assert (await audit(*check, "--json")).document["ok"]


async def test_a_proof_of_nothing_is_refused_with_a_reason(audit, key):
    assert "There is no audit row 999" in (await audit("proof", "999")).refusal


CONTRADICTIONS = [
    (["proof"], "give one of"),
    (["proof", "7", "--from", "3"], "give one of"),
    (["proof", "7", "--to", "3"], "goes with --from"),
    (["proof", "--check", "proof.json", "--to", "3", "--key", "k"], "goes with --from"),
    (["proof", "--check", "proof.json"], "is needed: the public key"),
    (["verify", "--export", "export.jsonl"], "is needed: the public key"),
    (["export", "--json"], "is needed with --json"),
]


async def test_options_that_contradict_each_other_are_wrong_usage(audit):
    for call, words in CONTRADICTIONS:
        done = await audit(*call)
        assert (done.code, done.stdout) == (2, ""), call
        assert words in done.stderr, call


async def test_a_person_is_erased_and_verification_still_passes(audit, key, conn):
    done = await audit("erase", "--subject", "ANN@example.org", "--json")
    assert done.document == {"erased": 1, "effect_details": 0}
    assert await conn.fetchval("select count(*) from atlas.audit_private") == 0
    assert (await audit("verify")).code == 0
    assert "ERASED" in (await audit("tail")).stdout
    done = await audit("erase", "--subject", "nobody@example.org", "--json")
    assert (done.document, done.code) == ({"erased": 0, "effect_details": 0}, 0)
    assert "warning: There is no personal value equal to that subject" in done.stderr


@pytest.mark.long
async def test_old_rows_are_removed_by_order_when_they_are_archived(audit, key, owner, tmp_path):
    await audit("verify")
    out = str(tmp_path / "export.jsonl")
    await audit("export", "--out", out)
    assert (await audit("prune", "--older-than", "400d", "--json")).document == {"pruned": None}
    await owner.execute("alter table atlas.audit_seal disable trigger all")
    await owner.execute("update atlas.audit_seal set sealed_at = sealed_at - interval '401 days' where n <= 2")
    await owner.execute("update atlas.tenants set created_at = created_at - interval '401 days'")
    assert "are in no archive that was verified" in (await audit("prune", "--older-than", "400d")).refusal
    receipt = tmp_path / "receipt.json"
    receipt.write_text((await audit("verify", "--export", out, "--key", str(key), "--json")).stdout)
    archive = json.loads(receipt.read_text())["archive"]
    assert archive["sha256"] == hashlib.sha256(Path(out).read_bytes()).hexdigest()
    assert (await audit("archive", "--receipt", str(receipt), "--json")).document == {"archive": archive}
    done = await audit("prune", "--older-than", "400d")
    assert "8 rows were removed, up to seal" in done.stdout  # with the verdict and the name of the key


async def test_an_export_that_is_damaged_or_of_one_tenant_is_no_archive(audit, key, written, tmp_path):
    whole, part, receipt = (tmp_path / name for name in ("whole", "part", "receipt"))
    await audit("export", "--out", str(whole))
    await audit("export", "--out", str(part), "--tenant", "acme")
    assert "holds the rows of all tenants" in (await audit("archive", str(part))).refusal
    whole.write_bytes(whole.read_bytes().replace(b"change 3", b"change 4", 1))
    assert "The export has 1 finding, the first: Row" in (await audit("archive", str(whole))).refusal
    receipt.write_text((await audit("verify", "--export", str(whole), "--key", str(key), "--json")).stdout)
    assert "has findings" in (await audit("archive", "--receipt", str(receipt))).refusal
    for wrong in ("{", "[]", '{"ok": true, "archive": {}}'):
        receipt.write_text(wrong)
        assert "The receipt" in (await audit("archive", "--receipt", str(receipt))).refusal
    assert (await audit("archive")).code == 2


async def test_an_order_needs_the_key_and_is_sealed_at_once(audit, key, owner, tmp_path):
    await audit("verify")
    private = tmp_path / "home" / "keys" / "audit.key"
    private.rename(private.with_suffix(".away"))
    assert "Run the command where the key is" in (await audit("prune", "--older-than", "400d")).stderr
    private.with_suffix(".away").rename(private)
    await audit("export", "--out", str(tmp_path / "archive"))
    assert (await audit("archive", str(tmp_path / "archive"))).code == 0

    await owner.execute("alter table atlas.audit_seal disable trigger all")
    sealed = await owner.fetch(
        "update atlas.audit_seal set sealed_at = sealed_at - interval '401 days' where n <= 2 returning n, sealed_at"
    )
    await owner.execute("update atlas.tenants set created_at = created_at - interval '401 days'")
    assert "8 rows were removed" in (await audit("prune", "--older-than", "400d")).stdout

    for row in sealed:
        await owner.execute(
            "update atlas.audit_seal set sealed_at = $2::timestamptz + interval '401 days' where n = $1",
            row["n"],
            row["sealed_at"],
        )
    await guard_again(owner)
    done = await audit("verify", "--json")
    assert (done.document["findings"], done.document["pruned"]) == ([], 8)


@pytest.mark.long
async def test_a_new_epoch_begins_in_a_restored_cluster(audit, key, owner):
    await audit("verify")
    await owner.execute("alter table atlas.audit_epoch disable trigger all")
    await owner.execute("update atlas.audit_epoch set system_identifier = 42")
    await guard_again(owner)
    done = await audit("verify", "--json")
    assert done.code == 1
    assert {finding["kind"] for finding in done.document["findings"]} == {"cluster", "signer"}

    done = await audit("new-epoch", "--reason", "restored", "--json")
    assert done.document == {"epoch": 2}
    assert (await audit("verify")).code == 0


async def test_a_new_epoch_is_refused_while_there_are_findings(audit, key, owner):
    await audit("verify")
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute("delete from atlas.audit_log where entity_id = '2'")
    done = await audit("new-epoch", "--reason", "restored")
    assert "The audit log has 1 finding" in done.refusal
    assert await owner.fetchval("select max(epoch) from atlas.audit_epoch") == 1


@pytest.mark.long
async def test_a_new_epoch_that_could_not_be_signed_does_not_begin(audit, key, conn, owner, written, tmp_path):
    await audit("verify")
    size = await conn.fetchval("select max(size) from atlas.audit_seal")
    await write_many(conn, 12)
    await audit("verify")
    lost = await conn.fetchval("select max(size) from atlas.audit_seal")
    await roll_back(owner, below=size + 1)
    await guard_again(owner)
    # The copies went with the end of the audit log; only the signer remembers.
    for copies in (tmp_path / "home").rglob("*.checkpoints"):
        copies.unlink()

    assert "do not continue" in (await audit("new-epoch", "--reason", "restored")).refusal
    assert await owner.fetchval("select max(epoch) from atlas.audit_epoch") == 1

    assert (await audit("new-epoch", "--reason", "restored", "--accept-loss", "--json")).document == {"epoch": 2}
    done = await audit("verify", "--json")
    assert done.document["findings"] == []
    assert any(f"the signer abandoned a tree of {lost} leaves" in notice for notice in done.document["notices"])


async def test_a_new_epoch_says_why_it_begins(audit, key, owner):
    assert "reason: is empty" in (await audit("new-epoch", "--reason", " ")).refusal
    assert await owner.fetchval("select max(epoch) from atlas.audit_epoch") == 1


async def test_a_new_epoch_is_refused_where_the_key_is_not(audit, key, owner, tmp_path):
    await audit("verify")
    (key.parent / "audit.key").rename(tmp_path / "elsewhere")
    public = key.read_text()
    for more in ([], ["--accept-loss"]):
        done = await audit("new-epoch", "--reason", "restored", *more)
        assert "The key that signs the audit log is not on this machine" in done.refusal
    assert (key.read_text(), (key.parent / "audit.key").exists()) == (public, False)
    assert await owner.fetchval("select max(epoch) from atlas.audit_epoch") == 1
    assert (await audit("verify")).code == 0

    (tmp_path / "elsewhere").rename(key.parent / "audit.key")
    assert (await audit("new-epoch", "--reason", "restored")).code == 0


@pytest.mark.long
async def test_a_loss_is_accepted_although_a_scheduler_signs_at_the_same_time(audit, key, owner):
    await audit("verify")
    with (key.parent / "audit.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        call = asyncio.create_task(audit("new-epoch", "--reason", "the end is lost", "--accept-loss"))
        async with asyncio.timeout(20):
            while await owner.fetchval("select max(epoch) from atlas.audit_seal") != 2:
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
    assert (await call).code == 0
    note = await owner.fetchval("select note from atlas.audit_checkpoint where epoch = 2")
    assert "\nabandons " in note


@pytest.mark.long
async def test_a_new_key_is_made_once_its_epoch_has_begun(audit, key, database_url):
    await audit("verify")
    (key.parent / "audit.key").unlink()
    writer = await connect(database_url)
    async with writer.transaction():
        await record(writer, Event("THING_CHANGED", "thing", "1", CALLER))
        done = await audit("new-epoch", "--reason", "the key is lost", "--new-key")
        assert "has been open for too long" in done.refusal
    await writer.close()
    assert not (key.parent / "audit.key").exists()
    assert (await audit("new-epoch", "--reason", "the key is lost", "--new-key")).code == 0
    assert (await audit("verify")).code == 0


@pytest.mark.long
async def test_signatures_of_a_replaced_key_are_still_valid(audit, key, tmp_path):
    await audit("verify")
    for count in (2, 3):
        (key.parent / "audit.key").unlink()
        assert (await audit("new-epoch", "--reason", "the key is lost", "--new-key")).code == 0
        done = await audit("verify", "--json")
        assert (done.code, done.document["findings"]) == (0, [])
        [notice] = done.document["notices"]
        assert notice.startswith(f"{count} keys signed this audit log")
        assert notice.count("without its signature") == count - 1
    assert (await audit("new-epoch", "--reason", "nothing is lost")).code == 0
    file, keys = tmp_path / "export.jsonl", sorted(key.parent.glob("*.pub"))
    await audit("export", "--out", str(file))
    named = [word for one in keys for word in ("--key", str(one))]
    assert (len(keys), (await audit("verify", "--export", str(file), *named)).code) == (3, 0)


@pytest.mark.long
async def test_an_old_key_signs_the_new_one_and_the_log_keeps_its_name(audit, key, owner, tmp_path):
    await audit("verify")
    old = key.read_text().strip()
    assert (await audit("new-epoch", "--reason", "a new key each year", "--new-key")).code == 0
    new = key.read_text().strip()
    retired = key.parent / f"audit.{old.split('+')[1]}.key"
    assert (new != old, new.split("+")[0], retired.exists()) == (True, old.split("+")[0], True)
    event = json.loads(await owner.fetchval("select meta from atlas.audit_log where action = 'AUDIT_EPOCH'"))
    assert event["key"] == new
    assert {note.splitlines()[0] for note in await notes(owner)} == {old.split("+")[0]}

    done = await audit("verify", "--json")
    assert (done.code, done.document["findings"]) == (0, [])
    [notice] = done.document["notices"]
    first, second = ("+".join(one.split("+")[:2]) for one in (old, new))
    said = f"2 keys signed this audit log: first {first}; from epoch 2 on {second}, which the key before it signed."
    assert notice == said
    # With one of the keys alone, what the other has signed is not believed.
    for one in (key, key.parent / f"audit.{old.split('+')[1]}.pub"):
        assert "is not signed by a key that was given" in (await audit("verify", "--key", str(one))).stdout
    # A key that was replaced by hand is signed by the one before it, too.
    (key.parent / "audit.key").rename(tmp_path / "before.key")
    retired.rename(key.parent / "audit.key")
    done = await audit("new-epoch", "--reason", "back again", "--old-key", str(tmp_path / "before.key"))
    assert done.code == 0, done
    done = await audit("verify", "--json")
    assert (done.document["findings"], done.document["notices"][0].count("which the key before")) == ([], 2)


async def notes(owner) -> list[str]:
    return [row["note"] for row in await owner.fetch("select note from atlas.audit_checkpoint order by size")]


@pytest.mark.long
async def test_a_key_that_the_event_of_its_epoch_does_not_name_does_not_sign(audit, key, owner, conn, tmp_path):
    await audit("verify")
    await audit("new-epoch", "--reason", "a new key", "--new-key")
    other = Installation(tmp_path / "other").settings.home / "keys" / "audit.key"
    await record(conn, Event("THING_CHANGED", "thing", "9", CALLER))
    done = await audit("verify", ATLAS_AUDIT_KEY_FILE=str(other))
    assert "This epoch of the audit log is signed by the key" in done.stdout
    forged = "update atlas.audit_log set meta = jsonb_set(meta, '{key}', $1::text::jsonb) where action = 'AUDIT_EPOCH'"
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute(forged, json.dumps((other.parent / "audit.pub").read_text().strip()))
    assert "differ from its bytes: meta" in (await audit("verify")).stdout


async def test_new_key_makes_the_key_in_the_home_folder_alone(audit, key):
    await audit("verify")
    for more in (["--old-key", "x.key"], []):
        settings = {} if more else {"ATLAS_AUDIT_KEY_FILE": str(key.parent / "audit.key")}
        done = await audit("new-epoch", "--reason", "a new key", "--new-key", *more, **settings)
        assert "this one you replace yourself" in done.refusal


@pytest.mark.long
@pytest.mark.parametrize("name", ["audit.pub", "audit.1a2b3c4d.pub"])
async def test_a_copy_of_a_lost_public_key_is_put_back(audit, key, name):
    await audit("verify")
    copy = key.read_text()
    for file in key.parent.iterdir():
        file.unlink()
    done = await audit("new-epoch", "--reason", "all keys are lost", "--new-key")
    assert "is not signed by a key that was given" in done.refusal
    (key.parent / name).write_text(copy)
    assert (await audit("new-epoch", "--reason", "all keys are lost", "--new-key")).code == 0
    assert (await audit("verify")).code == 0


async def test_before_the_first_seal_there_is_nothing_to_verify(
    audit, written, tmp_path, database_url, owner, monkeypatch
):
    monkeypatch.setattr("atlas.audit.verification.verify.SEAL_LAG", timedelta(hours=1))
    done = await audit("verify")
    assert done.code == 0, done
    assert "Nothing has been sealed yet" in done.stdout
    assert "6 rows not sealed yet: nothing is wrong" in done.stdout
    assert (await audit("verify", "--json")).document["unsealed"] == 7  # with the verdict
    assert not (tmp_path / "home" / "audit.verified.json").exists()

    # A log that was sealed once, and whose seals are gone, is another thing.
    Installation(tmp_path / "home", database_url)
    assert (await audit("verify")).code == 0
    (tmp_path / "home" / "keys" / "audit.key").unlink()
    for table in ("audit_checkpoint", "audit_seal", "audit_seal_tenant"):
        await owner.execute(f"alter table atlas.{table} disable trigger all; delete from atlas.{table}")
    assert (await audit("verify")).code == 1


async def test_a_log_without_its_seals_passes_nowhere(audit, written, key, tmp_path, owner, monkeypatch):
    monkeypatch.setattr("atlas.audit.verification.verify.SEAL_LAG", timedelta(hours=1))
    assert (await audit("verify")).code == 0
    for table in ("audit_checkpoint", "audit_seal", "audit_seal_tenant", "audit_log"):
        await owner.execute(f"alter table atlas.{table} disable trigger all")
    for table in ("audit_checkpoint", "audit_seal", "audit_seal_tenant"):
        await owner.execute(f"delete from atlas.{table}")
    await owner.execute("update atlas.audit_log set body = body || '\\x20' where entity_id = '2'")

    auditor = {"ATLAS_HOME": str(tmp_path / "auditor")}
    for options in (["--key", str(key)], ["--key", str(key), "--state"]):
        done = await audit("verify", *options, "--json", **auditor)
        assert (done.code, {"unsealed", "guard"} - {finding["kind"] for finding in done.document["findings"]}) == (
            1,
            set(),
        )
    # Without a key, a young log may be one that was never sealed; its triggers are checked all the same.
    done = await audit("verify", "--json", **auditor)
    assert {finding["kind"] for finding in done.document["findings"]} == {"guard"}
    await owner.execute("update atlas.audit_log set created_at = created_at - interval '61 minutes'")
    done = await audit("verify", **auditor)
    assert done.code == 1
    assert "there is no seal at all: no sealer has run, or the seals were deleted" in done.stdout


async def test_an_auditor_without_the_key_of_the_installation_names_one(audit, written, tmp_path, conn):
    await seal(conn)
    assert "There is no public key" in (await audit("verify")).refusal
    assert not (tmp_path / "home" / "keys").exists()


@pytest.mark.long
async def test_the_command_itself_ends_with_the_verdict(atlas, key, owner):
    done = await atlas("audit", "verify", "--json")
    assert (done.code, done.document["ok"], done.document["findings"]) == (0, True, [])

    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute("update atlas.audit_log set body = body || '\\x20' where entity_id = '2'")
    done = await atlas("audit", "verify")
    assert done.code == 1
    assert "is not as it was when seal" in done.stdout


@pytest.mark.long
async def test_following_goes_on_until_it_is_interrupted(written, conn, database_url, tmp_path):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atlas.cli.main", "audit", "tail", "-f", "-n", "1", "--json"),
        cwd=tmp_path,
        env=environment(tmp_path / "home", DATABASE_URL=database_url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        # As in a shell's foreground: what runs in its background ignores interrupts, and so do its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        first = json.loads(await process.stdout.readline())
        await record(conn, Event("THING_ADDED", "thing", "t1", CALLER))
        second = json.loads(await process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
    assert [first["entity_id"], second["action"]] == ["4", "THING_ADDED"]


async def test_a_log_that_was_taken_from_its_owner_is_a_finding(audit, written, key, owner):
    assert (await audit("verify")).code == 0
    await owner.execute("alter table atlas.audit_log owner to current_user")
    done = await audit("verify")
    assert done.code == 1
    assert "guard      The owner of audit_log was changed" in done.stdout
    assert "The log was not verified, because its tables cannot be read" in done.stdout
