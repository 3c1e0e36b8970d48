"""What the Prisma client costs: `find_unique` of a job, beside the same row by bare asyncpg and pydantic.

Both ways run the same lookup and end with the same `Job`: once on the pool, as programs do, and once on one
connection that is held all the time, where nothing but the client itself can differ. Rounds alternate, so that
a noisy neighbour disturbs both alike. CPU is that of this process alone; Postgres has its own.

    python -m bench.prisma_find
"""

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from atlas.db.pool import Pool, Queryable, open_pool
from atlas.generated import Json
from atlas.generated.models import Job
from atlas.prisma_client import AsyncpgPrisma, packaged_schema
from atlas.test_databases import TestDatabases

ROUNDS = 25
CALLS = 200
LIMIT_MS = 0.4
LIMIT_RATIO = 1.2

# What one would write by hand: the same columns under the names of the model, as the types that it takes.
_AS_TEXT = ("uuid", "jsonb")


class Cost(NamedTuple):
    """Milliseconds of one call."""

    cpu: float
    wall: float


async def run(pool: Pool) -> dict[str, Any]:
    """Milliseconds of CPU and of waiting for one lookup each way, and how they compare."""
    on_pool = await _compare(pool, AsyncpgPrisma(pool))
    async with pool.acquire() as conn:
        return {"pool": on_pool, "connection": await _compare(conn, AsyncpgPrisma.on(conn))}


async def _compare(bare_source: Queryable, prisma: AsyncpgPrisma) -> dict[str, float]:
    job_id = await _make_job(prisma)

    async def typed() -> Job | None:
        return await prisma.job.find_unique(where={"id": job_id})

    bare = _bare(bare_source, job_id)
    assert await bare() == await typed()
    rounds = [(await _measure(bare), await _measure(typed)) for _ in range(ROUNDS)]
    return {
        "bare_cpu_ms": _median(plain.cpu for plain, _ in rounds),
        "prisma_cpu_ms": _median(full.cpu for _, full in rounds),
        "cpu_ratio": _median(full.cpu / plain.cpu for plain, full in rounds),
        "bare_wall_ms": _median(plain.wall for plain, _ in rounds),
        "prisma_wall_ms": _median(full.wall for _, full in rounds),
        "wall_ratio": _median(full.wall / plain.wall for plain, full in rounds),
    }


def _bare(source: Queryable, job_id: str) -> Callable[[], Awaitable[Job]]:
    fields = packaged_schema().models["Job"].scalars
    columns = ", ".join(
        f'{field.column}{"::text" if field.pg_type in _AS_TEXT else ""} as "{field.name}"' for field in fields
    )
    query = f"select {columns} from atlas.jobs where id = $1"

    async def fetch() -> Job:
        return Job.model_validate(dict(await source.fetchrow(query, job_id)))

    return fetch


async def _measure(call: Callable[[], Awaitable[object]]) -> Cost:
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(CALLS):
        await call()
    return Cost((time.process_time() - cpu) * 1000 / CALLS, (time.perf_counter() - wall) * 1000 / CALLS)


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 4)


async def _make_job(prisma: AsyncpgPrisma) -> str:
    tenant = await prisma.tenant.find_unique_or_raise(where={"slug": "system"})
    job = await prisma.job.create(
        {"tenantId": tenant.id, "jobType": "bench.find", "input": Json.keys(to="someone", lines=[1, 2, 3])}
    )
    return job.id


async def _main() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        databases = TestDatabases(Path(folder))
        await databases.start()
        try:
            async with databases.database() as url:
                pool = await open_pool(url)
                try:
                    return await run(pool)
                finally:
                    await pool.close()
        finally:
            databases.stop()


def main() -> None:
    """Measure, print the figures as JSON, and exit 1 when a limit is passed."""
    figures = asyncio.run(_main())
    print(json.dumps(figures, indent=2))
    for place, cost in figures.items():
        if cost["prisma_cpu_ms"] >= LIMIT_MS or cost["cpu_ratio"] >= LIMIT_RATIO:
            raise SystemExit(f"On the {place}, find_unique passes {LIMIT_MS} ms of CPU or {LIMIT_RATIO} times bare")


if __name__ == "__main__":
    main()
