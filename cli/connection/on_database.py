"""The backend that works on the database of an installation."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.connection.backend import EnqueueOptions, JobDetails, ListOptions
from atlas.cli.terminal.ids import find_id
from atlas.db.pool import Connection
from atlas.db.replica import read_first
from atlas.engine.jobs.lists.find import JobRow, get_job, list_attempts
from atlas.engine.status import read_status
from atlas.errors import NotFound
from atlas.models.system import SystemStatus
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.engine.jobs.enqueue import Enqueued
    from atlas.engine.jobs.lists.job_list import JobPage


class OnDatabase:
    """Calls the engine as the person at the terminal. What one command needs alone is loaded by it."""

    def __init__(self, conn: Connection, settings: Settings) -> None:
        self._conn = conn
        self._settings = settings

    async def enqueue(self, options: EnqueueOptions) -> "Enqueued":
        from atlas.cli.jobs.enqueue_on_database import enqueue_or_request

        return await enqueue_or_request(self._conn, options)

    async def find_job_id(self, text: str, *, option: str = "ID") -> UUID:
        return await find_id(self._conn, "job", text, option=option)

    async def tenant_names(self, jobs: Sequence[JobRow]) -> TenantNames:
        return await names_of(self._conn, jobs)

    async def list_jobs(self, options: ListOptions) -> "JobPage":
        statuses = None if options.status is None else (options.status,)
        from atlas.engine.jobs.lists.job_list import JobFilter, list_page

        job_filter = JobFilter(
            await tenant_id(self._conn, options.tenant), statuses, options.job_type, created_after=options.since
        )
        read = partial(list_page, job_filter=job_filter, before=options.before, limit=options.limit)
        return await read_first(self._settings, self._conn, read)

    async def show(self, job_id: UUID) -> JobDetails:
        from atlas.engine.jobs.explain.explain_job import explain

        job = await get_job(self._conn, job_id)
        if job is None:
            raise NotFound("job", job_id)
        tenant = (await names_of(self._conn, [job])).slug(job.tenant_id)
        return JobDetails(job, tenant, await list_attempts(self._conn, job_id), await explain(self._conn, job_id))

    async def status(self) -> SystemStatus:
        return await read_status(self._conn, home=self._settings.home)
