"""Schedulers under test: as processes, seen from outside, and their parts in this process."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from atlas.db.pool import Pool
from atlas.engine.jobs import switch
from tests.engine.triggers.given import DANA, given_tenant

ROOT = Path(__file__).parent.parent.parent
PROOF = bool(os.environ.get("ATLAS_PROOF"))


@pytest.fixture
async def conn(pool: Pool) -> AsyncIterator[Any]:
    """A connection to an Atlas that is on, unless a test turns it off."""
    async with pool.acquire() as connection:
        await switch(connection, online=True, actor=DANA)
        yield connection


@pytest.fixture
async def acme(conn: Any) -> UUID:
    return await given_tenant(conn)


@pytest.fixture
async def scheduler(database_url: str, tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """Start `atlas scheduler` processes; whatever still runs at the end is killed."""
    started = []

    async def start(*arguments: str) -> Any:
        log = (tmp_path / f"scheduler-{len(started)}.log").open("w")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "atlas.cli.main", "scheduler", *arguments),
            cwd=ROOT,
            env={
                **os.environ,
                "DATABASE_URL": database_url,
                "ATLAS_HOME": str(tmp_path),
                "PYTHONPATH": str(ROOT),
                "ATLAS_LOG_LEVEL": "info",
            },
            stdout=asyncio.subprocess.DEVNULL,
            stderr=log,
        )
        log.close()
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
    await asyncio.gather(*(process.wait() for process in started))


@pytest.fixture
def eventually(pool: Pool) -> Any:
    """Wait until a query answers a value, and fail with what it answers instead."""

    async def wait(sql: str, *arguments: Any, equals: Any = True, within: float = 20) -> None:
        found = None
        try:
            async with asyncio.timeout(within):
                while (found := await pool.fetchval(sql, *arguments)) != equals:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"still {found!r} instead of {equals!r} after {within} s: {sql}") from None

    return wait
