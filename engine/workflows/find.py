"""Reading runs, their steps and the intents behind them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from atlas.db.pool import Queryable
from atlas.db.statements import Statement, statement
from atlas.engine.workflows.start_runs import json_of
from atlas.errors import FieldError, InvalidInput, NotFound

RUNS = statement("engine/workflows/sql/list_runs.sql")
STEPS = statement("engine/workflows/sql/list_steps.sql")
INTENTS = statement("engine/workflows/sql/list_intents.sql")
ENGINE = statement("engine/workflows/sql/engine_state.sql")

RUN_STATUSES = ("queued", "waiting", "running", "succeeded", "failed", "canceled")
INTENT_STATUSES = (
    "draft",
    "validating",
    "queued",
    "executed",
    "failed",
    "blocked",
    "awaiting_human",
    "rejected",
)
MOST_ROWS = 200
SILENT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as it stands. `waiting` is a queued run whose time or awaited thing has not come."""

    id: UUID
    tenant_id: UUID
    workflow: str
    version: int
    status: str
    requested_by: str
    parent_run_id: UUID | None
    forked_from: UUID | None
    created_at: datetime
    input: dict[str, Any]
    output: dict[str, Any]
    error: dict[str, Any]
    attempt_count: int
    claimed_by: str | None
    correlation_id: str | None
    source: str
    source_ref: str | None
    wakes_at: datetime | None
    cancel_requested_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step as it is recorded. `key` names it in its run, for `fork`."""

    branch: str
    position: int
    name: str
    kind: str
    status: str
    attempts: int
    started_at: datetime
    finished_at: datetime | None
    wake_at: datetime | None
    child_id: UUID | None
    child_status: str | None
    approval_id: UUID | None
    event_name: str | None
    event_match: dict[str, Any] | None
    input: Any
    output: Any
    error: dict[str, Any] | None

    @property
    def key(self) -> str:
        # A declared step is alone in a branch of its own name.
        return self.name if self.branch == f"{self.name}/" else f"{self.branch}{self.name}"

    @property
    def waits_for(self) -> str | None:
        """What a step that is not done waits for, in words."""
        until = "" if self.wake_at is None else f" until {self.wake_at:%Y-%m-%d %H:%M:%S} UTC"
        if self.status == "retrying":
            return f"its next attempt at {self.wake_at:%Y-%m-%d %H:%M:%S} UTC"
        if self.status != "waiting":
            return None
        match self.kind:
            case "sleep":
                return f"{self.wake_at:%Y-%m-%d %H:%M:%S} UTC"
            case "event":
                fitting = f" with {self.event_match}" if self.event_match else ""
                return f"an event {self.event_name!r}{fitting}{until}"
            case "approval":
                return f"approval {self.approval_id}{until}"
            case _:
                child = f"{'run' if self.kind == 'child' else 'job'} {self.child_id}"
                return f"{child} ({self.child_status or 'deleted'}){until}"


@dataclass(frozen=True, slots=True)
class IntentRow:
    """An intent as it stands."""

    id: UUID
    tenant_id: UUID
    workflow: str
    input: dict[str, Any]
    input_hash: str
    status: str
    reason: str | None
    decision: dict[str, Any]
    spend_cents: int
    priority: int
    source: str
    source_ref: str | None
    correlation_id: str | None
    requested_by: str
    forked_from: UUID | None
    forked_step: str | None
    queued_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class RunStory:
    """All that is known under one id: the request, the run it became, and the run's steps."""

    intent: IntentRow | None
    run: RunRow | None
    steps: list[StepRow]


@dataclass(frozen=True, slots=True)
class EngineState:
    """Whether someone turns intents into runs, and how many wait for that."""

    last_tick_at: datetime | None
    silent_seconds: float | None
    waiting: int

    @property
    def is_silent(self) -> bool:
        """True when no engine has looked for so long that none can be running."""
        return self.silent_seconds is None or self.silent_seconds > SILENT_SECONDS


async def get_run(conn: Queryable, run_id: UUID, *, tenant_id: UUID | None = None) -> RunRow | None:
    """One run, or None if there is none, or none in that tenant."""
    rows = await list_runs(conn, id=run_id, tenant_id=tenant_id, limit=1)
    return rows[0] if rows else None


async def list_runs(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    workflow: str | None = None,
    status: str | None = None,
    parent_run_id: UUID | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> list[RunRow]:
    """Runs, newest first, after the run `before` of the page before."""
    _check_status(status, RUN_STATUSES)
    values = {
        "tenant_id": tenant_id,
        "id": id,
        "workflow": workflow,
        "status": status,
        "parent_run_id": parent_run_id,
        "before": before,
        "limit": min(limit, MOST_ROWS),
    }
    return [RunRow(**_decoded(row, "input", "output", "error")) for row in await _fetch(conn, RUNS, values)]


async def list_steps(conn: Queryable, run_id: UUID) -> list[StepRow]:
    """The steps of a run, in the order in which they began."""
    rows = await _fetch(conn, STEPS, {"run_id": run_id})
    return [StepRow(**_decoded(row, "event_match", "input", "output", "error")) for row in rows]


async def list_intents(
    conn: Queryable,
    *,
    tenant_id: UUID | None = None,
    id: UUID | None = None,
    workflow: str | None = None,
    status: str | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> list[IntentRow]:
    """Intents, newest first."""
    _check_status(status, INTENT_STATUSES)
    values = {
        "tenant_id": tenant_id,
        "id": id,
        "workflow": workflow,
        "status": status,
        "before": before,
        "limit": min(limit, MOST_ROWS),
    }
    return [IntentRow(**_decoded(row, "input", "decision")) for row in await _fetch(conn, INTENTS, values)]


async def read_engine(conn: Queryable) -> EngineState:
    """When an engine last looked, by the database's clock."""
    row = await conn.fetchrow(ENGINE.sql)
    return EngineState(row["last_tick_at"], row["silent_seconds"], row["waiting"])


async def tell_run(conn: Queryable, run_id: UUID, *, tenant_id: UUID | None = None) -> RunStory:
    """Everything under one id, or NotFound."""
    intents = await list_intents(conn, id=run_id, tenant_id=tenant_id, limit=1)
    run = await get_run(conn, run_id, tenant_id=tenant_id)
    if run is None and not intents:
        raise NotFound("run", run_id, remedy="`atlas workflow list` shows the runs there are.")
    steps = [] if run is None else await list_steps(conn, run_id)
    return RunStory(intents[0] if intents else None, run, steps)


async def _fetch(conn: Queryable, query: Statement, values: dict[str, Any]) -> list[Any]:
    rows: list[Any] = await conn.fetch(query.sql, *query.bind(values))
    return rows


def _check_status(status: str | None, known: tuple[str, ...]) -> None:
    if status is not None and status not in known:
        raise InvalidInput("The filter", [FieldError("status", f"is not one of {', '.join(known)}")])


def _decoded(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    values = dict(row)
    for name in names:
        values[name] = json_of(values[name])
    return values
