"""Fixtures for tests of triggers."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from atlas.db.pool import Pool
from atlas.engine.jobs.gate import switch
from tests.support import DANA, given_tenant


@pytest.fixture
async def conn(pool: Pool) -> AsyncIterator[Any]:
    """A connection to an Atlas that is on, unless a test turns it off."""
    async with pool.acquire() as connection:
        await switch(connection, online=True, actor=DANA)
        yield connection


@pytest.fixture
async def acme(conn: Any) -> UUID:
    return await given_tenant(conn)
