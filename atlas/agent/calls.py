"""What a host says to the API: fetch a job, keep it, tell how far it is, report how it ended."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from atlas.client.errors import ApiError, ApiForbidden, ApiNotFound, ApiUnauthenticated, Unreachable, not_atlas
from atlas.client.transport import Request, RetryBudget, Transport

# Once: who asks knows best when to ask again.
ONCE = RetryBudget(tries=1)
# Seconds that a fetch waits for a job, and that its answer may be late.
WAIT_SECONDS = 25
LATE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class AssignedJob:
    """A job in the host's hands. `lease` goes into every call about it."""

    id: UUID
    run_id: str
    host_id: UUID
    server_instance_id: str | None
    type: str
    payload: Mapping[str, Any]
    lease: int
    lease_seconds: float
    timeout_seconds: int | None

    @property
    def facts(self) -> dict[str, str]:
        """What a command may know besides the payload."""
        known = {"job.id": str(self.id), "job_run.id": self.run_id, "host.id": str(self.host_id)}
        return known if self.server_instance_id is None else {**known, "server_instance.id": self.server_instance_id}


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended."""

    status: str
    duration_ms: int
    output: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


def is_final(error: ApiError | Unreachable) -> bool:
    """True if Atlas itself says that this token or host is none of its own; anything else may pass."""
    return isinstance(error, ApiUnauthenticated | ApiForbidden | ApiNotFound) and bool(error.problem)


class HostCalls:
    """The calls of one host. Each is sent once."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def hosts(self) -> dict[str, str]:
        """The hosts that the token speaks for: names by id."""
        found = await self._ask(Request("GET", "/agent/hosts"), "items")
        return {one["id"]: one["name"] for one in found["items"]}

    async def next(self, host_id: str) -> AssignedJob | None:
        """The host's next job, waited for; None if there is none yet."""
        path, wait = f"/agent/hosts/{host_id}/jobs", {"wait": WAIT_SECONDS}
        told = await self._ask(Request("GET", path, wait, read_seconds=WAIT_SECONDS + LATE_SECONDS))
        if told is None:
            return None
        try:
            return AssignedJob(
                UUID(told["job_id"]),
                str(told["job_run_id"]),
                UUID(told["host_id"]),
                told["server_instance_id"],
                str(told["type"]),
                told["payload"],
                int(told["lease"]),
                float(told["lease_seconds"]),
                told["timeout_seconds"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise not_atlas(self._transport.url) from error

    async def heartbeat(self, job: AssignedJob) -> bool:
        """Keep the job's lease. True: the job was asked to stop."""
        told = await self._say(job, "heartbeat", "cancel_requested")
        return bool(told["cancel_requested"])

    async def progress(self, job: AssignedJob, percent: float, message: str | None) -> None:
        """Tell how far the job is."""
        await self._say(job, "progress", percent=percent, message=message)

    async def result(self, job: AssignedJob, result: Result) -> str:
        """Report how the attempt ended; answers what the job is now."""
        told = await self._say(
            job,
            "result",
            "status",
            status=result.status,
            duration_ms=result.duration_ms,
            output=result.output,
            error=result.error,
        )
        return str(told["status"])

    async def _say(self, job: AssignedJob, verb: str, *names: str, **said: Any) -> Any:
        body = json.dumps({"lease": job.lease, **said}).encode()
        return await self._ask(Request("POST", f"/agent/hosts/{job.host_id}/jobs/{job.id}/{verb}", body=body), *names)

    async def _ask(self, request: Request, *names: str) -> Any:
        """The document that is answered, which has these names; None if there is none."""
        answer = await self._transport.call(request, retry=ONCE)
        if answer.status_code == 204:
            return None
        try:
            told = json.loads(answer.content)
        except ValueError as error:
            raise not_atlas(self._transport.url) from error
        if not isinstance(told, dict) or not told.keys() >= set(names):
            raise not_atlas(self._transport.url)
        return told
