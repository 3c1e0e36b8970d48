"""The test kit: enqueues jobs, runs what is due, lets time pass and causes faults."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from atlas.actors import Actor, system
from atlas.db.pool import Pool, connect, open_pool
from atlas.db.schema import in_schema, schema_name
from atlas.engine.jobs import Claimant, JobRow, NewJob, claim, enqueue, get_job, list_attempts, reap, registered, switch
from atlas.engine.jobs.lease import new_worker_id, register_worker
from atlas.errors import NotFound
from atlas.workers.tick import TickCounts, counts_of
from atlas.workers.worker import Worker, WorkerOptions

LEASE_SECONDS = 60.0
TESTER = Actor("user", "tester")

# Every timestamp of every table. The audit log keeps its true ones.
_TIMESTAMPS = """
select c.table_name, array_agg(c.column_name::text) as columns
from information_schema.columns c
join information_schema.tables t using (table_schema, table_name)
where c.table_schema = $1 and t.table_type = 'BASE TABLE' and c.data_type = 'timestamp with time zone'
  and c.table_name not like 'audit%' and c.table_name <> '_prisma_migrations' and c.is_generated = 'NEVER'
group by 1
"""


class AtlasKit:
    """Atlas on the database of one test."""

    def __init__(self, pool: Pool, url: str) -> None:
        self.pool = pool
        self.url = url
        self._listens = True
        self._dies_after_claim = False
        self._loses_lease = False

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator["AtlasKit"]:
        """A kit on a migrated database."""
        pool = await open_pool(url)
        try:
            async with pool.acquire() as conn:
                await switch(conn, online=True, actor=system("test kit"))
            yield cls(pool, url)
        finally:
            await pool.close()

    async def enqueue(self, job_type: str, input: Mapping[str, Any] | None = None, **options: Any) -> UUID:
        """Enqueue a job; the options are those of `NewJob`."""
        async with self.pool.acquire() as conn:
            return (await enqueue(conn, NewJob(job_type, input or {}, **options), actor=TESTER)).id

    async def job(self, job_id: UUID) -> JobRow:
        """The job as it is now."""
        found = await get_job(self.pool, job_id)
        if found is None:
            raise NotFound("job", job_id)
        return found

    async def attempts(self, job_id: UUID) -> list[Mapping[str, Any]]:
        """Every attempt of a job."""
        return await list_attempts(self.pool, job_id)

    async def run_due_jobs(self, *, limit: int | None = None, concurrency: int = 10) -> TickCounts:
        """Run jobs until nothing is due, or at most `limit` jobs."""
        if self._dies_after_claim:
            return await self._claim_and_die(limit or concurrency)
        options = WorkerOptions(
            sorted(registered()),
            concurrency=concurrency,
            lease=LEASE_SECONDS,
            drain=True,
            most_jobs=limit,
        )
        worker = Worker(self.pool, self.url, options, listen=self._listens)
        if self._loses_lease:
            worker.before_finish(lambda: self._expire(worker.id))
        await worker.run()
        return counts_of(worker.outcomes, closed=worker.found_gate_closed)

    async def let_time_pass(self, passed: timedelta) -> None:
        """Move every timestamp in the database back by so much and reap, as if the time had passed."""
        conn = await connect(self.url)
        try:
            async with conn.transaction():
                for row in await conn.fetch(_TIMESTAMPS, schema_name()):
                    moved = ", ".join(f'"{column}" = "{column}" - $1::interval' for column in row["columns"])
                    await conn.execute(f'update {schema_name()}."{row["table_name"]}" set {moved}', passed)
        finally:
            await conn.close()
        async with self.pool.acquire() as conn:
            await reap(conn)

    @contextmanager
    def die_after_claim(self) -> Iterator[None]:
        """Workers in this block claim their jobs and die: nothing runs, nothing is recorded."""
        self._dies_after_claim = True
        try:
            yield
        finally:
            self._dies_after_claim = False

    @contextmanager
    def lose_lease(self) -> Iterator[None]:
        """Workers in this block run their handlers, but lose the lease before the outcome is recorded."""
        self._loses_lease = True
        try:
            yield
        finally:
            self._loses_lease = False

    @contextmanager
    def drop_notifications(self) -> Iterator[None]:
        """Workers in this block get no notifications and find jobs by polling."""
        self._listens = False
        try:
            yield
        finally:
            self._listens = True

    async def _claim_and_die(self, limit: int) -> TickCounts:
        worker_id = new_worker_id()
        served = sorted(registered())
        async with self.pool.acquire() as conn:
            await register_worker(conn, worker_id, lease=LEASE_SECONDS, job_types=served)
            taken = await claim(conn, Claimant(worker_id, served), limit=limit)
        await self._expire(worker_id)
        return TickCounts(ran=len(taken))

    async def _expire(self, worker_id: str) -> None:
        await self.pool.execute(
            in_schema(
                "update atlas.job_workers set lease_expires_at = clock_timestamp() - interval '1 second'"
                " where worker_id = $1"
            ),
            worker_id,
        )
