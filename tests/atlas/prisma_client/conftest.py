"""Clients on Atlas's tables and on the workshop's: a database for each module, emptied for each test."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from atlas.db.pool import Pool, open_pool
from atlas.prisma_client import AsyncpgPrisma
from atlas.test_databases import TestDatabases
from tests.atlas.prisma_client.workshop import SCHEMA, TABLES, Workshop

EMPTY = '''
set role none;
set search_path = atlas;
truncate atlas.jobs, job_attempts, job_types, job_workers, api_tokens, system_state,
  "odd ""gadgets""", "Person", "Badge", "Club", "Pair", "Mark" restart identity cascade;
delete from atlas.tenants where slug <> 'system';
reset search_path;
reset role;
'''


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_pool(databases: TestDatabases) -> AsyncIterator[Pool]:
    async with databases.database() as url:
        pool = await open_pool(url, size=4)
        async with pool.acquire() as conn:
            await conn.execute(f"set role none; set search_path = atlas; {TABLES}; reset search_path")
        yield pool
        await pool.close()


@pytest_asyncio.fixture(loop_scope="module")
async def clean_pool(module_pool: Pool) -> Pool:
    async with module_pool.acquire() as conn:
        await conn.execute(EMPTY)
    return module_pool


@pytest_asyncio.fixture(loop_scope="module")
async def db(clean_pool: Pool) -> AsyncpgPrisma:
    return AsyncpgPrisma(clean_pool)


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(db: AsyncpgPrisma) -> Any:
    return await db.tenant.find_unique_or_raise(where={"slug": "system"})


@pytest_asyncio.fixture(loop_scope="module")
async def workshop(clean_pool: Pool) -> Workshop:
    return Workshop(AsyncpgPrisma(clean_pool, schema=SCHEMA))
