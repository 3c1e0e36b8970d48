"""Signals that something changed in the database, for tasks that would otherwise poll often."""

import asyncio
from collections.abc import Callable

from atlas.db.notifications import Listener


class ChangeSignal:
    """Wakes every task that waits for it."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def next(self) -> asyncio.Event:
        """The event of the next change. Take it before querying, and no change is missed."""
        return self._next

    def fire(self) -> None:
        """Wake all that wait."""
        self._next.set()
        self._next = asyncio.Event()


class ChangeSignals:
    """A signal for each kind of change. A lost notification delays those who wait, and loses nothing."""

    CHANNELS = ("jobs", "gate", "cancel", "credentials")

    def __init__(self, url: str, *, on_credential_ended: Callable[[], None]) -> None:
        self._on_credential_ended = on_credential_ended
        self.jobs = ChangeSignal()
        self.gate = ChangeSignal()
        self.closing = False
        self._listener = Listener(url, self.CHANNELS, self._notified)

    @property
    def hears(self) -> bool:
        """True if notifications arrive."""
        return self._listener.is_listening

    @property
    def lag_seconds(self) -> float | None:
        """How long the last notification that the listener sent to itself took."""
        return self._listener.lag_seconds

    def start(self) -> None:
        self._listener.start()

    def close(self) -> None:
        """Wake all that wait, so that they end: the process shuts down."""
        self.closing = True
        self.jobs.fire()
        self.gate.fire()

    async def stop(self) -> None:
        await self._listener.stop()

    def _notified(self, channel: str, _payload: str) -> None:
        if channel == "credentials":
            self._on_credential_ended()
            return
        if channel == "gate":
            self.gate.fire()
        self.jobs.fire()
