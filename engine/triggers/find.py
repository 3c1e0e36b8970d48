"""Stored triggers and their firings, as they are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import orjson

from atlas.bounds import LARGEST_PAGE
from atlas.db.pool import Queryable
from atlas.db.prisma import prisma_on
from atlas.db.statements import statement
from atlas.engine.triggers.cron import Cron, known_cron
from atlas.engine.triggers.spec import TriggerSpec
from atlas.errors import NotFound
from atlas.etags import etag_of
from atlas.models.rows import from_rows
from atlas.models.triggers import Fire

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import JobTriggerWhereInput, TriggerFireWhereInput

DESCRIBE = statement("engine/triggers/sql/describe.sql")
CLOCK = statement("engine/triggers/sql/clock.sql")


@dataclass(frozen=True, slots=True)
class Trigger:
    """A stored trigger. `zone` is the one its schedule follows: its own, else its tenant's."""

    id: UUID
    tenant_id: UUID
    spec: TriggerSpec
    zone: str
    # False while its job type is not published, or its workflow not saved. Those who fire do not read it.
    target_exists: bool
    # What became of its last firing, and what that started; they are not read either.
    last_result: str | None
    last_job_id: UUID | None
    last_fire_at: datetime | None
    next_fire_at: datetime | None
    last_error: dict[str, Any] | None
    created_by: str
    edited_by: str | None
    created_at: datetime
    updated_at: datetime
    # The module whose code declares it. None: a person's.
    declared_by: str | None

    @property
    def etag(self) -> str:
        """The tag of what an edit can change."""
        return etag_of(self.id, self.spec.model_dump())

    @property
    def arranged_by(self) -> str:
        """Who requests what it starts: the last person who changed when it fires, or what it starts."""
        return self.edited_by or self.created_by

    @property
    def first_due(self) -> datetime | None:
        """Its first open due time: its next, or, while its schedule cannot be computed, the one it stopped at."""
        if self.last_error is None or "open_since" not in self.last_error:
            return self.next_fire_at
        stopped = self.last_error["open_since"]
        return None if stopped is None else datetime.fromisoformat(stopped)

    @property
    def cron(self) -> Cron:
        """Its schedule; InvalidInput if this machine's tz database has no such zone."""
        assert self.spec.cron_expr is not None
        return known_cron(self.spec.cron_expr, self.zone)

    def as_json(self) -> dict[str, Any]:
        """All fields, for the API and the command line."""
        facts = (
            "zone",
            "target_exists",
            "last_result",
            "last_job_id",
            "last_fire_at",
            "next_fire_at",
            "last_error",
            "created_by",
            "declared_by",
            "created_at",
            "updated_at",
        )
        own = {"id": str(self.id), "tenant_id": str(self.tenant_id)}
        return {**own, **self.spec.model_dump(), **{name: getattr(self, name) for name in facts}}


async def find_trigger(conn: Queryable, trigger_id: UUID, *, tenant_id: UUID | None = None) -> Trigger:
    """One trigger; `NotFound` if there is none, or if it is another tenant's."""
    found = await describe(conn, [await find_row(conn, trigger_id, tenant_id=tenant_id)])
    if not found:
        raise _unknown(trigger_id)
    return found[0]


async def find_row(conn: Queryable, trigger_id: UUID, *, tenant_id: UUID | None = None) -> "models.JobTrigger":
    """The row of a trigger alone; `NotFound` as for `find_trigger`."""
    where: JobTriggerWhereInput = {"id": str(trigger_id), "deletedAt": None}
    if tenant_id is not None:
        where["tenantId"] = str(tenant_id)
    row = await prisma_on(conn).jobtrigger.find_first(where=where)
    if row is None:
        raise _unknown(trigger_id)
    return row


async def list_triggers(
    conn: Queryable, *, tenant_id: UUID | None = None, after: UUID | None = None, limit: int = LARGEST_PAGE
) -> list[Trigger]:
    """A page of triggers, oldest first."""
    where: JobTriggerWhereInput = {"deletedAt": None}
    if tenant_id is not None:
        where["tenantId"] = str(tenant_id)
    if after is not None:
        where["id"] = {"gt": str(after)}
    rows = await prisma_on(conn).jobtrigger.find_many(min(limit, LARGEST_PAGE), where=where, order={"id": "asc"})
    return await describe(conn, rows)


async def list_fires(
    conn: Queryable,
    trigger_id: UUID,
    *,
    tenant_id: UUID | None = None,
    before: tuple[datetime, UUID] | None = None,
    limit: int = 50,
) -> list[Fire]:
    """The latest firings of a trigger, newest first, or those before one, by its time and id."""
    where: TriggerFireWhereInput = {"triggerId": str(trigger_id)}
    if tenant_id is not None:
        where["tenantId"] = str(tenant_id)
    if before is not None:
        fired_at, id = before
        # The first is a bound for the index.
        where["firedAt"] = {"lte": fired_at}
        where["OR"] = [{"firedAt": {"lt": fired_at}}, {"id": {"lt": str(id)}}]
    rows = await prisma_on(conn).triggerfire.find_many(limit, where=where, order=[{"firedAt": "desc"}, {"id": "desc"}])
    return from_rows(Fire, rows)


async def describe(conn: Queryable, rows: Sequence["models.JobTrigger"]) -> list[Trigger]:
    """The triggers of these rows, but for those whose tenant was removed meanwhile."""
    found = await conn.fetch(DESCRIBE.sql, *DESCRIBE.bind({"ids": [row.id for row in rows]}))
    facts = {str(row["id"]): row for row in found}
    return [_trigger(row, facts[row.id]) for row in rows if row.id in facts]


def trigger_of(row: Any) -> Trigger:
    """A trigger from its row. It was checked when it was saved, and is not checked again."""
    fields = {name: row[name] for name in TriggerSpec.model_fields}
    fields["payload_template"] = orjson.loads(fields["payload_template"])
    error = row["last_error"]
    return Trigger(
        id=row["id"],
        tenant_id=row["tenant_id"],
        spec=TriggerSpec.model_construct(**fields),
        zone=row["zone"],
        target_exists=True,
        last_result=None,
        last_job_id=None,
        last_fire_at=row["last_fire_at"],
        next_fire_at=row["next_fire_at"],
        last_error=None if error is None else orjson.loads(error),
        created_by=row["created_by"],
        edited_by=row["edited_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        declared_by=row.get("declared_by"),
    )


def _trigger(row: "models.JobTrigger", facts: Any) -> Trigger:
    return Trigger(
        id=UUID(row.id),
        tenant_id=UUID(row.tenantId),
        spec=TriggerSpec.model_construct(
            label=row.label,
            trigger_type=row.triggerType,
            is_enabled=row.isEnabled,
            event_name=row.eventName,
            cron_expr=row.cronExpr,
            timezone=row.timezone,
            definition_key=row.definitionKey,
            job_type=row.jobType,
            workflow=row.workflow,
            payload_template=row.payloadTemplate,
            dedupe_window_seconds=row.dedupeWindowSeconds,
            misfire=row.misfire,
        ),
        zone=facts["zone"],
        target_exists=facts["target_exists"],
        last_result=facts["last_result"],
        last_job_id=facts["last_job_id"],
        last_fire_at=row.lastFireAt,
        next_fire_at=row.nextFireAt,
        last_error=cast("dict[str, Any] | None", row.lastError),
        created_by=row.createdBy,
        edited_by=row.editedBy,
        created_at=row.createdAt,
        updated_at=row.updatedAt,
        declared_by=row.declaredBy,
    )


def _unknown(trigger_id: UUID) -> NotFound:
    return NotFound("trigger", trigger_id, remedy="`atlas trigger list` shows the triggers there are.")
