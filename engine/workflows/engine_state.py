"""Whether an engine turns intents into runs."""

from dataclasses import dataclass
from datetime import datetime

from atlas.db.pool import Queryable
from atlas.db.statements import statement

ENGINE = statement("engine/workflows/sql/engine_state.sql")

SILENT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class EngineState:
    """Whether an engine turns intents into runs, and how many wait for it."""

    last_tick_at: datetime | None
    silent_seconds: float | None
    waiting: int

    @property
    def is_silent(self) -> bool:
        """True if no engine has polled for so long that none can be running."""
        return self.silent_seconds is None or self.silent_seconds > SILENT_SECONDS


async def read_engine(conn: Queryable) -> EngineState:
    """When an engine last polled, by the database's clock."""
    row = await conn.fetchrow(ENGINE.sql)
    return EngineState(row["last_tick_at"], row["silent_seconds"], row["waiting"])
