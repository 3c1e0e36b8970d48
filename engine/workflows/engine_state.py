"""Whether an engine turns intents into runs."""

from atlas.db.pool import Queryable
from atlas.db.statements import statement
from atlas.models.rows import from_row
from atlas.models.system import EngineStatus

ENGINE = statement("engine/workflows/sql/engine_state.sql")

SILENT_SECONDS = 30.0


async def read_engine(conn: Queryable) -> EngineStatus:
    """When an engine last polled, by the database's clock. After 30 seconds without a poll none can be running."""
    row = await conn.fetchrow(ENGINE.sql)
    seconds = row["silent_seconds"]
    return from_row(EngineStatus, row, is_silent=seconds is None or seconds > SILENT_SECONDS)
