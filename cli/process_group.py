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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from atlas.logs import get_logger

PARENT_FD = "ATLAS_PARENT_FD"
# What a program may need beyond its grace time to close its connections.
MARGIN_SECONDS = 5.0
# Between the end of a program and its restart, so that one that fails at once does not spin.
RESTART_SECONDS = 1.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """One child: its name in the logs, and its argv.

    With `restarts` it is started again after it was killed: a job that kills its worker must not stop Atlas.
    """

    name: str
    argv: Sequence[str]
    restarts: bool = False


Children: TypeAlias = list[tuple[ChildProcess, asyncio.subprocess.Process]]


async def run_group(programs: Sequence[ChildProcess], *, grace: float, may_end: bool = False) -> int:
    """Run the programs until a signal or until one of them ends, then stop the rest. Returns the exit status.

    They start in the given order and stop in the reverse order, each with `grace` seconds to finish its work. A second
    signal kills all of them. A program that ends by itself is a failure. With `may_end` it is none if its exit status
    is 0, and the others are waited for.
    """
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    reading, writing = os.pipe()
    children: Children = []
    try:
        for program in programs:
            children.append((program, await _start(program, reading)))
        failed = await _watch(children, reading, stop, may_end=may_end)
        await _stop_all(children, grace, hurry)
        return 1 if failed else 0
    finally:
        for _, child in children:
            if child.returncode is None:
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


async def _start(program: ChildProcess, reading: int) -> asyncio.subprocess.Process:
    child = await asyncio.create_subprocess_exec(
        *program.argv,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,  # stdout belongs to the one document that the command may print
        start_new_session=True,
        pass_fds=(reading,),
        env={**os.environ, PARENT_FD: str(reading)},
    )
    log.info("program started", program=program.name, pid=child.pid)
    return child


async def _watch(children: Children, reading: int, stop: asyncio.Event, *, may_end: bool) -> bool:
    """Wait for a signal, for the failure of a child, or for the end of the last one. Returns whether one failed."""
    stopped = asyncio.create_task(stop.wait())
    running = {asyncio.create_task(child.wait()): position for position, (_, child) in enumerate(children)}
    failed = False
    while running and not failed and not stop.is_set():
        done, _ = await asyncio.wait([stopped, *running], return_when=asyncio.FIRST_COMPLETED)
        for task in done & running.keys():
            position = running.pop(task)
            program, child = children[position]
            if program.restarts and child.returncode is not None and child.returncode < 0:
                log.warning("program was killed and is started again", program=program.name, status=child.returncode)
                await asyncio.wait([stopped], timeout=RESTART_SECONDS)
                if not stop.is_set():
                    children[position] = (program, await _start(program, reading))
                    running[asyncio.create_task(children[position][1].wait())] = position
            elif child.returncode != 0 or not may_end:
                failed = True
                log.error("program ended by itself", program=program.name, status=child.returncode)
    for task in (stopped, *running):
        task.cancel()
    return failed


async def _stop_all(children: Children, grace: float, hurry: asyncio.Event) -> None:
    for program, child in reversed(children):
        if child.returncode is not None:
            continue
        child.terminate()
        ended, hurried = asyncio.create_task(child.wait()), asyncio.create_task(hurry.wait())
        await asyncio.wait([ended, hurried], timeout=grace + MARGIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not ended.done():
            log.warning("program did not stop in time and is killed", program=program.name)
            child.kill()
        await ended
        log.info("program stopped", program=program.name, status=child.returncode)
