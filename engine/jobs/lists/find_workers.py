"""Reads the worker processes, which serve all tenants."""

from datetime import datetime

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.models.rows import from_rows
from atlas.models.system import WorkerStatus

LIST = statement("engine/jobs/lists/sql/list_workers.sql")


async def list_workers(
    conn: Connection, *, alive_only: bool = False, after: tuple[datetime, str] | None = None, limit: int | None = None
) -> list[WorkerStatus]:
    """The workers, newest first; dead ones are among them for a day. With `limit`, one page of them."""
    started_at, worker_id = after or (None, None)
    rows = await fetch(conn, LIST, alive_only=alive_only, started_at=started_at, worker_id=worker_id, limit=limit)
    return from_rows(WorkerStatus, rows)
