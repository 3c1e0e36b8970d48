"""The fixtures: `atlas_databases` for the session, `atlas_kit` for each test. Needs pytest-asyncio."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from atlas.errors import AtlasError
from atlas.test_databases import TestDatabases
from atlas.testing.kit import AtlasKit


@pytest.fixture(scope="session")
def atlas_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestDatabases]:
    """A server for the session: the one DATABASE_URL names, or an embedded one.

    Where it cannot be used, every test that asks for it fails with the cause and the remedy alone.
    """
    server = TestDatabases(tmp_path_factory.mktemp("atlas"), os.environ.get("DATABASE_URL"))
    try:
        asyncio.run(server.start())
    except AtlasError as error:
        pytest.fail(str(error), pytrace=False)
    yield server
    server.stop()


@pytest_asyncio.fixture
async def atlas_kit(atlas_databases: TestDatabases) -> AsyncIterator[AtlasKit]:
    """Atlas, online, on a new database for the test."""
    async with atlas_databases.database() as url, AtlasKit.open(url) as kit:
        yield kit
