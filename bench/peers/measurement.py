"""One measurement of one peer in a process of its own: `python -m bench.peers.measurement NAME VERB AMOUNT`.

A process each keeps one peer's threads, event loop and leftovers out of another's figures. The address of the
store comes in the environment, where no list of processes shows its password. Prints one line of JSON; a worker that
waits for a producer prints `ready` before it.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TypedDict

import uvloop

from bench.peers.peer import Call, NotMeasured, Peer
from bench.peers.stopwatch import delays, in_one_process

QUEUES = {
    "atlas": "atlas_jobs:AtlasJobs",
    "graphile-worker": "graphile_worker:GraphileWorker",
    "pg-boss": "pg_boss:PgBoss",
    "pgqueuer": "pgqueuer:Pgqueuer",
    "procrastinate": "procrastinate:Procrastinate",
    "awa": "awa:Awa",
    "bullmq": "bullmq:Bullmq",
}
ENGINES = {
    "atlas-workflows": "atlas_workflows:AtlasWorkflows",
    "absurd": "absurd:Absurd",
    "dbos": "dbos:Dbos",
    "restate": "restate:Restate",
}
PEERS = {**QUEUES, **ENGINES}


class PeerResult(TypedDict, total=False):
    """The result of a measurement: its seconds and what was measured, or the reason why there are none."""

    seconds: float
    moments: list[float]
    calls: list[Call]
    version: str
    settings: str
    reason: str


class Delays(TypedDict, total=False):
    """Seconds from each call of a producer, and from each return, to the moment of its job; or why there are none."""

    after_call: list[float]
    after_return: list[float]
    version: str
    settings: str
    reason: str


async def measure(name: str, verb: str, amount: int, *, batch: int | None, database_url: str) -> PeerResult:
    """Prepare the peer's tables in an empty store and take one measurement. A producer finds them prepared."""
    try:
        peer = load(name, batch)
        if verb != "produce":
            await peer.prepare(database_url)
        result = await _measured(peer, verb, amount, database_url)
        return {**result, "version": peer.version, "settings": peer.settings}
    except NotMeasured as refusal:
        return {"reason": str(refusal)}


async def _measured(peer: Peer, verb: str, amount: int, database_url: str) -> PeerResult:
    match verb:
        case "work":
            return {"moments": await peer.work(database_url, amount, lambda: print("ready", flush=True))}
        case "produce":
            return {"calls": await peer.produce(database_url, amount)}
        case "work_and_produce":
            moments, calls = await in_one_process(peer, database_url, amount)
            return {"moments": moments, "calls": calls}
    return {"seconds": await getattr(peer, verb)(database_url, amount)}


def load(name: str, batch: int | None) -> Peer:
    """The peer of this name. Its packages are imported only now: they may not be installed."""
    module, _, kind = PEERS[name].partition(":")
    try:
        peer: Peer = getattr(import_module(f"bench.peers.{module}"), kind)(batch)
    except ModuleNotFoundError as missing:
        raise NotMeasured(
            f"The Python package {missing.name} is not installed.", remedy="Run pip install -e '.[bench]'."
        ) from missing
    return peer


async def measure_delays(name: str, jobs: int, *, batch: int | None, database_url: str, timeout: float) -> Delays:
    """Time jobs from the producer's call, with a worker in one process and a producer in another."""
    ready = asyncio.Event()
    run = partial(in_own_process, name, batch=batch, database_url=database_url, timeout=timeout)
    working = asyncio.create_task(run("work", jobs, ready=ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    produced: PeerResult = {}
    if not working.done():
        produced = await run("produce", jobs)
        if "reason" in produced:
            working.cancel()
            await asyncio.wait([working])
            return {"reason": produced["reason"]}
    return to_delays(await working | produced)


def to_delays(result: PeerResult) -> Delays:
    """The delays of a measurement that has both the moments of the jobs and the calls."""
    if "reason" in result:
        return {"reason": result["reason"]}
    after_call, after_return = delays(result["moments"], result["calls"])
    return {
        "after_call": after_call,
        "after_return": after_return,
        "version": result["version"],
        "settings": result["settings"],
    }


async def in_own_process(
    name: str,
    verb: str,
    amount: int,
    *,
    batch: int | None,
    database_url: str,
    timeout: float,
    ready: Callable[[], object] = lambda: None,
) -> PeerResult:
    """The same, in a new process, which ends with everything it started when it takes too long."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.peers.measurement", name, verb, str(amount)),
        env={**os.environ, "DATABASE_URL": database_url, "PEER_BATCH": str(batch or "")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=1_000_000,
    )
    try:
        async with asyncio.timeout(timeout):
            return await _read(process, ready)
    except TimeoutError:
        return {"reason": f"It was not done after {timeout:,.0f} seconds."}
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)  # its own session: the process and its children, nothing else
            await process.wait()


async def _read(process: asyncio.subprocess.Process, ready: Callable[[], object]) -> PeerResult:
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    last = b""
    async for line in process.stdout:
        if line == b"ready\n":
            ready()
        last = line
    if await process.wait() != 0:
        lines = (await errors).decode(errors="replace").strip().splitlines()
        return {"reason": (lines or ["It ended without a message."])[-1]}
    await errors
    result: PeerResult = json.loads(last)
    return result


def main() -> None:
    """Read the command line, measure, print."""
    name, verb, amount = sys.argv[1:]
    batch = int(os.environ.get("PEER_BATCH") or 0) or None
    task = measure(name, verb, int(amount), batch=batch, database_url=os.environ["DATABASE_URL"])
    print(json.dumps(uvloop.run(task)))


if __name__ == "__main__":
    main()
