"""Refused credentials, as events of the audit log: one an address and minute, with how many there were.

An address that guesses cannot fill the log, nor can many: beyond some addresses a minute, the rest is one event.
"""

import asyncio
from collections import Counter

import asyncpg

from atlas.actors import system
from atlas.api.db import Database
from atlas.api.problems import AWAY
from atlas.audit.record import Event, record
from atlas.logs import get_logger

MINUTE_SECONDS = 60.0
MOST_ADDRESSES = 50
OTHERS = "others"

log = get_logger("api")


class RefusedCredentials:
    """Counts refusals by address until they are recorded."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, address: str | None) -> None:
        """Count one."""
        name = address or "unknown"
        self._counts[name if name in self._counts or len(self._counts) < MOST_ADDRESSES else OTHERS] += 1

    async def run(self, db: Database) -> None:
        """Record every minute what was counted; what cannot be recorded now is kept for the next time."""
        while True:
            await asyncio.sleep(MINUTE_SECONDS)
            try:
                await self.record(db)
            except (*AWAY, asyncpg.PostgresError) as error:
                log.warning("refused credentials were not recorded", reason=str(error) or type(error).__name__)

    async def record(self, db: Database) -> None:
        """Record what was counted so far."""
        counts = dict(self._counts)
        if not counts:
            return
        async with db.transaction(None) as conn:
            for address, count in sorted(counts.items()):
                meta = {"count": count}
                event = Event("CREDENTIALS_REFUSED", "address", address, system("api"), level="warn", meta=meta)
                await record(conn, event)
        self._counts.subtract(counts)
        self._counts += Counter()
