"""What the programs' role may add to the audit log: what its programs write, and nothing that stops or misleads verification."""

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from atlas.audit.sealing import seal as sealing
from atlas.audit.sealing.seal import seal, widened
from atlas.audit.verification.verify import verify
from atlas.engine.access.tokens import add_token
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.webhooks.inbound import add_hook
from tests.audit.given import Installation, audit_log, write
from tests.engine.jobs.given import given_worker
from tests.support import DANA

ADD = """
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, meta, body)
values ($1::text::uuid, $2, $3, $4, $5, '1', $6, $7)"""
EVENT = {
    "tenant_id": None, "actor_type": "user", "actor_id": "alice", "level": "info", "action": "TOKEN_ADDED",
    "entity_type": "token", "entity_id": "1", "message": "", "meta": {},
}  # fmt: skip
OWN_ACTIONS = ("AUDIT_PRUNED", "AUDIT_ARCHIVED", "AUDIT_EPOCH", "AUDIT_KEY", "ERASED")
LATER = "2030-01-01T00:00:00.000000+00:00"


async def add(conn, body: bytes | None = None, **columns: Any) -> None:
    """Add an event of these columns, by default with its own bytes."""
    event = {**EVENT, **columns}
    names = ("tenant_id", "actor_type", "actor_id", "action", "entity_type")
    meta = json.dumps(event["meta"])
    await conn.execute(
        ADD, *(event[name] for name in names), meta, json.dumps(event).encode() if body is None else body
    )


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


WORKER = "box:4711:0a1b2c3d-0000-4000-8000-000000000000"
# By the actor: what is refused in its name and why, and what is taken.
NAMES = [
    ({"actor_id": ""}, "it has no name"),
    ({"actor_id": "", "entity_type": "job"}, "it has no name"),
    ({"actor_type": "system", "actor_id": "signer"}, "the signer writes no such event"),
    ({"actor_type": "system", "actor_id": "signer", "entity_type": "job"}, "the signer writes no such event"),
    ({"actor_id": "db:atlas_owner"}, "the login of this session is {login}"),
    ({"actor_id": "db:shop", "entity_type": "job"}, "the login of this session is {login}"),
    ({"actor_id": "alice", "meta": {"token": "none"}}, "it has no token none"),
    ({"actor_id": "alice", "meta": {"token": "{bob}"}}, "it has no token {bob}"),
    ({"actor_type": "system", "actor_id": WORKER}, "there is no such worker"),
    ({"actor_type": "system", "actor_id": f"hook:{uuid4()}"}, "there is no such inbound hook"),
    ({"actor_id": "db:{login}"}, None),
    ({"actor_id": "bob", "meta": {"token": "{bob}"}}, None),
    # It is recorded when the token may be gone.
    ({"actor_id": "alice", "meta": {"token": "none"}, "action": "CALLS_REFUSED"}, None),
    ({"actor_type": "system", "actor_id": "{worker}"}, None),
    ({"actor_type": "system", "actor_id": "hook:{hook}"}, None),
    # What the database cannot know: programs of Atlas, people at a terminal, names of applications, workers of jobs.
    *(
        ({"actor_type": "system", "actor_id": name}, None)
        for name in ("scheduler", "engine", f"engine:{WORKER}", "code:shop.jobs")
    ),
    *(({"actor_id": name}, None) for name in ("cli:root", "alice", "signer")),
    ({"actor_type": "system", "actor_id": WORKER, "entity_type": "job"}, None),
]


async def test_an_event_has_no_name_that_the_database_knows_to_be_anothers(conn, online):
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    token, _ = await add_token(conn, subject="bob", role="enqueuer", tenant=tenant, actor=DANA)
    hook, _ = await add_hook(conn, tenant.id, "shop.paid", actor=DANA)
    worker = await given_worker(conn)
    login = await conn.fetchval("select session_user::text")
    known = {"login": login, "bob": token.prefix, "worker": worker.id, "hook": str(hook.id)}
    for columns, reason in NAMES:
        filled = json.loads(json.dumps(columns).replace("{bob}", token.prefix)) if "meta" in columns else dict(columns)
        filled["actor_id"] = filled["actor_id"].format(**known)
        if reason is None:
            await add(conn, **filled)
            continue
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match=reason.format(**known)):
            await add(conn, **filled)

    # Functions that run as the owner write no other names either.
    for call in (
        "select atlas.pause_target('type', 'x', null, null, null, 'system', 'signer', '{}')",
        "select atlas.pause_target('type', 'x', null, null, null, 'user', 'db:shop', '{}')",
        "select atlas.pause_target('type', 'x', null, null, null, 'user', '', '{}')",
        "select atlas.enqueue('acme', 'x', actor => 'db:shop', allow_unknown => true)",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="may not write an event in the name of"):
            await conn.execute(call)


async def test_a_tenants_role_is_checked_in_the_same_way(conn):
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    operator, _ = await add_token(conn, subject="olga", role="operator", actor=DANA)
    await conn.execute("set role atlas_tenant")
    await conn.execute("select set_config('atlas.tenant', $1, false)", str(tenant.id))
    event = {"tenant_id": str(tenant.id)}
    # Tokens of operators, which it does not see, act in a tenant too.
    await add(conn, **event, actor_id="olga", meta={"token": operator.prefix})
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="it has no token"):
        await add(conn, **event, actor_id="alice", meta={"token": operator.prefix})
    await conn.execute("reset role")


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
