"""A storm for sealers: writers of every kind, and sealers that are killed as soon as they have begun."""

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

from atlas.audit.record import record
from atlas.audit.sealing.seal import BATCH, STATE, add_seal, complete, next_window, read_window, seal
from atlas.audit.verifier.tree import Frontier
from atlas.db.pool import connect
from atlas.db.statements import fetch_row
from tests.audit.given import TENANTS, event

# Processes start from one that has everything imported already, so that a sealer works soon after its start.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.audit.chaos"])


def seal_for_ever(url: str) -> None:
    """What a sealer process does until it is killed."""

    async def work() -> None:
        conn = await connect(url)
        while True:
            await seal(conn)
            await asyncio.sleep(0.01)

    asyncio.run(work())


async def kill_sealers(url: str, *, every: float, seconds: float) -> int:
    """Keep two sealers running and kill one of them again and again; answer how many died."""
    deaths, loop = 0, asyncio.get_running_loop()
    sealers = [_start(url), _start(url)]
    end = loop.time() + seconds
    while loop.time() < end:
        await asyncio.sleep(every)
        sealers[deaths % 2].kill()
        sealers[deaths % 2].join()
        sealers[deaths % 2] = _start(url)
        deaths += 1
    for sealer in sealers:
        sealer.kill()
        sealer.join()
    return deaths


def _start(url: str) -> Any:
    process = _PROCESSES.Process(target=seal_for_ever, args=(url,), daemon=True)
    process.start()
    return process


@asynccontextmanager
async def writers(url: str, *, quick: int, slow: int):
    """Writers at work: short transactions, some with savepoints, some rolled back; and long ones that stay open."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(_write(url, Random(number), stop, pause=0.01)) for number in range(quick)]
    tasks += [asyncio.create_task(_write(url, Random(-number - 1), stop, pause=0.8)) for number in range(slow)]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def _write(url: str, random: Random, stop: asyncio.Event, *, pause: float) -> None:
    conn = await connect(url)
    try:
        while not stop.is_set():
            transaction = conn.transaction()
            await transaction.start()
            for _ in range(random.randint(1, 4)):
                await record(conn, event(random.getrandbits(40), tenant_id=random.choice(TENANTS)))
                await asyncio.sleep(random.random() * pause)
            if random.random() < 0.3:
                await _savepoint(conn, random)
            await (transaction.rollback() if random.random() < 0.1 else transaction.commit())
    finally:
        await conn.close()


async def _savepoint(conn: Any, random: Random) -> None:
    inner = conn.transaction()
    await inner.start()
    await record(conn, event(random.getrandbits(40)))
    await (inner.rollback() if random.random() < 0.5 else inner.commit())
    await record(conn, event(random.getrandbits(40)))


async def seal_in_the_wrong_order(conn: Any, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """A double of the sealer with one mistake: it reads the rows first and asks for the horizon afterwards.

    As the owner of the tables: the programs' role may add no such seal.
    """
    async with conn.transaction(isolation="read_committed"):
        early = await fetch_row(conn, STATE)
        heads = await read_window(conn, next_window(early), BATCH)
        await meanwhile()
        late = await fetch_row(conn, STATE)
        assert late is not None
        wrong = await complete(conn, replace(next_window(late).seal, closes=True), is_new=True)
        await add_seal(conn, wrong, heads, Frontier(late["size"] or 0, late["frontier"] or b""))
