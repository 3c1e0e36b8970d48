"""Writing: the same values in the bytes and the columns, personal values apart, and nothing ever changed."""

import hashlib

import asyncpg
import orjson
import pytest

from atlas.audit.personal_data import commit, conceal, reveal
from atlas.audit.record import Event, event_body, record
from atlas.audit.sealing.seal import seal
from tests.audit.given import CALLER, TENANTS, event


async def test_an_event_is_written_with_its_bytes_and_its_search_columns(conn):
    written = Event("TENANT_ADDED", "tenant", "acme", CALLER, TENANTS[0], "added", "warn", {"slug": "acme"})
    id = await record(conn, written)

    row = await conn.fetchrow("select * from atlas.audit_log where id = $1", id)
    facts = '{"slug":"acme","request_id":"r-1"}'
    same = event_body("TENANT_ADDED", "user", "dana", "tenant", "acme", TENANTS[0], facts, "added", "warn")
    assert row["body"] == same
    assert orjson.loads(row["body"]) == {
        "tenant_id": str(TENANTS[0]),
        "actor_type": "user",
        "actor_id": "dana",
        "level": "warn",
        "action": "TENANT_ADDED",
        "entity_type": "tenant",
        "entity_id": "acme",
        "message": "added",
        "meta": {"slug": "acme", "request_id": "r-1"},
    }
    assert (row["action"], row["entity_id"], row["level"]) == ("TENANT_ADDED", "acme", "warn")


async def test_words_that_postgres_refuses_are_written_without_the_characters_it_refuses(conn):
    written = Event("OFFLINE", "system", "gate", CALLER, message="caf\udce9 \0", meta={"reason": ["caf\udce9"]})
    id = await record(conn, written, personal={"subject": "caf\udce9"})

    row = await conn.fetchrow("select * from atlas.audit_log where id = $1", id)
    body = orjson.loads(row["body"])
    assert row["message"] == body["message"] == "caf\ufffd \ufffd"
    assert orjson.loads(row["meta"])["reason"] == body["meta"]["reason"] == ["caf\ufffd"]
    [kept] = await conn.fetch("select * from atlas.audit_private")
    assert kept["commitment"] == hashlib.sha256(kept["salt"] + "caf\ufffd".encode()).digest()


async def test_an_event_goes_with_its_transaction(conn):
    transaction = conn.transaction()
    await transaction.start()
    await record(conn, event(1), personal={"to": "ann@example.org"})
    await transaction.rollback()

    assert await conn.fetchval("select count(*) from atlas.audit_log") == 0
    assert await conn.fetchval("select count(*) from atlas.audit_private") == 0


async def test_personal_fields_are_commitments_and_their_values_stand_apart(conn):
    personal = {"to": ["ann@example.org", "bob@example.org"], "subject": "Your invoice"}
    id = await record(conn, event(7, tenant_id=TENANTS[0]), personal=personal)

    body = orjson.loads(await conn.fetchval("select body from atlas.audit_log where id = $1", id))
    assert [list(one) for one in body["meta"]["to"]] == [["commitment"], ["commitment"]]
    values = await conn.fetch("select * from atlas.audit_private order by field, value")
    assert [(row["field"], row["value"]) for row in values] == [
        ("subject", "Your invoice"),
        ("to", "ann@example.org"),
        ("to", "bob@example.org"),
    ]
    assert {(row["tenant_id"], row["entity_id"]) for row in values} == {(TENANTS[0], "7")}
    for row in values:
        assert row["commitment"] == hashlib.sha256(row["salt"] + row["value"].encode()).digest()
    committed = {one["commitment"] for one in [*body["meta"]["to"], body["meta"]["subject"]]}
    assert committed == {row["commitment"].hex() for row in values}
    subject = body["meta"]["subject"]["commitment"]
    assert [one["value"] for one in await reveal(conn, [subject], of=["7"])] == ["Your invoice"]
    assert await reveal(conn, [subject], of=["8"]) == []


def test_the_same_value_is_committed_to_differently_each_time():
    (first, _), (second, _) = commit("to", "ann@example.org"), commit("to", "ann@example.org")
    assert first != second


def test_a_field_of_several_values_keeps_its_shape():
    meta, kept = conceal({"to": ["a", "b"], "cc": [], "subject": "c"})
    assert [len(meta["to"]), meta["cc"], list(meta["subject"])] == [2, [], ["commitment"]]
    assert [row["value"] for row in kept] == ["a", "b", "c"]


async def test_the_sql_function_takes_the_rows_that_python_makes(conn):
    _, value = commit("to", "ann@example.org", entity_id="job 1")
    rows = orjson.dumps([value]).decode()
    await conn.execute("select atlas.store_personal_data($1, $2::text::jsonb)", TENANTS[0], rows)

    row = await conn.fetchrow("select * from atlas.audit_private")
    shown = (row["commitment"].hex(), row["salt"].hex(), row["value"])
    assert shown == (value["commitment"], value["salt"], value["value"])
    assert (row["tenant_id"], row["entity_id"]) == (TENANTS[0], "job 1")


async def test_a_value_of_no_thing_is_found_by_its_commitment(conn):
    shape, value = commit("to", "ann@example.org")
    await conn.execute("select atlas.store_personal_data(null, $1::text::jsonb)", orjson.dumps([value]).decode())

    assert await reveal(conn, [shape["commitment"]], of=[]) == [
        {"commitment": shape["commitment"], "field": "to", "salt": value["salt"], "value": "ann@example.org"}
    ]


FORBIDDEN = [
    "update atlas.audit_log set message = 'x'",
    "delete from atlas.audit_log",
    "truncate atlas.audit_log",
    "insert into atlas.audit_log (epoch, actor_type, actor_id, action, entity_type, entity_id, body)"
    " values (2, 'user', 'x', 'X', 'x', 'x', '')",
    "insert into atlas.audit_log (xid, actor_type, actor_id, action, entity_type, entity_id, body)"
    " values ('5', 'user', 'x', 'X', 'x', 'x', '')",
    "insert into atlas.audit_log (created_at, actor_type, actor_id, action, entity_type, entity_id, body)"
    " values ('2020-01-01', 'user', 'x', 'X', 'x', 'x', '')",
    "update atlas.audit_seal set root = root",
    "delete from atlas.audit_seal",
    "delete from atlas.audit_checkpoint",
    "update atlas.audit_private set value = 'x'",
    "delete from atlas.audit_private",
    "insert into atlas.audit_epoch (epoch, system_identifier) values (2, 2)",
    "insert into atlas.audit_pruned (through_seal) values (1)",
    "select atlas.audit_prune(1, 'user', 'x', '{}')",
    "select atlas.audit_new_epoch('why', 'user', 'x', '{}')",
    "alter table atlas.audit_log disable trigger all",
    "create or replace function atlas.audit_is_append_only() returns trigger language sql as 'select null'",
]


async def test_the_programs_role_may_add_and_read_and_nothing_else(conn):
    assert await conn.fetchval("select current_user") == "atlas_engine"
    await record(conn, event(1), personal={"to": "ann@example.org"})
    for change in FORBIDDEN:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await conn.execute(change)


async def test_a_superuser_in_replica_mode_is_refused_as_well(conn, owner, installation):
    await record(conn, event(1, tenant_id=TENANTS[0]))
    await seal(conn)
    await installation.sign(conn)
    await owner.execute("set session_replication_role = replica")
    columns = {"audit_log": "message", "audit_seal": "root", "audit_seal_tenant": "count", "audit_checkpoint": "note"}
    for table, column in (columns | {"audit_epoch": "reason"}).items():
        for change in (
            f"update atlas.{table} set {column} = {column}",
            f"delete from atlas.{table}",
            f"truncate atlas.{table}",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match=f"{table} is append-only"):
                await owner.execute(change)


async def test_a_superuser_cannot_delete_rows_by_writing_an_order_by_hand_without_a_trace(conn, owner):
    await record(conn, event(1))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await owner.execute("delete from atlas.audit_log")
    await seal(conn)

    await owner.execute(
        "begin; insert into atlas.audit_pruned (through_seal) values (1); delete from atlas.audit_log; commit"
    )
    assert await owner.fetchval("select count(*) from atlas.audit_pruned") == 1
