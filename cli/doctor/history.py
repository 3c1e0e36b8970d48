"""Checks how many finished jobs the scheduler has yet to move into history."""

from atlas.cli.doctor.finding import Diagnosis, finding
from atlas.db.pool import Connection
from atlas.engine.retention.history import count_unfiled


async def check_history(conn: Connection) -> Diagnosis:
    """How many there are: millions for some time after an upgrade from a version without history."""
    unfiled = await count_unfiled(conn)
    if not unfiled.jobs:
        return finding("history", "all finished jobs were moved into it")
    about = "about " if unfiled.is_estimated else ""
    return finding("history", f"finished jobs that the scheduler has yet to move into it: {about}{unfiled.jobs:,}")
