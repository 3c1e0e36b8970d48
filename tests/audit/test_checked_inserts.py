"""What the programs' role may add to the audit log: what its programs write, and nothing that stops or misleads verification."""

import json
from dataclasses import replace
from uuid import uuid4

import asyncpg
import pytest

from atlas.audit import seal as sealing
from atlas.audit.seal import seal, widened
from atlas.audit.verify import verify
from tests.audit.given import Installation, audit_log, write

ADD = """
insert into atlas.audit_log (actor_type, actor_id, action, entity_type, entity_id, body)
values ($1, $2, $3, $4, '1', $5)"""
EVENT = {
    "tenant_id": None, "actor_type": "user", "actor_id": "alice", "level": "info", "action": "TOKEN_ADDED",
    "entity_type": "token", "entity_id": "1", "message": "", "meta": {},
}  # fmt: skip
OWN_ACTIONS = ("AUDIT_PRUNED", "AUDIT_ARCHIVED", "AUDIT_EPOCH", "AUDIT_KEY", "ERASED")
LATER = "2030-01-01T00:00:00.000000+00:00"


async def add(conn, body: bytes | None = None, **columns: str) -> None:
    """Add an event of these columns, by default with its own bytes."""
    event = {**EVENT, **columns}
    names = ("actor_type", "actor_id", "action", "entity_type")
    await conn.execute(ADD, *(event[name] for name in names), json.dumps(event).encode() if body is None else body)


def with_own_header(seal):
    """A seal whose header says what its columns say, whatever was changed."""
    return replace(seal, header=seal.written_header())


def others(seal):
    """The running numbers of a seal, under the name of another tenant."""
    return (*seal.tenants[:-1], (str(uuid4()), 1, seal.tenants[-1][2]))


# By what the refusal says: what a sealer of one's own would add in place of a seal.
FORGED_SEALS = {
    "its number is not the next one": lambda seal: replace(seal, n=seal.n + 1),
    "its leaves do not follow": lambda seal: replace(seal, first_index=seal.first_index + 1, size=seal.size + 1),
    "it is not of the epoch": lambda seal: replace(seal, epoch_at=LATER),
    "not of the epoch to seal": lambda seal: replace(seal, rest=True),
    "it is of another cluster": lambda seal: replace(seal, system_identifier=42),
    "its window does not follow": lambda seal: replace(seal, snap_prev="1:1:"),
    "window does not follow the one": lambda seal: replace(seal, snap_cur=widened(seal.snap_cur, 2**40)),
    "its times are not": lambda seal: replace(seal, sealed_at=LATER),
    "times are not those of now": lambda seal: replace(seal, snap_at=LATER),
    "its header differs": lambda seal: replace(seal, max_id=seal.max_id + 1),
    "its running numbers do not add up": lambda seal: replace(seal, tenants=seal.tenants[1:]),
    "root is not that of its leaves": lambda seal: replace(seal, leaf_hashes=bytes(32) + seal.leaf_hashes[32:]),
    "its rows are not those of its window": lambda seal: with_own_header(replace(seal, tenants=others(seal))),
    "it does not say where its rows end": lambda seal: with_own_header(replace(seal, to_id=seal.to_id + 1)),
    "where its rows end": lambda seal: with_own_header(replace(seal, max_id=seal.max_id + 1)),
    "its root is not that": lambda seal: replace(seal, root=bytes(32)),
    "its last leaf is not": lambda seal: replace(seal, leaf_hashes=seal.leaf_hashes[:-32] + bytes(32)),
    "it cannot be read": lambda seal: replace(seal, header=b"{"),
}


async def test_events_of_the_log_itself_and_bytes_of_another_event_are_refused(conn):
    refused = [{"action": action} for action in OWN_ACTIONS]
    refused += [{"actor_id": ""}, {"actor_type": "system", "actor_id": "signer"}]
    bodies = [{**EVENT, "actor_id": "bob"}, {**EVENT, "more": 1}, {}, [1]]
    refused += [{"body": json.dumps(body).encode()} for body in bodies]
    refused += [{"entity_type": "job", "body": b"[1]"}]
    for columns in refused:
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="not one that audit_log takes from atlas_engine"):
            await add(conn, **columns)
    for body in (b"not JSON", b'{"meta":', b"\xff"):
        for entity_type in ("token", "job"):
            with pytest.raises((asyncpg.DataError, asyncpg.InsufficientPrivilegeError)):
                await add(conn, body, entity_type=entity_type)
    assert await conn.fetchval("select count(*) from atlas.audit_log") == 0

    await add(conn)
    await add(conn, actor_id="signer")
    await add(conn, entity_type="job")
    assert await conn.fetchval("select count(*) from atlas.audit_log") == 3


async def test_a_seal_that_no_sealer_makes_is_refused(conn, pool, installation, monkeypatch):
    await audit_log(conn, installation, seals=3)
    await write(conn, 3)
    columns = sealing._columns
    for words, forge in FORGED_SEALS.items():
        monkeypatch.setattr(sealing, "_columns", lambda made, forge=forge: columns(forge(made)))
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match=words):
            await seal(conn)
    async with pool.acquire() as other, other.transaction():
        # One that claims to have seen a transaction which is still running would leave out its rows for good.
        running = await other.fetchval("select pg_current_xact_id()::text::bigint")
        shown = f"{running + 1}:{running + 1}:"
        monkeypatch.setattr(sealing, "_columns", lambda made: columns(with_own_header(replace(made, snap_cur=shown))))
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="its window does not follow"):
            await seal(conn)
    monkeypatch.setattr(sealing, "_columns", columns)
    for n, first_number, count in ((1, 1, 1), (10**6, 1, 1)):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="running numbers"):
            await conn.execute(
                "insert into atlas.audit_seal_tenant values (gen_random_uuid(), $1, $2, $3)", n, first_number, count
            )

    await seal(conn)
    await installation.sign(conn)
    assert (await verify(conn, installation.keys, installation.notes)).findings == []


async def test_a_checkpoint_that_is_none_of_the_tree_is_refused(conn, installation, tmp_path):
    await write(conn, 3)
    await seal(conn)
    await conn.execute("select atlas.audit_name_key($1)", installation.key.public)
    await installation.sign(conn)
    stored = dict(await conn.fetchrow("select * from atlas.audit_checkpoint"))
    other = Installation(tmp_path / "other").key
    forged = [
        {"size": 5},
        {"epoch": 2},
        {"key_name": other.label},
        {"key_name": installation.key.name + "+00000000"},
        {"note": stored["note"].replace("\n4\n", "\n3\n"), "key_name": "x"},
        {"note": stored["note"].split("\n\n")[0]},
        {"note": stored["note"].replace("\ntime 2", "\ntime x")},
    ]
    for change in forged:
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="a checkpoint of . leaves"):
            await conn.execute(
                "insert into atlas.audit_checkpoint (size, key_name, epoch, note, signed_at) values ($1, $2, $3, $4, $5)",
                *({**stored, **change}[name] for name in ("size", "key_name", "epoch", "note", "signed_at")),
            )
    assert await conn.fetchval("select count(*) from atlas.audit_checkpoint") == 1
