"""The backend that works on the database of an installation."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from atlas.cli.access.tenant_names import TenantNames, names_of, tenant_id
from atlas.cli.connection.backend import EnqueueOptions, JobDetails, ListOptions
from atlas.cli.runtime import caller
from atlas.cli.terminal.ids import find_id
from atlas.db.pool import Connection
from atlas.db.replica import read_first
from atlas.engine.jobs.lists.find import JobRow, get_job, list_attempts
from atlas.engine.jobs.lists.find_workers import list_workers
from atlas.engine.jobs.switches.gate import switch, switch_engine, wait_until_closed
from atlas.engine.jobs.switches.pauses import list_pauses, named_pause, pause, resume, wait_until_paused
from atlas.engine.status import read_status
from atlas.errors import NotFound
from atlas.models.system import Gate, Pause, PauseKind, SystemStatus, WorkerStatus
from atlas.settings import Settings

if TYPE_CHECKING:
    from atlas.engine.jobs.enqueue import Enqueued
    from atlas.engine.jobs.lists.job_list import JobPage
    from atlas.models.explain import Explanation


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
        job = await get_job(self._conn, job_id)
        if job is None:
            raise NotFound("job", job_id)
        tenant = (await names_of(self._conn, [job])).slug(job.tenant_id)
        return JobDetails(job, tenant, await list_attempts(self._conn, job_id), await self.explain(job_id))

    async def explain(self, job_id: UUID) -> "Explanation":
        from atlas.engine.jobs.explain.explain_job import explain

        return await explain(self._conn, job_id)

    async def cancel(self, job_id: UUID) -> str:
        from atlas.engine.jobs.actions.cancel import cancel

        return await cancel(self._conn, job_id, actor=caller())

    async def retry(self, job_id: UUID) -> None:
        from atlas.engine.jobs.actions.retry import retry_now

        await retry_now(self._conn, job_id, actor=caller())

    async def delete(self, job_id: UUID) -> None:
        from atlas.engine.jobs.actions.delete import delete

        await delete(self._conn, job_id, actor=caller())

    async def list_workers(self) -> list[WorkerStatus]:
        return await list_workers(self._conn, alive_only=True)

    async def status(self) -> SystemStatus:
        return await read_status(self._conn, home=self._settings.home)

    async def switch(self, *, online: bool, reason: str | None, until: timedelta | None) -> Gate:
        gate = await switch(self._conn, online=online, actor=caller(), reason=reason, until=until)
        return gate if online else await wait_until_closed(self._conn, gate)

    async def list_pauses(self, *, tenant: str | None) -> list[Pause]:
        return await list_pauses(self._conn, tenant_id=await tenant_id(self._conn, tenant))

    async def pause(
        self, kind: PauseKind, target: str, *, tenant: str | None, reason: str | None, until: timedelta | None
    ) -> Pause:
        owner = await tenant_id(self._conn, tenant)
        about: dict[str, Any] = {"actor": caller(), "tenant_id": owner, "reason": reason, "until": until}
        return await wait_until_paused(self._conn, await pause(self._conn, kind, target, **about))

    async def resume(self, kind: PauseKind, target: str, *, tenant: str | None) -> Pause:
        pause = named_pause(await self.list_pauses(tenant=tenant), kind, target, is_for_one=tenant is not None)
        return await resume(self._conn, pause.id, actor=caller())

    async def switch_engine(self, *, enabled: bool, reason: str | None) -> Gate:
        return await switch_engine(self._conn, enabled=enabled, actor=caller(), reason=reason)
