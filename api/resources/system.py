"""Routes for the gate, the queue, the workers, the job types and usage."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from atlas.api.idempotency import IdempotencyKey, do_once
from atlas.api.models.common import Body, Document, Flag, Number, Text, Timestamp
from atlas.api.request_context import Calling
from atlas.api.roles import PEOPLE
from atlas.api.routing import PREFIX, GuardedRoute, requires
from atlas.client.models import (
    ApiModel,
    EngineStatus,
    GateStatus,
    Listed,
    ProgramStatus,
    QueueDepth,
    SystemStatus,
    WorkerStatus,
)
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.alerts import read_findings
from atlas.engine.jobs.find import queue_depth
from atlas.engine.jobs.gate import LONGEST_TIME, Gate, read_gate, switch
from atlas.engine.usage import read_usage
from atlas.engine.workflows.find_intents import read_engine
from atlas.up_report import read_programs

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["system"])

WORKERS = statement("api/sql/workers.sql")
JOB_TYPES = statement("api/sql/job_types.sql")


class GateBody(Body):
    """Online or offline, why, and for how long."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"online": False, "reason": "provider outage", "for_seconds": 7200}]}
    )

    online: Flag
    reason: Text | None = None
    for_seconds: Annotated[Number, Field(gt=0, le=LONGEST_TIME.total_seconds())] | None = Field(
        default=None, description="Back online by itself after so many seconds."
    )


class FindingShown(ApiModel):
    """Something that a person should look at."""

    kind: str
    subject: str
    message: str


class JobTypeShown(ApiModel):
    """A job type that a worker has published, or a command."""

    key: str
    description: str
    input_schema: Document
    max_retries: int
    timeout_seconds: int | None
    concurrency: int | None
    last_seen_at: datetime
    is_command: bool

    @classmethod
    def of_row(cls, row: Any) -> "JobTypeShown":
        return cls.model_validate({**row, "input_schema": orjson.loads(row["input_schema"])})


class UsageShown(ApiModel):
    """Finished attempts, their time and cost."""

    tenant_id: UUID
    job_type: str
    hour: datetime | None
    runs: int
    succeeded: int
    failed: int
    timed_out: int
    canceled: int
    lost: int
    run_seconds: float
    queue_seconds: float
    cost_cents: int


@router.get("/system/atlas-online", summary="Whether Atlas starts work")
@requires(*PEOPLE, "host", "worker", by_tenant=False)
async def show_gate(call: Calling) -> GateStatus:
    async with call.transaction(read_only=True) as conn:
        return _gate(await read_gate(conn))


@router.put("/system/atlas-online", response_model=GateStatus, summary="Let work start, or nothing; running jobs go on")
@requires("operator", whole=True)
async def switch_gate(
    request: Request, body: GateBody, call: Calling, idempotency_key: IdempotencyKey = None
) -> Response:
    """After the response to `online: false`, nothing starts until Atlas is online again.

    A call that is repeated with its `Idempotency-Key` does not undo later switches of others.
    """
    until = None if body.for_seconds is None or body.online else timedelta(seconds=body.for_seconds)

    async def work(conn: Connection) -> GateStatus:
        return _gate(await switch(conn, online=body.online, actor=call.actor, reason=body.reason, until=until))

    return await do_once(request, call, idempotency_key, work)


@router.get("/system/status", summary="The gate, the queue and the workers")
@requires("operator", "auditor", whole=True)
async def show_status(call: Calling) -> SystemStatus:
    async with call.transaction(read_only=True) as conn:
        gate, queue = await read_gate(conn), await queue_depth(conn)
        workers = await fetch(conn, WORKERS, alive_only=True)
        engine = await read_engine(conn)
    return SystemStatus(
        gate=_gate(gate),
        queue=[QueueDepth.model_validate(one) for one in queue],
        workers=[WorkerStatus.model_validate(dict(row)) for row in workers],
        engine=EngineStatus.model_validate(engine),
        programs=[ProgramStatus.model_validate(one) for one in read_programs(call.api.settings.home)],
    )


@router.get("/system/findings", summary="What a person should look at: silent workers, stuck intents, rising failures")
@requires("operator", "auditor", whole=True)
async def show_findings(call: Calling) -> Listed[FindingShown]:
    async with call.transaction(read_only=True) as conn:
        return Listed(items=[FindingShown.model_validate(one) for one in await read_findings(conn)])


@router.get("/workers", summary="The worker processes, newest first", tags=["workers"])
@requires("operator", "auditor", whole=True)
async def show_workers(call: Calling, alive_only: Annotated[bool, Query()] = False) -> Listed[WorkerStatus]:
    async with call.transaction(read_only=True) as conn:
        rows = await fetch(conn, WORKERS, alive_only=alive_only)
    return Listed(items=[WorkerStatus.model_validate(dict(row)) for row in rows])


@router.get("/job-types", summary="The job types that can be enqueued, with the schema of their payload", tags=["jobs"])
@requires(*PEOPLE, "worker", by_tenant=False)
async def show_types(call: Calling) -> Listed[JobTypeShown]:
    async with call.transaction(read_only=True) as conn:
        rows = await fetch(conn, JOB_TYPES)
    return Listed(items=[JobTypeShown.of_row(row) for row in rows])


@router.get("/usage", summary="Time and cost of finished attempts, by tenant and job type", tags=["usage"])
@requires("operator", "tenant_admin", "auditor")
async def show_usage(
    call: Calling,
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    by_hour: Annotated[bool, Query()] = False,
) -> Listed[UsageShown]:
    async with call.transaction(read_only=True) as conn:
        found = await read_usage(conn, tenant_id=call.tenant_id, start=start, end=end, by_hour=by_hour)
    return Listed(items=[UsageShown.model_validate(one) for one in found])


def _gate(gate: Gate) -> GateStatus:
    return GateStatus(**asdict(gate))
