"""Stores the progress of a running job. It is shown, not audited."""

from uuid import UUID

from atlas.db.pg_json import stored_json
from atlas.db.pool import Connection
from atlas.db.statements import fetch_value, statement

PROGRESS = statement("engine/jobs/attempts/sql/progress.sql")


async def report_progress(
    conn: Connection, claimant: str, job_id: UUID, attempt: int, *, percent: float | None, message: str | None
) -> bool:
    """Store how far an attempt is. False: the job is no longer this claimant's."""
    progress = {"percent": None if percent is None else max(0.0, min(100.0, float(percent))), "message": message}
    stored = await fetch_value(
        conn,
        PROGRESS,
        claimant=claimant,
        job_id=job_id,
        attempt=attempt,
        progress=stored_json({name: value for name, value in progress.items() if value is not None}),
    )
    return stored is not None
