"""A server that crashes under writers and sealers: what was committed stays in the audit log, and in exactly one leaf."""

import asyncio
from random import Random

import asyncpg
import pytest

from atlas.audit.record import record
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.verify import verify
from atlas.audit.verifier.tree import split
from atlas.db.migrations import migrate
from atlas.db.pool import UNREACHABLE, connect
from atlas.errors import AtlasError
from atlas.postgres.cluster import start_embedded
from tests.audit.given import TENANTS, event
from tests.support import PROOF, crash_server, until

CRASHES = 12 if PROOF else 3
GONE = (*UNREACHABLE, asyncpg.PostgresError, asyncpg.InterfaceError, AtlasError)


@pytest.mark.slow
async def test_a_crash_of_the_server_leaves_every_committed_row_in_exactly_one_leaf(tmp_path, installation):
    server = await start_embedded(tmp_path)
    url = server.url("postgres")
    await migrate(url)
    stop, confirmed = asyncio.Event(), set[str]()
    tasks = [asyncio.create_task(_write(url, Random(number), stop, confirmed)) for number in range(3)]
    tasks += [asyncio.create_task(_seal(url, stop, installation)) for _ in range(2)]
    for _ in range(CRASHES):
        before = len(confirmed)
        async with asyncio.timeout(60):
            while len(confirmed) < before + 60:
                await asyncio.sleep(0.01)
        await crash_server(tmp_path)
    stop.set()
    await asyncio.gather(*tasks)

    await until(lambda: _is_back(url))
    conn = await connect(url)
    await seal(conn)
    await installation.sign(conn)
    rows = {row[0] for row in await conn.fetch("select entity_id from atlas.audit_log")}
    seals = await conn.fetch("select leaf_hashes from atlas.audit_seal")
    leaves = [leaf for one in seals for leaf in split(one["leaf_hashes"])]
    report = await verify(conn, installation.keys, installation.notes)
    await conn.close()
    server.release()
    print(f"outage: {CRASHES} crashes, {len(confirmed)} rows confirmed as committed, {len(seals)} seals")
    assert confirmed <= rows
    assert len(leaves) == len(set(leaves)) == report.rows + len(seals)
    assert (report.findings, report.unsealed) == ([], 0)


async def _is_back(url: str) -> bool:
    """False while the server recovers from the last crash."""
    try:
        await (await connect(url)).close()
    except GONE:
        return False
    return True


async def _write(url: str, random: Random, stop: asyncio.Event, confirmed: set[str]) -> None:
    """Write rows, and note those whose commit was answered."""
    while not stop.is_set():
        try:
            conn = await connect(url)
            while not stop.is_set():
                one = event(random.getrandbits(60), tenant_id=random.choice(TENANTS))
                async with conn.transaction():
                    await record(conn, one)
                    await asyncio.sleep(random.random() * 0.005)
                confirmed.add(one.entity_id)
            await conn.close()
        except GONE:
            await asyncio.sleep(0.05)


async def _seal(url: str, stop: asyncio.Event, installation) -> None:
    """Seal and sign for as long as there is a server."""
    while not stop.is_set():
        try:
            conn = await connect(url)
            while not stop.is_set():
                await seal(conn)
                await installation.sign(conn)
                await asyncio.sleep(0.01)
            await conn.close()
        except GONE:
            await asyncio.sleep(0.05)
