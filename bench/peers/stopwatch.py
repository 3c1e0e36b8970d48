"""The clocks of the Python peers; `node/measure.mjs` holds the same for the Node peers."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

from bench.peers.databases import connected
from bench.peers.peer import BULK, INTERVAL, WARM_UP

Clock = time.perf_counter


class Tally:
    """Counts handler runs, from any thread, and knows when the first began and the expected last was seen."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.runs = 0
        self.started_at = 0.0
        self.all = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()

    def add(self) -> None:
        """One handler has started."""
        with self._lock:
            if self.runs == 0:
                self.started_at = Clock()
            self.runs += 1
            if self.runs == self.expected:
                self._loop.call_soon_threadsafe(self.all.set)

    async def drained(self, database_url: str, unfinished: str) -> float:
        """Seconds from the first start until `unfinished` counts no job, asked only after the last start."""
        await self.all.wait()
        async with connected(database_url) as conn:
            while await conn.fetchval(unfinished) > 0:
                await asyncio.sleep(0.001)
            return Clock() - self.started_at


class Starts:
    """Remembers when the handler of each numbered job started."""

    def __init__(self, jobs: int) -> None:
        self.expected = jobs + WARM_UP
        self.started_at: dict[int, float] = {}
        self.all = asyncio.Event()

    def note(self, number: int) -> None:
        """The handler of this job has started. A job of a backlog has a number below zero."""
        if number < 0:
            return
        self.started_at[number] = Clock()
        if len(self.started_at) == self.expected:
            self.all.set()

    async def latencies(self, enqueue: Callable[[int], Awaitable[object]]) -> list[float]:
        """Enqueue a job every `INTERVAL`; seconds from each call's return to its handler's start."""
        returned_at = []
        for number in range(self.expected):
            tick = Clock()
            await enqueue(number)
            returned_at.append(Clock())
            await asyncio.sleep(max(0.0, INTERVAL - (Clock() - tick)))
        await self.all.wait()
        return [self.started_at[number] - at for number, at in enumerate(returned_at)][WARM_UP:]


async def timed(work: Awaitable[object]) -> float:
    """Seconds that the work takes."""
    started_at = Clock()
    await work
    return Clock() - started_at


def pieces(jobs: int) -> Iterator[range]:
    """The numbers of the jobs, cut for a bulk call."""
    for start in range(0, jobs, BULK):
        yield range(start, min(start + BULK, jobs))
