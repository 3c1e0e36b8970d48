"""How much of what an HTTP server can do is left when a request becomes a committed job.

One uvicorn process serves two addresses in turn: `POST /api/v1/jobs`, which checks the caller, commits the job with its
audit row and responds, and an endpoint of a bare FastAPI application that only parses and validates the same body. A
worker drains the queue meanwhile, and Postgres, the API, the worker and the caller share the machine; the queue is
empty before the bare endpoint's turn. The figure is the ratio of the two rates. Beside it stands how much processor
time each program spent on a request, which other work on the machine does not change much. Both are measured with one
job in a body, and with 100.

    python -m bench.api [--seconds 5] [--connections 32] [--rounds 3] [--jobs 1 100]
    python -m bench.api --summary 5000000
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import sys
import time
from typing import Any

import psutil
import uvloop

from atlas.db.pool import Pool, open_pool
from atlas.logs import configure_logs
from atlas.workers.worker import Worker, WorkerOptions
from bench.api_calls import ENQUEUE, NO_RATES, PARSE, BenchCaller, add_enqueuers, database, programs, serve
from bench.api_summary import measure_summary


def work(url: str) -> None:
    """A worker with the usual settings."""

    async def run() -> None:
        configure_logs("warning")
        pool = await open_pool(url, size=6)
        worker = Worker(pool, url, WorkerOptions(["bench.noop"]))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()
        await pool.close()

    uvloop.run(run())


async def rate(path: str, token: str, *, seconds: float, connections: int, jobs: int = 1) -> float:
    """Requests a second with the response 201, over connections that send the next one as soon as they have it."""
    responses = 0
    wrong: bytes | None = None

    def on_response(caller: BenchCaller, status: int, response: bytes) -> None:
        nonlocal responses, wrong
        responses += 1
        if status != 201:
            wrong = response
        if wrong or time.perf_counter() >= until:
            caller.close()
        else:
            caller.send()

    began = time.perf_counter()
    until = began + seconds
    callers = [await BenchCaller(path, token, jobs, on_response).open() for _ in range(connections)]
    for caller in callers:
        caller.send()
    await asyncio.gather(*(caller.ended for caller in callers))
    if wrong:
        raise SystemExit(f"an unexpected response: {wrong[:500]!r}")
    return responses / (time.perf_counter() - began)


class Clock:
    """Processor time of each program."""

    def __init__(self, programs: dict[str, psutil.Process]) -> None:
        self._programs = programs
        self.spent: dict[str, list[float]] = {name: [] for name in programs}

    def read(self) -> dict[str, float]:
        seconds = {name: _seconds(program) for name, program in self._programs.items()}
        seconds["postgres"] += sum(map(_seconds, self._programs["postgres"].children()))
        return seconds

    def note(self, before: dict[str, float], requests: float) -> None:
        """Keep what a request cost since then, in microseconds."""
        for name, now in self.read().items():
            self.spent[name].append((now - before[name]) / requests * 1e6)

    @property
    def medians(self) -> dict[str, int]:
        return {name: round(statistics.median(values)) for name, values in self.spent.items()}


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


async def drained(pool: Pool) -> None:
    """Wait until the worker has done everything."""
    while await pool.fetchval("select exists (select from atlas.jobs where status in ('queued', 'running'))"):
        await asyncio.sleep(0.1)


async def measure(url: str, options: argparse.Namespace, watched: dict[str, psutil.Process]) -> dict[str, Any]:
    """For each size of a body both rates in turn, so that what else happens on the machine touches both."""
    pool = await open_pool(url, size=1)
    [token] = await add_enqueuers(pool, "bench")
    figures = {}
    for jobs in options.jobs:
        load = {"connections": options.connections, "jobs": jobs}
        for path in (PARSE, ENQUEUE):
            await rate(path, token, seconds=1, **load)
        pairs = []
        clocks = {PARSE: Clock(watched), ENQUEUE: Clock(watched)}
        for _ in range(options.rounds):
            pair = []
            for path, clock in clocks.items():
                await drained(pool)
                before = clock.read()
                pair.append(await rate(path, token, seconds=options.seconds, **load))
                clock.note(before, pair[-1] * options.seconds)
            pairs.append((pair[0], pair[1]))
        ratios = [enqueue / parse for parse, enqueue in pairs]
        figures[f"{jobs} in a body"] = {
            "parse_per_second": round(statistics.median(parse for parse, _ in pairs)),
            "enqueue_per_second": round(statistics.median(enqueue for _, enqueue in pairs)),
            "ratio": round(statistics.median(ratios), 3),
            "ratios": [round(ratio, 3) for ratio in ratios],
            "cpu_us_per_request": {"parse": clocks[PARSE].medians, "enqueue": clocks[ENQUEUE].medians},
        }
    await pool.close()
    return figures


async def main(options: argparse.Namespace) -> dict[str, Any]:
    """Bring a server, the API and a worker up, measure, and take them down."""
    async with database() as (home, url):
        if options.summary:
            return await measure_summary(url, options.summary)
        async with programs((serve, (url, NO_RATES)), (work, (url,))) as (api, worker):
            postmaster = int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
            pids = {"api": api.pid, "worker": worker.pid, "postgres": postmaster, "caller": os.getpid()}
            return await measure(url, options, {name: psutil.Process(pid) for name, pid in pids.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 100], help="how many jobs a body holds")
    parser.add_argument(
        "--summary", type=int, metavar="ROWS", help="time GET /jobs/summary over this many jobs instead"
    )
    with contextlib.suppress(KeyboardInterrupt):
        figures = uvloop.run(main(parser.parse_args()))
        sys.stdout.write(json.dumps(figures, indent=2) + "\n")
