"""The clocks of the Python peers; `node/measure.mjs` holds the same for the Node peers.

`perf_counter` is the machine's monotonic clock, which all processes share.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

from bench.peers.databases import connected
from bench.peers.peer import BULK, INTERVAL, WARM_UP, Call, Peer

Clock = time.perf_counter
IDLE_SECONDS = 0.5


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


class Moments:
    """Remembers the moment of each numbered job, from any thread."""

    def __init__(self, jobs: int) -> None:
        self.expected = jobs + WARM_UP
        self.at: dict[int, float] = {}
        self.all = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def note(self, number: int) -> None:
        """The handler of this job has started. A job of a backlog has a number below zero."""
        if number < 0:
            return
        self.at[number] = Clock()
        if len(self.at) == self.expected:
            self._loop.call_soon_threadsafe(self.all.set)

    async def wait(self, ready: Callable[[], None]) -> list[float]:
        """Let the worker become idle, say so, and wait for every job."""
        await asyncio.sleep(IDLE_SECONDS)
        ready()
        await self.all.wait()
        return [self.at[number] for number in range(self.expected)]


async def produced(jobs: int, enqueue: Callable[[int], Awaitable[object]]) -> list[Call]:
    """Enqueue a job every `INTERVAL`; when each call began and returned."""
    calls = []
    for number in range(jobs + WARM_UP):
        called = Clock()
        await enqueue(number)
        calls.append((called, Clock()))
        await asyncio.sleep(max(0.0, INTERVAL - (Clock() - called)))
    return calls


async def in_one_process(peer: Peer, database_url: str, jobs: int) -> tuple[list[float], list[Call]]:
    """A worker and a producer side by side in this process: the moments of the jobs, and the calls."""
    ready = asyncio.Event()
    working = asyncio.create_task(peer.work(database_url, jobs, ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    if not ready.is_set():
        waiting.cancel()
        return await working, []
    calls = await peer.produce(database_url, jobs)
    return await working, calls


def delays(moments: list[float], calls: list[Call]) -> tuple[list[float], list[float]]:
    """Seconds from each call, and from each return, to the moment of its job, without the first ones."""
    pairs = list(zip(moments, calls, strict=True))[WARM_UP:]
    return [at - called for at, (called, _) in pairs], [max(0.0, at - returned) for at, (_, returned) in pairs]


async def timed(work: Awaitable[object]) -> float:
    """Seconds that the work takes."""
    started_at = Clock()
    await work
    return Clock() - started_at


def pieces(jobs: int) -> Iterator[range]:
    """The numbers of the jobs, cut for a bulk call."""
    for start in range(0, jobs, BULK):
        yield range(start, min(start + BULK, jobs))
