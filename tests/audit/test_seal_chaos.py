"""Sealers that are killed all the time, beside writers of every kind, lose no row and seal none twice."""

import asyncio

import pytest

from atlas.audit.record import record
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.verify import verify
from atlas.audit.verifier.tree import split
from atlas.db.pool import connect
from tests.audit.chaos import kill_sealers, seal_in_the_wrong_order, writers
from tests.audit.given import event, kinds, write
from tests.support import PROOF

SECONDS = 30.0 if PROOF else 2.5


@pytest.mark.long
async def test_killed_sealers_leave_every_row_in_exactly_one_leaf(database_url, conn, installation):
    async with writers(database_url, quick=6, slow=3):
        deaths = await kill_sealers(database_url, every=0.2, seconds=SECONDS)
        # The long writers are still at it: they hold back their own rows, and no others. The server may need a
        # while to notice that the last sealer is dead and to let go of its lock.
        async with asyncio.timeout(10):
            while not await seal(conn) or await _in_no_leaf(conn) >= 50:
                await asyncio.sleep(0.05)
    sealed_in_the_storm = await conn.fetchval("select count(*) from atlas.audit_seal where count > 1")
    await seal(conn)
    await installation.sign(conn)

    assert deaths >= SECONDS * 2
    assert sealed_in_the_storm > deaths / 10
    rows = await conn.fetchval("select count(*) from atlas.audit_log")
    seals = await conn.fetch("select leaf_hashes from atlas.audit_seal")
    leaves = [leaf for one in seals for leaf in split(one["leaf_hashes"])]
    assert len(leaves) == len(set(leaves)) == rows + len(seals)
    report = await verify(conn, installation.keys, installation.notes)
    assert report.findings == []
    assert report.rows == rows
    assert report.unsealed == 0


async def test_a_sealer_that_reads_rows_before_the_horizon_loses_the_row_that_commits_between(
    conn, owner, database_url
):
    other = await connect(database_url)
    late = other.transaction()
    await late.start()
    await record(other, event(1))
    await write(conn, 2)

    await seal_in_the_wrong_order(owner, late.commit)
    await seal(conn)
    await other.close()

    assert await _in_no_leaf(conn) == 1
    assert "row" in kinds(await verify(conn, []))


@pytest.mark.long
async def test_the_storm_sees_the_rows_that_the_wrong_order_loses(database_url, conn, owner):
    async with writers(database_url, quick=6, slow=1):
        for _ in range(60):
            await seal_in_the_wrong_order(owner, lambda: asyncio.sleep(0.01))
    await seal(conn)

    assert await _in_no_leaf(conn) > 0
    assert "row" in kinds(await verify(conn, []))


async def _in_no_leaf(conn) -> int:
    """Rows that are in no leaf, by counting alone."""
    return await conn.fetchval(
        "select (select count(*) from atlas.audit_log) - (select sum(count - 1) from atlas.audit_seal)"
    )
