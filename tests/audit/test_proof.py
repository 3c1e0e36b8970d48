"""Proofs that travel alone."""

import json
from random import Random

import pytest

from atlas.audit.exports.proof import NotSealed, prove, prove_consistency
from atlas.audit.record import record
from atlas.audit.sealing.seal import seal
from atlas.audit.verifier.proof import check_proof
from atlas.errors import InvalidInput, NotFound
from tests.audit.given import TENANTS, audit_log, event, kinds, seal_in_small_batches, write, write_many


async def test_every_row_of_an_audit_log_can_be_proved(conn, installation):
    await audit_log(conn, installation, seals=6)
    await write(conn, 7)
    await seal_in_small_batches(conn, 2)
    await installation.sign(conn)

    for row in await conn.fetch("select id, body from atlas.audit_log"):
        proof = json.loads(json.dumps(await prove(conn, row["id"])))
        assert proof["body"].encode() == row["body"]
        assert check_proof(proof, installation.keys).findings == []


async def test_bytes_that_are_no_text_are_proved_too(conn, owner, installation):
    # As a replica does, which checks nothing again.
    await owner.execute(
        "set session_replication_role = replica;"
        " insert into atlas.audit_log (actor_type, actor_id, action, entity_type, entity_id, body)"
        " values ('user', 'eve', 'X', 'x', 'x', '\\xff00');"
        " reset session_replication_role"
    )
    await seal(conn)
    await installation.sign(conn)
    proof = json.loads(json.dumps(await prove(conn, 1)))
    assert check_proof(proof, installation.keys).findings == []


@pytest.mark.long
async def test_rows_of_a_large_audit_log_can_be_proved(conn, installation):
    for count in (9000, 3, 700):
        await write_many(conn, count)
        await seal(conn)
    await installation.sign(conn)

    for id in [1, 9703, *Random(1).sample(range(1, 9704), 5)]:
        assert check_proof(await prove(conn, id), installation.keys).ok


async def test_a_proof_of_something_else_is_refused(conn, installation, tmp_path):
    await audit_log(conn, installation, seals=3)
    proof = await prove(conn, 3)
    changes = [
        {"body": proof["body"].replace("change", "chance")},
        {"row": {**proof["row"], "id": 4}},
        {"row": {**proof["row"], "number": proof["row"]["number"] + 1}},
        {"row": {**proof["row"], "at": "2020-01-01T00:00:00.000000+00:00"}},
        {"index": proof["index"] + 1},
        {"path": proof["path"][:-1]},
        {"path": ["00" * 32, *proof["path"][1:]]},
        {"checkpoint": proof["checkpoint"].replace("\n", "\n1", 1)},
        {"checkpoint": ""},
        {"format": "something/else"},
        {"row": {}},
        {"leaf": "00" * 32},
        {"leaf": None},
    ]
    for change in changes:
        assert not check_proof({**proof, **change}, installation.keys).ok, change
    assert kinds(check_proof(proof, [])) == {"checkpoint"}
    assert check_proof(proof, installation.keys).ok


async def test_a_proof_names_nothing_that_it_does_not_prove(conn, installation):
    await audit_log(conn, installation, seals=3)
    proof = await prove(conn, 3)
    assert set(proof) == {"format", "row", "body", "leaf", "index", "path", "checkpoint"}

    report = check_proof({**proof, "seal": 7}, installation.keys)
    assert report.ok
    assert report.notices == ["That the row is in the seal named here is not part of the proof."]


async def test_a_row_is_proved_only_to_its_own_tenant(conn, installation):
    id = await record(conn, event(1, tenant_id=TENANTS[0]))
    await seal(conn)
    await installation.sign(conn)

    assert check_proof(await prove(conn, id, tenant_id=TENANTS[0]), installation.keys).ok
    with pytest.raises(NotFound):
        await prove(conn, id, tenant_id=TENANTS[1])


async def test_a_row_without_seal_or_checkpoint_cannot_be_proved_yet(conn, installation):
    id = await record(conn, event(1))
    with pytest.raises(NotSealed, match="no seal covers it"):
        await prove(conn, id)
    await seal(conn)
    with pytest.raises(NotSealed, match="no checkpoint covers it"):
        await prove(conn, id)
    for id in (99, 2**63, -1):
        with pytest.raises(NotFound):
            await prove(conn, id)


async def test_a_later_checkpoint_is_proved_to_continue_an_earlier_one(conn, installation):
    await audit_log(conn, installation, seals=7)
    sizes = [row["size"] for row in await conn.fetch("select size from atlas.audit_checkpoint order by size")]
    for first in sizes:
        proof = await prove_consistency(conn, first)
        assert check_proof(proof, installation.keys).ok
        if first != sizes[-1]:
            assert not check_proof({**proof, "path": proof["path"][:-1]}, installation.keys).ok
            assert not check_proof({**proof, "first": proof["second"]}, installation.keys).ok
    assert check_proof(await prove_consistency(conn, sizes[1], sizes[3]), installation.keys).ok
    for size in (99999, 2**63, -1):
        with pytest.raises(NotFound, match=f"checkpoint of size {size}"):
            await prove_consistency(conn, size)
    with pytest.raises(InvalidInput, match=f"a tree of {sizes[1]} leaves cannot continue one of {sizes[3]}"):
        await prove_consistency(conn, sizes[3], sizes[1])
