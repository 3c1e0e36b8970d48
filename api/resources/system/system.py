"""Routes for the gate, the queue, the workers, the job types and usage."""

from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter, itemgetter
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import AwareDatetime, ConfigDict, Field, TypeAdapter
from starlette.responses import Response

from atlas.api.access.roles import PEOPLE
from atlas.api.http.etags import IfMatch, validators
from atlas.api.idempotency import IdempotencyKey, respond_once
from atlas.api.models.common import Body, Flag, Number, Text, Timestamp
from atlas.api.paging import Cursor, Limit, NameCursor, list_page, page_of, read_cursor, read_page
from atlas.api.request_context import Calling, RequestContext
from atlas.api.routing import PREFIX, GuardedRoute, json_bytes, json_response, requires
from atlas.db.statements import fetch, statement
from atlas.engine.alerts import read_findings
from atlas.engine.effects.reports import list_reports
from atlas.engine.jobs.handlers.types import input_limit
from atlas.engine.jobs.lists.find_workers import list_workers
from atlas.engine.jobs.switches.gate import MAX_TIME, read_gate, switch, switch_engine, unblock_gate, wait_until_closed
from atlas.engine.metering.usage import UsagePosition, read_usage
from atlas.engine.status import read_status
from atlas.models import Page
from atlas.models.effect_reports import EffectReport
from atlas.models.jobs import PublishedJobType
from atlas.models.rows import from_row
from atlas.models.system import Alert, Gate, SystemStatus, Usage, WorkerStatus

router = APIRouter(prefix=PREFIX, route_class=GuardedRoute, tags=["system"])

JOB_TYPES = statement("api/resources/system/sql/job_types.sql")

WORKER_POSITION: TypeAdapter[tuple[datetime, str]] = TypeAdapter(tuple[AwareDatetime, str])
FINDING_POSITION: TypeAdapter[tuple[str, str, str]] = TypeAdapter(tuple[str, str, str])
USAGE_POSITION: TypeAdapter[UsagePosition] = TypeAdapter(tuple[AwareDatetime | None, UUID, str])


class GateBody(Body):
    """Online or offline, why, and for how long."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"online": False, "reason": "provider outage", "for_seconds": 7200}]}
    )

    online: Flag
    reason: Text | None = None
    for_seconds: Annotated[Number, Field(gt=0, le=MAX_TIME.total_seconds())] | None = Field(
        default=None, description="Seconds after which Atlas is online again."
    )


class EngineBody(Body):
    """The engine on or off, and why."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": False, "reason": "new policies"}]})

    enabled: Flag
    reason: Text | None = None


@router.get("/system/atlas-online", operation_id="get_gate", summary="Whether Atlas starts work")
@requires(*PEOPLE, "host", "worker", by_tenant=False, etag=True)
async def show_gate(call: Calling) -> Gate:
    """Who switched it, when and why, and when it opens by itself."""
    async with call.transaction(read_only=True) as conn:
        gate = await read_gate(conn)
    return call.tagged(gate)


@router.put(
    "/system/atlas-online",
    operation_id="switch_gate",
    response_model=Gate,
    summary="Let jobs start, or stop all starts; running jobs continue",
)
@requires("operator", whole=True, etag=True)
async def switch_gate(
    request: Request, body: GateBody, call: Calling, if_match: IfMatch, idempotency_key: IdempotencyKey = None
) -> Response:
    """After the response to `online: false`, nothing starts until Atlas is online again.

    The response comes when every worker has confirmed that, after two seconds at the latest: `workers` and `confirmed`
    count them. A worker that did not confirm has no right to start anything by then.
    A call that is repeated with its `Idempotency-Key` does not undo later switches of others.
    """
    until = None if body.for_seconds is None or body.online else timedelta(seconds=body.for_seconds)
    # Not in the transaction of the switch, which may be refused.
    async with call.connection() as conn:
        unblocked = await unblock_gate(conn, actor=call.actor)

    async def respond() -> Response:
        async with call.transaction() as conn:
            about: dict[str, Any] = {"actor": call.actor, "reason": body.reason, "until": until, "if_match": if_match}
            gate = await switch(conn, online=body.online, **about)
        gate = gate.model_copy(update={"unblocked": [*unblocked, *gate.unblocked]})
        return json_response(json_bytes(gate), headers=validators(gate))

    response = await respond_once(request, call, idempotency_key, respond)
    return response if body.online else await _closed(call, response)


@router.put(
    "/system/engine-enabled",
    operation_id="switch_engine",
    response_model=Gate,
    summary="Let requests for workflows become runs, or wait",
)
@requires("operator", whole=True, etag=True)
async def change_engine(
    request: Request, body: EngineBody, call: Calling, if_match: IfMatch, idempotency_key: IdempotencyKey = None
) -> Response:
    """Runs that have begun go on, and so do all other jobs. `GET /system/atlas-online` shows the state and its `ETag`.

    A call that is repeated with its `Idempotency-Key` does not undo later switches of others.
    """

    async def respond() -> Response:
        async with call.transaction() as conn:
            gate = await switch_engine(
                conn, enabled=body.enabled, actor=call.actor, reason=body.reason, if_match=if_match
            )
        return json_response(json_bytes(gate), headers=validators(gate))

    return await respond_once(request, call, idempotency_key, respond)


@router.get("/system/status", operation_id="get_status", summary="The gate, the queue and the workers")
@requires("operator", "auditor", whole=True)
async def show_status(call: Calling) -> SystemStatus:
    """What `atlas status` shows, of all tenants."""
    async with call.transaction(read_only=True) as conn:
        return await read_status(conn, home=call.api.settings.home)


@router.get(
    "/system/findings",
    operation_id="list_findings",
    summary="What a person should look at: silent workers, stuck intents, rising failures",
)
@requires("operator", "auditor", whole=True)
async def show_findings(call: Calling, limit: Limit = 50, cursor: Cursor = None) -> Page[Alert]:
    """As the scheduler that leads has stored them last, within a minute."""
    after = read_cursor(cursor, FINDING_POSITION)
    async with call.transaction(read_only=True) as conn:
        findings = sorted(await read_findings(conn), key=_position)
    return await page_of(findings, after, limit, key=_position)


@router.get(
    "/system/effect-reports",
    operation_id="list_effect_reports",
    summary="The last reconciliation of the effect ledger with each provider",
)
@requires("operator", "auditor", whole=True)
async def show_effect_reports(call: Calling, limit: Limit = 50, cursor: NameCursor = None) -> Page[EffectReport]:
    """By provider. The rows are in the audit log, in the event EFFECTS_RECONCILED."""
    async with call.transaction(read_only=True) as conn:
        return await page_of(await list_reports(conn), cursor, limit, key=attrgetter("provider"))


@router.get(
    "/workers", operation_id="list_workers", summary="List the worker processes, newest first", tags=["workers"]
)
@requires("operator", "auditor", whole=True)
async def show_workers(
    call: Calling, alive_only: Annotated[bool, Query()] = False, limit: Limit = 50, cursor: Cursor = None
) -> Page[WorkerStatus]:
    """The dead are listed for a day."""
    return await list_page(
        call,
        list_workers,
        read_cursor(cursor, WORKER_POSITION),
        limit,
        key=attrgetter("started_at", "worker_id"),
        contents=attrgetter("job_types"),
        alive_only=alive_only,
    )


@router.get(
    "/job-types",
    operation_id="list_job_types",
    summary="List the job types that can be enqueued, with the schema of each",
    tags=["jobs"],
)
@requires(*PEOPLE, "worker", by_tenant=False)
async def show_types(call: Calling, limit: Limit = 50, cursor: NameCursor = None) -> Page[PublishedJobType]:
    """What workers have published, and the active commands. Jobs of other types are accepted too, and wait."""
    async with call.transaction(read_only=True) as conn:
        read, key, contents = partial(fetch, conn, JOB_TYPES), itemgetter("key"), itemgetter("input_schema")
        return await read_page(read, cursor, limit, show=_job_type, key=key, contents=contents)


@router.get(
    "/usage",
    operation_id="list_usage",
    summary="Time and cost of finished attempts, by tenant and job type",
    tags=["usage"],
)
@requires("operator", "tenant_admin", "auditor", replica=True)
async def show_usage(
    call: Calling,
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    by_hour: Annotated[bool, Query()] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[Usage]:
    """By tenant and job type over the whole time, or for each hour of it."""
    filters: dict[str, Any] = {"tenant_id": call.tenant_id, "start": start, "end": end, "by_hour": by_hour}
    after = read_cursor(cursor, USAGE_POSITION)
    position, currency = attrgetter("hour", "tenant_id", "job_type"), {"currency": call.api.settings.atlas_currency}

    def show(usage: Usage) -> Usage:
        return usage.model_copy(update=currency)

    return await list_page(call, read_usage, after, limit, show=show, key=position, **filters)


def _job_type(row: Any) -> PublishedJobType:
    return from_row(PublishedJobType, row, input_limit=input_limit(row["key"]))


def _position(finding: Alert) -> tuple[str, str, str]:
    return finding.kind, finding.subject, finding.message


async def _closed(call: RequestContext, response: Response) -> Response:
    """Wait until nothing starts any more, now that the switch has committed, and add how many workers confirmed it."""
    gate = Gate.model_validate_json(bytes(response.body))
    async with call.connection() as conn:
        gate = await wait_until_closed(conn, gate)
    headers = {name: value for name, value in response.headers.items() if not name.startswith("content-")}
    return json_response(json_bytes(gate), response.status_code, headers)
