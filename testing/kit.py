"""The test kit: starts jobs and workflows, runs what is due, lets time pass and causes faults."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from email.message import EmailMessage
from typing import Any
from uuid import UUID

from atlas.actors import Actor, system
from atlas.db.pool import Pool, connect, open_pool
from atlas.db.schema import in_schema, schema_name
from atlas.engine.enqueue import enqueue
from atlas.engine.jobs.claim import Claimant, claim
from atlas.engine.jobs.groups import settle_groups
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.lease import expire_queued, new_worker_id, reap, register_worker
from atlas.engine.jobs.lists.find import JobRow, get_job, list_attempts
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.workflows.approvals import decide_approval, list_approvals
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.find_intents import list_intents
from atlas.engine.workflows.find_runs import get_run, list_steps
from atlas.engine.workflows.intents import request_workflow
from atlas.errors import Conflict, NotFound
from atlas.models.workflows import RunStep, WorkflowRun
from atlas.testing.mailbox import Mailbox
from atlas.workers.tick import TickCounts, counts_of
from atlas.workers.worker import Worker, WorkerOptions
from atlas.workers.workflows import settle_intents

# No machine is so busy that a worker of a test loses its lease: time passes when the test says so.
LEASE_SECONDS = 3600.0
TESTER = Actor("user", "tester")
# Who asked for a run may not decide its approvals.
APPROVER = Actor("user", "approver")

# Every timestamp of every table. The audit log keeps its true ones.
_TIMESTAMPS = """
select c.table_name, array_agg(c.column_name::text) as columns
from information_schema.columns c
join information_schema.tables t using (table_schema, table_name)
where c.table_schema = $1 and t.table_type = 'BASE TABLE' and c.data_type = 'timestamp with time zone'
  and c.table_name not like 'audit%' and c.table_name <> '_prisma_migrations' and c.is_generated = 'NEVER'
group by 1
"""
# A run that waits for no time has one in the year 9999, which stays.
_MOVED = '"{0}" = case when "{0}" < \'9000-01-01\' then "{0}" - $1::interval else "{0}" end'


class AtlasKit:
    """Atlas on the database of one test. `pool` and `url` lead to that database."""

    def __init__(self, pool: Pool, url: str, mailbox: Mailbox) -> None:
        self.pool = pool
        self.url = url
        self._mailbox = mailbox
        self._listens = True
        self._dies_after_claim = False
        self._loses_lease = False
        self._provided: dict[Any, Any] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator["AtlasKit"]:
        """A kit on a migrated database, for tests without the fixture. Atlas is online there."""
        pool = await open_pool(url)
        try:
            async with pool.acquire() as conn:
                await switch(conn, online=True, actor=system("test kit"))
            async with Mailbox.open() as mailbox:
                yield cls(pool, url, mailbox)
        finally:
            await pool.close()

    async def enqueue(self, job_type: str, input: Mapping[str, Any] | None = None, **options: Any) -> UUID:
        """Enqueue a job as the user `tester`; the options are those of `NewJob`. Returns its id."""
        async with self.pool.acquire() as conn:
            return (await enqueue(conn, NewJob(job_type, input or {}, **options), actor=TESTER)).id

    def provide(self, value: Any, *, as_type: Any = None) -> None:
        """Give handlers this value for parameters of its type, or of `as_type`, in place of what a lifespan yields.

        The lifespan is not opened.
        """
        self._provided[type(value) if as_type is None else as_type] = value

    async def job(self, job_id: UUID) -> JobRow:
        """The job as it is now."""
        job = await get_job(self.pool, job_id)
        if job is None:
            raise NotFound("job", job_id)
        return job

    async def attempts(self, job_id: UUID) -> list[Mapping[str, Any]]:
        """Every attempt of a job, the first one first."""
        return await list_attempts(self.pool, job_id)

    async def add_tenant(self, slug: str) -> UUID:
        """Add a tenant and return its id. Without one, jobs and runs belong to the tenant `system`."""
        async with self.pool.acquire() as conn:
            return (await add_tenant(conn, slug=slug, name=slug, actor=TESTER)).id

    async def start_workflow(
        self,
        workflow: str,
        input: Mapping[str, Any] | None = None,
        *,
        tenant_id: UUID = SYSTEM_TENANT,
        **options: Any,
    ) -> UUID:
        """Ask for a run as the user `tester`; the options are those of `request_workflow`. Returns the run's id.

        `run_due_jobs` lets policy decide about it and runs it.
        """
        async with self.pool.acquire() as conn:
            return await request_workflow(conn, tenant_id, workflow, input, TESTER, **options)

    async def run(self, run_id: UUID) -> WorkflowRun:
        """The run of a workflow as it is now: `status`, `output`, `error`."""
        run = await get_run(self.pool, run_id)
        if run is not None:
            return run
        requests = await list_intents(self.pool, id=run_id)
        reason = "".join(
            f"Its request is {request.status}: {request.reason or 'not decided yet'}. " for request in requests
        )
        raise NotFound("run", run_id, remedy=f"{reason}`run_due_jobs` starts what may start.")

    async def steps(self, run_id: UUID) -> dict[str, RunStep]:
        """The recorded steps of a run by name, in the order in which they began."""
        return {step.key: step for step in await list_steps(self.pool, run_id)}

    async def approve(self, run_id: UUID, step: str | None = None, *, comment: str | None = None) -> None:
        """Approve what a run asks for, as the user `approver`. `step` names the question if it asks several."""
        await self._decide(run_id, step, comment, approve=True)

    async def reject(self, run_id: UUID, step: str | None = None, *, comment: str | None = None) -> None:
        """Reject what a run asks for, as the user `approver`. `step` names the question if it asks several."""
        await self._decide(run_id, step, comment, approve=False)

    async def publish_event(
        self, name: str, context: Mapping[str, Any] | None = None, *, tenant_id: UUID = SYSTEM_TENANT
    ) -> int:
        """Publish an event as the user `tester`. Returns how many waiting runs it woke."""
        async with self.pool.acquire() as conn:
            return (await publish_event(conn, tenant_id, name, context, actor=TESTER)).woken

    def mails(self, tenant: str | None = None) -> list[EmailMessage]:
        """The mails that were sent, the oldest first; of all tenants, or of the one with this slug."""
        return self._mailbox.all(tenant)

    def mail(self, job_id: UUID) -> EmailMessage:
        """The mail that a job of the type EMAIL_SEND sent, or NotFound."""
        return self._mailbox.of(job_id)

    async def run_due_jobs(self, *, limit: int | None = None, concurrency: int = 10) -> TickCounts:
        """Run jobs, workflows and mails until nothing is due, or at most `limit` jobs.

        Returns how many attempts there were, by outcome. A run counts each time it continues, and so do its jobs.
        """
        await settle_intents(self.pool)
        if self._dies_after_claim:
            return await self._claim_and_die(limit or concurrency)
        outcomes: Counter[str] = Counter()
        types: Counter[str] = Counter()
        while True:
            worker = self._worker(None if limit is None else limit - types.total(), concurrency)
            await worker.run()
            outcomes.update(worker.outcomes)
            types.update(worker.begun_types)
            if types.total() == limit or not await self._settle():
                return counts_of(outcomes, closed=worker.found_gate_closed, types=types)

    async def _settle(self) -> bool:
        """Start workflows that jobs have asked for, and end groups. True: there may be more to run."""
        async with self.pool.acquire() as conn:
            ended = await settle_groups(conn)
        return bool(await settle_intents(self.pool) or ended)

    def _worker(self, limit: int | None, concurrency: int) -> Worker:
        served = sorted(registered())
        options = WorkerOptions(served, concurrency=concurrency, lease=LEASE_SECONDS, drain=True, max_jobs=limit)
        worker = Worker(self.pool, self.url, options, listen=self._listens)
        worker.override_lifespans(self._provided)
        if self._loses_lease:
            worker.before_finish(lambda: self._expire(worker.id))
        return worker

    async def let_time_pass(self, passed: timedelta) -> None:
        """Move every timestamp in the database back by so much, as if the time had passed.

        Jobs of dead workers are taken back, and those that were to start by then expire. What has become due, such as a
        retry or a timer, waits for `run_due_jobs`.
        """
        conn = await connect(self.url)
        try:
            async with conn.transaction():
                for row in await conn.fetch(_TIMESTAMPS, schema_name()):
                    moved = ", ".join(_MOVED.format(column) for column in row["columns"])
                    await conn.execute(f'update {schema_name()}."{row["table_name"]}" set {moved}', passed)
        finally:
            await conn.close()
        async with self.pool.acquire() as conn:
            await reap(conn)
            await expire_queued(conn)

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

    async def _decide(self, run_id: UUID, step: str | None, comment: str | None, *, approve: bool) -> None:
        pending = await list_approvals(self.pool, run_id=run_id, status="pending")
        asked = [approval for approval in pending if step in (None, approval.step)]
        if len(asked) != 1:
            names = ", ".join(str(approval.step) for approval in pending) or "nothing"
            raise Conflict(
                f"Run {run_id} asks for {names}; exactly one question can be decided.",
                remedy="Name its step, or let the run get there with `run_due_jobs`.",
            )
        async with self.pool.acquire() as conn:
            await decide_approval(conn, asked[0].id, approve, actor=APPROVER, comment=comment)

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
