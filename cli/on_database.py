"""The backend that works on the database of an installation."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from atlas.cli.backend import EnqueueOptions, JobDetails, ListOptions, StatusReport
from atlas.cli.runtime import caller
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.admission import ENGINE_RUN, admit
from atlas.engine.hosts.hosts import find_host
from atlas.engine.jobs.cancel import cancel
from atlas.engine.jobs.delete import delete
from atlas.engine.jobs.enqueue import Enqueued, enqueue
from atlas.engine.jobs.explain import Explanation, explain
from atlas.engine.jobs.find import get_job, list_attempts, queue_depth
from atlas.engine.jobs.gate import Gate, read_gate, switch, switch_engine, wait_until_closed
from atlas.engine.jobs.job_list import JobFilter, JobPage, list_page
from atlas.engine.jobs.new_job import NewJob
from atlas.engine.jobs.retry import retry_dead_letters, retry_now
from atlas.engine.tenants import find_tenant
from atlas.engine.workflows.find_intents import read_engine
from atlas.engine.workflows.intents import NewIntent, request_workflows
from atlas.errors import FieldError, InvalidInput, NotFound
from atlas.up_report import read_programs

LIVE_WORKERS = statement("cli/sql/live_workers.sql")


class OnDatabase:
    """Calls the engine as the person at the terminal."""

    def __init__(self, conn: Connection, home: Path) -> None:
        self._conn = conn
        self._home = home

    async def enqueue(self, options: EnqueueOptions) -> Enqueued:
        tenant_id = (await find_tenant(self._conn, "system" if options.tenant is None else options.tenant)).id
        if options.job_type == ENGINE_RUN:
            [run_id] = await request_workflows(self._conn, tenant_id, [_intent_of(options)], requested_by=caller())
            return Enqueued(run_id)
        host = options.host and await find_host(self._conn, options.host, tenant_id=tenant_id)
        job = NewJob(
            options.job_type,
            options.input,
            tenant_id,
            priority=options.priority,
            max_retries=options.max_retries,
            dedupe_key=options.dedupe_key,
            delay=options.delay,
            run_at=options.run_at,
            host_id=host.id if host else None,
            allow_unknown=options.allow_unknown,
        )
        return await enqueue(self._conn, await admit(self._conn, job), actor=caller())

    async def list_jobs(self, options: ListOptions) -> JobPage:
        statuses = None if options.status is None else (options.status,)
        wanted = JobFilter(await self._tenant_id(options.tenant), statuses, options.job_type)
        return await list_page(self._conn, wanted, before=options.before, limit=options.limit)

    async def show(self, job_id: UUID) -> JobDetails:
        job = await get_job(self._conn, job_id)
        if job is None:
            raise NotFound("job", job_id)
        return JobDetails(job, await list_attempts(self._conn, job_id), await explain(self._conn, job_id))

    async def explain(self, job_id: UUID) -> Explanation:
        return await explain(self._conn, job_id)

    async def cancel(self, job_id: UUID) -> str:
        return await cancel(self._conn, job_id, actor=caller())

    async def retry(self, job_id: UUID) -> None:
        await retry_now(self._conn, job_id, actor=caller())

    async def retry_dead_letters(self, *, tenant: str | None, job_type: str | None, limit: int) -> Mapping[UUID, str]:
        tenant_id = await self._tenant_id(tenant)
        return await retry_dead_letters(self._conn, actor=caller(), tenant_id=tenant_id, job_type=job_type, limit=limit)

    async def delete(self, job_id: UUID) -> None:
        await delete(self._conn, job_id, actor=caller())

    async def status(self) -> StatusReport:
        workers = [dict(row) for row in await fetch(self._conn, LIVE_WORKERS)]
        gate, engine = await read_gate(self._conn), await read_engine(self._conn)
        return StatusReport(gate, engine, await queue_depth(self._conn), [*workers], read_programs(self._home))

    async def switch(self, *, online: bool, reason: str | None, until: timedelta | None) -> Gate:
        gate = await switch(self._conn, online=online, actor=caller(), reason=reason, until=until)
        return gate if online else await wait_until_closed(self._conn, gate)

    async def switch_engine(self, *, enabled: bool, reason: str | None) -> Gate:
        return await switch_engine(self._conn, enabled=enabled, actor=caller(), reason=reason)

    async def _tenant_id(self, tenant: str | None) -> UUID | None:
        return None if tenant is None else (await find_tenant(self._conn, tenant)).id


def _intent_of(options: EnqueueOptions) -> NewIntent:
    """The workflow request in a job of type ENGINE_RUN, as in the API."""
    unfit = {
        "--max-retries": options.max_retries,
        "--dedupe-key": options.dedupe_key,
        "--delay": options.delay,
        "--run-at": options.run_at,
        "--host": options.host,
    }
    wrong = [FieldError(name, "does not apply to a workflow") for name, value in unfit.items() if value is not None]
    known = {"workflow": str, "input": dict, "spend_cents": int}
    wrong += [FieldError(f"--input: {name}", "is unknown") for name in options.input if name not in known]
    wrong += [
        FieldError(f"--input: {name}", "is of the wrong type")
        for name, kind in known.items()
        if name in options.input and type(options.input[name]) is not kind
    ]
    if wrong:
        raise InvalidInput("The request", wrong)
    workflow, input = options.input.get("workflow", ""), options.input.get("input", {})
    return NewIntent(
        workflow,
        input,
        priority=options.priority,
        spend_cents=options.input.get("spend_cents", 0),
        allow_unknown=options.allow_unknown,
    )
