"""Runs several programs as one: they start together and stop together, and none outlives its parent.

Each child inherits the reading end of a pipe whose other end only the parent holds. However the parent ends, kill -9
included, the kernel closes that end; the child reads end-of-file and stops itself. Each child has a session of its
own, so that Ctrl-C reaches only the parent, which stops the children in order.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from atlas.home.up_report import UpReport
from atlas.logs import get_logger
from atlas.models.system import STEADY_SECONDS
from atlas.waiting import wait_for

PARENT_FD = "ATLAS_PARENT_FD"
# What a program may need beyond its grace time: a worker lets cancelled handlers clean up for five seconds, and then
# gives back the jobs of those that have not returned.
MARGIN_SECONDS = 10.0
# Between the end of a program and its restart, doubled each time it ends soon again.
RESTART_SECONDS = 1.0
MAX_RESTART = 30.0
# A refusal with a reason, and wrong usage.
REFUSALS = (1, 2)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """One child: its name in the logs, its argv, and variables of its own. Neighbours of one kind stop together."""

    name: str
    argv: Sequence[str]
    kind: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


async def run_group(
    programs: Sequence[ChildProcess],
    *,
    grace: float,
    may_end: bool = False,
    report: UpReport | None = None,
    restart: asyncio.Event | None = None,
) -> int:
    """Run the programs until a signal, then stop them. Returns the exit status.

    They start in the given order and stop in the reverse order, each with `grace` seconds to finish its work;
    neighbours of one kind stop at the same time. A second signal kills all of them. A program that ends by itself is
    started again: a job that ends its worker must not stop Atlas. With a `report` this is always so. Without one, all
    of them end if one refuses to begin. With `may_end` a program may end with exit status 0, and a refusal ends all of
    them at any time. Whenever `restart` is set, all are stopped in good order and started again.
    """
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    reading, writing = os.pipe()
    children = [_Child(program, reading, report) for program in programs]
    restarting = None if restart is None else asyncio.create_task(_restart_all(children, restart, grace, hurry))
    try:
        for child in children:
            await child.start()
        failed = await _watch(children, stop, may_end=may_end)
        stop.set()
        if restarting is not None:
            restarting.cancel()
            await asyncio.gather(restarting, return_exceptions=True)
        await _stop_all(children, grace, hurry)
        return 1 if failed else 0
    finally:
        for child in children:
            child.kill()
        os.close(reading)
        os.close(writing)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def follow_parent(*, grace: float) -> None:
    """In a child: stop when the parent is gone. Does nothing in a program without such a parent."""
    inherited = os.environ.pop(PARENT_FD, None)
    if inherited is not None:
        threading.Thread(target=_wait_for_end, args=(int(inherited), grace), name="follow-parent", daemon=True).start()


def _wait_for_end(parent: int, grace: float) -> None:
    os.read(parent, 1)  # Nothing is ever written: it returns when the last writer is gone.
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(grace + MARGIN_SECONDS)
    os._exit(1)


class _Child:
    """A program and its present process."""

    def __init__(self, program: ChildProcess, parent: int, report: UpReport | None) -> None:
        self.name = program.name
        self.kind = program.kind or program.name
        self._argv = program.argv
        self._variables = program.variables
        self._parent = parent
        self._report = report
        self.process: asyncio.subprocess.Process | None = None
        self._started_at = 0.0
        self._starts = 0
        # How often in a row it ended soon after its start.
        self._ends = 0
        # Cleared while it is stopped to be started again.
        self._stays = asyncio.Event()
        self._stays.set()
        # Set to start it now, if it ended and waits to be started again.
        self._now = asyncio.Event()

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *self._argv,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,  # stdout belongs to the one document that the command may print
            start_new_session=True,
            pass_fds=(self._parent,),
            env={**os.environ, **self._variables, PARENT_FD: str(self._parent)},
        )
        self._started_at = time.monotonic()
        self._starts += 1
        log.info("program started", program=self.name, pid=self.process.pid)
        if self._report is not None:
            self._report.started(self.name, self.process.pid)

    async def keep_alive(self, stop: asyncio.Event, *, may_end: bool) -> bool:
        """Start it again whenever it ends, until `stop` is set. Returns whether it failed for good."""
        while True:
            assert self.process is not None
            status = await self.process.wait()
            if not self._stays.is_set():
                await self._stays.wait()
                continue
            if stop.is_set() or (may_end and status == 0):
                return False
            if self._report is None and status in REFUSALS and (may_end or self._has_just_begun):
                log.error("program refused to run", program=self.name, status=status)
                return True
            await self._start_again(_described(status), stop)
            if stop.is_set():
                return False

    @property
    def _has_just_begun(self) -> bool:
        return self._starts == 1 and not self._is_steady

    @property
    def _is_steady(self) -> bool:
        return time.monotonic() - self._started_at >= STEADY_SECONDS

    async def _start_again(self, how: str, stop: asyncio.Event) -> None:
        self._ends = 1 if self._is_steady else self._ends + 1
        delay = min(MAX_RESTART, RESTART_SECONDS * 2 ** min(self._ends - 1, 10))
        log.error("program ended by itself and is started again", program=self.name, how=how, after_seconds=delay)
        if self._report is not None:
            self._report.ended(self.name, how, ends=self._ends)
        self._now.clear()
        await wait_for(self._now, within=delay)
        if not stop.is_set():
            await self.start()

    async def restart(self, grace: float, hurry: asyncio.Event) -> None:
        """Stop it in good order and start it again; immediately, if it has ended by itself."""
        self._now.set()
        if self.process is not None and self.process.returncode is None:
            self._stays.clear()
            try:
                await self.stop(grace, hurry)
                await self.start()
            finally:
                self._stays.set()

    async def stop(self, grace: float, hurry: asyncio.Event) -> None:
        if self.process is None or self.process.returncode is not None:
            return
        self.process.terminate()
        ended, hurried = asyncio.create_task(self.process.wait()), asyncio.create_task(hurry.wait())
        await asyncio.wait([ended, hurried], timeout=grace + MARGIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not ended.done():
            log.warning("program did not stop in time and is killed", program=self.name)
            self.process.kill()
        await ended
        log.info("program stopped", program=self.name, status=self.process.returncode)

    def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()


async def _watch(children: Sequence[_Child], stop: asyncio.Event, *, may_end: bool) -> bool:
    """Wait for a signal, for the failure of a child, or for the end of the last one. Returns whether one failed."""
    stopped = asyncio.create_task(stop.wait())
    waiting = {asyncio.create_task(child.keep_alive(stop, may_end=may_end)) for child in children}
    failed = False
    while waiting and not failed and not stop.is_set():
        done, _ = await asyncio.wait([stopped, *waiting], return_when=asyncio.FIRST_COMPLETED)
        failed = any(task.result() for task in waiting & done)
        waiting -= done
    for task in (stopped, *waiting):
        task.cancel()
    # None may be about to start a process.
    await asyncio.gather(*waiting, return_exceptions=True)
    return failed


async def _restart_all(children: Sequence[_Child], restart: asyncio.Event, grace: float, hurry: asyncio.Event) -> None:
    while True:
        await restart.wait()
        restart.clear()
        await asyncio.gather(*(child.restart(grace, hurry) for child in children))


async def _stop_all(children: Sequence[_Child], grace: float, hurry: asyncio.Event) -> None:
    for _, alike in groupby(reversed(children), key=lambda child: child.kind):
        await asyncio.gather(*(child.stop(grace, hurry) for child in alike))


def _described(status: int) -> str:
    return f"with exit status {status}" if status >= 0 else f"by signal {-status} ({signal.strsignal(-status)})"
