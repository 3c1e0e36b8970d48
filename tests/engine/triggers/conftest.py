"""Fixtures for tests of triggers."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from atlas.db.pool import Pool
from tests.support import given_tenant


@pytest.fixture
async def conn(pool: Pool, online: None) -> AsyncIterator[Any]:
    """A connection to an Atlas that is on, unless a test turns it off."""
    async with pool.acquire() as connection:
        yield connection


@pytest.fixture
async def acme(conn: Any) -> UUID:
    return await given_tenant(conn)
