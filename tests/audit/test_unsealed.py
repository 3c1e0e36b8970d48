"""Rows that no seal covers yet prove nothing, but they must be new; and no row claims a time at which it cannot be of."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from atlas.audit.exports.export import Extract, export
from atlas.audit.record import record
from atlas.audit.retention import new_epoch
from atlas.audit.sealing.seal import seal, seal_batch
from atlas.audit.verification.verify import verify
from atlas.audit.verifier import window
from atlas.audit.verifier.__main__ import main
from atlas.audit.verifier.export import verify_export
from atlas.audit.verifier.unsealed import SeenIds
from atlas.errors import Conflict
from tests.audit.given import CALLER, audit_log, event, kinds, write

LAST_ROW = "id = (select max(id) from atlas.audit_log)"


async def written(conn, path: Path) -> list[bytes]:
    with path.open("wb") as file:
        async for piece in export(conn, Extract(), actor=CALLER):
            file.write(piece)
    return path.read_bytes().splitlines(keepends=True)


def copy_of(line: bytes, **facts: object) -> bytes:
    """A row's line as one that is not sealed yet, with other facts and another outcome."""
    head, body = line.split(b',"body":', 1)
    changed = json.loads(head + b"}") | {"type": "unsealed", **facts}
    return json.dumps(changed, separators=(",", ":")).encode()[:-1] + b',"body":' + body.replace(b"change", b"chance")


def forgeries(lines: list[bytes]) -> list[tuple[str, list[bytes]]]:
    """Lines to add before the end, and the kind of finding that they are."""
    sealed = next(line for line in lines if line.startswith(b'{"type":"row"'))
    waiting = next(line for line in lines if line.startswith(b'{"type":"unsealed"'))
    new = json.loads(waiting)
    late = (datetime.fromisoformat(new["at"]) + timedelta(minutes=1)).isoformat()
    early = (datetime.fromisoformat(new["at"]) - timedelta(minutes=1)).isoformat()
    fresh = {"id": 10**6, "xid": new["xid"], "at": new["at"]}
    return [
        ("unsealed", [copy_of(sealed)]),
        ("unsealed", [copy_of(sealed, id=10**6)]),
        ("row", [copy_of(sealed, xid=new["xid"], at=new["at"])]),
        ("row", [waiting] * 5),
        ("time", [copy_of(sealed, **fresh | {"at": early})]),
        ("time", [copy_of(sealed, **fresh | {"at": late})]),
        ("unsealed", [copy_of(sealed, **fresh, epoch=2)]),
        ("export", [copy_of(sealed, **fresh, approved_by="dana")]),
        ("export", [sealed]),
        ("export", [next(line for line in lines if line.startswith(b'{"type":"seal"'))]),
    ]


async def test_rows_that_are_not_sealed_must_be_new_in_an_export(conn, installation, tmp_path, capsys):
    await audit_log(conn, installation, seals=4)
    await write(conn, 2)
    path, key = tmp_path / "all.jsonl", tmp_path / "audit.pub"
    key.write_text(installation.key.public)
    lines = await written(conn, path)
    assert verify_export(path, installation.keys, installation.notes).findings == []
    assert main(["--export", str(path), "--key", str(key)]) == 0
    assert "3 rows not sealed yet" in capsys.readouterr().out

    for number, (kind, forged) in enumerate(forgeries(lines)):
        path.write_bytes(b"".join([*lines[:-1], *forged, lines[-1]]))
        assert kind in kinds(verify_export(path, installation.keys, installation.notes)), f"forgery {number}"


async def test_an_open_window_and_a_new_epoch_leave_rows_that_are_new(conn, owner, installation, tmp_path):
    await audit_log(conn, installation, seals=1)
    await write(conn, 9)
    await seal_batch(conn, limit=4)
    await installation.sign(conn)
    await write(conn, 3)
    await new_epoch(owner, reason="try", actor=CALLER)
    await write(conn, 3)
    await written(conn, tmp_path / "epochs.jsonl")

    report = verify_export(tmp_path / "epochs.jsonl", installation.keys)
    assert (report.findings, report.unsealed) == ([], 5 + 3 + 1 + 3 + 1)


@pytest.mark.parametrize("epoch", [1, 2, 3])
async def test_an_export_is_refused_while_the_row_of_an_epoch_is_missing(conn, owner, installation, tmp_path, epoch):
    await audit_log(conn, installation, seals=2)
    for number in (2, 3):
        await new_epoch(owner, reason=f"epoch {number}", actor=CALLER)
        if number == 2:
            await seal(conn)
            await installation.sign(conn)
    await owner.execute("alter table atlas.audit_epoch disable trigger all")
    await owner.execute("delete from atlas.audit_epoch where epoch = $1", epoch)

    with pytest.raises(Conflict, match="the row of an epoch is missing"):
        await written(conn, tmp_path / "epochs.jsonl")
    assert "cluster" in kinds(await verify(conn, installation.keys))


async def test_a_row_written_now_with_a_past_time_is_found_before_its_seal(conn, owner, installation):
    await audit_log(conn, installation, seals=2)
    await write(conn, 2)
    assert kinds(await verify(conn, installation.keys)) == set()
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute(f"update atlas.audit_log set created_at = created_at - interval '1 minute' where {LAST_ROW}")
    assert kinds(await verify(conn, installation.keys)) == {"time"}


async def test_the_columns_of_a_row_are_compared_before_its_seal(conn, owner, installation):
    await audit_log(conn, installation, seals=2)
    await write(conn, 2)
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute(f"update atlas.audit_log set message = 'forged' where {LAST_ROW}")
    assert kinds(await verify(conn, installation.keys)) == {"copies"}


@pytest.mark.parametrize("when", ["first window", "what is left", "open window", "next epoch"])
async def test_a_misdated_row_is_found_around_the_beginning_of_an_epoch(conn, owner, installation, when):
    if when != "first window":
        await audit_log(conn, installation, seals=2)
    await write(conn, 6)
    if when == "open window":
        await seal_batch(conn, limit=4)
    if when == "next epoch":
        await new_epoch(owner, reason="restored", actor=CALLER)
        await write(conn, 2)
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute(f"update atlas.audit_log set created_at = created_at - interval '1 year' where {LAST_ROW}")
    if when in ("what is left", "open window"):
        await new_epoch(owner, reason="restored", actor=CALLER)
    await seal(conn)
    await installation.sign(conn)

    assert kinds(await verify(conn, installation.keys)) == {"time"}


@pytest.mark.parametrize("by", ["-1 day", "1 hour"])
async def test_an_epoch_that_claims_another_beginning_is_found(conn, owner, installation, by):
    await audit_log(conn, installation, seals=2)
    await new_epoch(owner, reason="restored", actor=CALLER)
    await owner.execute("alter table atlas.audit_epoch disable trigger all")
    misdate = f"update atlas.audit_epoch set started_at = started_at + interval '{by}' where epoch = 2"
    await owner.execute(misdate)
    await seal(conn)
    await installation.sign(conn)
    assert kinds(await verify(conn, installation.keys)) == {"time"}
    await owner.execute(misdate)
    assert "row" in kinds(await verify(conn, installation.keys))


async def test_a_long_transaction_is_no_forgery(conn, pool, installation, monkeypatch):
    """Also one that no snapshot names as running, since none that began after it had ended."""
    monkeypatch.setattr(window, "CLOCK_SLACK", 0)
    await audit_log(conn, installation, seals=2)
    async with pool.acquire() as first, pool.acquire() as second:
        early, late = first.transaction(), second.transaction()
        for transaction, own in ((early, first), (late, second)):
            await transaction.start()
            await record(own, event(1))
        await early.commit()
        await seal(conn)
        await late.commit()
    assert kinds(await verify(conn, installation.keys)) == set()
    await seal(conn)
    await installation.sign(conn)
    assert kinds(await verify(conn, installation.keys, installation.notes)) == set()


async def test_an_id_that_was_given_twice_is_found(conn, owner, installation):
    await audit_log(conn, installation, seals=2)
    again = "id, actor_type, actor_id, action, entity_type, entity_id, message, meta, body"
    await owner.execute(
        f"insert into atlas.audit_log ({again}, tenant_id) overriding system value"
        f" select {again}, tenant_id from atlas.audit_log where id = 3"
    )
    for _ in range(2):  # before its seal and after it
        [finding] = (await verify(conn, installation.keys)).findings
        assert (finding.kind, finding.row) == ("row", 3)
        await seal(conn)
        await installation.sign(conn)


def test_ids_are_new_once():
    seen = SeenIds()
    ids = [1, 2, 32_767, 32_768, 32_769, 2**40, 2**63]
    assert (seen.add(ids), seen.add([3, *ids, 4])) == ([], ids)
    assert seen.add([3, 4, 5, 5]) == [3, 4, 5]
