"""Workers in their own processes, for tests that kill them or cannot share an event loop with them."""

import asyncio
import os
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
    stderr: Any = asyncio.subprocess.DEVNULL,
) -> Any:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "atlas.cli.main", "worker", "--types", types, "--app", "tests.workers.handlers"),
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
