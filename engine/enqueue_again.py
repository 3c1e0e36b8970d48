"""Enqueue again: a new job like one that exists, in whatever state that is, with its secrets."""

from uuid import UUID

import orjson

from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.engine.admission import ENGINE_RUN
from atlas.engine.jobs.lists.find import get_job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.secrets.store import reveal
from atlas.engine.workflows.intents import NewIntent
from atlas.engine.workflows.start_runs import read_input
from atlas.errors import NotFound


async def read_again(
    conn: Connection, job_id: UUID, *, tenant_id: UUID | None = None
) -> tuple[UUID, NewJob | NewIntent]:
    """The tenant of a job, and a new job of the same type, input and options; of a run, a request for its workflow.

    It is due immediately, without the dedupe key and the counters of the first. Admission has to check it like any
    other job: the type may have changed since. The connection reads secrets, so it is not one under row-level security;
    a tenant's caller names its tenant.
    """
    row = await get_job(conn, job_id, tenant_id=tenant_id)
    if row is None:
        raise NotFound("job", job_id)
    if row.job_type == ENGINE_RUN:
        run = read_input(row.input)
        return row.tenant_id, NewIntent(
            run.workflow, run.input, priority=row.priority, correlation_id=row.correlation_id, source_ref=str(job_id)
        )
    stored = await prisma_on(conn).job.find_unique({"id": str(job_id)})
    chose_retries = stored is not None and stored.retriesChosen
    text, _ = await reveal(conn, row.id, row.tenant_id, orjson.dumps(row.input).decode())
    return row.tenant_id, NewJob(
        row.job_type,
        orjson.loads(text),
        row.tenant_id,
        row.priority or None,
        max_retries=row.max_retries if chose_retries else None,
        correlation_id=row.correlation_id,
        source_ref=str(job_id),
        timeout_seconds=row.timeout_seconds,
        host_id=None if row.server_instance_id is not None else row.host_id,
        server_instance_id=row.server_instance_id,
        # It was accepted once.
        allow_unknown=True,
    )
