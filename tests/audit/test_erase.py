"""Erasure: the person's values are gone, the audit log is whole, and an event records it."""

import asyncio

import orjson
import pytest

from atlas.actors import Actor
from atlas.audit.exports.export import Extract, export
from atlas.audit.personal_data import commit, commit_address, erase
from atlas.audit.record import Event, record
from atlas.audit.sealing.seal import seal
from atlas.audit.verification import missing_values
from atlas.audit.verification.verify import verify
from atlas.audit.verifier.export import verify_export
from atlas.postgres.pg_ctl import BIN
from tests.audit.given import CALLER, TENANTS, audit_log, event, prune_through


async def given_mails(conn) -> None:
    await record(conn, event(1, tenant_id=TENANTS[0]), personal={"to": ["Ann@Example.org"], "subject": "Dear Ann"})
    await record(conn, event(2, tenant_id=TENANTS[0]), personal={"to": ["bob@example.org"], "subject": "Dear Bob"})
    await record(conn, event(3, tenant_id=TENANTS[1]), personal={"to": ["bob@example.org", "ann@example.org"]})


async def test_a_persons_values_go_with_their_mails_subjects_and_no_one_elses(conn):
    await given_mails(conn)
    assert await erase(conn, "ann@example.org", actor=CALLER) == 3

    left = await conn.fetch("select value from atlas.audit_private order by value")
    assert [row["value"] for row in left] == ["Dear Bob", "bob@example.org", "bob@example.org"]


async def test_an_address_is_found_however_its_domain_is_written(conn):
    for domain in ("xn--bcher-kva.example", "bücher.example"):
        await record(conn, event(1), personal={"to": f"ann@{domain}", "subject": "Dear Ann"})
    await record(conn, event(2), personal={"to": "ann@bucher.example"})
    assert await erase(conn, "Ann@BÜCHER.example", actor=CALLER) == 4
    assert await erase(conn, "ann@\u200b..example", actor=CALLER) == 0
    assert await conn.fetchval("select value from atlas.audit_private") == "ann@bucher.example"


async def test_verification_passes_afterwards_and_an_event_records_it_without_the_name(conn, installation):
    await given_mails(conn)
    await seal(conn)
    await erase(conn, "ann@example.org", actor=CALLER)
    await seal(conn)
    await installation.sign(conn)

    assert (await verify(conn, installation.keys)).findings == []
    rows = await conn.fetch("select tenant_id, actor_id, meta, body from atlas.audit_log where action = 'ERASED'")
    assert {row["tenant_id"] for row in rows} == {TENANTS[0], TENANTS[1]}
    assert {row["actor_id"] for row in rows} == {"dana"}
    assert sum(orjson.loads(row["meta"])["values"] for row in rows) == 3
    assert not any(b"ann@" in row["body"].lower() for row in rows)


async def test_erasing_in_one_tenant_leaves_the_others_alone(conn):
    await given_mails(conn)
    assert await erase(conn, "ANN@example.org", actor=CALLER, tenant_id=TENANTS[1]) == 1
    assert await conn.fetchval("select count(*) from atlas.audit_private where lower(value) = 'ann@example.org'") == 1


async def test_values_of_no_thing_are_erased_too(conn):
    _, value = commit("to", "ann@example.org")
    await conn.execute(
        "select atlas.store_personal_data($1, $2::text::jsonb)", TENANTS[0], orjson.dumps([value]).decode()
    )
    assert await erase(conn, "ann@example.org", actor=CALLER) == 1
    assert await conn.fetchval("select count(*) from atlas.audit_private") == 0


async def test_the_address_of_a_caller_is_erased_from_all_of_its_events(conn, installation, tmp_path):
    commitment = await commit_address(conn, "192.0.2.7", tenant_id=TENANTS[0])
    await commit_address(conn, "192.0.2.8", tenant_id=TENANTS[0])
    caller = Actor("user", "dana", commitment, "r-1")
    for number in range(2):
        await record(conn, Event("THING_CHANGED", "thing", str(number), caller, TENANTS[0]))
    await seal(conn)
    await installation.sign(conn)
    lines = [line async for line in export(conn, Extract(personal=True), actor=CALLER)]
    assert sum(line.count(b'"value":"192.0.2.7"') for line in lines) == 2
    assert await erase(conn, "192.0.2.7", actor=CALLER) == 1

    assert [row["value"] for row in await conn.fetch("select value from atlas.audit_private")] == ["192.0.2.8"]
    assert not await conn.fetchval(
        "select count(*) from atlas.audit_log where position('192.0.2.7'::bytea in body) > 0"
    )
    await seal(conn)
    await installation.sign(conn)
    assert (await verify(conn, installation.keys)).findings == []
    file = tmp_path / "after.jsonl"
    file.write_bytes(b"".join([line async for line in export(conn, Extract(personal=True), actor=CALLER)]))
    assert verify_export(file, installation.keys).findings == []


async def test_an_address_that_was_erased_is_not_missing_once_its_erasure_was_pruned(conn, owner, installation):
    commitment = await commit_address(conn, "192.0.2.7", tenant_id=TENANTS[0])
    assert await erase(conn, "192.0.2.7", actor=CALLER) == 1
    await seal(conn)
    # A process of the API that has not heard of the erasure goes on with the commitment.
    await record(conn, Event("THING_CHANGED", "thing", "1", Actor("user", "dana", commitment, "r-1"), TENANTS[0]))
    await seal(conn)
    await installation.sign(conn)
    for through in (1, 2):
        await prune_through(owner, installation, through)
        await seal(conn)
        await installation.sign(conn)
        assert (await verify(conn, installation.keys)).findings == []


async def test_nothing_to_erase_writes_nothing(conn):
    await given_mails(conn)
    assert await erase(conn, "zoe@example.org", actor=CALLER) == 0
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'ERASED'") == 0


@pytest.mark.long
async def test_many_values_are_recorded_in_events_of_a_bearable_size(conn):
    await record(conn, event(1, tenant_id=TENANTS[0]), personal={"to": ["ann@example.org"] * 2500})
    assert await erase(conn, "ann@example.org", actor=CALLER) == 2500

    rows = await conn.fetch("select meta from atlas.audit_log where action = 'ERASED'")
    recorded = [orjson.loads(row["meta"]) for row in rows]
    assert sorted(one["values"] for one in recorded) == [500, 1000, 1000]
    assert len({commitment for one in recorded for commitment in one["commitments"]}) == 2500


async def test_value_and_salt_are_nowhere_in_a_dump(conn, database_url):
    await given_mails(conn)
    salts = [
        row["salt"].hex() for row in await conn.fetch("select salt from atlas.audit_private where value ilike '%ann%'")
    ]
    await erase(conn, "ann@example.org", actor=CALLER)

    dump = await asyncio.create_subprocess_exec(BIN / "pg_dump", database_url, stdout=asyncio.subprocess.PIPE)
    text = (await dump.communicate())[0].decode().lower()
    assert "bob@example.org" in text
    assert "ann@example.org" not in text
    assert "dear ann" not in text
    assert not any(salt in text for salt in salts)


@pytest.mark.parametrize("entity", ["own", "none"])
async def test_a_value_that_was_deleted_without_an_event_is_found(conn, owner, installation, entity):
    await audit_log(conn, installation, seals=1)
    id = await record(conn, event(1), personal={"to": ["ann@example.org"], "from": "bob@example.org"})
    if entity == "none":
        await owner.execute("alter table atlas.audit_private disable trigger all")
        await owner.execute("update atlas.audit_private set entity_id = null")
    for sealed in (False, True):
        if sealed:
            await seal(conn)
            await installation.sign(conn)
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute("delete from atlas.audit_private where value = 'ann@example.org'")
        [finding] = [one for one in (await verify(owner, installation.keys)).findings if one.kind != "stale"]
        await transaction.rollback()
        assert (finding.kind, finding.row, "no event erased it" in finding.message) == ("private", id, True)


async def test_values_that_were_erased_or_removed_by_order_are_not_missing(conn, owner, installation, monkeypatch):
    monkeypatch.setattr(missing_values, "AT_ONCE", 2)
    await given_mails(conn)
    await seal(conn)
    await erase(conn, "ann@example.org", actor=CALLER)
    await seal(conn)
    await installation.sign(conn)
    assert (await verify(conn, installation.keys)).findings == []
    await prune_through(owner, installation, 1)
    await seal(conn)
    await installation.sign(conn)
    assert (await verify(conn, installation.keys)).findings == []


async def test_an_erased_value_that_was_put_back_is_found(conn, owner, installation):
    await record(conn, event(1), personal={"to": "ann@example.org", "from": "bob@example.org"})
    await owner.execute("create table backup as table atlas.audit_private")
    assert await erase(conn, "ann@example.org", actor=CALLER) == 1
    await seal(conn)
    await installation.sign(conn)
    assert (await verify(conn, installation.keys)).findings == []

    await owner.execute("insert into atlas.audit_private table backup on conflict do nothing")
    [finding] = (await verify(conn, installation.keys)).findings
    assert finding.kind == "private"
    assert "(to) is there, though an event says that it was erased" in finding.message


async def test_an_event_of_something_else_erases_no_value(conn, owner, installation, tmp_path):
    await given_mails(conn)
    commitment = await conn.fetchval("select encode(commitment, 'hex') from atlas.audit_private limit 1")
    forged = Event("ERASED", "job", "1", CALLER, meta={"values": 1, "fields": ["to"], "commitments": [commitment]})
    await record(owner, forged)
    await owner.execute("alter table atlas.audit_private disable trigger all")
    await owner.execute("delete from atlas.audit_private where encode(commitment, 'hex') = $1", commitment)
    await seal(conn)
    await installation.sign(conn)
    path = tmp_path / "all.jsonl"
    with path.open("wb") as file:
        async for piece in export(conn, Extract(personal=True), actor=CALLER):
            file.write(piece)
    for report in (verify_export(path, installation.keys), await verify(conn, installation.keys)):
        found = [finding.message for finding in report.findings if finding.kind == "private"]
        assert len(found) == 1
        assert "is gone, and no event erased it" in found[0]
