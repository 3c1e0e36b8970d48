"""What large batches of one tenant cost another tenant: the latency of single `POST /jobs` calls beside them.

A bystander posts one job every 20 ms, first alone, then while an attacker keeps 8 connections busy with 1,000 jobs in
each body. The attacker sends its next body as soon as it has a response, and 50 ms after a 429. One API process serves
both; no worker runs. A second bystander calls an endpoint of a bare FastAPI application in the same process, which
parses the same body and needs no database: what that one waits for is the event loop and the processor. With `--pin`
the attacker has one processor, and everything else another.

    python -m bench.batches [--seconds 10] [--connections 8] [--jobs 1000] [--pin] [--no-rates]
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import time
from collections import Counter
from multiprocessing.synchronize import Event

import uvloop

from atlas.api.limits.rates import Rates
from atlas.db.pool import open_pool
from bench.api_calls import ENQUEUE, NO_RATES, PARSE, BenchCaller, add_enqueuers, database, programs, serve

EVERY = 0.02
AFTER_REFUSAL = 0.05


def attack(token: str, jobs: int, connections: int, processor: int | None, began: Event, ended: Event) -> None:
    """Post batches over several connections, and print how many there were by status."""
    if processor is not None:
        os.sched_setaffinity(0, {processor})
    statuses: Counter[int] = Counter()

    def on_response(caller: BenchCaller, status: int, _response: bytes) -> None:
        statuses[status] += 1
        began.set()
        if ended.is_set():
            caller.close()
        elif status == 201:
            caller.send()
        else:
            asyncio.get_running_loop().call_later(AFTER_REFUSAL, caller.send)

    async def hammer() -> None:
        # The API may close a connection whose body it has refused.
        while not ended.is_set():
            caller = await BenchCaller(ENQUEUE, token, jobs, on_response).open()
            caller.send()
            await caller.ended

    async def run() -> None:
        await asyncio.gather(*(hammer() for _ in range(connections)))

    uvloop.run(run())
    print(f"the attacker's responses by status: {dict(statuses)}", flush=True)


async def bystand(path: str, token: str, seconds: float) -> list[float]:
    """Milliseconds of each single call, in their order of length."""
    response: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    caller = await BenchCaller(path, token, 1, lambda _caller, status, _response: response.set_result(status)).open()
    times = []
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        response = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        caller.send()
        status = await response
        if status != 201:
            raise RuntimeError(f"the bystander was refused: {status}")
        times.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(max(0.0, EVERY - (time.perf_counter() - began)))
    caller.close()
    return sorted(times)


async def bystand_both(token: str, seconds: float) -> dict[str, list[float]]:
    """The same for both endpoints at the same time."""
    paths = (ENQUEUE, PARSE)
    return dict(zip(paths, await asyncio.gather(*(bystand(path, token, seconds) for path in paths)), strict=True))


async def measure(url: str, options: argparse.Namespace) -> None:
    """Print the bystanders' latency alone and beside the attacker, and the ratio."""
    pool = await open_pool(url, size=1)
    bystander, attacker = await add_enqueuers(pool, "bystander", "attacker")
    await pool.close()
    await bystand_both(bystander, 2)
    alone = await bystand_both(bystander, options.seconds)
    spawn = multiprocessing.get_context("spawn")
    began, ended = spawn.Event(), spawn.Event()
    batches = (attacker, options.jobs, options.connections, 1 if options.pin else None, began, ended)
    process = spawn.Process(target=attack, args=batches)
    process.start()
    try:
        await asyncio.to_thread(began.wait, 60)
        crowded = await bystand_both(bystander, options.seconds)
    finally:
        ended.set()
        await asyncio.to_thread(process.join)
    for path in alone:
        print(f"{path} alone: {_shown(alone[path])}")
        print(f"{path} beside batches: {_shown(crowded[path])}")
        print(f"{path} ratio of p95: {_p95(crowded[path]) / _p95(alone[path]):.2f}")


def _p95(times: list[float]) -> float:
    return times[int(len(times) * 0.95)]


def _shown(times: list[float]) -> str:
    return f"p50 {statistics.median(times):.1f} ms, p95 {_p95(times):.1f} ms, slowest {times[-1]:.1f} ms"


async def main(options: argparse.Namespace) -> None:
    """Bring a server and the API up, measure, and take them down."""
    if options.pin:
        os.sched_setaffinity(0, {0})
    rates = NO_RATES if options.no_rates else Rates()
    async with database() as (_, url), programs((serve, (url, rates))):
        await measure(url, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.batches", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=8, help="of the attacker")
    parser.add_argument("--jobs", type=int, default=1000, help="in each of the attacker's bodies")
    parser.add_argument("--pin", action="store_true", help="the attacker on processor 1, everything else on 0")
    parser.add_argument("--no-rates", action="store_true", help="without rate limits")
    uvloop.run(main(parser.parse_args()))
