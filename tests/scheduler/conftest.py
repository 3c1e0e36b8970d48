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
from tests.support import ROOT, given_tenant


@pytest.fixture
async def conn(pool: Pool, online: None) -> AsyncIterator[Any]:
    """A connection to an Atlas that is on, unless a test turns it off."""
    async with pool.acquire() as connection:
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
