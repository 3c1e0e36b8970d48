"""A program in a case: started, struck, started again until its work is done, and stopped."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

from atlas.db.pool import connect
from atlas.engine.jobs.switches.gate import switch, wait_until_closed
from tests.cli.warm_process import WarmProcess
from tests.faults.effects import note
from tests.faults.processes import ForkedProgram
from tests.faults.program import Program
from tests.support import DANA

# Longer than the lease of the scheduler that leads; the leases of workers are over at once.
FROZEN_SECONDS = 2.5
# How long Atlas stays offline after a frozen program goes on.
CLOSED_SECONDS = 0.6
# How long nothing may happen. A connection that went silent holds its locks for 45 s, and is given up after 60 s.
MAX_STILL_SECONDS = 300.0
# A bound for work that never ends. A case for which a busy machine has hardly any time goes on while something happens.
MAX_SECONDS = 1800.0
STOP_SECONDS = 90.0
MAX_STARTS = 6
# What happens to jobs, runs and records has an event.
EVENTS = "select coalesce(max(id), 0) from atlas.audit_log"
OPEN_JOBS = """
select job_type, status::text, attempt_count from atlas.jobs where status in ('queued', 'running') order by id limit 5"""


class RunningCase:
    """What the proxy strikes."""

    def __init__(
        self, program: Program, conn: Any, url: str, folder: Path, warm: WarmProcess, env: dict[str, str]
    ) -> None:
        self._program = program
        self._conn = conn
        self._url = url
        self._folder = folder
        self._warm = warm
        self._env = {**env, **program.settings}
        self._broken: list[str] = []
        self._opening: asyncio.Task[None] | None = None
        self.starts = 0
        self._process = self._start()

    async def run(self) -> list[str]:
        """Run the program until its work is done and it has ended. Returns what was broken."""
        try:
            await self._work()
            await self._stop()
        finally:
            await self._process.end()
            if self._opening is not None:
                await self._opening
        return self._broken

    async def kill(self) -> None:
        """With SIGKILL, noted in the effect log; its lease is over then."""
        pid = self._process.pid
        if self._process.send(signal.SIGKILL):
            note("killed", path=self._folder / "effects", pid=pid)
        await self.expire()

    async def freeze(self) -> None:
        """With SIGSTOP, for longer than a lease; meanwhile Atlas is taken offline where the program obeys the gate."""
        frozen = self._process
        frozen.send(signal.SIGSTOP)
        try:
            await self.expire()
            await asyncio.gather(asyncio.sleep(FROZEN_SECONDS), self._close_gate())
        finally:
            frozen.send(signal.SIGCONT)
        if self._program.closes_gate:
            self._opening = asyncio.create_task(self._open_gate())

    async def expire(self) -> None:
        """Let the program's lease be over."""
        if self._program.expire is not None:
            conn = await connect(self._url)
            await conn.execute(self._program.expire)
            await conn.close()

    def _start(self) -> ForkedProgram:
        self.starts += 1
        return ForkedProgram.start(
            self._warm,
            self._program.arguments,
            main=self._program.main,
            env=self._env,
            folder=self._folder,
            number=self.starts,
        )

    async def _work(self) -> None:
        began = moved = time.monotonic()
        events = None
        while not await self._is_done():
            now, before, events = time.monotonic(), events, await self._events()
            moved = moved if events == before else now
            if now > min(moved + MAX_STILL_SECONDS, began + MAX_SECONDS):
                open_jobs = await self._conn.fetch(OPEN_JOBS)
                left = ", ".join(
                    f"{row['job_type']} {row['status']} at attempt {row['attempt_count']}" for row in open_jobs
                )
                self._broken.append(f"not done after {now - began:.0f} s ({left}); see {self._folder}")
                return
            if self._process.has_ended:
                code = await self._process.wait(within=1)
                if code == 0 and not self._program.serves and not await self._is_done():
                    self._broken.append(f"ended with 0 and has not done its work; see {self._folder}")
                    return
                if self.starts == MAX_STARTS:
                    self._broken.append(f"ended with {code} at the {self.starts}th start; see {self._folder}")
                    return
                if self.starts > 1:
                    # As a caller who tries again later and later: a session that went silent holds its locks meanwhile.
                    await asyncio.sleep(2**self.starts)
                self._process = self._start()
            await asyncio.sleep(0.03)

    async def _events(self) -> int | None:
        """How many events there are; None: the program makes the tables."""
        return None if self._program.give is None else await self._conn.fetchval(EVENTS)

    async def _is_done(self) -> bool:
        done = self._program.done
        is_done = await self._conn.fetchval(done) if isinstance(done, str) else await done(self._conn)
        return bool(is_done) and (self._program.file is None or (self._folder / self._program.file).exists())

    async def _stop(self) -> None:
        """A program that serves ends when it is asked to; a command ends by itself."""
        if self._opening is not None:
            await self._opening
        if self._program.serves:
            self._process.send(signal.SIGTERM)
        try:
            await self._process.wait(within=STOP_SECONDS)
        except TimeoutError:
            self._broken.append(f"did not end within {STOP_SECONDS:.0f} s; see {self._folder}")

    async def _close_gate(self) -> None:
        if self._program.closes_gate:
            conn = await connect(self._url)
            gate = await switch(conn, online=False, actor=DANA)
            await wait_until_closed(conn, gate)
            note("offline returned", path=self._folder / "effects")
            await conn.close()

    async def _open_gate(self) -> None:
        await asyncio.sleep(CLOSED_SECONDS)
        conn = await connect(self._url)
        note("online asked for", path=self._folder / "effects")
        await switch(conn, online=True, actor=DANA)
        await conn.close()
