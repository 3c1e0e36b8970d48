"""Alerts for operators: lost workers, silent hosts, a silent engine, failures, the audit log, a held horizon."""

from typing import Any, cast

import orjson

from atlas.db.pool import Connection
from atlas.db.prisma import prisma_on
from atlas.db.statements import fetch, statement
from atlas.engine.xmin_horizon import find_holders
from atlas.models.rows import from_rows
from atlas.models.system import Alert

LOOK = statement("engine/sql/watch.sql")
SAVE = statement("engine/sql/save_findings.sql")

# At least this many runs of a type within an hour, with at least this share of failures, are a rise.
SPIKE_RUNS = 20
SPIKE_SHARE = 0.5
HOST_SILENT_SECONDS = 120.0
INTENT_STUCK_SECONDS = 60.0
ENGINE_SILENT_SECONDS = 60.0
WORKER_LOST_SECONDS = 600.0
# A place of copies may be away for so long.
COPY_LATE_SECONDS = 600.0


async def find_alerts(conn: Connection) -> list[Alert]:
    """The problems there are now. Changes nothing."""
    rows = await fetch(
        conn,
        LOOK,
        spike_runs=SPIKE_RUNS,
        spike_share=SPIKE_SHARE,
        host_silent=HOST_SILENT_SECONDS,
        intent_stuck=INTENT_STUCK_SECONDS,
        engine_silent=ENGINE_SILENT_SECONDS,
        worker_lost=WORKER_LOST_SECONDS,
        copy_late=COPY_LATE_SECONDS,
    )
    holders = await find_holders(conn)
    held = [
        Alert(
            kind="horizon_held",
            subject=f"{holder.kind} {holder.name}",
            message=f"{holder.what}. {holder.remedy}",
            since=holder.since,
        )
        for holder in holders
    ]
    return [*from_rows(Alert, rows), *held]


async def save_findings(conn: Connection, findings: list[Alert], *, by: str) -> None:
    """Store the findings for every process to read; writes only if they differ from the stored ones."""
    document = orjson.dumps({"findings": [dict(finding) for finding in findings]}).decode()
    await fetch(conn, SAVE, value=document, by=by)


async def read_findings(conn: Connection) -> list[Alert]:
    """The findings that a scheduler stored last."""
    row = await prisma_on(conn).systemstate.find_unique({"key": "watchdog"})
    stored = {} if row is None else cast("dict[str, Any]", row.value)
    return [Alert(**finding) for finding in stored.get("findings", [])]
