"""What someone should look at: workers and hosts that fell silent, intents nobody decides, a rise in failures."""

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from atlas.db.pool import Connection, Queryable
from atlas.db.statements import fetch, statement

LOOK = statement("engine/sql/watch.sql")
SAVE = statement("engine/sql/save_findings.sql")
READ = statement("engine/sql/read_findings.sql")

# A type needs this many runs within an hour, and this share of failures, before a rise is called one.
SPIKE_RUNS = 20
SPIKE_SHARE = 0.5
HOST_SILENT_SECONDS = 120.0
INTENT_STUCK_SECONDS = 60.0
ENGINE_SILENT_SECONDS = 60.0
WORKER_LOST_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Alert:
    """Something amiss: what kind, about what, and in words."""

    kind: str
    subject: str
    message: str


async def look(conn: Connection) -> list[Alert]:
    """Everything that is amiss now. Changes nothing; any number of programs may look."""
    rows = await fetch(
        conn,
        LOOK,
        spike_runs=SPIKE_RUNS,
        spike_share=SPIKE_SHARE,
        host_silent=HOST_SILENT_SECONDS,
        intent_stuck=INTENT_STUCK_SECONDS,
        engine_silent=ENGINE_SILENT_SECONDS,
        worker_lost=WORKER_LOST_SECONDS,
    )
    return [Alert(**row) for row in rows]


async def save_findings(conn: Connection, findings: list[Alert], *, by: str) -> None:
    """Keep the findings where every program can read them; writes only what differs from what is there."""
    found = orjson.dumps({"findings": [asdict(one) for one in findings]}).decode()
    await fetch(conn, SAVE, value=found, by=by)


async def read_findings(conn: Queryable) -> list[Alert]:
    """What the watchdogs found last."""
    text = await conn.fetchval(READ.sql)
    stored: dict[str, Any] = {} if text is None else orjson.loads(text)
    return [Alert(**one) for one in stored.get("findings", [])]
