"""Drains of many types and tenants in variants: by several processes, with failures, priorities, or a limit elsewhere.

Each figure stands beside the drain of one type of one tenant in the same variant and round. Workers are processes of
their own, `python -m bench.jobs.variants URL TYPES`, which begin together.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass

from atlas.cli.programs.long_running import relax_garbage_collection
from atlas.db.pool import Pool, open_pool
from atlas.engine.jobs.handlers.types import registered
from atlas.logs import configure_logs
from atlas.workers.worker import Worker, WorkerOptions
from bench.jobs.ground import ground
from bench.jobs.shapes import BATCH, ONE, SHAPES, Shape, add_types, fill_shape, type_names
from bench.peers.databases import settle

MAX_TYPES = max(shape.types for shape in SHAPES)
LIMITED_TYPE = "insert into atlas.job_types (key, concurrency) values ('bench.other', 3)"
LEFT = "select count(*) from atlas.jobs where status not in ('succeeded', 'failed') or attempt_count <> 1"
SECONDS = "select extract(epoch from max(finished_at) - min(started_at)) from atlas.jobs"


@dataclass(frozen=True, slots=True)
class Variant:
    """How a queue is drained. `every_type`: by workers that serve every registered type, as with `--all`."""

    name: str
    processes: int = 1
    every_type: bool = False
    failing: int = 0
    priorities: int = 1
    is_limited_elsewhere: bool = False

    def __str__(self) -> str:
        return self.name


LIST = Variant("list of types")
LIMITED = Variant("limit of another type", is_limited_elsewhere=True)
PROCESSES = (Variant("2 processes", processes=2), Variant("4 processes", processes=4))
VARIANTS = (
    LIST,
    Variant("--all", every_type=True),
    *PROCESSES,
    Variant("5 % failing", failing=5),
    Variant("5 priorities", priorities=5),
    LIMITED,
)


async def measure(
    server_url: str, *, jobs: int, variants: Sequence[Variant] = VARIANTS, shapes: Sequence[Shape] = (ONE, *SHAPES)
) -> dict[Shape, dict[Variant, float]]:
    """Jobs a second, by shape and variant. Variants take turns."""
    return {
        shape: {variant: await measure_variant(server_url, shape, variant, jobs=jobs) for variant in variants}
        for shape in shapes
    }


async def measure_variant(server_url: str, shape: Shape, variant: Variant, *, jobs: int) -> float:
    """One drain: jobs a second from the first claim to the last recorded outcome, by the clock of the database."""
    async with ground(server_url, "variant") as (pool, url):
        if variant.is_limited_elsewhere:
            await pool.execute(LIMITED_TYPE)
        await fill_shape(pool, shape, jobs, failing=variant.failing, priorities=variant.priorities)
        await settle(url)
        await _drain(url, variant, shape)
        return jobs / await _seconds(pool)


async def _drain(url: str, variant: Variant, shape: Shape) -> None:
    types = "all" if variant.every_type else str(shape.types)
    command = (sys.executable, "-m", "bench.jobs.variants", url, types)
    workers = [
        await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE) for _ in range(variant.processes)
    ]
    await asyncio.gather(*map(_ready, workers))
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"begin\n")
    assert await asyncio.gather(*(worker.wait() for worker in workers)) == [0] * variant.processes


async def _ready(worker: Process) -> None:
    assert worker.stdout is not None
    assert await worker.stdout.readline(), "a worker did not start"


async def _seconds(pool: Pool) -> float:
    left = await pool.fetchval(LEFT)
    assert left == 0, f"{left} jobs did not end as they should"
    return float(await pool.fetchval(SECONDS))


async def work(url: str, types: str) -> None:
    """One worker: gets ready, waits for a line on its standard input, and drains."""
    add_types(MAX_TYPES)
    names = sorted(registered()) if types == "all" else type_names(int(types))
    pool = await open_pool(url, size=12)
    relax_garbage_collection()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await Worker(pool, url, WorkerOptions(names, batch=BATCH, drain=True)).run()
    await pool.close()


if __name__ == "__main__":
    import uvloop

    configure_logs("error")
    uvloop.run(work(*sys.argv[1:]))
