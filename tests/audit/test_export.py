"""Exports verify without a database, without Atlas, and in constant memory; every change of the file is found."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import psutil
import pytest

import atlas.audit
from atlas.audit.exports.export import Extract, export
from atlas.audit.personal_data import erase
from atlas.audit.record import record
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.verify import verify
from atlas.audit.verification.verify_tenant import verify_tenant
from atlas.audit.verifier.export import verify_export
from atlas.audit.verifier.export_lines import ROW
from atlas.audit.verifier.signed_notes import Checkpoint, open_note
from atlas.errors import Conflict, NotFound
from tests.audit.given import CALLER, TENANTS, Installation, audit_log, event, kinds, write, write_many


async def written(conn, path: Path, extract: Extract | None = None) -> Path:
    with path.open("wb") as file:
        async for piece in export(conn, extract or Extract(), actor=CALLER):
            file.write(piece)
    return path


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@pytest.fixture
async def file(conn, installation, tmp_path):
    """An export of a small audit log, with a personal value."""
    await audit_log(conn, installation, seals=5)
    await record(conn, event(1, tenant_id=TENANTS[0]), personal={"to": ["ann@example.org"], "subject": 'Say "hi"'})
    await seal(conn)
    await installation.sign(conn)
    return await written(conn, tmp_path / "all.jsonl")


async def test_an_export_verifies_offline_like_the_live_audit_log(conn, file, installation):
    live = await verify(conn, installation.keys, installation.notes)
    offline = verify_export(file, installation.keys, installation.notes)

    assert offline.findings == []
    assert (offline.rows, offline.seals, offline.size, offline.root) == (
        live.rows,
        live.seals,
        live.size,
        live.root,
    )


async def test_a_tenant_verifies_its_part_of_the_live_log_up_to_its_last_row(conn, owner, file, installation):
    seen = []
    report = await verify_tenant(conn, TENANTS[0], installation.keys, progress=lambda *far: seen.append(far))
    own = await conn.fetchval("select count(*) from atlas.audit_log where tenant_id = $1", TENANTS[0])
    assert (report.findings, report.rows, seen[-1]) == ([], own, (own, own))

    await owner.execute("alter table atlas.audit_log disable trigger all")
    last = "(select id from atlas.audit_log where tenant_id = $1 order by epoch desc, xid desc, id desc limit 1)"
    await owner.execute(f"delete from atlas.audit_log where id = {last}", TENANTS[0])
    report = await verify_tenant(conn, TENANTS[0], installation.keys)
    assert [finding.message for finding in report.findings] == [f"The tenant's rows {own} to {own} are missing."]


async def test_an_export_is_an_event_itself(conn, file):
    row = await conn.fetchrow("select * from atlas.audit_log where action = 'AUDIT_EXPORTED'")
    assert row["actor_id"] == "dana"


async def test_every_line_is_json_and_rows_can_be_read_by_people(file):
    records = [json.loads(line) for line in lines_of(file)]
    assert [records[0]["type"], records[-1]["type"]] == ["manifest", "end"]
    row = next(record for record in records if record["type"] == "row")
    assert row["body"]["action"] == "THING_CHANGED"
    assert datetime.fromisoformat(row["at"]).tzinfo is not None


def test_the_verifier_runs_alone_in_an_empty_folder(file, installation, tmp_path):
    """Only the standard library, `cryptography` and the folder itself are imported."""
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copytree(Path(atlas.audit.__file__).parent / "verifier", alone / "verifier")
    (alone / "key.pub").write_text(installation.key.public)
    shutil.copytree(installation.copies, alone / "copies")
    code = (
        "import sys; sys.path.insert(0, '.'); from verifier.__main__ import main;"
        f" status = main(['--export', {str(file)!r}, '--key', 'key.pub', '--checkpoints', 'copies']);"
        " ours = {'atlas', 'audit', 'engine', 'cli', 'asyncpg', 'orjson', 'pydantic'} & set(sys.modules);"
        " sys.exit(status or (3 if ours else 0))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=alone, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 findings" in done.stdout

    (alone / "nothing").write_text("")
    command = [sys.executable, "-m", "verifier", "--export", str(file), "--key", "key.pub", "--checkpoints", "nothing"]
    done = subprocess.run(command, cwd=alone, capture_output=True, text=True, check=False)
    assert (done.returncode, "nothing holds no checkpoint" in done.stderr) == (2, True)

    damaged = alone / "damaged"
    damaged.write_bytes(file.read_bytes().replace(b"change", b"chance", 1))
    command = [sys.executable, "-m", "verifier", "--export", str(damaged), "--key", "key.pub"]
    done = subprocess.run(command, cwd=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "row: Row" in done.stdout


def change(index: int, old: bytes, new: bytes):
    def apply(lines: list[bytes]) -> list[bytes]:
        rows = [at for at, line in enumerate(lines) if old in line]
        lines[rows[index]] = lines[rows[index]].replace(old, new, 1)
        return lines

    return apply


def without(kind: bytes, index: int):
    def apply(lines: list[bytes]) -> list[bytes]:
        at = [at for at, line in enumerate(lines) if line.startswith(b'{"type":"' + kind)][index]
        return lines[:at] + lines[at + 1 :]

    return apply


def swapped(lines: list[bytes]) -> list[bytes]:
    at = next(at for at in range(len(lines)) if all(b'"type":"row"' in line for line in lines[at : at + 2]))
    return [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]


def forged_after(kind: bytes, index: int):
    """A row that never was, after the last line of a kind."""

    def apply(lines: list[bytes]) -> list[bytes]:
        at = [at for at, line in enumerate(lines) if line.startswith(b'{"type":"' + kind)][index]
        row = next(line for line in lines if line.startswith(b'{"type":"row"')).replace(b'"id":', b'"id":99', 1)
        return [*lines[: at + 1], row, *lines[at + 1 :]]

    return apply


def begun_anew(lines: list[bytes]) -> list[bytes]:
    """A changed row, and then a line that says where a range begins, as if nothing had been before it."""
    seals = [at for at, line in enumerate(lines) if line.startswith(b'{"type":"seal"')]
    numbers = {
        tenant: first + count - 1 for at in seals[:3] for tenant, first, count in json.loads(lines[at])["tenants"]
    }
    seal = json.loads(lines[seals[2]]) | {"leaf_hashes": "", "tenants": []}
    start = json.dumps({"type": "start", "seal": seal, "numbers": numbers}, separators=(",", ":")).encode() + b"\n"
    changed = change(0, b'"message":"change', b'"message":"chance')(lines)
    return [*changed[: seals[2] + 1], start, *changed[seals[2] + 1 :]]


DAMAGES = [
    (change(3, b'"message":"change', b'"message":"chance'), "row"),
    (change(2, b'"id":', b'"id":1'), "row"),
    (change(2, b'"epoch":1', b'"epoch":2'), "row"),
    (without(b"row", 4), "row"),
    (lambda lines: swapped(lines), "row"),
    (without(b"seal", 2), "seal"),
    (without(b"seal", -1), "cut"),
    (without(b"end", 0), "export"),
    (lambda lines: lines[:-4], "export"),
    (lambda lines: [line.replace(b'":{', b'": {') for line in lines], "row"),
    (lambda lines: [lines[0], b"not json\n", *lines[1:]], "export"),
    (lambda lines: lines[1:], "export"),
    (lambda lines: [], "export"),
    (lambda lines: [*lines[:3], b'{"type":"surprise"}\n', *lines[3:]], "export"),
    (change(0, b'"type":"checkpoint","note":"atlas', b'"type":"checkpoint","note":"other'), "checkpoint"),
    (change(1, b'"leaf_hashes":"', b'"leaf_hashes":"AAAA'), "seal"),
    (change(1, b'"leaf_hashes":"', b'"leaf_hashes":"!'), "export"),
    (forged_after(b"checkpoint", -1), "row"),
    (forged_after(b"end", 0), "export"),
    (lambda lines: [*lines, b'{"type":"unsealed","id":99}\n'], "export"),
    (change(0, b'{"type":"row"', b'{ "type":"row"'), "export"),
    (change(0, b'{"type":"row",', b'{"type":"row","approved_by":"dana",'), "export"),
    (change(0, b'{"type":"row",', b'{"type":"row","number":7,'), "export"),
    (begun_anew, "row"),
    (begun_anew, "export"),
]


def test_whatever_is_done_to_the_file_shows(file, installation, tmp_path):
    damaged = tmp_path / "damaged.jsonl"
    for number, (damage, kind) in enumerate(DAMAGES):
        damaged.write_bytes(b"".join(damage(lines_of(file))))
        assert kind in kinds(verify_export(damaged, installation.keys, installation.notes)), f"damage {number}"


@pytest.mark.long
def test_a_file_with_any_byte_changed_is_read_to_a_verdict_and_nearly_always_refused(file, installation, tmp_path):
    """A few changes mean the same: the spare bits of base64, the case of a hexadecimal digit."""
    random, damaged, found = Random(6), tmp_path / "fuzzed.jsonl", 0
    whole, trials = file.read_bytes(), 150
    for _ in range(trials):
        at = random.randrange(len(whole))
        damaged.write_bytes(whole[:at] + bytes([random.randrange(256)]) + whole[at + 1 :])
        found += not verify_export(damaged, installation.keys, installation.notes).ok
    assert found > trials * 0.9


UNREADABLE = [
    (lambda lines: [*lines[:2], b"not json\n", *lines[2:]], "Line 3 of the export cannot be read: it is not JSON."),
    (
        lambda lines: [b'{"format": "atlas-audit-export/1"}\n'],
        "Line 1 of the export cannot be read: tenant is missing.",
    ),
    (lambda lines: [*lines[:3], b"{}\n"], "Line 4 of the export cannot be read: type is missing."),
    (lambda lines: lines[1:], "Line 1 of the export cannot be read: it is not a manifest of atlas-audit-export/1."),
]


def test_a_line_that_cannot_be_read_is_named_with_the_reason(file, installation, tmp_path):
    path = tmp_path / "unreadable.jsonl"
    for damage, message in UNREADABLE:
        path.write_bytes(b"".join(damage(lines_of(file))))
        assert message in [finding.message for finding in verify_export(path, installation.keys).findings]


def test_a_time_that_is_none_is_named_with_its_line(file, installation, tmp_path):
    path, lines = tmp_path / "unreadable.jsonl", lines_of(file)
    sealed = next(n for n, line in enumerate(lines) if b'"sealed_at"' in line)
    manifest = {**json.loads(lines[0]), "to_the_end": False, "until": "then"}
    for number, damaged in (
        (sealed, re.sub(rb'("sealed_at": *"[^"]*)0:00"', rb'\1/:00"', lines[sealed])),
        (0, json.dumps(manifest).encode() + b"\n"),
    ):
        assert damaged != lines[number]
        path.write_bytes(b"".join([*lines[:number], damaged, *lines[number + 1 :]]))
        messages = [finding.message for finding in verify_export(path, installation.keys).findings]
        assert any(f"Line {number + 1} of the export cannot be read" in message for message in messages), messages


def test_a_checkpoint_that_cannot_be_trusted_is_named_as_people_do(file, installation, tmp_path):
    size = installation.notes[0].splitlines()[1]
    wrong = installation.notes[0].replace(f"\n{size}\n", f"\n{int(size) + 1}\n")
    report = verify_export(file, installation.keys, [wrong, "nonsense"])
    said = [finding.message for finding in report.findings]
    whose = (
        f"An outside copy of a checkpoint of {int(size) + 1} leaves of {installation.key.name} has a wrong signature."
    )
    assert said == [whose, "An outside copy of a checkpoint has a damaged signature line."]

    # Signed honestly, but of a size at which no seal ends.
    late = json.loads(lines_of(file)[0])["exported_at"]
    at = datetime.fromisoformat(late) - timedelta(seconds=1)
    other = installation.key.sign(Checkpoint(installation.key.name, int(size) + 1, bytes(32), at))
    [finding] = verify_export(file, installation.keys, [*installation.notes, other]).findings
    assert "but no seal of this audit log ends there" in finding.message


async def test_an_export_of_a_damaged_log_has_the_findings_of_the_live_one(conn, owner, file, installation, tmp_path):
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute("update atlas.audit_log set message = 'x' where id = 2")
    await owner.execute("update atlas.audit_log set body = convert_to(E'not\\njson', 'UTF8') where id = 3")
    await owner.execute("update atlas.audit_log set created_at = 'infinity' where id = 4")
    await owner.execute("delete from atlas.audit_log where id = 5")

    live = await verify(conn, installation.keys, installation.notes)
    offline = verify_export(await written(conn, tmp_path / "bad.jsonl"), installation.keys, installation.notes)
    assert {finding.row for finding in offline.findings} == {finding.row for finding in live.findings} >= {2, 3, 4}
    assert kinds(offline) == kinds(live)


async def test_a_range_of_seals_verifies_from_its_start(conn, owner, installation, tmp_path):
    await audit_log(conn, installation, seals=3)
    await owner.execute("alter table atlas.audit_seal disable trigger all")
    middle = datetime.now(UTC)
    await audit_log(conn, installation, seals=3, seed=3)
    end = datetime.now(UTC)
    await audit_log(conn, installation, seals=2, seed=4)

    path = await written(conn, tmp_path / "range.jsonl", Extract(since=middle, until=end))
    report = verify_export(path, installation.keys)
    assert report.findings == []
    assert 0 < report.seals < await conn.fetchval("select count(*) from atlas.audit_seal")
    assert report.checkpoints == 3

    path.write_bytes(path.read_bytes().replace(b"change", b"chance", 1))
    assert "row" in kinds(verify_export(path, installation.keys))


def unsigned(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if not line.startswith(b'{"type":"checkpoint"')]


def ending_early(lines: list[bytes], *, unsealed: bool = False) -> list[bytes]:
    """The same export, if it had been asked for up to the time when it was made."""
    manifest = json.loads(lines[0])
    manifest |= {"to_the_end": False, "until": manifest["exported_at"]}
    kept = [line for line in lines[1:] if unsealed or not line.startswith(b'{"type":"unsealed"')]
    return [json.dumps(manifest).encode() + b"\n", *kept]


def test_an_unsigned_export_is_not_believed(file, installation, tmp_path):
    forged = tmp_path / "forged.jsonl"
    for lines in (
        unsigned(lines_of(file)),
        unsigned(ending_early(lines_of(file))),
        [*lines_of(file)[:1], b'{"type":"end"}\n'],
    ):
        forged.write_bytes(b"".join(lines))
        report = verify_export(forged, installation.keys)
        assert "checkpoint" in kinds(report)
        assert any("its author may have invented it" in finding.message for finding in report.findings)


def test_a_range_whose_end_was_not_signed_for_long_is_a_finding(file, installation, tmp_path):
    lines = ending_early(lines_of(file))
    last = max(at for at, line in enumerate(lines) if line.startswith(b'{"type":"checkpoint"'))
    path = tmp_path / "early.jsonl"
    path.write_bytes(b"".join(lines[:last] + lines[last + 1 :]))
    report = verify_export(path, installation.keys)
    assert report.findings == []
    assert any("No checkpoint covers the last" in notice for notice in report.notices)

    manifest = json.loads(lines[0])
    later = datetime.fromisoformat(manifest["exported_at"]) + timedelta(minutes=5)
    lines[0] = json.dumps(manifest | {"exported_at": later.isoformat()}).encode() + b"\n"
    path.write_bytes(b"".join(lines))
    assert verify_export(path, installation.keys).findings == []
    path.write_bytes(b"".join(lines[:last] + lines[last + 1 :]))
    assert [finding.kind for finding in verify_export(path, installation.keys).findings] == ["stale"]


def test_rows_without_a_seal_do_not_belong_into_a_range_that_ends_early(file, installation, tmp_path):
    path = tmp_path / "early.jsonl"
    lines = ending_early(lines_of(file), unsealed=True)
    assert any(line.startswith(b'{"type":"unsealed"') for line in lines)
    path.write_bytes(b"".join(lines))
    assert kinds(verify_export(path, installation.keys)) == {"export"}


@pytest.mark.long
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bounds", [{}, {"since": -1}, {"until": 1}, {"since": -1, "until": 1}, {"until": 60}])
async def test_every_honest_export_verifies_also_when_its_end_is_not_signed_yet(
    conn, installation, tmp_path, bounds, signed
):
    await audit_log(conn, installation, seals=3)
    now = datetime.now(UTC)
    extract = Extract(**{name: now + timedelta(minutes=minutes) for name, minutes in bounds.items()})
    if not signed:
        await write(conn, 3)
        await seal(conn)
    await write(conn, 2)

    report = verify_export(await written(conn, tmp_path / "some.jsonl", extract), installation.keys)
    assert report.findings == []
    assert any("No checkpoint covers" in notice for notice in report.notices) is not signed


async def test_what_was_signed_after_an_export_is_no_finding_in_it(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=3)
    middle = datetime.now(UTC)
    await audit_log(conn, installation, seals=2, seed=3)
    early = await written(conn, tmp_path / "early.jsonl", Extract(until=middle))
    whole = await written(conn, tmp_path / "whole.jsonl")
    report, size = (
        verify_export(early, installation.keys, installation.notes),
        await conn.fetchval("select max(size) from atlas.audit_seal"),
    )
    assert report.findings == []
    assert any(f"2 outside copies, up to {size} leaves" in notice for notice in report.notices)
    assert verify_export(whole, installation.keys, installation.notes).notices == [
        "Not sealed yet: 2 rows. Nothing proves them so far."
    ]

    await audit_log(conn, installation, seals=1, seed=4)
    report = verify_export(whole, installation.keys, installation.notes)
    assert report.findings == []
    assert any("1 outside copies" in notice for notice in report.notices)


@pytest.mark.parametrize("bounds", [{}, {"until": 1}])
async def test_an_export_that_was_cut_within_its_range_is_still_found(conn, installation, tmp_path, bounds):
    await audit_log(conn, installation, seals=3)
    until = {name: datetime.now(UTC) + timedelta(minutes=minutes) for name, minutes in bounds.items()}
    lines = lines_of(await written(conn, tmp_path / "whole.jsonl", Extract(**until)))
    checkpoints = [at for at, line in enumerate(lines) if line.startswith(b'{"type":"checkpoint"')]
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b"".join([*lines[: checkpoints[-2] + 1], lines[-1]]))

    assert verify_export(path, installation.keys).findings == []
    assert kinds(verify_export(path, installation.keys, installation.notes)) == {"cut"}


async def test_an_export_before_the_first_checkpoint_is_a_finding(conn, installation, tmp_path):
    await write(conn, 3)
    await seal(conn)
    assert kinds(verify_export(await written(conn, tmp_path / "new.jsonl"), installation.keys)) == {"checkpoint"}


async def test_a_range_without_seals_is_refused(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=1)
    future = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(NotFound, match="in that range"):
        await written(conn, tmp_path / "none.jsonl", Extract(since=future))


@pytest.mark.parametrize("tenant_id", [None, TENANTS[0]])
async def test_a_range_that_ends_before_the_first_seal_is_refused(conn, installation, tmp_path, tenant_id):
    await audit_log(conn, installation, seals=2)
    with pytest.raises(NotFound, match="in that range"):
        await written(conn, tmp_path / "none.jsonl", Extract(tenant_id, until=datetime(2020, 1, 1, tzinfo=UTC)))


async def test_personal_values_travel_only_when_asked_for(conn, file, installation, tmp_path):
    assert b"ann@example.org" not in file.read_bytes()

    path = await written(conn, tmp_path / "personal.jsonl", Extract(personal=True))
    assert b"ann@example.org" in path.read_bytes()
    assert verify_export(path, installation.keys).ok
    path.write_bytes(path.read_bytes().replace(b"ann@example.org", b"eve@example.org"))
    assert kinds(verify_export(path, installation.keys)) == {"private"}


async def test_a_personal_value_that_is_missing_is_found_offline(conn, owner, file, installation, tmp_path):
    path = await written(conn, tmp_path / "personal.jsonl", Extract(personal=True))
    lines = [line for line in lines_of(path) if b"ann@example.org" not in line]
    path.write_bytes(b"".join(lines))
    report = verify_export(path, installation.keys)
    assert (kinds(report), "no event erased it" in report.findings[0].message) == ({"private"}, True)
    await owner.execute("delete from atlas.audit_private where value = 'ann@example.org'")
    await written(conn, path, Extract(personal=True))
    assert kinds(verify_export(path, installation.keys)) == {"private"}
    now = datetime.now(UTC) + timedelta(minutes=1)
    await written(conn, path, Extract(personal=True, until=now))
    assert any(
        "1 personal values are not in the export" in notice for notice in verify_export(path, installation.keys).notices
    )


async def test_an_erased_value_is_not_missing_offline(conn, file, installation, tmp_path):
    await erase(conn, "ann@example.org", actor=CALLER)
    for extract in (Extract(personal=True), Extract(TENANTS[0], personal=True)):
        path = await written(conn, tmp_path / "personal.jsonl", extract)
        assert verify_export(path, installation.keys).findings == []


async def test_an_export_during_which_values_are_erased_is_refused(conn, pool, file, tmp_path):
    lines = export(conn, Extract(personal=True), actor=CALLER)
    await anext(lines)
    await erase(pool, "ann@example.org", actor=CALLER)
    with pytest.raises(Conflict, match="were erased while they were exported"):
        [line async for line in lines]


async def test_a_personal_value_is_of_the_field_that_its_row_says(conn, file, installation, tmp_path):
    path = await written(conn, tmp_path / "personal.jsonl", Extract(personal=True))
    whole = path.read_bytes()
    for old, new in ((b'"field":"to"', b'"field":"subject"'), (b'"field":"subject"', b'"field":"to"')):
        assert old in whole
        path.write_bytes(whole.replace(old, new))
        assert kinds(verify_export(path, installation.keys)) == {"private"}


async def test_a_tenants_export_holds_its_rows_alone_each_with_its_path(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=6, seed=8)
    path = await written(conn, tmp_path / "tenant.jsonl", Extract(tenant_id=TENANTS[1]))

    own = await conn.fetchval(
        "select count(*) from atlas.audit_log where tenant_id = $1 and action <> 'AUDIT_EXPORTED'", TENANTS[1]
    )
    report = verify_export(path, installation.keys)
    assert report.findings == []
    assert report.rows == own
    text = path.read_text()
    assert not any(str(tenant) in text for tenant in TENANTS if tenant != TENANTS[1])
    rows = [json.loads(line) for line in lines_of(path) if b'"type":"row"' in line]
    assert [row["number"] for row in rows] == list(range(1, own + 1))


TENANT_DAMAGES = [
    without(b"row", 1),
    change(1, b'"message":"change', b'"message":"chance'),
    change(0, b'"number":', b'"number":1'),
    change(0, b'"index":', b'"index":1'),
    change(1, b'"path":["', b'"path":["00'),
    without(b"checkpoint", 0),
    without(b"end", 0),
    change(0, b'{"type":"row"', b'{ "type":"row"'),
    change(0, b'{"type":"row",', b'{"type":"row","approved_by":"dana",'),
    forged_after(b"end", 0),
    lambda lines: [*lines[:-1], b'{"type":"unsealed","id":99,"body":{"forged":1}}\n', lines[-1]],
    lambda lines: [*lines[:-1], b'{"type":"event","action":"FORGED"}\n', lines[-1]],
    lambda lines: [*lines[:-1], b'{"type":"copies","id":1,"columns":["message"]}\n', lines[-1]],
    lambda lines: [lines[0], lines[-1]],
]


async def test_a_gap_or_a_change_in_a_tenants_export_shows(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=6, seed=8)
    path = await written(conn, tmp_path / "tenant.jsonl", Extract(tenant_id=TENANTS[1]))
    whole = lines_of(path)
    for number, damage in enumerate(TENANT_DAMAGES):
        path.write_bytes(b"".join(damage(list(whole))))
        assert not verify_export(path, installation.keys).ok, f"damage {number}"


async def test_a_tenants_export_says_which_numbers_it_holds(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=6, seed=8)
    path = await written(conn, tmp_path / "tenant.jsonl", Extract(tenant_id=TENANTS[1]))
    whole = lines_of(path)
    rows = [line for line in whole if line.startswith(ROW)]
    assert verify_export(path, installation.keys).notices == [
        f"These are the tenant's rows 1 to {len(rows)}; later ones would not show."
    ]

    # Who takes the first rows away must say so.
    path.write_bytes(b"".join(change(0, b'"first_number":1', b'"first_number":3')([*whole[:2], *whole[4:]])))
    report = verify_export(path, installation.keys)
    assert report.notices == [f"These are the tenant's rows 3 to {len(rows)}; earlier and later ones would not show."]


async def test_outside_copies_are_compared_with_a_tenants_checkpoint(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=6, seed=8)
    path = await written(conn, tmp_path / "tenant.jsonl", Extract(tenant_id=TENANTS[1]))
    report = verify_export(path, installation.keys, installation.notes)
    assert (report.findings, report.checkpoints, report.outside) == ([], 1, 1)
    assert any("5 outside copies are of other sizes" in notice for notice in report.notices)

    signed = open_note(installation.notes[-1], installation.keys)
    other = installation.key.sign(replace(signed, root=bytes(32)))
    assert kinds(verify_export(path, installation.keys, [other])) == {"checkpoint"}
    assert kinds(verify_export(path, installation.keys, ["no note"])) == {"checkpoint"}


async def test_a_tenant_without_rows_gets_an_export_without_rows(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=2)
    stranger = TENANTS[0].__class__(int=7)
    report = verify_export(await written(conn, tmp_path / "n.jsonl", Extract(tenant_id=stranger)), installation.keys)
    assert (report.ok, report.rows) == (True, 0)


async def test_an_empty_range_of_a_tenant_has_the_number_that_it_had_reached(conn, installation, tmp_path):
    for number in range(3):
        await record(conn, event(number, tenant_id=TENANTS[0]))
    await seal(conn)
    middle = datetime.now(UTC)
    await record(conn, event(1, tenant_id=TENANTS[1]))
    await seal(conn)
    await installation.sign(conn)

    path = await written(conn, tmp_path / "late.jsonl", Extract(tenant_id=TENANTS[0], since=middle))
    report = verify_export(path, installation.keys)
    assert (report.ok, report.rows) == (True, 0)
    assert json.loads(lines_of(path)[0])["first_number"] == 4
    assert any("begins after the tenant's row 3" in notice for notice in report.notices)


@pytest.mark.long
async def test_exporting_and_verifying_hold_only_a_part_of_the_log_in_memory(conn, installation, tmp_path):
    for _ in range(6):
        await write_many(conn, 1000, message="long " * 1000)
    await seal(conn)
    await installation.sign(conn)
    process, path, used = psutil.Process(), tmp_path / "large.jsonl", []
    with path.open("wb") as file:
        async for piece in export(conn, Extract(), actor=CALLER):
            file.write(piece)
            used.append(process.memory_info().rss)
    report = verify_export(path, installation.keys, progress=lambda read: used.append(process.memory_info().rss))

    assert report.findings == []
    # Once the first pages have passed through, nothing is added for the rest.
    assert max(used) - max(used[: len(used) // 2]) < 4 * 2**20 < path.stat().st_size / 4


async def test_rows_written_since_the_last_seal_are_reported_apart(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=2)
    await write(conn, 3)
    report = verify_export(await written(conn, tmp_path / "fresh.jsonl"), installation.keys)
    assert (report.ok, report.unsealed) == (True, 4)  # the export's own event is one of them


def test_the_folder_of_the_verifier_says_which_file_is_what():
    folder = Path(atlas.audit.__file__).parent / "verifier"
    words = (folder / "__init__.py").read_text()
    named = {path.name for path in folder.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert all(name in words for name in named)


def test_an_installation_has_a_key_of_its_own(tmp_path):
    assert Installation(tmp_path / "a").key.public != Installation(tmp_path / "b").key.public
