"""One measurement of one peer in a process of its own: `python -m bench.peers.measurement NAME VERB AMOUNTS`.

A process each keeps one peer's threads, event loop and leftovers out of another's figures. The address of the
database comes in the environment, where no list of processes shows its password. Prints one line of JSON.
"""

import asyncio
import json
import os
import sys
from importlib import import_module
from typing import TypedDict

import uvloop

from bench.peers.peer import NotMeasured, Peer

QUEUES = {
    "graphile-worker": "graphile_worker:GraphileWorker",
    "pg-boss": "pg_boss:PgBoss",
    "pgqueuer": "pgqueuer:Pgqueuer",
    "procrastinate": "procrastinate:Procrastinate",
}
ENGINES = {"absurd": "absurd:Absurd", "dbos": "dbos:Dbos"}
PEERS = {**QUEUES, **ENGINES}


class PeerResult(TypedDict, total=False):
    """The result of a measurement: its seconds and what was measured, or the reason why there are none."""

    seconds: list[float]
    version: str
    settings: str
    reason: str


async def measure(name: str, verb: str, amounts: list[int], *, batch: int | None, database_url: str) -> PeerResult:
    """Prepare the peer's tables in an empty database and take one measurement."""
    try:
        peer = load(name, batch)
        await peer.prepare(database_url)
        seconds = await getattr(peer, verb)(database_url, *amounts)
        return {
            "seconds": seconds if isinstance(seconds, list) else [seconds],
            "version": peer.version,
            "settings": peer.settings,
        }
    except NotMeasured as refusal:
        return {"reason": str(refusal)}


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


async def in_own_process(
    name: str, verb: str, amounts: list[int], *, batch: int | None, database_url: str, timeout: float
) -> PeerResult:
    """The same, in a new process, which ends with everything it started when it takes too long."""
    arguments = [sys.executable, "-m", "bench.peers.measurement", name, verb, *map(str, amounts)]
    process = await asyncio.create_subprocess_exec(
        *arguments,
        env={**os.environ, "DATABASE_URL": database_url, "PEER_BATCH": str(batch or "")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), timeout)
    except TimeoutError:
        return {"reason": f"It was not done after {timeout:,.0f} seconds."}
    finally:
        await _end(process)
    if process.returncode != 0:
        return {"reason": (err.decode(errors="replace").strip().splitlines() or ["It ended without a message."])[-1]}
    result: PeerResult = json.loads(out.decode().splitlines()[-1])
    return result


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        os.killpg(process.pid, 9)  # its own session: the process and its children, nothing else
        await process.wait()


def main() -> None:
    """Read the command line, measure, print."""
    name, verb, *amounts = sys.argv[1:]
    batch = int(os.environ.get("PEER_BATCH") or 0) or None
    task = measure(name, verb, [int(n) for n in amounts], batch=batch, database_url=os.environ["DATABASE_URL"])
    print(json.dumps(uvloop.run(task)))


if __name__ == "__main__":
    main()
