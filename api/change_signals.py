"""Hints from the database that something changed, for those who would otherwise look again and again."""

import asyncio

from atlas.db.notifications import Listener


class ChangeSignal:
    """Rings for everyone who waits at that moment."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def next(self) -> asyncio.Event:
        """The next ring. Taken before one looks, no ring is missed in between."""
        return self._next

    def ring(self) -> None:
        """Let everyone look."""
        self._next.set()
        self._next = asyncio.Event()


class ChangeSignals:
    """A bell for each kind of change. A lost hint costs those who wait a moment, never an answer."""

    CHANNELS = ("atlas_jobs", "atlas_gate", "atlas_cancel")

    def __init__(self, url: str) -> None:
        self.jobs = ChangeSignal()
        self.gate = ChangeSignal()
        self.closing = False
        self._listener = Listener(url, self.CHANNELS, self._heard)

    @property
    def hears(self) -> bool:
        """True if hints arrive."""
        return self._listener.hears

    @property
    def lag_seconds(self) -> float | None:
        """How long the last notification that the listener sent itself was under way."""
        return self._listener.lag_seconds

    def start(self) -> None:
        self._listener.start()

    def close(self) -> None:
        """Send everyone who waits away with what there is: the process is about to end."""
        self.closing = True
        self.jobs.ring()
        self.gate.ring()

    async def stop(self) -> None:
        await self._listener.stop()

    def _heard(self, channel: str, _payload: str) -> None:
        if channel == "atlas_gate":
            self.gate.ring()
        self.jobs.ring()
