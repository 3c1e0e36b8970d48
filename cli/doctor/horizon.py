"""Checks whether something holds the xmin horizon, and names it."""

import asyncpg

from atlas.cli.doctor.finding import Diagnosis, finding
from atlas.db.pool import Connection
from atlas.engine.xmin_horizon import MIN_SECONDS, find_holders

NOT_READ = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InvalidSchemaNameError)


async def check_horizon(conn: Connection) -> Diagnosis:
    """The oldest holder, and how many others there are."""
    try:
        holders = await find_holders(conn)
    except NOT_READ:
        return Diagnosis("xmin horizon", "ok", "not checked before the first migration")
    if not holders:
        return finding("xmin horizon", f"nothing has held it for {MIN_SECONDS:.0f} s")
    oldest, *others = holders
    more = f" And {len(others)} more." if others else ""
    return finding("xmin horizon", oldest.cause + more, warn=True, remedy=oldest.remedy)
