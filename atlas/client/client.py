"""The client: the API's calls as typed coroutines."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from atlas.bounds import LARGEST_PAGE, LONGEST_IDEMPOTENCY_KEY
from atlas.client.errors import ApiNotFound, not_atlas
from atlas.client.frames import Frame
from atlas.client.live import follow
from atlas.client.models import (
    Attempt,
    Canceled,
    EnqueuedJob,
    GateStatus,
    Job,
    JobExplanation,
    JobQuery,
    JobRequest,
    JobSummary,
    Page,
    Retried,
    RetriedMany,
    SystemStatus,
    WorkerStatus,
)
from atlas.client.transport import ApiRequest, RetryBudget, Transport, new_key
from atlas.client.waiting import JobSignals, NotEnded, poll_until_ended
from atlas.errors import FieldError, InvalidInput

T = TypeVar("T")

_NEW_JOB = TypeAdapter(JobRequest)
_NEW_JOBS = TypeAdapter(list[JobRequest])


class AtlasClient:
    """An Atlas that is reached over HTTP: `async with AtlasClient(url, token) as atlas`.

    `tenant` (a slug or an id) is for tokens that belong to no tenant: it selects whose jobs are meant. Without it an
    operator sees the jobs of all tenants, and new jobs belong to Atlas itself.
    """

    def __init__(self, url: str, token: str, *, tenant: str | None = None, retry: RetryBudget | None = None) -> None:
        self._transport = Transport(url, token, retry=retry)
        self._tenant = tenant
        self._job_signals = JobSignals(self.live)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def enqueue(self, job: JobRequest, *, key: str | None = None) -> EnqueuedJob:
        """Enqueue one job. `key` is the idempotency key: a program that may repeat the call after a crash sets it."""
        body = _body(_NEW_JOB, job)
        return await self._ask(EnqueuedJob, ApiRequest("POST", "/jobs", self._params(), body, _key(key)))

    async def enqueue_many(self, jobs: Sequence[JobRequest], *, key: str | None = None) -> list[EnqueuedJob]:
        """Enqueue up to 1,000 jobs, all or none."""
        if not jobs:
            return []
        body = _body(_NEW_JOBS, list(jobs))
        return await self._ask(list[EnqueuedJob], ApiRequest("POST", "/jobs", self._params(), body, _key(key)))

    async def get_job(self, job_id: UUID | str) -> Job:
        """One job; ApiNotFound if there is none for this token."""
        return await self._get(Job, f"/jobs/{_id(job_id)}")

    async def list_jobs(
        self, wanted: JobQuery | None = None, *, before: UUID | None = None, page_size: int = LARGEST_PAGE
    ) -> AsyncIterator[Job]:
        """All jobs that match, newest first, fetched page by page; stable while new ones arrive."""
        chosen = (wanted or JobQuery()).model_dump(mode="json", exclude_none=True)
        request = ApiRequest("GET", "/jobs", self._params(**chosen, limit=page_size, cursor=before and str(before)))
        async for job in self._follow(Page[Job], request):
            yield job

    async def list_page(
        self, wanted: JobQuery | None = None, *, before: UUID | str | None = None, limit: int = 50
    ) -> Page[Job]:
        """One page of that list; `before` is the `next_cursor` of the page before it."""
        chosen = (wanted or JobQuery()).model_dump(mode="json", exclude_none=True)
        cursor = None if before is None else str(before)
        return await self._get(Page[Job], "/jobs", **chosen, limit=limit, cursor=cursor)

    async def list_attempts(self, job_id: UUID | str) -> list[Attempt]:
        """Every attempt at a job, oldest first, fetched page by page."""
        request = ApiRequest("GET", f"/jobs/{_id(job_id)}/attempts", self._params(limit=LARGEST_PAGE))
        return [one async for one in self._follow(Page[Attempt], request)]

    async def explain(self, job_id: UUID | str) -> JobExplanation:
        """Why a job is not running, or who runs it."""
        return await self._get(JobExplanation, f"/jobs/{_id(job_id)}/explain")

    async def cancel(self, job_id: UUID | str) -> Literal["canceled", "requested"]:
        """Cancel a job: `canceled` at once, or `requested` of the worker that runs it. ApiConflict if it has ended."""
        return (await self._post(Canceled, f"/jobs/{_id(job_id)}/cancel")).verdict

    async def retry(self, job_id: UUID | str) -> None:
        """Queue a failed or canceled job again, as new."""
        await self._post(Retried, f"/jobs/{_id(job_id)}/retry")

    async def retry_dead_letters(self, *, job_type: str | None = None, limit: int = 1000) -> RetriedMany:
        """Queue the oldest dead letters again, up to 1,000; those of unknown outcome are queued only by `retry`."""
        body = _json({"job_type": job_type, "limit": limit})
        return await self._ask(
            RetriedMany, ApiRequest("POST", "/jobs/dead-letters/retry", self._params(), body, new_key())
        )

    async def delete(self, job_id: UUID | str) -> None:
        """Delete a job that does not run, with its attempts and its secrets."""
        try:
            await self._transport.call(ApiRequest("DELETE", f"/jobs/{_id(job_id)}", self._params(), key=new_key()))
        except ApiNotFound as error:
            if not error.in_doubt:
                raise

    async def summary(self) -> JobSummary:
        """Counts by status, the oldest that waits, and rates."""
        return await self._get(JobSummary, "/jobs/summary")

    async def status(self) -> SystemStatus:
        """The gate, the queue and the live workers; for tokens that belong to no tenant."""
        return await self._ask(SystemStatus, ApiRequest("GET", "/system/status"))

    async def workers(self, *, alive_only: bool = False) -> list[WorkerStatus]:
        """The worker processes, newest first, fetched page by page; for tokens that belong to no tenant."""
        request = ApiRequest("GET", "/workers", {"alive_only": alive_only, "limit": LARGEST_PAGE})
        return [one async for one in self._follow(Page[WorkerStatus], request)]

    async def gate(self) -> GateStatus:
        """Whether Atlas starts work."""
        return await self._ask(GateStatus, ApiRequest("GET", "/system/atlas-online"))

    async def online(self, *, reason: str | None = None) -> GateStatus:
        """Let work start."""
        return await self._switch({"online": True, "reason": reason})

    async def offline(self, *, reason: str | None = None, for_: timedelta | None = None) -> GateStatus:
        """Let nothing start; with `for_`, for so long. Once this returns, nothing starts until it is online again."""
        seconds = None if for_ is None else for_.total_seconds()
        return await self._switch({"online": False, "reason": reason, "for_seconds": seconds})

    async def switch_engine(self, enabled: bool, *, reason: str | None = None) -> GateStatus:
        """Let requests for workflows become runs, or wait; runs that have begun go on."""
        body = _json({"enabled": enabled, "reason": reason})
        return await self._ask(GateStatus, ApiRequest("PUT", "/system/engine-enabled", None, body, new_key()))

    async def wait_for(self, job: UUID | str | EnqueuedJob | Job, *, timeout: float | None = None) -> Job:
        """The job once it has ended, however it ended; NotEnded after `timeout` seconds.

        The live view says when to fetch the job. Without it, and while the API is away, the job is fetched every two
        seconds.
        """
        job_id = job.id if isinstance(job, EnqueuedJob | Job) else _id(job)
        try:
            async with asyncio.timeout(timeout), self._job_signals.about(job_id) as changed:
                return await poll_until_ended(lambda: self.get_job(job_id), changed)
        except TimeoutError as error:
            raise NotEnded(job_id, timeout) from error

    def live(self, *, since: str | None = None) -> AsyncIterator[Frame]:
        """Events as they happen, frame by frame; `since` is the `place` of a frame seen before.

        A broken connection is opened again. What happened in between is sent, or a Refetch instead.
        """
        return follow(self._transport, tenant=self._tenant, since=since)

    async def _switch(self, wanted: Mapping[str, Any]) -> GateStatus:
        return await self._ask(GateStatus, ApiRequest("PUT", "/system/atlas-online", None, _json(wanted), new_key()))

    async def _follow(self, kind: type[Page[T]], request: ApiRequest) -> AsyncIterator[T]:
        """The items of this page of a list and of all pages after it."""
        while True:
            page = await self._ask(kind, request)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            request = replace(request, params={**(request.params or {}), "cursor": page.next_cursor})

    async def _get(self, kind: type[T], path: str, **params: Any) -> T:
        return await self._ask(kind, ApiRequest("GET", path, self._params(**params)))

    async def _post(self, kind: type[T], path: str) -> T:
        return await self._ask(kind, ApiRequest("POST", path, self._params(), key=new_key()))

    async def _ask(self, kind: type[T], request: ApiRequest) -> T:
        response = await self._transport.call(request)
        described: Any = kind
        try:
            found: T = _adapter(described).validate_json(response.content)
            return found
        except ValidationError as error:
            raise not_atlas(self._transport.url) from error

    def _params(self, **params: Any) -> dict[str, Any]:
        named = {"tenant": self._tenant, **params}
        return {name: value for name, value in named.items() if value is not None}


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _id(job_id: UUID | str) -> UUID:
    try:
        return job_id if isinstance(job_id, UUID) else UUID(job_id)
    except ValueError:
        raise InvalidInput("The request", [FieldError("job_id", "is not an id")]) from None


def _key(key: str | None) -> str:
    """The caller's idempotency key, if a header can hold it, or a new one."""
    if key is None:
        return new_key()
    if not 0 < len(key) <= LONGEST_IDEMPOTENCY_KEY or not key.isascii() or not key.isprintable():
        reason = f"must have 1 to {LONGEST_IDEMPOTENCY_KEY} printable ASCII characters"
        raise InvalidInput("The request", [FieldError("key", reason)])
    return key


def _body(kind: TypeAdapter[Any], value: Any) -> bytes:
    try:
        return kind.dump_json(value, exclude_none=True)
    except PydanticSerializationError as error:
        raise InvalidInput("The job", [FieldError("payload", "cannot be written as JSON")]) from error


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps({name: value for name, value in document.items() if value is not None}).encode()
