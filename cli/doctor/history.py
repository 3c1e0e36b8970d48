"""Checks how many finished jobs the scheduler has yet to move into history."""

import asyncpg

from atlas.cli.doctor.finding import Diagnosis, finding
from atlas.db.pool import Connection
from atlas.engine.retention.history import count_unfiled


async def check_history(conn: Connection) -> Diagnosis:
    """How many there are: millions for some time after an upgrade from a version without history."""
    try:
        unfiled = await count_unfiled(conn)
    except asyncpg.InsufficientPrivilegeError as error:
        return Diagnosis("history", "warn", f"it could not be read: {error}", "See the check of the roles.")
    if not unfiled.jobs:
        return finding("history", "all finished jobs were moved into it")
    about = "about " if unfiled.is_estimated else ""
    return finding("history", f"finished jobs that the scheduler has yet to move into it: {about}{unfiled.jobs:,}")
