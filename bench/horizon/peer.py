"""A peer under the same load: `python -m bench.horizon.peer NAME URL work`, or `… URL offer RATE SECONDS`.

Prints what Atlas's worker and load print. Jobs carry the microsecond in which they were enqueued. A peer on Node.js
becomes this process.
"""

import asyncio
import os
import signal
import sys
import time
from contextlib import AbstractAsyncContextManager
from typing import Protocol, cast

import uvloop

from bench.horizon.load import pace
from bench.horizon.starts import REPORT_SECONDS, StartCounts
from bench.peers.measurement import load
from bench.peers.node import NodePeer
from bench.peers.peer import Enqueue, Started


class SteadyPeer(Protocol):
    """A Python peer that bears a steady load."""

    def serving(self, database_url: str, started: Started) -> AbstractAsyncContextManager[None]:
        """A worker that calls this with the number of each job."""

    def enqueuing(self, database_url: str) -> AbstractAsyncContextManager[Enqueue]:
        """Enqueues this many jobs with the same number in one call."""


async def work(peer: SteadyPeer, url: str) -> None:
    """Serve until SIGTERM."""
    starts, stop = StartCounts(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    def started(number: int) -> None:
        starts.started(number / 1e6)
        starts.done += 1

    async with peer.serving(url, started):
        while not stop.is_set():
            await asyncio.sleep(REPORT_SECONDS)
            starts.print()


async def offer(peer: SteadyPeer, url: str, rate: float, seconds: float) -> None:
    """Enqueue at a steady rate until the time is over."""
    async with peer.enqueuing(url) as enqueue:
        await pace(rate, seconds, lambda jobs: enqueue(len(jobs), int(time.time() * 1e6)))


def main(name: str, url: str, verb: str, rate: str = "0", seconds: str = "0") -> None:
    """Become a worker or a load."""
    peer = load(name, None)
    if isinstance(peer, NodePeer):
        command = asyncio.run(peer.command("serve" if verb == "work" else "offer", float(rate), float(seconds)))
        os.execve(command[0], command, {**os.environ, "DATABASE_URL": url})
    steady = cast(SteadyPeer, peer)
    uvloop.run(work(steady, url) if verb == "work" else offer(steady, url, float(rate), float(seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
