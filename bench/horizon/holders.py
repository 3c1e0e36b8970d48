"""What holds the xmin horizon of a database, each for as long as its block."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg

from atlas.db.schema import schema_name
from atlas.postgres.as_root import open_path_to
from atlas.postgres.dump import dump
from atlas.postgres.pg_ctl import BIN, call, run
from bench.peers.databases import connected

SNAPSHOT = "begin isolation level repeatable read; select count(*) from pg_class"
# Each holds its snapshot for so long, and begins a third of that after the one before it.
ANALYTICS_SECONDS = 120
ANALYTICS = f"select count(*), pg_sleep({ANALYTICS_SECONDS}) from pg_class"
SLOT = "abandoned"


@asynccontextmanager
async def no_holder(url: str) -> AsyncIterator[None]:
    """Holds nothing."""
    yield


@asynccontextmanager
async def idle_transaction(url: str) -> AsyncIterator[None]:
    """A session that has read once in a repeatable-read transaction, and does nothing since."""
    async with connected(url) as conn:
        await conn.execute(SNAPSHOT)
        yield


@asynccontextmanager
async def prepared_transaction(url: str) -> AsyncIterator[None]:
    """A prepared transaction that nobody commits."""
    async with connected(url) as conn:
        await conn.execute("create table held (n int)")
        await conn.execute("begin; insert into held values (1); prepare transaction 'forgotten'")
        try:
            yield
        finally:
            await conn.execute("rollback prepared 'forgotten'")


@asynccontextmanager
async def abandoned_slot(url: str) -> AsyncIterator[None]:
    """A logical replication slot that nobody reads: it holds the catalogs alone, and the write-ahead log."""
    async with connected(url) as conn:
        await conn.execute(f"select pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")
        try:
            yield
        finally:
            await conn.execute(f"select pg_drop_replication_slot('{SLOT}')")


@asynccontextmanager
async def analytics(url: str) -> AsyncIterator[None]:
    """Three long queries that overlap, so that at every moment one of them is at least 80 s old."""

    async def repeat(after: float) -> None:
        await asyncio.sleep(after)
        async with connected(url) as conn:
            while True:
                await conn.execute(ANALYTICS)

    async with _in_background(*(repeat(part * ANALYTICS_SECONDS / 3) for part in range(3))):
        yield


@asynccontextmanager
async def backups(url: str) -> AsyncIterator[None]:
    """`pg_dump` of Atlas's schema, as `atlas backup` runs it, again and again."""

    async def repeat() -> None:
        with tempfile.TemporaryDirectory() as folder:
            while True:
                await dump(url, schema_name(), Path(folder, "dump"), lambda written: None)

    async with _in_background(repeat()):
        yield


@asynccontextmanager
async def standby(url: str) -> AsyncIterator[None]:
    """A standby with hot_standby_feedback, on which a transaction has a snapshot."""
    [host] = parse_qs(urlsplit(url).query)["host"]
    folder = Path(tempfile.mkdtemp(prefix="atlas-standby-"))
    data = folder / "data"
    try:
        await asyncio.to_thread(_follow, host, folder, data)
        async with idle_transaction(url.replace(urlsplit(url).query, f"host={folder}")):
            yield
    finally:
        await asyncio.to_thread(call, "pg_ctl", "-w", "-s", "-m", "immediate", "stop", data=data)
        shutil.rmtree(folder)


def _follow(host: str, folder: Path, data: Path) -> None:
    open_path_to(folder, BIN)
    options = ("--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--host", host, "--username=postgres")
    run("pg_basebackup", "--pgdata", str(data), *options)
    with (data / "postgresql.auto.conf").open("a") as file:
        file.write(f"unix_socket_directories = '{folder}'\nhot_standby_feedback = on\n")
        file.write("wal_receiver_status_interval = 1s\nmax_standby_streaming_delay = -1\n")
    run("pg_ctl", "-w", "-s", "-l", str(folder / "log"), "start", data=data)


@asynccontextmanager
async def _in_background(*work: object) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(one) for one in work]  # type: ignore[call-overload]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncpg.PostgresError, OSError):
            await asyncio.gather(*tasks, return_exceptions=True)


Holder = Callable[[str], AbstractAsyncContextManager[None]]
