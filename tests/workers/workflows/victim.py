"""Worker processes that kill themselves at a chosen point: `python -m tests.workers.workflows.victim URL LOG`.

For every point read from stdin a worker is forked, and its exit code is printed. The workflow has six steps. A point
is `before N` (the step's work is done and not recorded), `after N` (it is recorded and returned to the workflow's
function), or `never`. What happened is appended to LOG, one entry a line.
"""

import asyncio
import os
import signal
import sys
from typing import Any

import atlas.workers.workflows
from atlas.db.pool import open_pool
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.logs import configure_logs
from atlas.workers.worker import Worker, WorkerOptions

STEPS = 6


def log(line: str) -> None:
    with open(sys.argv[2], "a") as file:
        file.write(line + "\n")


chosen = "never"


def die_at(point: str) -> None:
    if chosen == point:
        log(f"died {point}")
        os.kill(os.getpid(), signal.SIGKILL)


async def effect(number: int) -> int:
    log(f"did {number}")
    die_at(f"before {number}")
    return number


@workflow("victim")
async def victim(run: Run, input: dict[str, Any]) -> dict[str, Any]:
    """Six steps, and a chance to die around each."""
    total = 0
    for number in range(1, STEPS + 1):
        total += await run.step(f"step {number}", effect, number, retries=0)
        if number not in done_before():
            log(f"recorded {number}")
        die_at(f"after {number}")
    return {"total": total}


def done_before() -> set[int]:
    with open(sys.argv[2]) as file:
        return {int(line.split()[1]) for line in file if line.startswith("recorded")}


async def work() -> None:
    """Drain, or die trying."""
    assert atlas.workers.workflows
    pool = await open_pool(sys.argv[1], size=8)
    await Worker(pool, sys.argv[1], WorkerOptions(["ENGINE_RUN"], poll=0.1, lease=30, drain=True)).run()
    await pool.close()


def main() -> None:
    """Fork a worker for each point."""
    global chosen
    configure_logs("error")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            chosen = line.strip()
            asyncio.run(work())
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
