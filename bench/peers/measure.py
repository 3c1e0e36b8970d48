"""Measures Atlas and the chosen peers on one server, row by row, and gathers their figures."""

import os
import platform
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from statistics import median, quantiles
from typing import TypedDict

from bench.peers.databases import connected
from bench.peers.measurement import (
    ENGINES,
    QUEUES,
    Delays,
    PeerResult,
    in_own_process,
    measure_delays,
    to_delays,
)
from bench.peers.peer import NotMeasured, Sizes
from bench.peers.stores import own_store

ROWS = ("drain", "enqueue_singly", "enqueue_bulk", "latency", "workflows", "workflow_latency")
LATENCIES = ("latency", "workflow_latency")
# Atlas once more, where jobs are enqueued and run in one process.
IN_ONE_PROCESS = "atlas-in-one-process"
# A drain of all jobs would take minutes.
SMALLER_DRAINS = {"awa": 20, "procrastinate": 100}
TIMEOUT = 300.0


class Delay(TypedDict):
    """Milliseconds of all rounds together, and the lowest and highest of one round."""

    p50: float
    p99: float
    p50_spread: tuple[float, float]
    p99_spread: tuple[float, float]


class Figure(TypedDict, total=False):
    """One system in one row: amounts a second round by round, or delays; or why there is no figure."""

    version: str
    settings: str
    amount: int
    rates: list[float]
    after_call: Delay
    after_return: Delay
    reason: str


class PeerRow(TypedDict):
    """One row of one run: every system side by side."""

    taken_at: str
    machine: str
    server: str
    rounds: int
    systems: dict[str, Figure]


async def measure_row(
    server_url: str,
    row: str,
    sizes: Sizes,
    *,
    peers: Iterable[str],
    progress: Callable[[str], None] = lambda text: None,
) -> PeerRow:
    """Measure a row in stores of their own; a system that cannot be measured says why.

    Rounds go around all systems, so that a busy spell of the machine does not fall on one of them alone.
    """
    names = [name for name in _systems(row) if name in peers or name.startswith("atlas")]
    taken: dict[str, list[PeerResult | Delays]] = {name: [] for name in names}
    for number in range(sizes.rounds):
        for name, results in taken.items():
            if not any("reason" in result for result in results):
                progress(f"{row}: {name} ({number + 1} of {sizes.rounds})")
                results.append(await _measure_once(server_url, row, name, sizes))
    return {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "server": await _server(server_url),
        "rounds": sizes.rounds,
        "systems": {name: _figure(results, amount_of(row, sizes, name)) for name, results in taken.items()},
    }


def _systems(row: str) -> list[str]:
    match row:
        case "workflows" | "workflow_latency":
            return list(ENGINES)
        case "latency":
            own, *others = QUEUES
            return [own, IN_ONE_PROCESS, *others]
    return list(QUEUES)


def amount_of(row: str, sizes: Sizes, name: str = "atlas") -> int:
    """How much a system is given in a round."""
    match row:
        case "drain":
            return sizes.drain // SMALLER_DRAINS.get(name, 1)
        case "enqueue_singly":
            return sizes.singly
        case "enqueue_bulk":
            return sizes.bulk
    return int(getattr(sizes, row))


async def _measure_once(server_url: str, row: str, name: str, sizes: Sizes) -> PeerResult | Delays:
    amount = amount_of(row, sizes, name)
    try:
        async with own_store(server_url, name) as url:
            if name == IN_ONE_PROCESS:
                return to_delays(await _own_process("atlas", "work_and_produce", amount, url, sizes))
            if row in LATENCIES:
                return await measure_delays(name, amount, batch=sizes.batch, database_url=url, timeout=TIMEOUT)
            return await _own_process(name, row, amount, url, sizes)
    except NotMeasured as refusal:
        return {"reason": str(refusal)}


async def _own_process(name: str, verb: str, amount: int, url: str, sizes: Sizes) -> PeerResult:
    return await in_own_process(name, verb, amount, batch=sizes.batch, database_url=url, timeout=TIMEOUT)


def _figure(results: list[PeerResult | Delays], amount: int) -> Figure:
    for result in results:
        if "reason" in result:
            return {"reason": result["reason"]}
    figure: Figure = {"version": results[0]["version"], "settings": results[0]["settings"], "amount": amount}
    if "seconds" in results[0]:
        figure["rates"] = [amount / result["seconds"] for result in results]  # type: ignore[typeddict-item]
    else:
        figure["after_call"] = _delay([result["after_call"] for result in results])  # type: ignore[typeddict-item]
        figure["after_return"] = _delay([result["after_return"] for result in results])  # type: ignore[typeddict-item]
    return figure


def _delay(rounds: list[list[float]]) -> Delay:
    p50s, p99s = zip(*(_percentiles(samples) for samples in rounds), strict=True)
    p50, p99 = _percentiles([sample for samples in rounds for sample in samples])
    return {"p50": p50, "p99": p99, "p50_spread": (min(p50s), max(p50s)), "p99_spread": (min(p99s), max(p99s))}


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile, in milliseconds."""
    return median(seconds) * 1000, quantiles(seconds, n=100, method="inclusive")[98] * 1000


async def _server(server_url: str) -> str:
    async with connected(server_url) as conn:
        return f"PostgreSQL {await conn.fetchval('show server_version')}"
