"""Verifying the live audit log: what it covers, what it stores, what it reports."""

from datetime import UTC, datetime, timedelta

import pytest

from atlas.audit.record import record
from atlas.audit.retention import new_epoch
from atlas.audit.sealing.checkpoint import publish
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.verify import LastVerified, verify
from atlas.audit.verifier.copies import NEWEST, read_copies
from atlas.audit.verifier.format import Report
from atlas.audit.verifier.signed_notes import Checkpoint
from tests.audit.given import CALLER, TENANTS, Installation, audit_log, event, kinds, prune_through, write


async def unguarded(owner, *tables: str) -> None:
    for table in tables:
        await owner.execute(f"alter table atlas.{table} disable trigger all")


async def cut(owner) -> int:
    """Take away the last window with its seals, and answer the size of the tree that is left."""
    await unguarded(owner, "audit_seal", "audit_seal_tenant", "audit_log", "audit_checkpoint")
    kept = await owner.fetchrow(
        "select n, size, snap_cur::text as snap from atlas.audit_seal where closes order by n desc offset 1 limit 1"
    )
    await owner.execute(
        "delete from atlas.audit_log where not pg_visible_in_snapshot(xid, $1::text::pg_snapshot)", kept["snap"]
    )
    await owner.execute(f"delete from atlas.audit_seal where n > {kept['n']}")
    await owner.execute(f"delete from atlas.audit_seal_tenant where n > {kept['n']}")
    return kept["size"]


async def test_a_whole_log_has_no_findings_and_reports_what_it_covers(conn, installation):
    await audit_log(conn, installation, seals=5)
    await record(conn, event(1))

    report = await verify(conn, installation.keys, installation.notes)
    assert report.findings == []
    assert report.rows + report.unsealed == await conn.fetchval("select count(*) from atlas.audit_log")
    assert report.unsealed == 1
    assert report.size == await conn.fetchval("select max(size) from atlas.audit_seal")
    assert (report.checkpoints, report.outside) == (5, 5)


async def test_progress_goes_up_to_the_end(conn, installation):
    await audit_log(conn, installation, seals=4)
    reported: list[tuple[int, int]] = []
    await verify(conn, installation.keys, progress=lambda done, total: reported.append((done, total)))

    assert [done for done, _ in reported] == sorted({done for done, _ in reported})
    assert reported[-1][0] == reported[-1][1]


async def test_rows_that_stay_unsealed_are_a_finding_after_a_minute(conn, owner, installation):
    await audit_log(conn, installation, seals=2)
    await record(conn, event(1))
    await unguarded(owner, "audit_seal")
    await owner.execute("update atlas.audit_seal set sealed_at = sealed_at - interval '61 seconds'")

    assert "unsealed" in kinds(await verify(conn, installation.keys))


async def test_without_a_recent_checkpoint_the_audit_log_is_stale(conn, installation):
    await write(conn, 3)
    await seal(conn)

    report = await verify(conn, installation.keys)
    assert [finding.kind for finding in report.findings] == ["stale"]
    assert "there is none" in report.findings[0].message


async def test_checkpoints_of_an_unknown_key_are_not_believed(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=2)
    stranger = Installation(tmp_path / "stranger")

    report = await verify(conn, stranger.keys)
    assert {finding.kind for finding in report.findings} == {"checkpoint", "stale"}


async def test_an_incremental_verification_covers_only_what_is_new(conn, owner, installation):
    await audit_log(conn, installation, seals=4)
    whole = await verify(conn, installation.keys, installation.notes)
    mark = LastVerified(whole.last_seal, whole.root)
    again = await verify(conn, installation.keys, installation.notes, since=mark)
    assert (again.findings, again.rows) == ([], 0)
    await audit_log(conn, installation, seals=2, seed=7)

    report = await verify(conn, installation.keys, installation.notes, since=mark)
    assert report.findings == []
    assert 0 < report.rows < whole.rows
    assert report.size == await conn.fetchval("select max(size) from atlas.audit_seal")

    await unguarded(owner, "audit_log")
    await owner.execute("delete from atlas.audit_log where id = (select max(id) from atlas.audit_log)")
    assert "row" in kinds(await verify(conn, installation.keys, since=mark))


async def test_rows_that_were_removed_beyond_the_mark_are_not_missing(conn, owner, installation):
    await audit_log(conn, installation, seals=2)
    marks = []
    for through in (0, 1, 4):  # before the mark there is no order, then one that does not reach it, then one beyond
        if through:
            await prune_through(owner, installation, through)
        await write(conn, 3)
        await seal(conn)
        await installation.sign(conn)
        marks.append(await verify(conn, installation.keys))
        for found in marks:
            mark = LastVerified(found.last_seal, found.root)
            assert (await verify(conn, installation.keys, installation.notes, since=mark)).findings == []


async def test_a_mark_that_no_longer_fits_makes_it_look_at_everything(conn, owner, installation):
    await audit_log(conn, installation, seals=3)
    report = await verify(conn, installation.keys, since=LastVerified(2, "00" * 32))

    assert report.seals == await conn.fetchval("select count(*) from atlas.audit_seal")
    assert [finding.kind for finding in report.findings] == ["seal"]


async def test_a_mark_survives_its_file(tmp_path):
    assert LastVerified.read(tmp_path / "none") is None
    LastVerified(7, "ab").write(tmp_path / "home" / "mark.json")
    assert LastVerified.read(tmp_path / "home" / "mark.json") == LastVerified(7, "ab")


@pytest.mark.parametrize(
    ("written", "changed"),
    [
        (False, "0"),
        (True, "1"),
        ([{"a": True}], '[{"a": 1}]'),
        (0, "false"),
        ([1], "[1, 1]"),
        (None, "[]"),
        (0.1, "0.10000000000000000001"),
    ],
)
async def test_a_search_column_that_only_seems_equal_is_found(conn, owner, installation, written, changed):
    await record(conn, event(1, value=written))
    await seal(conn)
    await installation.sign(conn)
    await unguarded(owner, "audit_log")
    await owner.execute("update atlas.audit_log set meta = jsonb_set(meta, '{value}', $1::text::jsonb)", changed)

    [finding] = (await verify(conn, installation.keys)).findings
    assert finding.message == "The search columns of row 1 differ from its bytes: meta."


HOSTILE = [
    ("audit_log", "meta = '{\"a\": 1e400}'", "copies"),
    ("audit_log", "meta = (repeat('[', 1500) || repeat(']', 1500))::jsonb", "copies"),
    ("audit_log", "body = convert_to(repeat('[', 200000) || '\"AUDIT_PRUNED\"', 'UTF8')", "row"),
    ("audit_log", "created_at = '4000-01-01 BC'", "row"),
    ("audit_seal", "snap_at = 'infinity'", "seal"),
    ("audit_seal", "snap_at = '-infinity'", "seal"),
    ("audit_seal", "snap_at = '4000-01-01 BC'", "seal"),
    ("audit_seal", "sealed_at = '4000-01-01 BC'", "seal"),
    ("audit_seal", "header = convert_to(repeat('[', 200000), 'UTF8')", "seal"),
    ("audit_checkpoint", "signed_at = '4000-01-01 BC'", "checkpoint"),
    ("audit_checkpoint", "signed_at = 'infinity'", "checkpoint"),
]


@pytest.mark.parametrize(("table", "change", "kind"), HOSTILE)
async def test_a_value_that_cannot_be_read_is_a_finding_among_others(conn, owner, installation, table, change, kind):
    await audit_log(conn, installation, seals=3)
    await write(conn, 1)
    await unguarded(owner, "audit_log", table)
    await owner.execute(f"update atlas.{table} set {change}")
    await owner.execute("delete from atlas.audit_log where id = 2")

    report = await verify(conn, installation.keys)
    assert kinds(report) >= {kind, "row"}
    assert any("Missing" in finding.message or "as it was" in finding.message for finding in report.findings)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
async def test_a_forged_running_number_is_a_finding(conn, owner, installation, number):
    await audit_log(conn, installation, seals=3)
    whole = await verify(conn, installation.keys)
    await audit_log(conn, installation, seals=2, seed=5)
    await unguarded(owner, "audit_seal_tenant")
    await owner.execute("update atlas.audit_seal_tenant set first_number = $1 where n <= $2", number, whole.last_seal)

    assert "seal" in kinds(await verify(conn, installation.keys))
    assert not (await verify(conn, installation.keys, since=LastVerified(whole.last_seal, whole.root))).ok


async def test_numbers_are_equal_however_the_database_writes_them(conn, installation):
    await record(conn, event(1, values=[1e16, 1.0, 1e300, -0.0, 2**60, 1.5e-7]))
    await seal(conn)
    await installation.sign(conn)

    assert (await verify(conn, installation.keys)).findings == []


async def test_a_changed_personal_value_is_found(conn, owner, installation):
    await record(conn, event(1), personal={"to": "ann@example.org"})
    await seal(conn)
    await installation.sign(conn)
    await unguarded(owner, "audit_private")
    await owner.execute("update atlas.audit_private set value = 'eve@example.org'")

    assert kinds(await verify(conn, installation.keys)) == {"private"}


@pytest.mark.parametrize(
    "change",
    [
        "update atlas.audit_private set entity_id = '2'",
        "update atlas.audit_private set field = 'subject'",
        "update atlas.audit_private set tenant_id = gen_random_uuid()",
        "update atlas.audit_private set tenant_id = null",
        "update atlas.audit_private set value = 'eve', commitment = sha256(salt || 'eve'::bytea)",
        "insert into atlas.audit_private (commitment, tenant_id, entity_id, field, salt, value)"
        " select sha256(salt || 'eve'::bytea), tenant_id, entity_id, field, salt, 'eve' from atlas.audit_private",
    ],
)
async def test_a_personal_value_that_no_event_of_its_thing_commits_to_is_found(conn, owner, installation, change):
    await record(conn, event(1, tenant_id=TENANTS[0]), personal={"to": ["ann@example.org"], "from": "bob@example.org"})
    await record(conn, event(2, tenant_id=TENANTS[0]))
    await seal(conn)
    await installation.sign(conn)
    assert kinds(await verify(conn, installation.keys)) == set()

    await unguarded(owner, "audit_private")
    await owner.execute(change)
    assert kinds(await verify(conn, installation.keys)) == {"private"}


async def test_an_outside_copy_shows_a_cut_that_the_database_alone_does_not(conn, owner, installation):
    await audit_log(conn, installation, seals=4)
    kept = await cut(owner)
    assert kinds(await verify(conn, installation.keys)) == {"cut"}  # the checkpoint itself covers more leaves

    await owner.execute(f"delete from atlas.audit_checkpoint where size > {kept}")
    assert kinds(await verify(conn, installation.keys)) == set()
    assert kinds(await verify(conn, installation.keys, installation.notes)) == {"cut"}


async def test_a_note_that_gives_up_a_longer_tree_does_not_excuse_itself(conn, owner, installation):
    await audit_log(conn, installation, seals=4)
    await publish(conn, installation.key, installation.copies, abandon=True)
    assert (await verify(conn, installation.keys, installation.notes)).ok
    await owner.execute(f"delete from atlas.audit_checkpoint where size > {await cut(owner)}")

    assert kinds(await verify(conn, installation.keys, installation.notes)) == {"cut"}


async def test_a_tree_that_was_given_up_leaves_no_doubt_about_what_was_signed_since(conn, installation):
    """Also where a later seal has the size that the lost tree had."""
    await audit_log(conn, installation, seals=2)
    size, at = await conn.fetchval("select max(size) from atlas.audit_seal"), datetime.now(UTC)
    name, sign = installation.key.name, installation.key.sign
    lost = sign(Checkpoint(name, size + 4, bytes(32), at))
    await write(conn, 1)
    await seal(conn)
    root = await conn.fetchval("select root from atlas.audit_seal order by n desc limit 1")
    given_up = sign(Checkpoint(name, size + 2, root, at + timedelta(seconds=1), abandons=size + 4))
    await conn.execute(
        "insert into atlas.audit_checkpoint values ($1, $2, 1, $3, $4)",
        size + 2,
        installation.key.label,
        given_up,
        at + timedelta(seconds=1),
    )
    for _ in range(4):
        await write(conn, 1)
        await seal(conn)
        await installation.sign(conn)

    report = await verify(conn, installation.keys, [lost, given_up, *installation.notes])
    assert report.findings == []
    assert report.notices == [f"The signer abandoned the tree of {size + 4} leaves signed at {at}."]


async def test_a_note_that_gives_up_a_tree_stays_in_view_among_the_copies(conn, installation):
    await audit_log(conn, installation, seals=2)
    mark = await verify(conn, installation.keys)
    key, at = installation.key, datetime.now(UTC)
    given_up = key.sign(Checkpoint(key.name, mark.size, bytes.fromhex(mark.root), at, abandons=mark.size + 4))
    lost = key.sign(Checkpoint(key.name, mark.size + 4, bytes(32), at - timedelta(seconds=1)))
    for _ in range(3):
        await write(conn, 1)
        await seal(conn)
        await installation.sign(conn)
    [file] = installation.copies.glob("*.checkpoints")
    for day, notes in (
        ("2026-01-01", [lost]), ("2026-01-02", [given_up, *installation.notes]),
        ("2026-01-03", [given_up, *installation.notes * NEWEST]),
    ):  # fmt: skip
        (installation.copies / f"{day}.checkpoints").write_text("\n".join(notes))
    file.unlink()

    copies = read_copies(installation.copies)
    assert (copies.count(given_up), len(copies)) == (2, 1 + 2 + 1 + NEWEST)
    report = await verify(conn, installation.keys, copies, since=LastVerified(mark.last_seal, mark.root))
    assert report.findings == []


async def test_an_audit_log_without_any_row_is_whole(conn, installation):
    await seal(conn)
    await installation.sign(conn)
    assert (await verify(conn, installation.keys)).ok


def test_a_report_does_not_grow_without_end():
    report = Report()
    for number in range(5000):
        report.find("row", f"row {number}")
    assert len(report.findings) == 1001
    assert report.findings[-1].kind == "more"


async def test_a_deleted_checkpoint_is_reported_where_a_copy_holds_it(conn, owner, installation):
    await audit_log(conn, installation, seals=4)
    await unguarded(owner, "audit_checkpoint")
    signed = [row["size"] for row in await conn.fetch("select size from atlas.audit_checkpoint order by size")]
    for size in (signed[1], signed[-1]):
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute(f"delete from atlas.audit_checkpoint where size = {size}")
        alone, report = (
            await verify(owner, installation.keys),
            await verify(owner, installation.keys, installation.notes),
        )
        await transaction.rollback()
        assert kinds(alone) == set()
        [finding] = report.findings
        assert (finding.kind, f"The checkpoint of {size} leaves" in finding.message) == ("checkpoint", True)
        assert "it was deleted" in finding.message


async def test_a_checkpoint_that_a_failover_lost_is_stored_again(conn, owner, installation):
    await audit_log(conn, installation, seals=2)
    await unguarded(owner, "audit_checkpoint")
    await owner.execute(
        "delete from atlas.audit_checkpoint where size = (select max(size) from atlas.audit_checkpoint)"
    )
    await write(conn, 1)
    await seal(conn)
    await installation.sign(conn)
    assert (await verify(conn, installation.keys, installation.notes)).findings == []


async def test_the_last_checkpoint_of_an_epoch_may_be_lost_with_its_restore(conn, owner, installation):
    await audit_log(conn, installation, seals=2)
    await unguarded(owner, "audit_checkpoint")
    await owner.execute(
        "delete from atlas.audit_checkpoint where size = (select max(size) from atlas.audit_checkpoint)"
    )
    await new_epoch(owner, reason="restored", actor=CALLER, facts={"lost": {"kept_size": 1}})
    await seal(conn)
    await installation.sign(conn)
    report = await verify(conn, installation.keys, installation.notes)
    assert report.findings == []
    assert any("the restore that ended epoch 1 may have lost it" in notice for notice in report.notices)
