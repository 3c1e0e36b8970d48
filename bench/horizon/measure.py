"""Runs one load: a worker process, a process that enqueues, and a holder of the horizon; counts by windows."""

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import psutil

from bench.horizon.holders import Holder
from bench.horizon.starts import quantile
from bench.peers.databases import connected

WINDOW_SECONDS = 15
DEAD_ROWS = "select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables"


@dataclass(slots=True)
class LoadWindow:
    """What happened in some seconds. Times are in ms; CPU is in ms for each finished job."""

    seconds: float = 0.0
    offered: int = 0
    done: int = 0
    latencies: Counter[int] = field(default_factory=Counter)
    worker_cpu: float = 0.0
    server_cpu: float = 0.0
    # At its end.
    backlog: int = 0
    dead_rows: int = 0
    worker_mb: float = 0.0

    def __add__(self, later: "LoadWindow") -> "LoadWindow":
        return replace(
            later,
            seconds=self.seconds + later.seconds,
            offered=self.offered + later.offered,
            done=self.done + later.done,
            latencies=self.latencies + later.latencies,
            worker_cpu=self.worker_cpu + later.worker_cpu,
            server_cpu=self.server_cpu + later.server_cpu,
        )

    @property
    def p50(self) -> float | None:
        return quantile(self.latencies, 0.5)

    @property
    def p99(self) -> float | None:
        return quantile(self.latencies, 0.99)

    @property
    def cpu_per_job(self) -> float:
        """Of the worker and the server together, in ms."""
        return 1000 * (self.worker_cpu + self.server_cpu) / max(self.done, 1)


def joined(windows: Iterable[LoadWindow]) -> LoadWindow:
    """All of them as one."""
    total = LoadWindow()
    for window in windows:
        total += window
    return total


@dataclass(frozen=True, slots=True)
class Programs:
    """The command lines of a worker, and of a load by its rate and seconds."""

    worker: list[str]
    load: Callable[[float, float], list[str]]


@dataclass(frozen=True, slots=True)
class Measured:
    """The windows without a holder and those beside it, and single wake-ups, before and beside it, p50 in ms."""

    before: list[LoadWindow]
    held: list[LoadWindow]
    wakeup_before: float | None
    wakeup_held: float | None


class Measurement:
    """One load on one database."""

    def __init__(
        self, url: str, postmaster: int, programs: Programs, show: Callable[[str, float, LoadWindow], None]
    ) -> None:
        self._url = url
        self._programs = programs
        self._show = show
        self._server = CpuTime(postmaster)
        self._now = LoadWindow()
        self._began = time.monotonic()

    async def run(self, holder: Holder, rate: float, *, before: float, seconds: float) -> Measured:
        """Measure without a holder first, then beside it."""
        async with self.working() as worker:
            first = await self.offer(worker, "before", rate, WINDOW_SECONDS + before)
            await self._drain()
            wakeup_before = await self._wake_up(worker)
            async with holder(self._url):
                beside = await self.offer(worker, "held", rate, seconds)
                await self._drain()
                wakeup_held = await self._wake_up(worker)
        # In the first window connections open and plans are made.
        return Measured(first[1:] or first, beside, wakeup_before, wakeup_held)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[psutil.Process]:
        """A worker, for as long as the block."""
        worker = await _start(self._programs.worker)
        reading = asyncio.create_task(self._read(worker))
        try:
            await asyncio.sleep(2)
            yield psutil.Process(worker.pid)
        finally:
            if worker.returncode is None:
                worker.terminate()
            await asyncio.gather(worker.wait(), reading)

    async def _wake_up(self, worker: psutil.Process) -> float | None:
        """The p50 of single jobs on an idle worker."""
        found = await self.offer(worker, "", 20, 3)
        return joined(found).p50

    async def offer(self, worker: psutil.Process, phase: str, rate: float, seconds: float) -> list[LoadWindow]:
        """The windows of one load; without a phase, nothing is shown."""
        windows: list[LoadWindow] = []
        load = await _start(self._programs.load(rate, seconds))
        assert load.stdout is not None
        await load.stdout.readline()  # it begins
        self._now = LoadWindow(backlog=self._now.backlog)
        reading = asyncio.create_task(self._read(load))
        began = time.monotonic()
        cpu = sum(worker.cpu_times()[:2])
        self._server.take()
        while load.returncode is None:
            ends = began + (len(windows) + 1) * WINDOW_SECONDS
            while (now := time.monotonic()) < ends and load.returncode is None:
                await asyncio.wait([asyncio.ensure_future(load.wait())], timeout=min(1.0, ends - now))
                self._now.server_cpu += self._server.take()
            if load.returncode is not None:
                await reading
                assert load.returncode == 0, "the load failed"
            window, self._now = self._now, LoadWindow(backlog=self._now.backlog)
            window.seconds = min(time.monotonic() - ends + WINDOW_SECONDS, seconds - len(windows) * WINDOW_SECONDS)
            cpu, window.worker_cpu = (spent := sum(worker.cpu_times()[:2])), spent - cpu
            window.worker_mb = worker.memory_info().rss / 2**20
            window.dead_rows = await self._dead_rows()
            # The end of a load that does not fill a window is too short for a rate.
            if window.seconds > 1 or not windows:
                windows.append(window)
                if phase:
                    self._show(phase, time.monotonic() - began, window)
        return windows

    async def _drain(self) -> None:
        """Wait a while for the backlog: wake-ups are measured on an idle worker."""
        for _ in range(30):
            if self._now.backlog <= 0:
                return
            await asyncio.sleep(1)

    async def _dead_rows(self) -> int:
        async with connected(self._url) as conn:
            return int(await conn.fetchval(DEAD_ROWS))

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            report = json.loads(line)
            self._now.offered += report.get("offered", 0)
            self._now.done += report.get("done", 0)
            self._now.backlog += report.get("offered", 0) - report.get("done", 0)
            self._now.latencies.update({int(bucket): count for bucket, count in report.get("latencies", {}).items()})


class CpuTime:
    """The processor time of a server and its processes. What a process used that has ended since is not seen."""

    def __init__(self, postmaster: int) -> None:
        self._postmaster = psutil.Process(postmaster)
        self._seen: dict[int, float] = {}

    def take(self) -> float:
        """Seconds since the last call."""
        spent: dict[int, float] = {}
        for process in [self._postmaster, *self._postmaster.children()]:
            try:
                spent[process.pid] = sum(process.cpu_times()[:2])
            except psutil.NoSuchProcess:
                continue
        used = sum(seconds - self._seen.get(pid, 0.0) for pid, seconds in spent.items())
        self._seen = spent
        return max(used, 0.0)


async def _start(arguments: list[str]) -> Process:
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE, limit=2**20)
