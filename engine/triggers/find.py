"""Stored triggers and their firings, as they are read."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson

from atlas.bounds import MAX_PAGE_SIZE
from atlas.db.pool import Queryable
from atlas.db.prisma import older_than, page_filter, prisma_on
from atlas.db.statements import statement
from atlas.engine.triggers.cron import Cron, known_cron
from atlas.errors import NotFound
from atlas.models.rows import from_row, from_rows
from atlas.models.triggers import Fire, Trigger

if TYPE_CHECKING:
    from atlas.generated import models
    from atlas.generated.types import JobTriggerWhereInput, TriggerFireWhereInput

DESCRIBE = statement("engine/triggers/sql/describe.sql")
CLOCK = statement("engine/triggers/sql/clock.sql")
# What its own row does not have.
DESCRIBED = ("zone", "target_exists", "last_result", "last_job_id")


async def find_trigger(conn: Queryable, trigger_id: UUID, *, tenant_id: UUID | None = None) -> Trigger:
    """One trigger; `NotFound` if there is none, or if it is another tenant's."""
    triggers = await describe(conn, [await find_row(conn, trigger_id, tenant_id=tenant_id)])
    if not triggers:
        raise _unknown(trigger_id)
    return triggers[0]


async def find_row(conn: Queryable, trigger_id: UUID, *, tenant_id: UUID | None = None) -> "models.JobTrigger":
    """The row of a trigger alone; `NotFound` as for `find_trigger`."""
    where: JobTriggerWhereInput = page_filter(tenant_id=tenant_id, id=trigger_id) | {"deletedAt": None}
    row = await prisma_on(conn).jobtrigger.find_first(where=where)
    if row is None:
        raise _unknown(trigger_id)
    return row


async def list_triggers(
    conn: Queryable, *, tenant_id: UUID | None = None, after: UUID | None = None, limit: int = MAX_PAGE_SIZE
) -> list[Trigger]:
    """A page of triggers, oldest first."""
    where: JobTriggerWhereInput = page_filter(tenant_id=tenant_id, after=after) | {"deletedAt": None}
    rows = await prisma_on(conn).jobtrigger.find_many(min(limit, MAX_PAGE_SIZE), where=where, order={"id": "asc"})
    return await describe(conn, rows)


async def list_fires(
    conn: Queryable,
    trigger_id: UUID,
    *,
    tenant_id: UUID | None = None,
    after: tuple[datetime, UUID] | None = None,
    limit: int = 50,
) -> list[Fire]:
    """The latest firings of a trigger, newest first, or those that follow one, by its time and id."""
    older = older_than("firedAt", after)
    where: TriggerFireWhereInput = page_filter(tenant_id=tenant_id, trigger_id=trigger_id) | older
    rows = await prisma_on(conn).triggerfire.find_many(limit, where=where, order=[{"firedAt": "desc"}, {"id": "desc"}])
    return from_rows(Fire, rows)


async def describe(conn: Queryable, rows: Sequence["models.JobTrigger"]) -> list[Trigger]:
    """The triggers of these rows, but for those whose tenant was removed meanwhile."""
    described = await conn.fetch(DESCRIBE.sql, *DESCRIBE.bind({"ids": [row.id for row in rows]}))
    facts = {str(row["id"]): {name: row[name] for name in DESCRIBED} for row in described}
    return [from_row(Trigger, row, **facts[row.id]) for row in rows if row.id in facts]


def trigger_of(row: Any) -> Trigger:
    """A trigger from its row. It was checked when it was saved, and is not checked again.

    Those who fire read neither whether its target exists, nor what its last firing started.
    """
    stored = {name: row[name] for name in Trigger.model_fields if name in row}
    stored |= {name: orjson.loads(stored[name] or "null") for name in ("payload_template", "last_error")}
    unread: dict[str, Any] = {"target_exists": True, "last_result": None, "last_job_id": None, "declared_by": None}
    return Trigger.model_construct(**{**unread, **stored})


def cron_of(trigger: Trigger) -> Cron:
    """The schedule of a trigger; InvalidInput if this machine's tz database has no such zone."""
    assert trigger.cron_expr is not None
    return known_cron(trigger.cron_expr, trigger.zone)


def _unknown(trigger_id: UUID) -> NotFound:
    return NotFound("trigger", trigger_id, remedy="`atlas trigger list` lists the triggers.")
