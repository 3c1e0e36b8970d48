"""Runs a program for a worker or an agent: starts its supervisor, reads its reports, and stops it."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from atlas.errors import AtlasError

# Between TERM and KILL. With the time that killing and reporting take, a program ends within two seconds.
GRACE_SECONDS = 1.0
# How much longer the supervisor may take before it is killed.
SUPERVISOR_SECONDS = 4.0
# Workers enforce the time limit too. The supervisor does so a little later, in case the worker hangs.
LATER_SECONDS = 1.0
LEAVE_SECONDS = 1.0
MAX_REPORT_LENGTH = 4 * 2**20

ROOT = Path(__file__).parent.parent.parent
# Appended, so that nothing there shadows the standard library.
_SUPERVISE = "import sys; sys.path.append(sys.argv[1]); from atlas.programs.supervisor import main; main()"
_END_USER = (
    "import sys; sys.path.append(sys.argv[1]); from atlas.programs.sandbox import end_user; end_user(int(sys.argv[2]))"
)

# Supervisors that have reported the result and are about to end.
_leaving: set[asyncio.Task[int]] = set()

OnProgress = Callable[[float, str | None], Awaitable[None]]


class ProgramNotStarted(AtlasError):
    """The program could not be started at all."""


class SupervisorLost(AtlasError):
    """The supervisor of a program ended without reporting a result."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to run, and within which limits. `own_user`: as root, run it as a user that no other program has."""

    argv: Sequence[str]
    env: Mapping[str, str]
    limits: Mapping[str, int]
    time_limit: float
    own_user: bool = True


@dataclass(frozen=True, slots=True)
class Stream:
    """The kept part of stdout or stderr. Between head and tail nothing is missing unless `total` is larger."""

    head: bytes
    tail: bytes
    total: int

    @property
    def left_out(self) -> int:
        return self.total - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended. A negative exit code is the signal that ended it."""

    pid: int
    exit_code: int | None
    timed_out: bool
    cpu_ms: int
    stdout: Stream
    stderr: Stream
    output: str | None
    overlong: bool


class RunningProgram:
    """A program that was started. `wait` returns its result; after a cancellation, `stop` returns it as well."""

    def __init__(self, process: asyncio.subprocess.Process, folder: str, on_progress: OnProgress) -> None:
        self._process = process
        self._folder = folder
        self._on_progress = on_progress
        self._pid: int | None = None
        self._uid: int | None = None
        # Done when the program runs, or will not.
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._result = asyncio.create_task(self._read_reports(), name="atlas command")

    async def wait(self) -> ProgramResult:
        """The result, once all processes of the program have ended. A cancellation leaves it running: then `stop`."""
        return await asyncio.shield(self._result)

    async def stop(self) -> ProgramResult:
        """End the program and all processes it started. Further cancellations do not interrupt this."""
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(b"stop\n")
        asyncio.get_running_loop().call_later(GRACE_SECONDS + SUPERVISOR_SECONDS, self._kill)
        while True:
            try:
                return await asyncio.shield(self._result)
            except asyncio.CancelledError:
                if self._result.cancelled():
                    raise

    async def _read_reports(self) -> ProgramResult:
        """Read the reports of the supervisor to the end."""
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                match json.loads(line):
                    case {"started": int(pid), "uid": uid}:
                        self._pid, self._uid = pid, uid
                        self.begun.set_result(None)
                    case {"progress": [percent, message]}:
                        await self._on_progress(percent, message)
                    case {"failed": str(reason)}:
                        raise ProgramNotStarted(reason)
                    case {"ended": dict(ended)}:
                        return _result(self._pid or 0, ended)
            self._kill()
            await self._kill_strays()
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            raise SupervisorLost("The program's supervisor ended without reporting a result.")
        finally:
            if not self.begun.done():
                self.begun.set_result(None)
            await self._close()

    async def _close(self) -> None:
        """Let the supervisor remove the program's folder and end, and wait a short time for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        leaving = asyncio.create_task(self._process.wait(), name="atlas command ends")
        _leaving.add(leaving)
        leaving.add_done_callback(_leaving.discard)
        await asyncio.wait([leaving], timeout=LEAVE_SECONDS)

    def _kill(self) -> None:
        """Kill the supervisor; the kernel then kills the program."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        if self._pid is not None and not self._result.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)

    async def _kill_strays(self) -> None:
        """Kill processes that left the program's group and outlive the supervisor, if the program has its own user."""
        if self._uid is not None:
            # Its lock on the user is released when it ends.
            await self._process.wait()
            sweep = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _END_USER, str(ROOT), str(self._uid)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                cwd="/",
                env={},
            )
            await sweep.wait()


async def start(job_id: UUID, order: Order, on_progress: OnProgress) -> RunningProgram:
    """Start a program in a folder of its own, which is removed when it ends."""
    folder = f"{tempfile.gettempdir()}/atlas-job-{job_id}-{uuid4().hex[:8]}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _SUPERVISE, str(ROOT)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={},
        limit=MAX_REPORT_LENGTH,
    )
    assert process.stdin is not None
    document = {**asdict(order), "time_limit": order.time_limit + LATER_SECONDS, "grace": GRACE_SECONDS}
    process.stdin.write(json.dumps({**document, "folder": folder}).encode() + b"\n")
    return RunningProgram(process, folder, on_progress)


def _result(pid: int, ended: dict[str, Any]) -> ProgramResult:
    plain = {name: ended[name] for name in ("exit_code", "timed_out", "cpu_ms", "output", "overlong")}
    return ProgramResult(pid=pid, stdout=_stream(ended["stdout"]), stderr=_stream(ended["stderr"]), **plain)


def _stream(kept: dict[str, Any]) -> Stream:
    return Stream(base64.b64decode(kept["head"]), base64.b64decode(kept["tail"]), kept["total"])
