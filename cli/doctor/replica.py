"""Checks the server of ATLAS_READ_DATABASE_URL: whether it is a standby of this primary, and how far it is behind."""

import time
from contextlib import AsyncExitStack

import asyncpg

from atlas.cli.doctor.finding import Diagnosis, finding
from atlas.db.pool import UNREACHABLE, Connection, open_pool
from atlas.db.replica import ReplicaUnusable, reason_of, until_replayed, written
from atlas.errors import AtlasError
from atlas.settings import Settings

REMEDY = "Until then the primary responds. Let ATLAS_READ_DATABASE_URL name a standby of the server of DATABASE_URL."


async def check_replica(url: str, settings: Settings) -> Diagnosis:
    """Measure how long the standby takes to show what the primary shows now."""
    read_url, staleness = settings.atlas_read_database_url, settings.atlas_read_staleness_seconds
    if read_url is None:
        return finding("replica", "none")
    try:
        async with AsyncExitStack() as stack:
            position = await written(await _connect(url, stack))
            replica = await _connect(read_url, stack)
            began = time.monotonic()
            await until_replayed(replica, position, within=staleness)
            waited = time.monotonic() - began
    except AtlasError as error:
        return Diagnosis("replica", "warn", error.message, REMEDY)
    except (*UNREACHABLE, asyncpg.PostgresError, ReplicaUnusable) as error:
        return Diagnosis("replica", "warn", f"it is not read from: {reason_of(error)}", REMEDY)
    return finding("replica", f"a standby, which has what the primary had {waited:.2f} s ago")


async def _connect(url: str, stack: AsyncExitStack) -> Connection:
    pool = await open_pool(url, size=1, application="atlas doctor", standby=True)
    stack.push_async_callback(pool.close)
    conn: Connection = await stack.enter_async_context(pool.acquire())
    return conn
