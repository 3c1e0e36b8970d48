"""An installation whose database this machine reaches."""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from atlas.cli.backend import JobAsked, JobsAsked, JobStory, Standing
from atlas.cli.runtime import caller
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.admission import ENGINE_RUN, admit
from atlas.engine.jobs import (
    Enqueued,
    Explanation,
    JobFilter,
    JobRow,
    NewJob,
    cancel,
    delete,
    enqueue,
    explain,
    get_job,
    list_attempts,
    list_jobs,
    retry_dead_letters,
    retry_now,
)
from atlas.engine.jobs.find import queue_depth
from atlas.engine.jobs.gate import Gate, read_gate, switch
from atlas.engine.tenants import find_tenant
from atlas.engine.workflows.find_intents import read_engine
from atlas.engine.workflows.intents import NewIntent, request_workflows
from atlas.errors import FieldError, InvalidInput, NotFound

LIVE_WORKERS = statement("cli/sql/live_workers.sql")


class OnDatabase:
    """Asks the engine itself, as the person at the terminal."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    async def enqueue(self, asked: JobAsked) -> Enqueued:
        tenant_id = (await find_tenant(self._conn, "system" if asked.tenant is None else asked.tenant)).id
        if asked.job_type == ENGINE_RUN:
            [run_id] = await request_workflows(self._conn, tenant_id, [_intent_of(asked)], requested_by=caller())
            return Enqueued(run_id)
        job = NewJob(
            asked.job_type,
            asked.input,
            tenant_id,
            priority=asked.priority,
            max_retries=asked.max_retries,
            dedupe_key=asked.dedupe_key,
            delay=asked.delay,
        )
        return await enqueue(self._conn, await admit(self._conn, job), actor=caller())

    async def list_jobs(self, asked: JobsAsked) -> list[JobRow]:
        wanted = JobFilter(await self._tenant_id(asked.tenant), asked.status, asked.job_type)
        return await list_jobs(self._conn, wanted, before=asked.before, limit=asked.limit)

    async def show(self, job_id: UUID) -> JobStory:
        job = await get_job(self._conn, job_id)
        if job is None:
            raise NotFound("job", job_id)
        return JobStory(job, await list_attempts(self._conn, job_id), await explain(self._conn, job_id))

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

    async def status(self) -> Standing:
        workers = [dict(row) for row in await fetch(self._conn, LIVE_WORKERS)]
        gate, engine = await read_gate(self._conn), await read_engine(self._conn)
        return Standing(gate, engine, await queue_depth(self._conn), [*workers])

    async def switch(self, *, online: bool, reason: str | None, until: timedelta | None) -> Gate:
        return await switch(self._conn, online=online, actor=caller(), reason=reason, until=until)

    async def _tenant_id(self, tenant: str | None) -> UUID | None:
        return None if tenant is None else (await find_tenant(self._conn, tenant)).id


def _intent_of(asked: JobAsked) -> NewIntent:
    """The request for a workflow that a job of type ENGINE_RUN stands for, as in the API."""
    unfit = {"--max-retries": asked.max_retries, "--dedupe-key": asked.dedupe_key, "--delay": asked.delay}
    wrong = [FieldError(name, "does not apply to a workflow") for name, value in unfit.items() if value is not None]
    known = {"workflow": str, "input": dict, "spend_cents": int}
    wrong += [FieldError(f"--input: {name}", "is not part of it") for name in asked.input if name not in known]
    wrong += [
        FieldError(f"--input: {name}", "is of the wrong type")
        for name, kind in known.items()
        if name in asked.input and type(asked.input[name]) is not kind
    ]
    if wrong:
        raise InvalidInput("The request", wrong)
    workflow, input = asked.input.get("workflow", ""), asked.input.get("input", {})
    return NewIntent(workflow, input, priority=asked.priority, spend_cents=asked.input.get("spend_cents", 0))
