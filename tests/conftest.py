"""Fixtures: a server for the session, a database for each test."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from atlas.pool import Pool, connect, open_pool
from atlas.testing import TestDatabases


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[TestDatabases]:
    """The session's server, shared by the test processes of one run."""
    base = tmp_path_factory.getbasetemp()
    shared: Path = base if worker_id == "master" else base.parent
    server = TestDatabases(shared / "server", os.environ.get("DATABASE_URL"))
    asyncio.run(server.start())
    yield server
    server.stop()


@pytest.fixture
async def database_url(databases: TestDatabases) -> AsyncIterator[str]:
    """The address of a fresh, migrated database."""
    async with databases.database() as url:
        yield url


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    """A pool on that database, acting as Atlas's programs do."""
    opened = await open_pool(database_url, size=10)
    yield opened
    await opened.close()


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[Any]:
    """A connection to that database with all the rights of the login."""
    connection = await connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def conn(pool: Pool) -> AsyncIterator[Any]:
    """One connection of that pool."""
    async with pool.acquire() as connection:
        yield connection
