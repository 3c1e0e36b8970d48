"""Whatever a superuser does to the tables is found; two kinds need a checkpoint kept outside the database."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from atlas.audit.keys import SigningKey
from atlas.audit.record import record
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.verify import verify
from atlas.audit.verifier.signed_notes import Checkpoint, open_note
from atlas.db.pool import Connection
from tests.audit.given import TENANTS, Installation, audit_log, event, kinds, write
from tests.support import PROOF

TRIALS = 10 if not PROOF else 200
TABLES = (
    "audit_log",
    "audit_seal",
    "audit_seal_tenant",
    "audit_checkpoint",
    "audit_private",
    "audit_epoch",
    "audit_pruned",
)


@dataclass
class Trial:
    """A superuser at work on an audit log whose triggers, checks and keys are all out of the way."""

    conn: Any
    random: Random
    installation: Installation

    async def rows(self, where: str = "true") -> list[Any]:
        return await self.conn.fetch(f"select *, ctid from atlas.audit_log where {where} order by epoch, xid, id")

    async def seals(self) -> list[Any]:
        return await self.conn.fetch("select * from atlas.audit_seal order by n")

    async def set(self, table: str, where: str, **columns: str) -> None:
        changes = ", ".join(f"{name} = {value}" for name, value in columns.items())
        assert await self.conn.execute(f"update atlas.{table} set {changes} where {where}") == "UPDATE 1"

    def one(self, things: list[Any]) -> Any:
        return self.random.choice(things)


# Every column of a row, and something else to put there.
CHANGES = {
    "id": "id + 1000",
    "epoch": "epoch + 1",
    "xid": "(xid::text::bigint - 1)::text::xid8",
    "created_at": "created_at + interval '1 microsecond'",
    "tenant_id": "gen_random_uuid()",
    "actor_type": "case actor_type when 'user' then 'agent' else 'user' end::atlas.actor_type",
    "actor_id": "actor_id || 'x'",
    "level": "case level when 'info' then 'warn' else 'info' end::atlas.audit_level",
    "action": "action || '_NOT'",
    "entity_type": "upper(entity_type)",
    "entity_id": "entity_id || '0'",
    "message": "message || ' '",
    "meta": "meta || '{\"n\": -1}'",
    "body": "set_byte(body, 5, 33)",
}
COPIES = ("actor_type", "actor_id", "level", "action", "entity_type", "entity_id", "message", "meta")
SEAL_CHANGES = {
    "epoch": "epoch + 1",
    "system_identifier": "system_identifier + 1",
    "snap_prev": "'1:2:'::pg_snapshot",
    "snap_cur": "format('%s:%s:', pg_snapshot_xmin(snap_cur), pg_snapshot_xmax(snap_cur)::text::int + 1)::pg_snapshot",
    "snap_at": "snap_at - interval '1 second'",
    "closes": "not closes",
    "rest": "not rest",
    "to_xid": "(to_xid::text::bigint + 1)::text::xid8",
    "to_id": "to_id + 1",
    "max_id": "max_id + 1",
    "first_index": "first_index + 10000",
    "count": "count + 1",
    "size": "size + 10000",
    "sealed_at": "sealed_at - interval '1 second'",
    "header": "set_byte(header, 2, 33)",
    "leaf_hashes": "set_byte(leaf_hashes, 7, (get_byte(leaf_hashes, 7) + 1) % 256)",
    "frontier": "set_byte(frontier, 7, (get_byte(frontier, 7) + 1) % 256)",
    "root": "set_byte(root, 7, (get_byte(root, 7) + 1) % 256)",
}


async def change_any_column(trial: Trial) -> None:
    row, column = trial.one(await trial.rows()), trial.one(list(CHANGES))
    await trial.set("audit_log", f"ctid = '{_tid(row)}'", **{column: CHANGES[column]})


async def change_search_columns(trial: Trial) -> None:
    row, columns = trial.one(await trial.rows()), trial.random.sample(COPIES, trial.random.randint(1, 3))
    await trial.set("audit_log", f"ctid = '{_tid(row)}'", **{column: CHANGES[column] for column in columns})


async def delete_rows(trial: Trial) -> None:
    rows = trial.random.sample(await trial.rows(), trial.random.randint(1, 3))
    await trial.conn.execute("delete from atlas.audit_log where id = any ($1)", [row["id"] for row in rows])


async def insert_with_a_past_time(trial: Trial) -> None:
    """A row that claims to be of an old transaction, beside the rows that it really wrote."""
    row = trial.one(await trial.rows())
    same = "created_at, tenant_id, actor_type, actor_id, action, entity_type, entity_id, message, meta, body"
    await trial.conn.execute(
        f"insert into atlas.audit_log (id, xid, epoch, {same})"
        f" select $1, $2::text::xid8, epoch, {same} from atlas.audit_log where ctid = $3::text::tid",
        trial.one([row["id"], row["id"] + 1, 10_000]),
        # Of a transaction that is in the audit log: an id that no row has may belong to one of another database that is
        # still under way, and a row of such a one is not old.
        str(trial.one([row, trial.one(await trial.rows())])["xid"]),
        _tid(row),
    )


async def swap_two_rows(trial: Trial) -> None:
    first, second = (_tid(row) for row in trial.random.sample(await trial.rows(), 2))
    columns = trial.one([["body", "tenant_id", *COPIES], ["created_at"], ["id"]])
    await trial.conn.execute(
        f"update atlas.audit_log a set {', '.join(f'{column} = b.{column}' for column in columns)} from atlas.audit_log b"
        f" where (a.ctid, b.ctid) in (('{first}'::tid, '{second}'::tid), ('{second}'::tid, '{first}'::tid))"
    )


async def seal_anew(trial: Trial) -> None:
    """Change a row, throw away every later seal and signature, and have the sealer make them again."""
    seals = await trial.seals()
    kept = trial.one([one for one in seals[:-1] if one["closes"]])
    await _cut_seals(trial, kept)
    rows = await trial.rows(f"not pg_visible_in_snapshot(xid, '{_snapshot(kept)}')")
    row = trial.one(rows)
    forged = "convert_to(replace(convert_from(body, 'UTF8'), message, 'forged'), 'UTF8')"
    await trial.set("audit_log", f"ctid = '{_tid(row)}'", message="'forged'", body=forged)
    await seal(trial.conn)


async def cut_the_tail(trial: Trial) -> None:
    kept = trial.one([one for one in (await trial.seals())[:-1] if one["closes"]])
    await _cut_seals(trial, kept)
    await trial.conn.execute(
        "delete from atlas.audit_log where not pg_visible_in_snapshot(xid, $1::text::pg_snapshot)", _snapshot(kept)
    )


async def replay_an_old_backup(trial: Trial) -> None:
    """Every table as it was when the newest checkpoint was ten minutes old."""
    for table in TABLES:
        await trial.conn.execute(f"delete from atlas.{table}; insert into atlas.{table} select * from backup.{table}")


async def change_a_seal(trial: Trial) -> None:
    if trial.random.random() < 0.1:
        one = trial.one(await trial.conn.fetch("select * from atlas.audit_seal_tenant"))
        column = trial.one(["first_number", "count", "n"])
        where = f"tenant_id = '{one['tenant_id']}' and n = {one['n']}"
        return await trial.set("audit_seal_tenant", where, **{column: f"{column} + 100"})
    column = trial.one(list(SEAL_CHANGES))
    n = trial.one(await trial.seals())["n"]
    return await trial.set("audit_seal", f"n = {n}", **{column: SEAL_CHANGES[column]})


async def change_a_checkpoint(trial: Trial) -> None:
    one = trial.one(await trial.conn.fetch("select * from atlas.audit_checkpoint"))
    where, note = f"size = {one['size']}", one["note"]
    match trial.random.randrange(6):
        case 0:
            await trial.set("audit_checkpoint", where, size="size + 1")
        case 1:
            await trial.set("audit_checkpoint", where, signed_at="signed_at + interval '1 second'")
        case 2:
            await trial.set("audit_checkpoint", where, key_name="key_name || 'x'")
        case 3:
            await trial.set("audit_checkpoint", where, epoch="epoch + 1")
        case 4:
            at = trial.random.randrange(len(note))
            forged = note[:at] + ("A" if note[at] != "A" else "B") + note[at + 1 :]
            await trial.conn.execute(f"update atlas.audit_checkpoint set note = $1 where {where}", forged)
        case 5:
            thief = SigningKey(
                one["key_name"].split("+")[0], Ed25519PrivateKey.generate(), trial.installation.copies, "thief"
            )
            signed = open_note(note, trial.installation.keys)
            forged = thief.sign(Checkpoint(signed.origin, signed.size, os.urandom(32), signed.at))
            await trial.conn.execute(f"update atlas.audit_checkpoint set note = $1 where {where}", forged)


async def drop_a_whole_batch(trial: Trial) -> None:
    """A seal with its rows, or only the one or the other; not the last one, which would be a cut tail."""
    seals = await trial.seals()
    n = trial.one([one["n"] for one in seals[:-1] if one["count"] > 1])
    what = trial.one(["both", "rows", "seal"])
    if what != "seal":
        await trial.conn.execute(
            "delete from atlas.audit_log a using atlas.audit_seal s where s.n = $1 and pg_visible_in_snapshot(a.xid, s.snap_cur)"
            " and not pg_visible_in_snapshot(a.xid, s.snap_prev)",
            n,
        )
    if what != "rows":
        await trial.conn.execute(
            f"delete from atlas.audit_seal where n = {n}; delete from atlas.audit_seal_tenant where n = {n}"
        )


KINDS: list[Callable[[Trial], Awaitable[None]]] = [
    change_any_column,
    delete_rows,
    insert_with_a_past_time,
    swap_two_rows,
    seal_anew,
    cut_the_tail,
    replay_an_old_backup,
    change_a_seal,
    change_a_checkpoint,
    change_search_columns,
    drop_a_whole_batch,
]
NEED_AN_OUTSIDE_COPY = {seal_anew, cut_the_tail}


@pytest.fixture
async def tampered(owner: Connection, installation: Installation) -> Any:
    """An audit log with an old backup, and a superuser for whom every guard has been removed."""
    await audit_log(owner, installation, seals=3)
    # What was signed so far becomes ten minutes old, as it would be in a backup of that age.
    for row in await owner.fetch("select size, note from atlas.audit_checkpoint"):
        signed = open_note(row["note"], installation.keys)
        old = Checkpoint(signed.origin, signed.size, signed.root, signed.at - timedelta(minutes=10))
        await _unguarded(owner, "audit_checkpoint")
        change = "update atlas.audit_checkpoint set note = $1, signed_at = $2 where size = $3"
        await owner.execute(change, installation.key.sign(old), old.at, signed.size)
    await owner.execute("create schema backup")
    for table in TABLES:
        await owner.execute(f"create table backup.{table} as table atlas.{table}")
    await audit_log(owner, installation, seals=4, seed=2)
    for table in TABLES:
        await _unguarded(owner, table)
    await owner.execute("alter table atlas.audit_log alter id drop identity")
    checks = await owner.fetch(
        "select split_part(conrelid::regclass::text, '.', 2) as table, conname from pg_constraint"
        " where conrelid = any ($1::text[]::regclass[]) and contype in ('c', 'u', 'p')",
        [f"atlas.{table}" for table in TABLES],
    )
    for check in checks:
        await owner.execute(f"alter table atlas.{check['table']} drop constraint {check['conname']}")
    return owner


async def test_the_audit_log_before_anyone_touches_it_has_no_findings(tampered, installation):
    assert kinds(await verify(tampered, installation.keys, installation.notes)) == set()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_a_superuser_cannot_do_this_unseen(tampered, installation, pool, kind):
    outside = installation.notes
    for seed in range(TRIALS):
        transaction = tampered.transaction()
        await transaction.start()
        await kind(Trial(tampered, Random(f"{kind.__name__} {seed}"), installation))
        # What the superuser sealed is not committed here, and a transaction of another test may have been open since before
        # it. Snapshots then end below the seal, as in another cluster, until a later transaction has ended.
        await pool.execute("select pg_current_xact_id()")
        report = await verify(tampered, installation.keys, outside)
        alone = await verify(tampered, installation.keys) if kind in NEED_AN_OUTSIDE_COPY else None
        await transaction.rollback()

        found = {finding.kind for finding in report.findings} if kind is replay_an_old_backup else kinds(report)
        assert found, f"{kind.__name__}, seed {seed}, went unseen"
        if alone is not None:
            assert kinds(alone) == set(), f"{kind.__name__}, seed {seed}, shows without an outside copy"


async def test_an_old_backup_shows_by_its_age_even_without_an_outside_copy(tampered, installation):
    await replay_an_old_backup(Trial(tampered, Random(1), installation))

    report = await verify(tampered, installation.keys)
    assert {finding.kind for finding in report.findings} == {"stale"}


async def test_findings_name_the_row_the_kind_and_the_range(tampered, installation):
    victims = await tampered.fetch("select id, ctid from atlas.audit_log order by id")
    await tampered.execute(
        f"update atlas.audit_log set created_at = created_at + interval '1 hour' where id = {victims[3]['id']}"
    )
    await tampered.execute(f"delete from atlas.audit_log where id = {victims[7]['id']}")

    report = await verify(tampered, installation.keys)
    changed = next(finding for finding in report.findings if finding.row == victims[3]["id"] and finding.leaves)
    assert changed.kind == "row"
    assert changed.seal is not None
    missing = next(finding for finding in report.findings if finding.row is None)
    assert "Missing" in missing.message
    assert missing.leaves is not None
    assert missing.leaves[0] == missing.leaves[1]


async def test_one_changed_row_is_one_finding_not_a_flood(tampered, installation):
    await tampered.execute(
        "update atlas.audit_log set body = body || '\\x20' where id = (select min(id) from atlas.audit_log)"
    )

    report = await verify(tampered, installation.keys, installation.notes)
    assert len([finding for finding in report.findings if finding.kind != "stale"]) == 1


async def test_a_row_with_a_past_time_is_found_even_when_it_was_sealed_as_new(tampered, installation):
    await tampered.execute("alter table atlas.audit_log alter id set default 100000")
    await write(tampered, 2)
    await tampered.execute("update atlas.audit_log set created_at = created_at - interval '1 hour' where id = 100000")
    await seal(tampered)
    await installation.sign(tampered)

    assert "time" in kinds(await verify(tampered, installation.keys, installation.notes))


async def test_a_row_of_a_transaction_that_has_not_happened_is_found(tampered, installation):
    await tampered.execute(
        "update atlas.audit_log set xid = '999999999999' where id = (select max(id) from atlas.audit_log)"
    )

    assert "row" in kinds(await verify(tampered, installation.keys))


@pytest.mark.parametrize("xid", ["0", "1", "2"])
async def test_a_row_of_a_transaction_below_the_first_is_found(tampered, installation, xid):
    await _slip_in(tampered, xid)

    report = await verify(tampered, installation.keys, installation.notes)
    assert 100_001 in {finding.row for finding in report.findings}


async def test_a_row_of_a_transaction_that_is_still_open_is_found(tampered, installation, pool):
    async with pool.acquire() as other, other.transaction():
        await _slip_in(tampered, str(await other.fetchval("select pg_current_xact_id()")))
        report = await verify(tampered, installation.keys, installation.notes)

    assert 100_001 in {finding.row for finding in report.findings}


async def test_rows_of_the_verifying_transaction_are_no_finding(tampered, installation):
    async with tampered.transaction():
        await tampered.execute("alter table atlas.audit_log alter id set default 100001")
        await write(tampered, 1)
        assert kinds(await verify(tampered, installation.keys, installation.notes)) == set()


async def test_a_stored_function_that_lies_does_not_hide_a_changed_row(tampered, installation):
    """The rows as they were, shown by the functions that the sealer asks."""
    await tampered.execute("create table shadow as table atlas.audit_log")
    for name in ("audit_window", "audit_rest"):
        definition = await tampered.fetchval("select pg_get_functiondef(oid) from pg_proc where proname = $1", name)
        await tampered.execute(definition.replace("FROM audit_log", "FROM shadow"))
    await tampered.execute("update atlas.audit_log set message = 'forged', body = body || '\\x20' where id = 3")

    report = await verify(tampered, installation.keys, installation.notes)
    assert 3 in {finding.row for finding in report.findings}


async def test_a_function_of_a_known_name_does_not_hide_a_changed_row(tampered, installation):
    """Times as they were, shown by a function that stands before Postgres's own."""
    await tampered.execute("update atlas.audit_log set created_at = created_at + interval '1 day' where id = 3")
    await tampered.execute("create schema evil")
    await tampered.execute(
        "create function evil.timestamptz_send(t timestamptz) returns bytea language sql as"
        " $$ select pg_catalog.timestamptz_send(case when t > now() + interval '1 hour' then t - interval '1 day' else t end) $$"
    )
    await tampered.execute("set search_path = evil, pg_catalog, public")

    report = await verify(tampered, installation.keys, installation.notes)
    assert 3 in {finding.row for finding in report.findings}


@pytest.mark.parametrize("column", ["epoch", "xid", "id"])
async def test_a_row_without_a_place_is_found(tampered, installation, column):
    place = {"id": "100001", "epoch": "epoch", "xid": "xid"} | {column: "null"}
    same = "created_at, tenant_id, actor_type, actor_id, action, entity_type, entity_id, message, meta, body"
    await tampered.execute(f"alter table atlas.audit_log alter {column} drop not null")
    await tampered.execute(
        f"insert into atlas.audit_log ({', '.join(place)}, {same})"
        f" select {', '.join(place.values())}, {same} from atlas.audit_log order by id limit 1"
    )

    [finding] = (await verify(tampered, installation.keys, installation.notes)).findings
    assert (finding.kind, finding.row) == ("row", None if column == "id" else 100_001)


# Columns that may be null, and those that nothing else covers.
UNTOLD = {
    ("audit_private", "tenant_id"),
    ("audit_private", "entity_id"),
    ("audit_private", "created_at"),
    ("audit_epoch", "system_identifier"),
}


@pytest.mark.long
async def test_a_value_that_was_taken_away_is_a_finding_in_any_column(tampered, installation):
    await tampered.execute("alter table atlas.audit_log alter id set default 100001")
    await record(tampered, event(1, tenant_id=TENANTS[0]), personal={"to": "ann@example.org"})
    await seal(tampered)
    await installation.sign(tampered)
    assert kinds(await verify(tampered, installation.keys, installation.notes)) == set()
    columns = await tampered.fetch(
        "select split_part(attrelid::regclass::text, '.', 2), attname from pg_attribute"
        " where attrelid = any ($1::text[]::regclass[]) and attnum > 0 and not attisdropped",
        [f"atlas.{table}" for table in TABLES if table != "audit_pruned"],
    )
    for table, column in sorted({tuple(row) for row in columns} - UNTOLD):
        for row in ("min", "max"):
            transaction = tampered.transaction()
            await transaction.start()
            await tampered.execute(f"alter table atlas.{table} alter {column} drop not null")
            where = f"ctid = (select {row}(ctid) from atlas.{table} where {column} is not null)"
            await Trial(tampered, Random(1), installation).set(table, where, **{column: "null"})
            report = await verify(tampered, installation.keys, installation.notes)
            await transaction.rollback()
            assert kinds(report), f"{table}.{column} of the {row} row went unseen"


NOWHERE = [
    "insert into atlas.audit_seal select null, epoch, epoch_at, system_identifier, snap_prev from atlas.audit_seal where n = 2",
    "insert into atlas.audit_seal select 0, epoch, epoch_at, system_identifier, snap_prev from atlas.audit_seal where n = 2",
    "insert into atlas.audit_seal_tenant select tenant_id, 0, first_number, count from atlas.audit_seal_tenant limit 1",
    "insert into atlas.audit_seal_tenant select tenant_id, 99999, 100, 5 from atlas.audit_seal_tenant limit 1",
    "insert into atlas.audit_seal_tenant select tenant_id, null, 100, 5 from atlas.audit_seal_tenant limit 1",
    "insert into atlas.audit_seal_tenant select null, 99999, 100, 5",
    "insert into atlas.audit_checkpoint select null, key_name, epoch, note, signed_at from atlas.audit_checkpoint limit 1",
    "insert into atlas.audit_checkpoint select 0, key_name, epoch, 'rubbish', signed_at from atlas.audit_checkpoint limit 1",
    "insert into atlas.audit_checkpoint select -3, key_name, epoch, 'rubbish', signed_at from atlas.audit_checkpoint limit 1",
    "insert into atlas.audit_pruned (through_seal) values (null)",
    "insert into atlas.audit_pruned (through_seal) values (-4)",
    "insert into atlas.audit_epoch (epoch, system_identifier, reason) select null, system_identifier, '' from atlas.audit_epoch",
    "insert into atlas.audit_epoch (epoch, system_identifier, reason) select 0, system_identifier, '' from atlas.audit_epoch",
    "update atlas.audit_epoch set reason = 'moved'",
]


async def test_what_speaks_of_no_place_in_the_audit_log_is_found(tampered, installation):
    nullable = await tampered.fetch(
        "select split_part(attrelid::regclass::text, '.', 2) as table, attname from pg_attribute"
        " where attrelid = any ($1::text[]::regclass[]) and attnum > 0 and attnotnull",
        [f"atlas.{table}" for table in TABLES],
    )
    for row in nullable:
        await tampered.execute(f"alter table atlas.{row['table']} alter {row['attname']} drop not null")
    for forged in NOWHERE:
        transaction = tampered.transaction()
        await transaction.start()
        await tampered.execute(forged)
        report = await verify(tampered, installation.keys, installation.notes)
        await transaction.rollback()
        assert kinds(report), f"{forged} went unseen"


async def test_many_copies_of_one_row_are_all_found(tampered, installation):
    """As many as would fall on the seam between two pages of reading."""
    one = "select * from atlas.audit_log order by id limit 1"
    await tampered.execute(f"insert into atlas.audit_log select a.* from ({one}) a, generate_series(1, 700)")

    report = await verify(tampered, installation.keys)
    assert len([finding for finding in report.findings if "was added" in finding.message]) == 700


async def _slip_in(conn: Any, xid: str) -> None:
    """A copy of an old row that claims another transaction."""
    same = "epoch, created_at, tenant_id, actor_type, actor_id, action, entity_type, entity_id, message, meta, body"
    await conn.execute(
        f"insert into atlas.audit_log (id, xid, {same})"
        f" select 100001, $1::text::xid8, {same} from atlas.audit_log order by id limit 1",
        xid,
    )


async def _cut_seals(trial: Trial, kept: Any) -> None:
    for table, column, value in (
        ("audit_seal", "n", kept["n"]),
        ("audit_seal_tenant", "n", kept["n"]),
        ("audit_checkpoint", "size", kept["size"]),
    ):
        await trial.conn.execute(f"delete from atlas.{table} where {column} > {value}")


async def _unguarded(conn: Any, table: str) -> None:
    await conn.execute(f"alter table atlas.{table} disable trigger all")


def _tid(row: Any) -> str:
    return f"({row['ctid'][0]},{row['ctid'][1]})"


def _snapshot(seal: Any) -> str:
    xmin, xmax, running = seal["snap_cur"]
    return f"{xmin}:{xmax}:{','.join(str(xid) for xid in running)}"
