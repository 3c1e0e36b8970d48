"""Which keys signed the audit log: events name them, and the history of keys outlives the rows that held it."""

from datetime import timedelta

import orjson
import pytest

from atlas.audit.exports.export import Extract, export
from atlas.audit.keys import SigningKey
from atlas.audit.retention import new_epoch, prune
from atlas.audit.sealing.seal import seal
from atlas.audit.sealing.sealer import seal_and_sign
from atlas.audit.sealing.tree_head import Head
from atlas.audit.verification.verify import unnamed_key, verify
from atlas.audit.verifier.export import verify_export
from atlas.audit.verifier.signed_notes import VerifierKey
from tests.audit.given import CALLER, Installation, replaced_key, write

TABLES = ("audit_seal", "audit_seal_tenant", "audit_checkpoint", "audit_log", "audit_pruned")


async def opened(owner) -> None:
    """What a superuser does first."""
    for table in TABLES:
        await owner.execute(f"alter table atlas.{table} disable trigger all")


async def rotated(conn, owner, pool, installation: Installation) -> tuple[SigningKey, SigningKey]:
    """A log that one key signed, and then another one that the first has named; both keys."""
    await seal_and_sign(pool, installation.settings)
    await write(conn, 3)
    await seal_and_sign(pool, installation.settings)
    first = installation.key
    second = replaced_key(installation.settings)
    facts = {"key": second.public, "handover": first.hand_over(second)}
    await new_epoch(owner, reason="a new key", actor=CALLER, facts=facts)
    for _ in range(2):
        await write(conn, 2)
        await seal_and_sign(pool, installation.settings)
    return first, second


async def exported(conn, path):
    with path.open("wb") as file:
        async for piece in export(conn, Extract(), actor=CALLER):
            file.write(piece)
    return path


def verifier_keys(*keys: SigningKey) -> list[VerifierKey]:
    return [VerifierKey.parse(key.public) for key in keys]


async def prune_all(owner, key: SigningKey) -> int:
    """Remove the rows of every seal but the newest ones; their age is for other tests."""
    await owner.execute("alter table atlas.audit_seal disable trigger all")
    pruned = await prune(owner, older_than=timedelta(0), actor=CALLER, key=key)
    await owner.execute("alter table atlas.audit_seal enable always trigger audit_seal_append_only")
    assert pruned is not None
    return pruned.through_seal


async def test_the_first_key_is_named_once_before_it_signs(conn, pool, installation, tmp_path):
    for _ in range(3):
        await seal_and_sign(pool, installation.settings)
    [row] = await conn.fetch("select epoch, entity_id, meta from atlas.audit_log where action = 'AUDIT_KEY'")
    assert (row["entity_id"], orjson.loads(row["meta"])) == ("1", {"epoch": 1, "key": installation.key.public})
    assert await conn.fetchval("select min(size) from atlas.audit_checkpoint") == 2  # its own leaf and the seal's
    assert await unnamed_key(conn) == []

    other = Installation(tmp_path / "other")
    assert not await conn.fetchval("select atlas.audit_name_key($1)", other.key.public)


@pytest.mark.long
async def test_who_signed_each_key_is_known_after_the_rows_that_said_so_were_removed(
    conn, owner, pool, installation, tmp_path
):
    first, second = await rotated(conn, owner, pool, installation)
    said = "from epoch 2 on .*, which the key before it signed"
    keys = verifier_keys(first, second)
    report = await verify(conn, keys, installation.notes)
    assert (report.findings, "which the key before it signed" in report.notices[0]) == ([], True), said

    for _ in range(2):  # the second order carries on what the first one kept
        through = await prune_all(owner, second)
        assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'AUDIT_EPOCH'") == 0
        await write(conn, 1)
        await seal_and_sign(pool, installation.settings)
    report = await verify(conn, keys, installation.notes)
    assert (report.findings, report.pruned > 0, through > 3) == ([], True, True)
    assert "which the key before it signed" in report.notices[0]
    offline = verify_export(await exported(conn, tmp_path / "all.jsonl"), keys, installation.notes)
    assert (offline.findings, "which the key before it signed" in offline.notices[0]) == ([], True)


async def test_a_checkpoint_that_was_deleted_from_an_epoch_which_a_new_key_ended_is_found(
    conn, owner, pool, installation
):
    first, second = await rotated(conn, owner, pool, installation)
    await opened(owner)
    await owner.execute(
        "delete from atlas.audit_checkpoint where size = (select max(size) from atlas.audit_checkpoint where epoch = 1)"
    )
    report = await verify(conn, verifier_keys(first, second), installation.notes)
    copy, event = [finding.message for finding in report.findings]
    assert copy.endswith(", though an outside copy holds it: it was deleted.")
    assert event.endswith(" as the event of epoch 2 says: 1 of them deleted.")


@pytest.mark.long
@pytest.mark.parametrize("deleted", ["all of them", "the first", "the last"])
async def test_deleted_checkpoints_of_an_ended_epoch_are_found_without_outside_copies(
    conn, owner, pool, installation, tmp_path, deleted
):
    """The event of the next epoch counts them, and the event of a removal repeats it."""
    first, second = await rotated(conn, owner, pool, installation)
    keys = verifier_keys(first, second)
    if deleted == "the first":
        await prune_all(owner, second)
        await seal_and_sign(pool, installation.settings)
    for report in (await verify(conn, keys), verify_export(await exported(conn, tmp_path / "whole.jsonl"), keys)):
        assert report.findings == []
    await seal_and_sign(pool, installation.settings)

    await opened(owner)
    chosen = {"all of them": "true", "the first": "size = first", "the last": "size = last"}[deleted]
    gone = await owner.fetchval(
        "with gone as (delete from atlas.audit_checkpoint c using (select min(size) as first, max(size) as last"
        f" from atlas.audit_checkpoint where epoch = 1) x where c.epoch = 1 and {chosen} returning 1) select count(*) from gone"
    )
    offline = verify_export(await exported(conn, tmp_path / "all.jsonl"), keys)
    for report in (await verify(conn, keys), offline):
        [finding] = report.findings
        assert finding.kind == "checkpoint"
        assert finding.message.endswith(f"as the event of epoch 2 says: {gone} of them deleted.")


async def test_a_log_that_was_sealed_anew_with_a_new_key_is_found(
    conn, owner, pool, installation, tmp_path, monkeypatch
):
    await write(conn, 3)
    await seal_and_sign(pool, installation.settings)
    await opened(owner)
    await owner.execute(
        "update atlas.audit_log set actor_id = 'mallory', body = convert_to(replace(convert_from(body, 'UTF8'), 'dana', 'mallory'), 'UTF8')"
        " where actor_id = 'dana'"
    )
    for table in TABLES[:3]:
        await owner.execute(f"delete from atlas.{table}")
    forger = Installation(tmp_path / "forger")
    monkeypatch.setattr(Head, "check_signer", lambda head: None)
    await seal(conn)
    await forger.sign(conn)

    keys = [*installation.keys, *forger.keys]
    [finding] = (await verify(conn, keys)).findings
    assert finding.message.endswith(
        f"is signed by the key {forger.key.label}, but epoch 1 is signed by {installation.key.label}."
    )
    [offline] = verify_export(await exported(conn, tmp_path / "all.jsonl"), keys).findings
    assert offline.message == finding.message

    await owner.execute("delete from atlas.audit_log where action = 'AUDIT_KEY'")
    [finding] = await unnamed_key(conn)
    assert "No event names the key that signs epoch 1" in finding.message


@pytest.mark.parametrize("forged", ["nothing", "another seal", "another key"])
async def test_a_forged_prune_with_its_event_is_found_offline(conn, owner, pool, installation, tmp_path, forged):
    await write(conn, 3)
    await seal_and_sign(pool, installation.settings)
    await write(conn, 3)
    await seal_and_sign(pool, installation.settings)
    seals = {row["n"]: row for row in await conn.fetch("select n, size, root from atlas.audit_seal where count > 1")}
    last = max(seals)
    signers = {
        "another seal": (installation.key, min(seals)),
        "another key": (Installation(tmp_path / "eve").key, last),
    }
    meta = {}
    if forged in signers:
        key, n = signers[forged]
        meta = {"order": key.order_prune(n, seals[n]["size"], seals[n]["root"])}
    await owner.execute(
        "select atlas.audit_prune($1, 'user', 'dana', $2::text::jsonb)", last, orjson.dumps(meta).decode()
    )
    await seal_and_sign(pool, installation.settings)
    path = await exported(conn, tmp_path / "all.jsonl")
    for report in (verify_export(path, installation.keys), await verify(conn, installation.keys)):
        [finding] = report.findings
        assert "were removed by an order that no key has signed" in finding.message
