"""A database without Atlas's tables."""

from collections.abc import AsyncIterator

import pytest

from atlas.test_databases import TestDatabases


@pytest.fixture
async def empty_url(databases: TestDatabases) -> AsyncIterator[str]:
    """The address of a new database, which nothing has migrated."""
    async with databases.database(migrated=False) as url:
        yield url
