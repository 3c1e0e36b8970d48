"""Helpers for tests of triggers."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from atlas.engine.triggers.store import add_trigger
from atlas.models.triggers import Trigger
from tests.support import DANA


async def given_schedule(conn: Any, tenant_id: UUID, cron: str = "@hourly", **fields: Any) -> Trigger:
    """A trigger on a schedule."""
    described = {"label": "a schedule", "trigger_type": "schedule", "cron_expr": cron, **fields}
    if not {"job_type", "definition_key", "workflow"} & described.keys():
        described["job_type"] = "report.build"
    return await add_trigger(conn, tenant_id, described, actor=DANA)


async def given_event_trigger(conn: Any, tenant_id: UUID, event: str = "invoice.paid", **fields: Any) -> Trigger:
    """A trigger on events."""
    described = {"label": f"on {event}", "trigger_type": "event", "event_name": event, **fields}
    if not {"job_type", "definition_key", "workflow"} & described.keys():
        described["job_type"] = "report.build"
    return await add_trigger(conn, tenant_id, described, actor=DANA)


async def set_clock(owner: Any, at: datetime, *, speed: float = 0.0, until: datetime | None = None) -> None:
    """Let schedules see another time: standing still, or passing so many times as fast, up to an end."""
    now = await owner.fetchval("select clock_timestamp()")
    passed = f"(clock_timestamp() - '{now.isoformat()}'::timestamptz) * {speed}"
    await owner.execute(
        f"""create or replace function atlas.schedule_clock() returns timestamptz language sql volatile as $$
          select least('{at.isoformat()}'::timestamptz + {passed}, {f"'{until.isoformat()}'" if until else "null"}::timestamptz)
        $$"""
    )


async def given_leader(conn: Any, *outages: tuple[datetime, datetime]) -> None:
    """A scheduler leads, and has led but for these times."""
    ranges = ", ".join(f'("{began.isoformat()}","{ended.isoformat()}"]' for began, ended in outages)
    await conn.execute(
        "update atlas.scheduler_leader set holder = gen_random_uuid(), expires_at = '2100-01-01', outages = $1::text::tstzmultirange",
        f"{{{ranges}}}",
    )


async def wait_since(conn: Any, trigger: Trigger, due: datetime) -> None:
    """Time passes: the trigger's first open due time is this one."""
    await conn.execute("update atlas.job_triggers set next_fire_at = $2 where id = $1", trigger.id, due)


async def fires(conn: Any, trigger: Trigger) -> list[tuple[str, datetime | None]]:
    """What a trigger did: (result, due time), in the order of the due times; without those that it missed."""
    rows = await conn.fetch(
        "select result::text, due_at from atlas.trigger_fires where trigger_id = $1 and result <> 'missed' order by due_at, id",
        trigger.id,
    )
    return [tuple(row) for row in rows]


async def missed(conn: Any, trigger: Trigger) -> list[datetime]:
    """The due times that a trigger missed, in their order."""
    rows = await conn.fetch(
        "select due_at from atlas.trigger_fires where trigger_id = $1 and result = 'missed' order by due_at", trigger.id
    )
    return [row["due_at"] for row in rows]


async def jobs_of(conn: Any, trigger: Trigger) -> list[Any]:
    """The jobs a trigger made, in order."""
    return list(await conn.fetch("select * from atlas.jobs where source_ref = $1 order by id", str(trigger.id)))


async def actions(conn: Any, trigger: Trigger) -> list[str]:
    """The audited actions of a trigger."""
    rows = await conn.fetch("select action from atlas.audit_log where entity_id = $1 order by id", str(trigger.id))
    return [row["action"] for row in rows]


def hours(count: float) -> timedelta:
    return timedelta(hours=count)
