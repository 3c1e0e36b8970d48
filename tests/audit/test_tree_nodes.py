"""Proofs read from the seals are those that the whole list of leaves gives."""

from random import Random

import pytest

from atlas.audit.sealing.seal import seal, seal_batch
from atlas.audit.sealing.tree_nodes import DamagedTree, TreeNodes
from atlas.audit.verifier.tree import Frontier, consistent, included, split
from tests.audit.given import write, write_many
from tests.audit.test_tree import mth, path, proof


@pytest.fixture
async def leaves(conn):
    """An audit log of large and of tiny seals; its leaves."""
    random = Random(3)
    await write_many(conn, 5000)
    await seal(conn)
    for _ in range(20):
        await write(conn, random.randint(1, 3), random=random)
        await seal(conn)
    await write_many(conn, 900)
    while not (await seal_batch(conn, limit=300)).closes:
        continue
    rows = await conn.fetch("select leaf_hashes from atlas.audit_seal order by n")
    return [leaf for row in rows for leaf in split(row["leaf_hashes"])]


async def test_roots_inclusion_and_consistency_are_those_of_the_definition(conn, leaves):
    random = Random(4)
    sizes = [row["size"] for row in await conn.fetch("select size from atlas.audit_seal order by n")]
    for size in [sizes[0], *random.sample(sizes[1:-1], 4), sizes[-1]]:
        nodes = TreeNodes(conn, size)
        assert await nodes.root() == mth(leaves[:size])
        for index in [0, size - 1, *random.sample(range(size), 5)]:
            assert await nodes.inclusion(index) == path(index, leaves[:size])
        for old in random.sample(sizes, 6):
            if old <= size:
                assert await nodes.consistency(old) == proof(old, leaves[:size])


async def test_a_proof_holds_for_every_row_of_the_newest_seals(conn, leaves):
    size = len(leaves)
    root = Frontier().extend(leaves).root()
    nodes = TreeNodes(conn, size)
    for index in range(size - 40, size):
        assert included(leaves[index], index, size, await nodes.inclusion(index), root)
    assert consistent(1, leaves[0], size, root, await nodes.consistency(1))


async def test_a_damaged_tree_is_said_to_be_damaged(conn, owner, leaves):
    await owner.execute("alter table atlas.audit_seal disable trigger all")
    await owner.execute("delete from atlas.audit_seal where n = 2")
    with pytest.raises(DamagedTree, match="Run `atlas audit verify`"):
        for index in range(4000, len(leaves), 100):
            await TreeNodes(conn, len(leaves)).inclusion(index)
