"""The outcomes that wait to be recorded, and the wake-ups of the connections that record them."""

import asyncio
from collections.abc import Iterable
from operator import attrgetter

from atlas.engine.jobs.finish import Finish

CONNECTIONS = 2
# Characters of the outputs that are recorded together. More would take longer than a lease on a slow connection, and
# Postgres takes no statement of a gigabyte.
MAX_CALL_CHARACTERS = 16 * 2**20

_output = attrgetter("output")


class FinishOutbox:
    """Outcomes in the order of their calls. `wakes` has an event for each connection."""

    def __init__(self) -> None:
        self._finishes: list[Finish] = []
        self.wakes = [asyncio.Event() for _ in range(CONNECTIONS)]

    def __len__(self) -> int:
        return len(self._finishes)

    def add(self, finish: Finish) -> None:
        """Record this one with the next call."""
        self._finishes.append(finish)

    def extend(self, finishes: Iterable[Finish]) -> None:
        """Record these with the next call."""
        self._finishes.extend(finishes)

    def put_back(self, finishes: list[Finish]) -> None:
        """Record these before all others: their call failed."""
        self._finishes[:0] = finishes

    def take(self) -> list[Finish]:
        """The outcomes to record next: all, unless their outputs are too large for one statement."""
        taken, self._finishes = self._finishes, []
        size = 0
        for count, output in enumerate(map(_output, taken)):
            if output is not None:
                size += len(output)
                if size > MAX_CALL_CHARACTERS and count:
                    self._finishes = taken[count:]
                    return taken[:count]
        return taken

    def clear(self) -> None:
        """Record nothing of this."""
        self._finishes.clear()

    def wake_one(self) -> None:
        """Let a connection that waits make a call."""
        for wake in self.wakes:
            if not wake.is_set():
                wake.set()
                return

    def wake_all(self) -> None:
        """Let every connection make a call."""
        for wake in self.wakes:
            wake.set()
