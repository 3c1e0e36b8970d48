"""Workers in their own processes, for tests that kill them or cannot share an event loop with them."""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support import ROOT


async def start_worker(
    url: str,
    *,
    lease: float = 1.0,
    types: str = "test.effect",
    concurrency: int = 50,
    app: str = "tests.workers.handlers",
    stderr: Any = asyncio.subprocess.DEVNULL,
) -> Any:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "atlas.cli.main", "worker", "--types", types, "--app", app),
        *("--concurrency", str(concurrency), "--poll-ms", "200"),
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "ATLAS_LEASE_SECONDS": str(lease), "ATLAS_GRACE_SECONDS": "2"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=stderr,
    )


@asynccontextmanager
async def workers(url: str, count: int, **options: Any) -> AsyncIterator[list[Any]]:
    running = [await start_worker(url, **options) for _ in range(count)]
    try:
        yield running
    finally:
        for one in running:
            if one.returncode is None:
                one.kill()
        await asyncio.gather(*(one.wait() for one in running))


class Faults:
    """Of every four toggles under load, a worker is frozen during the second and killed before the fourth."""

    def __init__(self, running: list[Any], url: str, *, seed: int, **options: Any) -> None:
        self._running = running
        self._url = url
        self._dice = random.Random(seed)
        self._options = options

    async def wait_for_all(self, pool: Any) -> None:
        """Until every worker has registered."""
        async with asyncio.timeout(60):
            while await pool.fetchval("select count(*) from atlas.job_workers") < len(self._running):
                await asyncio.sleep(0.05)

    async def strike(self, number: int) -> None:
        """Before a toggle."""
        await asyncio.sleep(0.1 * self._dice.random())
        self._victim = self._dice.randrange(len(self._running))
        self._freezes, self._kills = number % 4 == 1, number % 4 == 3
        if self._freezes:
            self._running[self._victim].send_signal(signal.SIGSTOP)
        if self._kills:
            self._running[self._victim].kill()

    async def thaw(self) -> None:
        """After it, with some time for what must not happen."""
        if self._freezes:
            self._running[self._victim].send_signal(signal.SIGCONT)
        await asyncio.sleep(0.6 if self._freezes else 0.1)

    async def replace(self) -> None:
        """Start another worker for one that was killed."""
        if self._kills:
            await self._running[self._victim].wait()
            self._running[self._victim] = await start_worker(self._url, **self._options)
