"""One run of a program, seen from who ordered it: start its supervisor, hear what it tells, stop it when asked."""

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

# Between TERM and KILL. With what killing and telling take, a program is gone two seconds after it should be.
GRACE_SECONDS = 1.0
# What the supervisor may need after that before it is given up.
PATIENCE_SECONDS = 4.0
# Workers watch the time as well; the supervisor does so a little later, for a worker that hangs.
LATER_SECONDS = 1.0
LEAVE_SECONDS = 1.0
LONGEST_REPORT = 4 * 2**20

ROOT = Path(__file__).parent.parent.parent
# Appended, so that nothing there shadows the standard library, the supervisor's only other company.
_SUPERVISE = "import sys; sys.path.append(sys.argv[1]); from atlas.programs.supervisor import main; main()"
_END_USER = (
    "import sys; sys.path.append(sys.argv[1]); from atlas.programs.sandbox import end_user; end_user(int(sys.argv[2]))"
)

# Supervisors that have told everything and are about to end.
_leaving: set[asyncio.Task[int]] = set()

OnProgress = Callable[[float, str | None], Awaitable[None]]


class ProgramNotStarted(AtlasError):
    """The program could not be started at all."""


class SupervisorLost(AtlasError):
    """The supervisor of a program ended without an account of it."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to run, exactly, and within which bounds. `own_user`: as root, run it as a user that nobody else is."""

    argv: Sequence[str]
    env: Mapping[str, str]
    limits: Mapping[str, int]
    time_limit: float
    own_user: bool = True


@dataclass(frozen=True, slots=True)
class Stream:
    """What is kept of stdout or stderr. Nothing is left out between head and tail unless `total` is larger."""

    head: bytes
    tail: bytes
    total: int

    @property
    def left_out(self) -> int:
        return self.total - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """What became of a program. A negative exit code is the signal that ended it."""

    pid: int
    exit_code: int | None
    timed_out: bool
    cpu_ms: int
    stdout: Stream
    stderr: Stream
    output: str | None
    overlong: bool


class RunningProgram:
    """A program that was ordered. `wait` for its account; after a cancellation, `stop` gives it as well."""

    def __init__(self, process: asyncio.subprocess.Process, folder: str, on_progress: OnProgress) -> None:
        self._process = process
        self._folder = folder
        self._on_progress = on_progress
        self._pid: int | None = None
        self._uid: int | None = None
        self._account = asyncio.create_task(self._hear(), name="atlas command")

    async def wait(self) -> ProgramResult:
        """The account, when nothing of the program is left. A cancellation leaves it running: then `stop`."""
        return await asyncio.shield(self._account)

    async def stop(self) -> ProgramResult:
        """End the program and all it started, whatever it thinks of it. Further cancellations do not hurry this."""
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(b"stop\n")
        asyncio.get_running_loop().call_later(GRACE_SECONDS + PATIENCE_SECONDS, self._give_up)
        while True:
            try:
                return await asyncio.shield(self._account)
            except asyncio.CancelledError:
                if self._account.cancelled():
                    raise

    async def _hear(self) -> ProgramResult:
        """Take in what the supervisor tells, to the end."""
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                match json.loads(line):
                    case {"started": int(pid), "uid": uid}:
                        self._pid, self._uid = pid, uid
                    case {"progress": [percent, message]}:
                        await self._on_progress(percent, message)
                    case {"failed": str(reason)}:
                        raise ProgramNotStarted(reason)
                    case {"ended": dict(told)}:
                        return _account(self._pid or 0, told)
            self._give_up()
            await self._end_scattered()
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
            raise SupervisorLost("The program's supervisor ended without an account of it.")
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        """The supervisor removes the program's folder and ends; nobody waits long for that."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        leaving = asyncio.create_task(self._process.wait(), name="atlas command ends")
        _leaving.add(leaving)
        leaving.add_done_callback(_leaving.discard)
        await asyncio.wait([leaving], timeout=LEAVE_SECONDS)

    def _give_up(self) -> None:
        """Kill the supervisor; the kernel then kills the program."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        if self._pid is not None and not self._account.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)

    async def _end_scattered(self) -> None:
        """Kill what left the program's group, and so outlives its supervisor, where the program has its own user."""
        if self._uid is not None:
            # Its lock on the user falls with its last breath.
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
    """Start a program in a folder of its own, which goes with it."""
    folder = f"{tempfile.gettempdir()}/atlas-job-{job_id}-{uuid4().hex[:8]}"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _SUPERVISE, str(ROOT)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={},
        limit=LONGEST_REPORT,
    )
    assert process.stdin is not None
    terms = {**asdict(order), "time_limit": order.time_limit + LATER_SECONDS, "grace": GRACE_SECONDS}
    process.stdin.write(json.dumps({**terms, "folder": folder}).encode() + b"\n")
    return RunningProgram(process, folder, on_progress)


def _account(pid: int, told: dict[str, Any]) -> ProgramResult:
    plain = {name: told[name] for name in ("exit_code", "timed_out", "cpu_ms", "output", "overlong")}
    return ProgramResult(pid=pid, stdout=_stream(told["stdout"]), stderr=_stream(told["stderr"]), **plain)


def _stream(told: dict[str, Any]) -> Stream:
    return Stream(base64.b64decode(told["head"]), base64.b64decode(told["tail"]), told["total"])
