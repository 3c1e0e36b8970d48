"""Large batches: a body with many jobs must not keep others from the event loop, nor from the database.

A tenant has one large batch at work in this process, and all tenants together have a few; the others wait in the order
in which they came. What is done for each job is done in chunks, and between two of them the event loop serves others.
Before it writes the next rows, a batch waits for the single jobs that are being enqueued: their commits would wait for
the disk behind its rows.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TypeVar

from atlas.api.problems import TooManyRequests

T = TypeVar("T")

# Jobs of a body from which on it is a large batch.
LARGE_BATCH = 50
MAX_AT_ONCE = 2
# How long a batch waits for others of the same tenant, and for those of all.
WAIT_SECONDS = 10.0
AGAIN_SECONDS = 2.0
# Jobs that are checked without a pause, and rows that are written: fewer while single jobs come.
CHUNK = 20
ROWS = 100
ROWS_BESIDE_SINGLES = 25
# How long after the last single job another one is expected.
SINGLES_SECONDS = 1.0
# How long a batch waits for single jobs before each of its writes.
GIVE_WAY_SECONDS = 0.01


class BatchSlots:
    """Slots for large batches, in all and by key."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(MAX_AT_ONCE)
        self._each: dict[Hashable, tuple[asyncio.Lock, int]] = {}
        self._singles = 0
        self._last_single = -math.inf
        self._no_singles = asyncio.Event()
        self._no_singles.set()

    def begin_single(self) -> None:
        """A single job is being enqueued, until `end_single`."""
        self._singles += 1
        self._no_singles.clear()

    def end_single(self) -> None:
        """A single job is committed, or refused."""
        self._singles -= 1
        self._last_single = monotonic()
        if not self._singles:
            self._no_singles.set()

    async def give_way(self) -> None:
        """Wait until no single job is being enqueued, or for the longest time that a batch waits for them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GIVE_WAY_SECONDS):
                await self._no_singles.wait()

    def write_size(self) -> int:
        """Rows of a batch's next write: a single job that comes meanwhile waits until they are written."""
        is_alone = not self._singles and monotonic() - self._last_single > SINGLES_SECONDS
        return ROWS if is_alone else ROWS_BESIDE_SINGLES

    @asynccontextmanager
    async def taken(self, key: Hashable, jobs: int) -> AsyncIterator[None]:
        """Hold a slot for as long as the block lasts; a small batch needs none."""
        if jobs < LARGE_BATCH:
            yield
            return
        lock, calls = self._each.get(key, (asyncio.Lock(), 0))
        self._each[key] = (lock, calls + 1)
        try:
            async with asyncio.timeout(WAIT_SECONDS) as timer, lock, self._all:
                timer.reschedule(None)
                yield
        except TimeoutError:
            if not timer.expired():
                raise
            raise TooManyRequests("with large batches at the same time", AGAIN_SECONDS) from None
        finally:
            lock, calls = self._each.pop(key)
            if calls > 1:
                self._each[key] = (lock, calls - 1)


def chunks(items: Sequence[T], size: int = CHUNK) -> Iterator[tuple[int, Sequence[T]]]:
    """The parts of this size, each with the number of items before it."""
    for start in range(0, len(items), size):
        yield start, items[start : start + size]


async def breathe() -> None:
    """Let the event loop serve others between two chunks."""
    await asyncio.sleep(0)
