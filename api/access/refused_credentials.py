"""Refused credentials, as events of the audit log: one an address and minute, with how many there were.

An address that guesses cannot fill the log, nor can many: beyond some addresses a minute, the rest is one event.
"""

from collections import Counter

from atlas.actors import Actor
from atlas.api.access.caller_addresses import CallerAddresses
from atlas.api.db import Database
from atlas.audit.record import Event, record

MAX_ADDRESSES = 50
OTHERS = "others"
UNKNOWN = "unknown"


class RefusedCredentials:
    """Counts refusals by address until they are recorded."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, address: str | None) -> None:
        """Count one."""
        name = address or UNKNOWN
        self._counts[name if name in self._counts or len(self._counts) < MAX_ADDRESSES else OTHERS] += 1

    async def record(self, db: Database, addresses: CallerAddresses) -> None:
        """Record what was counted so far. An address is named by its commitment."""
        counts = dict(self._counts)
        if not counts:
            return
        events = []
        for address, count in sorted(counts.items()):
            has_address = address not in (OTHERS, UNKNOWN)
            commitment = await addresses.commitment(None, address) if has_address else None
            actor = Actor("system", "api", commitment)
            named = commitment or address
            events.append(Event("CREDENTIALS_REFUSED", "address", named, actor, level="warn", meta={"count": count}))
        async with db.transaction(None) as conn:
            for event in events:
                await record(conn, event)
        self._counts.subtract(counts)
        self._counts += Counter()
