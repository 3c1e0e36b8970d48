"""Programs of Atlas on a cluster, each kind once through HAProxy and once by an address of all servers, and their load."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import websockets
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from atlas.db.pool import UNREACHABLE, Pool, open_pool
from atlas.engine.access.tokens import add_token
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.errors import DatabaseError
from tests.cluster.patroni import PatroniCluster
from tests.support import DANA, ROOT, free_port, until

JOB_TYPE = "cluster.effect"
PAUSE_SECONDS = 0.1
ATLAS = (sys.executable, "-m", "atlas.cli.main")


class Load:
    """What runs, what was acknowledged, and when each part last did something."""

    def __init__(self, cluster: PatroniCluster, folder: Path) -> None:
        self.folder = folder
        self.effects = folder / "effects"
        self.acknowledged: set[str] = set()
        # By name: the time of the last response of an API, or of the last frame of a live connection.
        self.last: dict[str, float] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ways = {"haproxy": cluster.haproxy_url, "hosts": cluster.hosts_url}
        self.owner_url = cluster.owner_url
        self._ports = {way: free_port() for way in self.ways}
        self._tasks: list[asyncio.Task[None]] = []
        self._token = ""

    def environment(self, way: str) -> dict[str, str]:
        """The settings of a program that connects in this way; the files of all programs are the same."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ATLAS_", "DATABASE_URL"))}
        return {
            **kept,
            "DATABASE_URL": self.ways[way],
            "ATLAS_OWNER_URL": self.owner_url,
            "ATLAS_HOME": str(self.folder / "home"),
            "ATLAS_SECRET_KEY_FILE": str(self.folder / "secret.key"),
            "ATLAS_AUDIT_KEY_FILE": str(self.folder / "audit.key"),
            "ATLAS_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
        }

    async def run(self, *words: str, way: str = "hosts") -> str:
        """What a command prints, which must end well."""
        where: dict[str, Any] = {"cwd": ROOT, "env": self.environment(way), "stdout": -1, "stderr": -1}
        process = await asyncio.create_subprocess_exec(*ATLAS, *words, **where)
        stdout, stderr = await process.communicate()
        assert process.returncode == 0, (words, stdout.decode(), stderr.decode())
        return stdout.decode()

    async def prepare(self) -> None:
        """The tables, the keys, a token; Atlas is online."""
        (self.folder / "secret.key").write_text("ab" * 32)
        key = Ed25519PrivateKey.generate()
        form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / "audit.key").write_bytes(key.private_bytes(*form))
        for name in ("secret.key", "audit.key"):
            (self.folder / name).chmod(0o600)
        await self.run("migrate")
        pool = await open_pool(self.ways["hosts"], size=1)
        async with pool.acquire() as conn:
            await switch(conn, online=True, actor=DANA)
            _, self._token = await add_token(conn, subject="tests", role="operator", actor=DANA)
        await pool.close()

    async def start(self) -> None:
        """Start two of each program, and wait until all of them work."""
        for way in self.ways:
            self._start("worker", way, "--types", JOB_TYPE, "--app", "tests.cluster.handlers")
            self._start("scheduler", way)
            self._start("api", way, "--port", str(self._ports[way]))
        async with httpx.AsyncClient() as client:
            for way in self.ways:
                await until(lambda way=way: _is_ready(client, f"{self._address(way)}/readyz"), within=120)

        for way in self.ways:
            parts = (self._enqueue_over_http(way), self._enqueue_over_sql(way), self._watch(way))
            self._tasks += [asyncio.create_task(part) for part in parts]

    async def stop_enqueueing(self) -> None:
        """Enqueue nothing more, and close the live connections. None of them has ended before."""
        ended = [task for task in self._tasks if task.done()]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for task in ended:
            task.result()

    async def stop(self) -> None:
        """End the programs."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        await self.stop_enqueueing()

    async def _enqueue_over_http(self, way: str) -> None:
        """Enqueue one job after the other, and write down those that were acknowledged."""
        headers = {"Authorization": f"Bearer {self._token}"}
        async with httpx.AsyncClient(headers=headers, timeout=10) as client:
            while True:
                with suppress(httpx.HTTPError):
                    body = {"job_type": JOB_TYPE, "payload": self._input}
                    made = await client.post(f"{self._address(way)}/api/v1/jobs", json=body)
                    assert made.status_code in (201, 503), made.text
                    if made.status_code == 201:
                        self.acknowledged.add(made.json()["id"])
                        self.last[f"api {way}"] = time.time()
                await asyncio.sleep(PAUSE_SECONDS)

    async def _enqueue_over_sql(self, way: str) -> None:
        """The same as an application does it, over a pool of its own."""
        pool = await open_pool(self.ways[way], size=1)
        while True:
            # A proxy may lead to a standby for a while; the pool does not keep such a connection.
            with suppress(*UNREACHABLE, DatabaseError, asyncpg.ReadOnlySQLTransactionError):
                self.acknowledged.add(await _enqueue(pool, self._input))
                self.last[f"application {way}"] = time.time()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _watch(self, way: str) -> None:
        """Hold one live connection all the time, and write down when it was sent something."""
        address = self._address(way).replace("http", "ws") + "/api/v1/live"
        async with websockets.connect(address, additional_headers={"Authorization": f"Bearer {self._token}"}) as live:
            async for _ in live:
                self.last[f"live {way}"] = time.time()
        raise AssertionError(f"the live connection {way} was closed")

    @property
    def _input(self) -> dict[str, str]:
        return {"file": str(self.effects)}

    def _address(self, way: str) -> str:
        return f"http://127.0.0.1:{self._ports[way]}"

    def _start(self, program: str, way: str, *options: str) -> None:
        with (self.folder / f"{program} {way}.log").open("ab") as log:
            self.processes[f"{program} {way}"] = subprocess.Popen(
                [*ATLAS, program, *options], cwd=ROOT, env=self.environment(way), stdout=log, stderr=log
            )


@asynccontextmanager
async def load_on(cluster: PatroniCluster, folder: Path) -> AsyncIterator[Load]:
    """Programs that work and are given work, for the time of a block."""
    load = Load(cluster, folder)
    try:
        await load.prepare()
        await load.start()
        yield load
    finally:
        await load.stop()


async def _enqueue(pool: Pool, input: dict[str, str]) -> str:
    async with asyncio.timeout(10), pool.acquire() as conn:
        return str((await enqueue(conn, NewJob(JOB_TYPE, input), actor=DANA)).id)


async def _is_ready(client: httpx.AsyncClient, address: str) -> bool:
    with suppress(httpx.HTTPError):
        return (await client.get(address)).is_success
    return False
