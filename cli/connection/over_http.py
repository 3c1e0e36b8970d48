"""The backend that calls the API of an installation, at the address in ATLAS_URL."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from functools import partial
from typing import Any
from uuid import UUID

from atlas.cli.access.tenant_names import TenantNames
from atlas.cli.connection.backend import EnqueueOptions, JobDetails, ListOptions
from atlas.cli.connection.client_lists import find_named, resolve_id
from atlas.client import (
    ApiError,
    ApiForbidden,
    ApiNotFound,
    ApiUnauthenticated,
    AtlasClient,
    Job,
    JobRequest,
    RetryBudget,
    Unreachable,
)
from atlas.engine.jobs.enqueue import Enqueued
from atlas.engine.jobs.lists.find import JobRow
from atlas.engine.jobs.lists.job_list import JobPage
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.errors import SettingsError
from atlas.models.system import SystemStatus
from atlas.settings import Settings

# A person waits at the terminal.
RETRY = RetryBudget(tries=4, seconds=15.0)
# The fields of a job that have another name in the API.
_RENAMED = {"created_at": "queued_at", "shown_status": "status"}
_STORED = {"waiting": "queued", "dead_letter": "failed"}


class OverHttp:
    """Calls the API with the token of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._atlas = partial(reach_api, settings)

    async def enqueue(self, options: EnqueueOptions) -> Enqueued:
        async with self._atlas(options.tenant) as atlas:
            job = await atlas.enqueue(await self._request(atlas, options))
        return Enqueued(job.id, job.deduplicated)

    async def _request(self, atlas: AtlasClient, options: EnqueueOptions) -> JobRequest:
        host = None if options.host is None else await find_named("host", options.host, atlas.list_hosts())
        job = options.job
        same = {name: getattr(job, name) for name in JobRequest.model_fields if name in NewJob.__slots__}
        other = {
            "scheduled_for": job.run_at,
            "delay_seconds": None if job.delay is None else job.delay.total_seconds(),
            "expires_in_seconds": None if job.expires_in is None else job.expires_in.total_seconds(),
            "host_id": None if host is None else host.id,
        }
        return JobRequest.model_validate(same | other)

    async def find_job_id(self, text: str, *, option: str = "ID") -> UUID:
        async with self._atlas() as atlas:
            return await resolve_id(atlas, "job", text, option=option)

    async def tenant_names(self, jobs: Sequence[JobRow]) -> TenantNames:
        """The slugs of those tenants that the token may read."""
        slugs: dict[str, str] = {}
        async with self._atlas() as atlas:
            for id in {str(job.tenant_id) for job in jobs}:
                with suppress(ApiForbidden, ApiNotFound):
                    slugs[id] = (await atlas.get_tenant(id)).slug
        return TenantNames(slugs)

    async def list_jobs(self, options: ListOptions) -> JobPage:
        before = None if options.before is None else str(options.before)
        async with self._atlas(options.tenant) as atlas:
            listing = atlas.list_jobs(status=options.status, job_type=options.job_type, created_after=options.since)
            page = await listing.page(limit=options.limit, cursor=before)
        next_before = None if page.next_cursor is None else UUID(page.next_cursor)
        return JobPage([_row(job) for job in page.items], next_before)

    async def show(self, job_id: UUID) -> JobDetails:
        async with self._atlas() as atlas:
            job, explanation = await atlas.get_job(job_id), await atlas.explain_job(job_id)
            attempts = [attempt.model_dump() async for attempt in atlas.list_job_attempts(job_id)]
        row = _row(job)
        tenant = (await self.tenant_names([row])).slug(row.tenant_id)
        return JobDetails(row, tenant, attempts, explanation)

    async def status(self) -> SystemStatus:
        async with self._atlas() as atlas:
            return await atlas.get_status()


@asynccontextmanager
async def reach_api(settings: Settings, tenant: str | None = None) -> AsyncIterator[AtlasClient]:
    """A client for one command, with the token of the settings. Its errors name the settings to look at."""
    url = settings.atlas_url or ""
    variable = "ATLAS_TOKEN" if settings.atlas_token is not None else "ATLAS_OPERATOR_TOKEN"
    token = settings.atlas_token or settings.atlas_operator_token
    if token is None:
        raise SettingsError(
            f"ATLAS_URL is {url}, but there is no token.",
            remedy="Set ATLAS_TOKEN, or unset ATLAS_URL to use the database.",
        )
    try:
        async with AtlasClient(url, token, tenant=tenant, retry=RETRY) as atlas:
            yield atlas
    except Unreachable as error:
        error.remedy = "Check that `atlas api` runs there, and that ATLAS_URL is right."
        raise
    except ApiUnauthenticated as error:
        error.message = f"{url} does not accept the token."
        error.remedy = f"Set {variable} to a valid token; `atlas token add` makes one."
        raise
    except ApiForbidden as error:
        error.remedy = f"Use a token with that right in {variable}."
        raise
    except ApiError as error:
        if not error.problem:
            error.remedy = "Check that ATLAS_URL is the address of an Atlas."
        raise


def _row(job: Job) -> JobRow:
    """A job as a row of the queue."""
    derived: dict[str, Any] = {"status": _STORED.get(job.status, job.status)}
    names = (field.name for field in fields(JobRow) if field.name not in derived)
    return JobRow(**derived, **{name: getattr(job, _RENAMED.get(name, name)) for name in names})
