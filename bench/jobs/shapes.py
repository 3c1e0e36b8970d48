"""Drains of many types and tenants, each beside the drain of one type of one tenant in the same round."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atlas.db.pool import Pool
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import PermanentError
from atlas.workers.worker import Worker, WorkerOptions
from bench.jobs.drain import seconds_of_drain
from bench.jobs.ground import BENCH, PIECE, ground
from bench.peers.databases import settle

INPUT = "x" * 1000
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Shape:
    """What a queue holds. `heavy` of 100 jobs belong to one tenant; by default tenants have equally many."""

    types: int
    tenants: int
    heavy: int = 0

    def __str__(self) -> str:
        skew = f", {self.heavy} % of one tenant" if self.heavy else ""
        return f"{self.types} × {self.tenants:,}{skew}"

    def tenant_of(self, nth: int) -> int:
        """The number of the tenant of the nth job."""
        if nth % 100 < self.heavy:
            return 0
        return nth // self.types % self.tenants


ONE = Shape(1, 1)
SHAPES = (Shape(1, 2), Shape(1, 50), Shape(20, 1), Shape(20, 50), Shape(200, 1000, heavy=90))


def _type(nth: int) -> str:
    return f"bench.shape_{nth:03}"


@job(_type(0))
async def first_type(input: dict[str, Any]) -> dict[str, Any]:
    """Returns a small output, unless it is to fail."""
    if "fails" in input:
        raise PermanentError("It fails, as it should.", remedy="None is needed.")
    return {"ok": True}


async def measure(
    server_url: str, *, jobs: int, repeats: int, shapes: Sequence[Shape] = SHAPES
) -> dict[Shape, list[float]]:
    """Jobs a second of one worker process, by shape and round; the first is one type of one tenant."""
    add_types(max(shape.types for shape in shapes))
    rates: dict[Shape, list[float]] = {shape: [] for shape in (ONE, *shapes)}
    for _ in range(repeats):
        for shape, measured in rates.items():
            measured.append(await measure_shape(server_url, shape, jobs=jobs))
    return rates


async def measure_shape(server_url: str, shape: Shape, *, jobs: int) -> float:
    """One drain by a worker that serves all types of the shape."""
    async with ground(server_url, "shape") as (pool, url):
        await fill_shape(pool, shape, jobs)
        await settle(url)
        await Worker(pool, url, WorkerOptions(type_names(shape.types), batch=BATCH, drain=True)).run()
        return jobs / await seconds_of_drain(pool)


def type_names(types: int) -> list[str]:
    """The names of the first `types` job types."""
    return [_type(nth) for nth in range(types)]


def add_types(types: int) -> None:
    """Register handlers of the first `types` job types."""
    for name in type_names(types):
        if name not in registered():
            job(name)(_returning())


async def fill_shape(pool: Pool, shape: Shape, jobs: int, *, failing: int = 0, priorities: int = 1) -> None:
    """Queue that many jobs. `failing` of 100 jobs fail; each of the priorities has equally many."""
    tenants = [uuid.uuid5(uuid.NAMESPACE_URL, str(nth)) for nth in range(shape.tenants)]
    await pool.execute(
        "insert into atlas.tenants (id, slug, name) select t, t::text, t::text from unnest($1::uuid[]) t", tenants
    )
    async with pool.acquire() as conn:
        for start in range(0, jobs, PIECE):
            piece = [
                NewJob(
                    _type(nth % shape.types),
                    {"text": INPUT, "fails": True} if 7 * nth % 100 < failing else {"text": INPUT},
                    tenant_id=tenants[shape.tenant_of(nth)],
                    priority=7 * nth // 3 % priorities,
                )
                for nth in range(start, min(jobs, start + PIECE))
            ]
            await enqueue_many(conn, piece, actor=BENCH)


def _returning() -> Any:
    async def handler(input: dict[str, Any]) -> dict[str, Any]:
        return await first_type(input)

    return handler
