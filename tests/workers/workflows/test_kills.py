"""Workers killed at every step boundary: a recorded step never runs again, and the run always ends."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import PROOF, ROOT
from tests.workers.workflows.victim import STEPS

POINTS = [f"{word} {number}" for number in range(1, STEPS + 1) for word in ("before", "after")]
ALONE = POINTS if PROOF else ["before 4", "after 4"]


class Victims:
    """Workers that die on demand."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def work(self, point: str) -> int:
        """Let a worker run until it dies at that point, or is done; returns its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{point}\n".encode())
        async with asyncio.timeout(60):
            return int(await self._process.stdout.readline())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


@pytest.fixture
async def victims(database_url: str, log: Path) -> AsyncIterator[Victims]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.workers.workflows.victim", database_url, str(log)),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    yield Victims(process)
    process.kill()
    await process.wait()


async def bury(pool) -> None:
    """What passes by itself after a lease: the dead worker's run goes back to the queue."""
    await pool.execute(
        "update atlas.job_workers set lease_expires_at = now() - interval '1 minute' where dead_at is null"
    )
    await pool.fetch("select * from atlas.reap_leases(100)")
    await pool.execute("update atlas.jobs set next_retry_at = null where status = 'queued'")


def reruns(lines: list[str]) -> int:
    """How often a step ran that was recorded before."""
    recorded: set[str] = set()
    again = 0
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "recorded":
            recorded.add(rest)
        elif word == "did" and rest in recorded:
            again += 1
    return again


@pytest.mark.long
async def test_one_run_killed_at_every_boundary_in_turn(kit, victims, log):
    run_id = await kit.ask("victim")
    await kit.tick()
    for point in POINTS:
        assert await victims.work(point) == -9
        assert (await kit.get(run_id)).status == "running"
        await bury(kit.pool)
    assert await victims.work("never") == 0

    run = await kit.get(run_id)
    lines = log.read_text().splitlines()
    print(f"kill at every boundary: {len(POINTS)} kills, {reruns(lines)} recorded steps ran again, run {run.status}")
    assert (run.status, run.output) == ("succeeded", {"total": 21})
    assert reruns(lines) == 0
    # Each step ran once more than it was recorded: the time its worker died with it.
    assert [lines.count(f"did {number}") for number in range(1, STEPS + 1)] == [2] * STEPS


@pytest.mark.parametrize("point", ALONE)
async def test_a_run_killed_once_runs_only_the_unrecorded_step_again(kit, victims, log, point):
    run_id = await kit.ask("victim")
    await kit.tick()
    assert await victims.work(point) == -9
    await bury(kit.pool)
    assert await victims.work("never") == 0

    word, number = point.split()
    lines = log.read_text().splitlines()
    assert (await kit.get(run_id)).status == "succeeded"
    assert reruns(lines) == 0
    assert [lines.count(f"did {n}") for n in range(1, STEPS + 1)] == [
        2 if word == "before" and n == int(number) else 1 for n in range(1, STEPS + 1)
    ]
