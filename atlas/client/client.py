"""The client: what can be asked of an Atlas over HTTP, as typed coroutines."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from atlas.client.errors import NotFound, not_atlas
from atlas.client.frames import Frame
from atlas.client.live import follow
from atlas.client.models import (
    Attempt,
    EnqueuedJob,
    Explanation,
    Gate,
    Job,
    JobFilter,
    JobPage,
    Listed,
    NewJob,
    RetriedMany,
    Status,
    Summary,
    Verdict,
    Worker,
)
from atlas.client.transport import Request, RetryBudget, Transport, new_key
from atlas.client.waiting import Bells, NotEnded, look_until_ended
from atlas.errors import FieldError, InvalidInput

T = TypeVar("T")

PAGE_SIZE = 200
_NEW_JOB = TypeAdapter(NewJob)
_NEW_JOBS = TypeAdapter(list[NewJob])
LONGEST_KEY = 200


class AtlasClient:
    """An Atlas somewhere else: `async with AtlasClient(url, token) as atlas`.

    `tenant` (a slug or an id) is for tokens that belong to no tenant: whose jobs are meant. Without it an operator
    sees everyone's, and what it makes is Atlas's own.
    """

    def __init__(self, url: str, token: str, *, tenant: str | None = None, patience: RetryBudget | None = None) -> None:
        self._line = Transport(url, token, patience=patience)
        self._tenant = tenant
        self._bells = Bells(self.live)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._line.close()

    async def enqueue(self, job: NewJob, *, key: str | None = None) -> EnqueuedJob:
        """Enqueue one job. `key` names this call: a program that may ask again after a crash brings its own."""
        body = _body(_NEW_JOB, job)
        return await self._ask(EnqueuedJob, Request("POST", "/jobs", self._params(), body, _key(key)))

    async def enqueue_many(self, jobs: Sequence[NewJob], *, key: str | None = None) -> list[EnqueuedJob]:
        """Enqueue up to 1,000 jobs, all or none."""
        if not jobs:
            return []
        body = _body(_NEW_JOBS, list(jobs))
        return await self._ask(list[EnqueuedJob], Request("POST", "/jobs", self._params(), body, _key(key)))

    async def get_job(self, job_id: UUID | str) -> Job:
        """One job; NotFound if there is none for this token."""
        return await self._get(Job, f"/jobs/{_id(job_id)}")

    async def list_jobs(
        self, wanted: JobFilter | None = None, *, before: UUID | None = None, page_size: int = PAGE_SIZE
    ) -> AsyncIterator[Job]:
        """All jobs that fit, newest first, page by page as they are asked for; stable while new ones arrive."""
        cursor = before
        while True:
            page = await self.list_page(wanted, before=cursor, limit=page_size)
            for job in page.items:
                yield job
            cursor = page.next_cursor
            if cursor is None:
                return

    async def list_page(
        self, wanted: JobFilter | None = None, *, before: UUID | None = None, limit: int = 50
    ) -> JobPage:
        """One page of that list; `before` is the `next_cursor` of the page before it."""
        chosen = (wanted or JobFilter()).model_dump(mode="json", exclude_none=True)
        cursor = None if before is None else str(before)
        return await self._get(JobPage, "/jobs", **chosen, limit=limit, cursor=cursor)

    async def list_attempts(self, job_id: UUID | str) -> list[Attempt]:
        """Every attempt at a job, oldest first."""
        return (await self._get(Listed[Attempt], f"/jobs/{_id(job_id)}/attempts")).items

    async def explain(self, job_id: UUID | str) -> Explanation:
        """Why a job is not running, or who runs it."""
        return await self._get(Explanation, f"/jobs/{_id(job_id)}/explain")

    async def cancel(self, job_id: UUID | str) -> Literal["canceled", "requested"]:
        """Cancel a job: `canceled` at once, or `requested` of the worker that runs it. An ended one is a Conflict."""
        told = await self._post(Verdict, f"/jobs/{_id(job_id)}/cancel")
        return "requested" if told.verdict == "requested" else "canceled"

    async def retry(self, job_id: UUID | str) -> None:
        """Queue a failed or canceled job again, as new."""
        await self._post(Verdict, f"/jobs/{_id(job_id)}/retry")

    async def retry_dead_letters(self, *, job_type: str | None = None, limit: int = 1000) -> RetriedMany:
        """Queue the oldest dead letters again, up to 1,000; those of unknown outcome only by `retry`."""
        body = _json({"job_type": job_type, "limit": limit})
        return await self._ask(
            RetriedMany, Request("POST", "/jobs/dead-letters/retry", self._params(), body, new_key())
        )

    async def delete(self, job_id: UUID | str) -> None:
        """Delete a job that does not run, with its attempts and its secrets."""
        try:
            await self._line.call(Request("DELETE", f"/jobs/{_id(job_id)}", self._params(), key=new_key()))
        except NotFound as error:
            if not error.in_doubt:
                raise

    async def summary(self) -> Summary:
        """Counts by status, the oldest that waits, and rates."""
        return await self._get(Summary, "/jobs/summary")

    async def status(self) -> Status:
        """The gate, the queue and the live workers; for tokens that belong to no tenant."""
        return await self._ask(Status, Request("GET", "/system/status"))

    async def workers(self, *, alive_only: bool = False) -> list[Worker]:
        """The worker processes, newest first; for tokens that belong to no tenant."""
        found = await self._ask(Listed[Worker], Request("GET", "/workers", {"alive_only": alive_only}))
        return found.items

    async def gate(self) -> Gate:
        """Whether Atlas starts work."""
        return await self._ask(Gate, Request("GET", "/system/atlas-online"))

    async def online(self, *, reason: str | None = None) -> Gate:
        """Let work start."""
        return await self._turn({"online": True, "reason": reason})

    async def offline(self, *, reason: str | None = None, for_: timedelta | None = None) -> Gate:
        """Let nothing start; with `for_`, back by itself. Once answered, nothing starts until it is on again."""
        seconds = None if for_ is None else for_.total_seconds()
        return await self._turn({"online": False, "reason": reason, "for_seconds": seconds})

    async def wait_for(self, job: UUID | str | EnqueuedJob | Job, *, timeout: float | None = None) -> Job:
        """The job once it has ended, however it ended; NotEnded after `timeout` seconds.

        The live view says when to look. Where it is not to be had, and while the API is away, the job is looked at
        every two seconds.
        """
        job_id = job.id if isinstance(job, EnqueuedJob | Job) else _id(job)
        try:
            async with asyncio.timeout(timeout), self._bells.about(job_id) as bell:
                return await look_until_ended(lambda: self.get_job(job_id), bell)
        except TimeoutError as error:
            raise NotEnded(job_id, timeout) from error

    def live(self, *, since: str | None = None) -> AsyncIterator[Frame]:
        """What happens, frame by frame, for as long as it is followed; `since` is the place of a frame seen before.

        Connections that break are made again, and what happened in between is told, or a Refetch stands in its place.
        """
        return follow(self._line, tenant=self._tenant, since=since)

    async def _turn(self, wanted: Mapping[str, Any]) -> Gate:
        return await self._ask(Gate, Request("PUT", "/system/atlas-online", None, _json(wanted), new_key()))

    async def _get(self, kind: type[T], path: str, **params: Any) -> T:
        return await self._ask(kind, Request("GET", path, self._params(**params)))

    async def _post(self, kind: type[T], path: str) -> T:
        return await self._ask(kind, Request("POST", path, self._params(), key=new_key()))

    async def _ask(self, kind: type[T], request: Request) -> T:
        answer = await self._line.call(request)
        described: Any = kind
        try:
            found: T = _adapter(described).validate_json(answer.content)
            return found
        except ValidationError as error:
            raise not_atlas(self._line.url) from error

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
    """The caller's name for a call, or a new one; no header can hold another."""
    if key is None:
        return new_key()
    if not 0 < len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
        reason = f"must have 1 to {LONGEST_KEY} printable ASCII characters"
        raise InvalidInput("The request", [FieldError("key", reason)])
    return key


def _body(kind: TypeAdapter[Any], value: Any) -> bytes:
    try:
        return kind.dump_json(value, exclude_none=True)
    except PydanticSerializationError as error:
        raise InvalidInput("The job", [FieldError("payload", "cannot be written as JSON")]) from error


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps({name: value for name, value in document.items() if value is not None}).encode()
