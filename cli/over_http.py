"""An installation at the other end of HTTP, where ATLAS_URL says; it answers as the one on the database does."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import timedelta
from typing import Any
from uuid import UUID

from atlas.cli.backend import JobAsked, JobsAsked, JobStory, Standing
from atlas.client import (
    ApiError,
    ApiForbidden,
    ApiUnauthenticated,
    AtlasClient,
    Job,
    JobQuery,
    JobRequest,
    RetryBudget,
    Unreachable,
)
from atlas.engine.jobs import Enqueued, Explanation, JobRow
from atlas.engine.jobs.find import Depth
from atlas.engine.jobs.gate import Gate
from atlas.engine.workflows.find_intents import EngineState
from atlas.errors import SettingsError
from atlas.settings import Settings

# Someone waits at the terminal.
RETRY = RetryBudget(tries=4, seconds=15.0)
# The API queues so many dead letters in one call.
MOST_AT_ONCE = 1000
# What the API shows of a job under a name of its own.
_RENAMED = {"input": "payload", "next_retry_at": "scheduled_for", "created_at": "queued_at", "shown_status": "status"}
_STORED = {"waiting": "queued", "dead_letter": "failed"}
_OF_A_WORKER = {"worker_id", "hostname", "version", "job_types", "running_count", "started_at", "last_seen_at"}


class OverHttp:
    """Asks the API, as whoever the token belongs to."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.atlas_url or ""
        self._variable = "ATLAS_TOKEN" if settings.atlas_token is not None else "ATLAS_OPERATOR_TOKEN"
        token = settings.atlas_token or settings.atlas_operator_token
        if token is None:
            raise SettingsError(
                f"ATLAS_URL says {self._url}, and there is no token for it.",
                remedy="Set ATLAS_TOKEN to one, or unset ATLAS_URL to use the database.",
            )
        self._token = token

    async def enqueue(self, asked: JobAsked) -> Enqueued:
        job = JobRequest(
            job_type=asked.job_type,
            payload=asked.input,
            priority=asked.priority,
            max_retries=asked.max_retries,
            dedupe_key=asked.dedupe_key,
            delay_seconds=None if asked.delay is None else asked.delay.total_seconds(),
        )
        async with self._atlas(asked.tenant) as atlas:
            made = await atlas.enqueue(job)
        return Enqueued(made.id, made.deduplicated)

    async def list_jobs(self, asked: JobsAsked) -> list[JobRow]:
        wanted = JobQuery(status=asked.status, job_type=asked.job_type)
        async with self._atlas(asked.tenant) as atlas:
            page = await atlas.list_page(wanted, before=asked.before, limit=asked.limit)
        return [_row(job) for job in page.items]

    async def show(self, job_id: UUID) -> JobStory:
        async with self._atlas() as atlas:
            job, attempts = await atlas.get_job(job_id), await atlas.list_attempts(job_id)
            told = await atlas.explain(job_id)
        return JobStory(_row(job), [one.model_dump() for one in attempts], Explanation(**told.model_dump()))

    async def explain(self, job_id: UUID) -> Explanation:
        async with self._atlas() as atlas:
            return Explanation(**(await atlas.explain(job_id)).model_dump())

    async def cancel(self, job_id: UUID) -> str:
        async with self._atlas() as atlas:
            return await atlas.cancel(job_id)

    async def retry(self, job_id: UUID) -> None:
        async with self._atlas() as atlas:
            await atlas.retry(job_id)

    async def retry_dead_letters(self, *, tenant: str | None, job_type: str | None, limit: int) -> Mapping[UUID, str]:
        verdicts: dict[UUID, str] = {}
        async with self._atlas(tenant) as atlas:
            while len(verdicts) < limit:
                most = min(limit - len(verdicts), MOST_AT_ONCE)
                found = await atlas.retry_dead_letters(job_type=job_type, limit=most)
                verdicts.update(found.verdicts)
                # Those that could not be queued are found again, before all others.
                if found.retried < most:
                    break
        return verdicts

    async def delete(self, job_id: UUID) -> None:
        async with self._atlas() as atlas:
            await atlas.delete(job_id)

    async def status(self) -> Standing:
        async with self._atlas() as atlas:
            found = await atlas.status()
        engine = EngineState(**found.engine.model_dump(exclude={"is_silent"}))
        workers = [
            one.model_dump(include=_OF_A_WORKER) for one in sorted(found.workers, key=lambda one: one.started_at)
        ]
        queue = [Depth(**one.model_dump()) for one in found.queue]
        return Standing(Gate(**found.gate.model_dump()), engine, queue, [*workers])

    async def switch(self, *, online: bool, reason: str | None, until: timedelta | None) -> Gate:
        async with self._atlas() as atlas:
            gate = await (atlas.online(reason=reason) if online else atlas.offline(reason=reason, for_=until))
        return Gate(**gate.model_dump())

    @asynccontextmanager
    async def _atlas(self, tenant: str | None = None) -> AsyncIterator[AtlasClient]:
        """A client for one command; what goes wrong names the settings that it hangs on."""
        try:
            async with AtlasClient(self._url, self._token, tenant=tenant, retry=RETRY) as atlas:
                yield atlas
        except Unreachable as error:
            error.remedy = "See that `atlas api` runs there, and that ATLAS_URL is right."
            raise
        except ApiUnauthenticated as error:
            error.message = f"{self._url} does not accept the token."
            error.remedy = f"Set {self._variable} to one that is valid now; `atlas token add` makes one."
            raise
        except ApiForbidden as error:
            error.remedy = f"{self._variable} says who asks."
            raise
        except ApiError as error:
            if not error.problem:
                error.remedy = "See that ATLAS_URL is the address of an Atlas."
            raise


def _row(job: Job) -> JobRow:
    """A job as a row of the queue."""
    values: dict[str, Any] = {one.name: getattr(job, _RENAMED.get(one.name, one.name)) for one in fields(JobRow)}
    return JobRow(**{**values, "status": _STORED.get(job.status, job.status)})
