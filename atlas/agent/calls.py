"""A host's calls to the API: fetch a job, renew its lease, report its progress and its result."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from atlas.client.errors import ApiError, ApiForbidden, ApiNotFound, ApiUnauthenticated, Unreachable, not_atlas
from atlas.client.request import ApiRequest, RetryBudget
from atlas.client.transport import Transport

# Each call is sent once; its caller decides about retries.
ONCE = RetryBudget(tries=1)
# Seconds that a fetch waits for a job, and that its response may be late.
WAIT_SECONDS = 25
LATE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class AssignedJob:
    """A job that the host holds. `lease` goes into every call about it."""

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
        """Values for a command's arguments besides the payload."""
        facts = {"job.id": str(self.id), "job_run.id": self.run_id, "host.id": str(self.host_id)}
        return facts if self.server_instance_id is None else {**facts, "server_instance.id": self.server_instance_id}


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended."""

    status: str
    duration_ms: int
    output: Any = field(default_factory=dict)
    error: str | None = None


def is_final(error: ApiError | Unreachable) -> bool:
    """True if Atlas itself does not know this token or host; any other error may pass."""
    return isinstance(error, ApiUnauthenticated | ApiForbidden | ApiNotFound) and bool(error.problem)


class HostCalls:
    """The calls of one host. Each is sent once."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def hosts(self) -> dict[str, str]:
        """The hosts of the token: names by id."""
        response = await self._ask(ApiRequest("GET", "/agent/hosts"), "items")
        return {host["id"]: host["name"] for host in response["items"]}

    async def next(self, host_id: str) -> AssignedJob | None:
        """The host's next job, waited for; None if there is none yet."""
        path, wait = f"/agent/hosts/{host_id}/jobs", {"wait": WAIT_SECONDS}
        response = await self._ask(ApiRequest("GET", path, wait, read_seconds=WAIT_SECONDS + LATE_SECONDS))
        if response is None:
            return None
        try:
            return AssignedJob(
                UUID(response["job_id"]),
                str(response["job_run_id"]),
                UUID(response["host_id"]),
                response["server_instance_id"],
                str(response["type"]),
                response["payload"],
                int(response["lease"]),
                float(response["lease_seconds"]),
                response["timeout_seconds"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise not_atlas(self._transport.url) from error

    async def heartbeat(self, job: AssignedJob) -> bool:
        """Renew the job's lease. True: the job was asked to stop."""
        renewed = await self._post(job, "heartbeat", "cancel_requested")
        return bool(renewed["cancel_requested"])

    async def progress(self, job: AssignedJob, percent: float, message: str | None) -> None:
        """Report the job's progress."""
        await self._post(job, "progress", percent=percent, message=message)

    async def result(self, job: AssignedJob, result: Result) -> str:
        """Report how the attempt ended; returns the job's status now."""
        recorded = await self._post(
            job,
            "result",
            "status",
            status=result.status,
            duration_ms=result.duration_ms,
            output=result.output,
            error=result.error,
        )
        return str(recorded["status"])

    async def _post(self, job: AssignedJob, verb: str, *names: str, **fields: Any) -> Any:
        body = json.dumps({"lease": job.lease, **fields}).encode()
        return await self._ask(
            ApiRequest("POST", f"/agent/hosts/{job.host_id}/jobs/{job.id}/{verb}", body=body), *names
        )

    async def _ask(self, request: ApiRequest, *names: str) -> Any:
        """The document of the response, which has these names; None if there is none."""
        response = await self._transport.call(request, retry=ONCE)
        if response.status_code == 204:
            return None
        try:
            document = json.loads(response.content)
        except ValueError as error:
            raise not_atlas(self._transport.url) from error
        if not isinstance(document, dict) or not document.keys() >= set(names):
            raise not_atlas(self._transport.url)
        return document
