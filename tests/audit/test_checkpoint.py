"""Checkpoints: who signs, what is signed, where it goes, and what is refused a signature."""

import fcntl
import json
import os
import re
import shutil
import stat
from datetime import UTC, datetime

import asyncpg
import pytest

from atlas.audit.keys import key_file, public_key_file, public_keys, read_keys, signing_key
from atlas.audit.retention import new_epoch
from atlas.audit.sealing.checkpoint import InconsistentTree, NotCopied, publish
from atlas.audit.sealing.seal import seal
from atlas.audit.sealing.tree_head import OtherSigner
from atlas.audit.verification.verify import verify
from atlas.audit.verifier.signed_notes import BadNote, Checkpoint, VerifierKey, open_note, split_notes
from atlas.errors import SettingsError
from atlas.settings import load_settings
from tests.audit.given import CALLER, Installation, audit_log, kinds, replaced_key, roll_back, write


def test_the_key_is_made_once_for_its_owner_alone(tmp_path):
    settings = load_settings(atlas_home=tmp_path)
    first, second = signing_key(settings), signing_key(settings)

    assert first.public == second.public
    assert stat.S_IMODE(key_file(settings).stat().st_mode) == 0o600
    assert key_file(settings) == tmp_path / "keys" / "audit.key"
    assert [key.name for key in read_keys([public_key_file(settings)])] == [first.name]


def test_a_key_file_that_was_named_is_never_made_up(tmp_path):
    with pytest.raises(SettingsError, match=r"ATLAS_AUDIT_KEY_FILE names .* which does not exist"):
        signing_key(load_settings(atlas_home=tmp_path, atlas_audit_key_file=tmp_path / "audit.key"))


def test_a_key_whose_public_half_is_left_is_not_made_up(tmp_path):
    settings = load_settings(atlas_home=tmp_path)
    public = signing_key(settings).public
    key_file(settings).unlink()
    with pytest.raises(SettingsError, match="is missing, and its public half is here"):
        signing_key(settings)
    assert (public_key_file(settings).read_text().strip(), key_file(settings).exists()) == (public, False)

    other = replaced_key(settings)
    kept = {file.read_text().strip() for file in (tmp_path / "keys").glob("audit*.pub")}
    assert (kept, public_key_file(settings).read_text().strip()) == ({public, other.public}, other.public)
    assert (signing_key(settings).public, other.name) == (other.public, public.split("+")[0])


def test_several_public_halves_in_one_file_are_all_kept(tmp_path):
    settings = load_settings(atlas_home=tmp_path)
    own, older = signing_key(settings), signing_key(load_settings(atlas_home=tmp_path / "older"))
    public_key_file(settings).write_text(f"{own.public}\n{older.public}\n")

    signing_key(settings)

    assert public_key_file(settings).read_text() == f"{own.public}\n"
    assert [key.name for key in public_keys(settings)] == [own.name, older.name]


async def test_a_key_that_may_be_lost_does_not_begin_an_epoch(conn, owner, installation):
    await audit_log(conn, installation, seals=1)
    await new_epoch(owner, reason="the key is lost", actor=CALLER)
    await write(conn, 2)
    await seal(conn)

    assert await publish(conn, installation.key, installation.copies, may_begin=False) is None
    assert await publish(conn, installation.key, installation.copies) is not None


def test_a_file_that_is_no_key_is_refused_with_its_name(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "audit.key").write_text("nonsense")
    with pytest.raises(SettingsError, match=r"audit\.key cannot be used"):
        signing_key(load_settings(atlas_home=tmp_path))
    with pytest.raises(SettingsError, match="is not a key"):
        read_keys([tmp_path / "keys" / "audit.key"])


def test_machines_that_share_a_key_sign_as_one_log(tmp_path):
    home = load_settings(atlas_home=tmp_path / "a")
    key = signing_key(home)
    other = load_settings(atlas_home=tmp_path / "b", atlas_audit_key_file=key_file(home))
    assert signing_key(other).public == key.public


def test_a_note_is_the_text_that_other_tools_read(installation):
    at = datetime(2026, 11, 15, 12, tzinfo=UTC)
    note = installation.key.sign(Checkpoint(installation.key.name, 7, bytes(32), at))

    lines = note.split("\n")
    assert lines[:3] == [installation.key.name, "7", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]
    assert lines[3] == "time 2026-11-15T12:00:00+00:00"
    assert lines[4] == ""
    assert lines[5].startswith(f"— {installation.key.name} ")
    assert open_note(note, installation.keys) == Checkpoint(installation.key.name, 7, bytes(32), at)


def test_a_known_note_opens_with_its_known_key():
    """The example of the signed-note specification's reference implementation."""
    key = VerifierKey.parse("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    note = (
        "If you think cryptography is the answer to your problem,\n"
        "then you don't know what your problem is.\n\n"
        "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
    )
    with pytest.raises(BadNote, match="is not a checkpoint"):
        open_note(note, [key])
    with pytest.raises(BadNote, match="wrong signature"):
        open_note(note.replace("answer", "reason"), [key])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda note: note.replace("\n7\n", "\n8\n"), "wrong signature"),
        (lambda note: note.replace("— atlas", "— other"), "not signed by a key"),
        (lambda note: note.rsplit("\n", 2)[0], "signature"),
        (lambda note: note.rstrip("\n")[:-9] + "\n", "signature"),
        (lambda note: "", "not signed by a key"),
    ],
)
def test_a_note_that_was_touched_is_refused(installation, change, reason):
    note = installation.key.sign(Checkpoint(installation.key.name, 7, bytes(32), datetime.now(UTC)))
    with pytest.raises(BadNote, match=reason):
        open_note(change(note), installation.keys)


def test_a_note_of_another_log_is_refused_although_its_signature_is_right(installation):
    note = installation.key.sign(Checkpoint("another-log", 7, bytes(32), datetime.now(UTC)))
    with pytest.raises(BadNote, match="belongs to the log another-log"):
        open_note(note, installation.keys)


async def test_the_newest_seal_is_signed_stored_and_copied_once(conn, installation):
    assert await publish(conn, installation.key, installation.copies) is None
    await write(conn, 3)
    await seal(conn)
    signed = await publish(conn, installation.key, installation.copies)
    assert signed is not None
    assert await publish(conn, installation.key, installation.copies) is None

    [stored] = await conn.fetch("select * from atlas.audit_checkpoint")
    assert stored["note"] == installation.notes[0]
    assert len(installation.notes) == 1
    assert (stored["size"], stored["signed_at"]) == (signed.size, signed.at) == (4, signed.at)


async def test_a_signer_that_died_before_its_copies_were_made_makes_them_next_time(conn, installation):
    await write(conn, 1)
    await seal(conn)
    installation.copies.write_text("a file where the folder should be")
    with pytest.raises(NotCopied, match="File exists"):
        await publish(conn, installation.key, installation.copies)

    installation.copies.unlink()
    await publish(conn, installation.key, installation.copies)
    assert len(installation.notes) == 1


async def test_a_copy_that_a_crash_cut_off_does_not_spoil_the_next(conn, installation):
    await audit_log(conn, installation, seals=2)
    [file] = installation.copies.iterdir()
    whole = file.read_text()
    for cut in range(1, len(whole) // 2 - 2):
        file.write_text(whole + "\n" + whole[:cut] + "\n" + whole)
        assert len(installation.notes) == 4
        for note in installation.notes:
            open_note(note, installation.keys)


async def test_the_signer_refuses_a_tree_whose_end_was_cut_off(conn, owner, installation):
    await audit_log(conn, installation, seals=4)
    for table in ("audit_seal", "audit_seal_tenant", "audit_log"):
        await owner.execute(f"alter table atlas.{table} disable trigger all")
    await owner.execute("delete from atlas.audit_seal where n = (select max(n) from atlas.audit_seal)")

    with pytest.raises(InconsistentTree, match="do not continue"):
        await publish(conn, installation.key, installation.copies)


async def cut_off(owner, before: int) -> None:
    """Delete the end of the audit log, with the notes about it."""
    for table, column in (("audit_seal", "size"), ("audit_checkpoint", "size")):
        await owner.execute(f"alter table atlas.{table} disable trigger all")
        await owner.execute(f"delete from atlas.{table} where {column} > {before}")


async def test_a_signer_without_its_state_goes_by_the_newest_copy(conn, owner, installation):
    await audit_log(conn, installation, seals=4)
    (installation.key.folder / "audit.state").unlink()
    assert await publish(conn, installation.key, installation.copies) is None

    await cut_off(owner, await conn.fetchval("select max(size) from atlas.audit_seal") - 1)
    with pytest.raises(InconsistentTree, match="do not continue"):
        await publish(conn, installation.key, installation.copies)


async def test_a_signer_goes_by_what_another_machine_signed_with_its_key(conn, owner, installation, tmp_path):
    await audit_log(conn, installation, seals=2)
    other = Installation(tmp_path / "other")
    shutil.copy(key_file(installation.settings), key_file(other.settings))
    other = Installation(tmp_path / "other")
    other.copies = installation.copies
    await other.sign(conn)
    await audit_log(conn, installation, seals=2, seed=3)

    await cut_off(owner, await conn.fetchval("select max(size) from atlas.audit_seal") - 1)
    with pytest.raises(InconsistentTree, match="do not continue"):
        await other.sign(conn)


async def test_a_copy_that_is_cut_foreign_or_forged_is_passed_over(conn, owner, installation, tmp_path):
    await audit_log(conn, installation, seals=2)
    (installation.key.folder / "audit.state").unlink()
    forged = installation.notes[-1].replace(
        f"\n{await conn.fetchval('select max(size) from atlas.audit_seal')}\n", "\n9999\n"
    )
    foreign = Installation(tmp_path / "other").key.sign(Checkpoint("x", 9999, bytes(32), datetime.now(UTC)))
    (installation.copies / "2999-01-01.checkpoints").write_text(f"{forged}\n{foreign}\n{forged[:40]}")
    (installation.copies / "2999-01-02.checkpoints").write_bytes(b"\xff\xfe")

    assert await publish(conn, installation.key, installation.copies) is None
    await audit_log(conn, installation, seals=1, seed=3)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "7", '{"size": 3}', '{"size": 3, "root": "", "note": 7, "epoch": 1}']
)
async def test_a_signer_whose_state_is_damaged_refuses_and_says_where_it_is(conn, installation, content):
    await audit_log(conn, installation, seals=1)
    (installation.key.folder / "audit.state").write_text(content)
    with pytest.raises(SettingsError, match=r"audit\.state cannot be used"):
        await installation.sign(conn)


async def test_a_state_that_was_changed_is_refused(conn, installation):
    await audit_log(conn, installation, seals=1)
    state = installation.key.folder / "audit.state"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"size": 1}))
    with pytest.raises(SettingsError, match="contradicts itself"):
        await installation.sign(conn)


async def test_the_signer_refuses_a_tree_that_grew_again_from_another_history(conn, owner, installation):
    await audit_log(conn, installation, seals=3)
    for table in ("audit_seal", "audit_seal_tenant", "audit_log"):
        await owner.execute(f"alter table atlas.{table} disable trigger all")
    await owner.execute("truncate atlas.audit_seal, atlas.audit_seal_tenant")
    await write(conn, 40)
    await seal(conn)

    with pytest.raises(InconsistentTree):
        await publish(conn, installation.key, installation.copies)
    assert len(installation.notes) == 3


async def lose_the_end(conn, owner, installation) -> int:
    """An audit log whose end a failover has removed; returns how many leaves were signed."""
    await audit_log(conn, installation, seals=4)
    size = await conn.fetchval("select max(size) from atlas.audit_seal")
    await roll_back(owner, below=size - 8)
    assert "cut" in kinds(await verify(conn, installation.keys, installation.notes))
    return size


@pytest.mark.long
async def test_a_signer_that_abandons_a_lost_end_says_so_and_verification_reports_it(conn, owner, installation):
    size = await lose_the_end(conn, owner, installation)
    await write(conn, 2)
    await seal(conn)
    given_up = await publish(conn, installation.key, installation.copies, abandon=True)
    assert given_up is not None
    assert given_up.abandons == size
    report = await verify(conn, installation.keys, installation.notes)
    assert report.findings == []
    assert any("The signer abandoned the tree" in notice for notice in report.notices)


@pytest.mark.parametrize("again", [False, True])
async def test_a_signer_that_died_while_it_gave_up_a_lost_end_says_so_next_time(conn, owner, installation, again):
    size = await lose_the_end(conn, owner, installation)
    await owner.execute("revoke insert on atlas.audit_checkpoint from atlas_engine")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await publish(conn, installation.key, installation.copies, abandon=True)
    await owner.execute("grant insert on atlas.audit_checkpoint to atlas_engine")

    given_up = await publish(conn, installation.key, installation.copies, abandon=again)
    assert given_up is not None
    assert given_up.abandons == size
    await audit_log(conn, installation, seals=2, seed=3)
    assert open_note(installation.notes[-1], installation.keys).abandons == 0
    assert (await verify(conn, installation.keys, installation.notes)).findings == []


async def test_another_key_does_not_sign_beside_the_first(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=1)
    other = Installation(tmp_path / "other")
    await write(conn, 1)
    await seal(conn)
    with pytest.raises(OtherSigner, match=f"signed by the key {re.escape(installation.key.label)}"):
        await publish(conn, other.key, other.copies)


async def test_only_one_process_signs_at_a_time(conn, installation):
    await write(conn, 1)
    await seal(conn)

    with (installation.key.folder / "audit.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert await publish(conn, installation.key, installation.copies) is None
    assert await publish(conn, installation.key, installation.copies) is not None


@pytest.mark.parametrize("name", ["audit.lock", "audit.state.new"])
async def test_a_signer_that_cannot_write_beside_its_key_says_where(conn, installation, name):
    (installation.key.folder / name).mkdir()
    await write(conn, 1)
    await seal(conn)
    with pytest.raises(SettingsError, match=r"cannot write its state in .*keys: .*Is a directory"):
        await installation.sign(conn)


async def test_the_state_of_the_signer_is_whole_and_private(conn, installation):
    await audit_log(conn, installation, seals=2)
    state = installation.key.folder / "audit.state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert json.loads(state.read_text())["size"] == await conn.fetchval("select max(size) from atlas.audit_seal")
    assert os.listdir(installation.key.folder).count("audit.state.new") == 0


def test_a_file_of_notes_is_split_into_notes(installation):
    notes = [
        installation.key.sign(Checkpoint(installation.key.name, size, bytes(32), datetime.now(UTC))) for size in (1, 2)
    ]
    assert split_notes("\n".join(notes)) == notes
    assert split_notes("".join(notes)) == notes
    assert split_notes("") == []
