"""Keeps the triggers table in step with the schedules that stand beside the code.

A trigger that comes from the code names the module that declares it. Those of people have none, and are not touched.
A process removes a trigger only if it has that module and the module no longer declares it, or if the module itself is
gone from a package that the process has. So programs with different modules share a database without removing each
other's schedules.
"""

import importlib.util
import sys
from uuid import UUID

import asyncpg

from atlas.actors import Actor
from atlas.db.pool import TRANSACTION_SECONDS, UNREACHABLE, Connection, Pool, borrow
from atlas.db.statements import fetch, statement
from atlas.engine.schedules.code_schedules import CodeSchedule, declared_schedules
from atlas.engine.tenants.tenants import find_tenant
from atlas.engine.triggers.find import trigger_of
from atlas.engine.triggers.store import add_trigger, edit_trigger, remove_trigger
from atlas.errors import AtlasError
from atlas.logs import get_logger
from atlas.models.triggers import Trigger

FROM_CODE = statement("engine/triggers/sql/from_code.sql")

log = get_logger("schedules")

# Whom a schedule belongs to, and the kind and the name of what it starts.
Key = tuple[UUID, str, str]


async def sync_code_schedules(pool: Pool) -> None:
    """Add, change and remove triggers as the code of this process says. What cannot be done is logged."""
    try:
        async with borrow(pool, within=TRANSACTION_SECONDS) as conn:
            stored = {
                (trigger.tenant_id, *trigger.target): trigger
                for trigger in map(trigger_of, await fetch(conn, FROM_CODE))
            }
            declared_ids = {await _set(conn, schedule, stored) for schedule in declared_schedules().values()}
            for key, trigger in stored.items():
                if key not in declared_ids and trigger.declared_by is not None and _no_longer_says(trigger.declared_by):
                    await remove_trigger(conn, trigger.id, actor=_actor(trigger.declared_by))
                    log.info("schedule of the code removed", trigger_id=str(trigger.id), target=key[2])
    except (*UNREACHABLE, asyncpg.PostgresError, AtlasError) as error:
        log.error("schedules of the code were not compared", reason=str(error))


async def _set(conn: Connection, schedule: CodeSchedule, stored: dict[Key, Trigger]) -> Key | None:
    """Have one schedule stored as the code says, and return its key. None: its tenant is unknown."""
    actor = _actor(schedule.module)
    key: Key | None = None
    try:
        tenant_id = (await find_tenant(conn, schedule.tenant)).id
        key = (tenant_id, schedule.kind, schedule.name)
        when = {"cron_expr": schedule.cron, "timezone": schedule.timezone}
        trigger = stored.get(key)
        if trigger is None:
            described = {"label": schedule.name, "trigger_type": "schedule", schedule.kind: schedule.name, **when}
            await add_trigger(conn, tenant_id, described, actor=actor, declared_by=schedule.module)
        elif (trigger.cron_expr, trigger.timezone) != (schedule.cron, schedule.timezone):
            await edit_trigger(conn, trigger.id, when, actor=actor)
    except asyncpg.UniqueViolationError:
        pass  # Another process that starts now has added it.
    except AtlasError as error:
        facts = {"target": schedule.name, "module": schedule.module, "tenant": schedule.tenant}
        log.error("schedule of the code cannot be set", **facts, reason=str(error))
    return key


def _no_longer_says(module: str) -> bool:
    """True where this process has the module, or its package without the module."""
    if module in sys.modules:
        return True
    if module.partition(".")[0] not in sys.modules:
        return False
    try:
        return importlib.util.find_spec(module) is None
    except (ImportError, ValueError):
        return True


def _actor(module: str) -> Actor:
    return Actor("system", f"code:{module}")
