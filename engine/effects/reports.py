"""The last reconciliation with each provider: stored, listed, and an alert while it shows differences."""

from typing import Any, cast

import orjson

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, statement
from atlas.models.effect_reports import EffectReport

SAVE = statement("engine/effects/sql/save_report.sql")

PREFIX = "effects_report:"


async def save_report(conn: Connection, report: EffectReport, *, actor: Actor) -> None:
    """Store the report in place of the provider's last one, and record it.

    The event holds the rows. They are of all tenants, and the stored report can be read by each.
    """
    document = report.model_dump(mode="json")
    counts = {name: value for name, value in document.items() if name not in ("provider", "rows")}
    level: Any = "warn" if report.differences else "info"
    async with conn.transaction():
        stored = orjson.dumps({**document, "rows": []}).decode()
        await fetch(conn, SAVE, key=PREFIX + report.provider, value=stored, by=actor.id)
        meta = {**counts, "rows": document["rows"]}
        await record(conn, Event("EFFECTS_RECONCILED", "provider", report.provider, actor, level=level, meta=meta))


async def list_reports(conn: Connection) -> list[EffectReport]:
    """The last report of each provider, by name, without rows: the audit log has those."""
    rows = await prisma_on(conn).systemstate.find_many(where={"key": {"startswith": PREFIX}}, order={"key": "asc"})
    return [EffectReport(**cast("dict[str, Any]", row.value)) for row in rows]
