"""A host's machine for the tests of the agent."""

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from atlas.agent import Agent, AllowedCommands
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.lease import reap
from atlas.engine.jobs.lists.find import JobRow, get_job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.api.serving import Served
from tests.support import DANA, ROOT, until

# A program as hosts have them: it notes each start and its pid, and then does as it is received.
PROGRAM = """#!/bin/sh
echo "$$" >> "{folder}/$1"
case "$2" in
  work) echo "::progress 40 halfway"; echo seen; echo '::output {{"done": true}}' ;;
  fail) echo "no disk" >&2; exit 3 ;;
  big) echo "::output {{\\"a\\": \\"$(head -c 262140 /dev/zero | tr '\\0' x)\\"}}" ;;
  deep) printf '::output {{"a":%s%s}}' "$(printf '[%.0s' $(seq 20000))" "$(printf ']%.0s' $(seq 20000))" ;;
  huge) echo '::output {{"a": 1e400}}' ;;
  wait) echo "::progress 40 halfway"; trap '' TERM; while [ ! -e "{folder}/$1.go" ]; do sleep 0.02; done; echo went ;;
esac
"""


class Box:
    """A host's machine: a program, the notes it leaves, and the agents that run on it."""

    def __init__(self, folder: Path, server: Served, conn: Any) -> None:
        self.folder = folder
        self.server = server
        self.world = server.world
        self.conn = conn
        self.host = self.world.hosts["acme"]
        self.token = self.world.tokens["acme", "host"]
        program = folder / "program"
        program.write_text(PROGRAM.format(folder=folder))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.commands = {"box.do": [str(program), "{{ name }}", "{{ what }}"]}
        (folder / "commands.json").write_bytes(orjson.dumps(self.commands))

    async def job(self, name: str, what: str, **options: Any) -> UUID:
        job = NewJob("box.do", {"name": name, "what": what}, self.host.tenant_id, host_id=self.host.id, **options)
        return (await enqueue(self.conn, job, actor=DANA)).id

    def starts(self, name: str) -> list[int]:
        """The pids of the runs so far."""
        note = self.folder / name
        return [int(line) for line in note.read_text().split()] if note.exists() else []

    def go(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()

    async def started(self, name: str, *, times: int = 1) -> int:
        """Wait for a start, and answer its pid."""
        await until(lambda: len(self.starts(name)) >= times)
        return self.starts(name)[-1]

    async def becomes(self, job_id: UUID, status: str) -> JobRow:
        async with asyncio.timeout(20):
            while True:
                job = await get_job(self.conn, job_id)
                assert job is not None
                if job.shown_status == status:
                    return job
                await asyncio.sleep(0.03)

    async def silence(self, job_id: UUID) -> None:
        """Time passes: the job's lease is over, and a watchdog looks."""
        await self.conn.execute("update atlas.jobs set lease_expires_at = now() - interval '1 s' where id = $1", job_id)
        await reap(self.conn)
        await self.conn.execute("update atlas.jobs set next_retry_at = null where id = $1", job_id)

    @asynccontextmanager
    async def agent(self, url: str | None = None, **options: Any) -> AsyncIterator[Agent]:
        """An agent inside this process, stopped in good order."""
        running = Agent(
            url or self.server.address, self.token, AllowedCommands.of(self.commands), **{"grace": 5, **options}
        )
        task = asyncio.create_task(running.run())
        try:
            yield running
        finally:
            running.stop()
            await asyncio.wait_for(task, 20)

    @asynccontextmanager
    async def process(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """An agent as a process of its own."""
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "atlas.agent", "--commands", str(self.folder / "commands.json")),
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "ATLAS_URL": self.server.address,
                "ATLAS_TOKEN": self.token,
            },
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield started
        finally:
            with contextlib.suppress(ProcessLookupError):
                started.kill()
            await started.communicate()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
