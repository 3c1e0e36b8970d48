"""Reading intents, and whether an engine turns them into runs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from atlas.bounds import LARGEST_PAGE
from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.engine.workflows.rows import check_status, read_rows

INTENTS = statement("engine/workflows/sql/list_intents.sql")
ENGINE = statement("engine/workflows/sql/engine_state.sql")

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
SILENT_SECONDS = 30.0


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
class EngineState:
    """Whether an engine turns intents into runs, and how many wait for it."""

    last_tick_at: datetime | None
    silent_seconds: float | None
    waiting: int

    @property
    def is_silent(self) -> bool:
        """True if no engine has polled for so long that none can be running."""
        return self.silent_seconds is None or self.silent_seconds > SILENT_SECONDS


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
    check_status(status, INTENT_STATUSES)
    values = {
        "tenant_id": tenant_id,
        "id": id,
        "workflow": workflow,
        "status": status,
        "before": before,
        "limit": min(limit, LARGEST_PAGE),
    }
    return [IntentRow(**row) for row in await read_rows(conn, INTENTS, values, "input", "decision")]


async def read_engine(conn: Queryable) -> EngineState:
    """When an engine last polled, by the database's clock."""
    row = await conn.fetchrow(ENGINE.sql)
    return EngineState(row["last_tick_at"], row["silent_seconds"], row["waiting"])
