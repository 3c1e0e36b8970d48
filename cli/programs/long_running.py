"""Runs a long-running program on an open installation, until it is done or stopped."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from atlas.cli.connection.needs_database import require_database
from atlas.cli.programs.process_group import ChildProcess, follow_parent
from atlas.cli.runtime import CONNECTION_SECONDS, Atlas, open_atlas, read_settings
from atlas.errors import DatabaseNotReady
from atlas.logs import RepeatedWarning, get_logger
from atlas.waiting import wait_for

try:
    import uvloop

    NEW_LOOP: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:
    NEW_LOOP = asyncio.new_event_loop

T = TypeVar("T")

# Between attempts to begin on a database that is not ready.
AGAIN_SECONDS = 2.0
# Between two signs of life in ATLAS_ALIVE_FILE.
ALIVE_SECONDS = 5.0

log = get_logger(__name__)


def atlas_argv(*arguments: str) -> list[str]:
    """The argv of an `atlas` command as a child process. `-P` keeps the working folder off the import path."""
    return [sys.executable, "-P", "-m", "atlas.cli.main", *arguments]


def copies(name: str, count: int, *more: str) -> list[ChildProcess]:
    """This command as several child processes, with more arguments for each."""
    # The last --processes wins, so each child is one process.
    argv = atlas_argv(*sys.argv[1:], *more, "--processes", "1")
    return [ChildProcess(f"{name} {n + 1}", argv, kind=name) for n in range(count)]


def relax_garbage_collection() -> None:
    """Freeze what is loaded by now, which stays anyway, and collect less often: jobs make few reference cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def run_program(
    work: Callable[[Atlas, asyncio.Event], Coroutine[Any, Any, T]],
    *,
    size: int,
    tries_again: bool = True,
    **overrides: object,
) -> T:
    """Run `work` with an open installation and an event that SIGTERM, SIGINT or the parent's end sets.

    Where it cannot begin because the database lacks disk, memory or connections, it tries again until it can.
    """
    settings = read_settings(late_logs=False, **overrides)
    require_database(settings)
    stop = asyncio.Event()

    async def run() -> T:
        follow_parent(grace=settings.atlas_grace_seconds)
        touching = asyncio.create_task(_show_life(settings.atlas_alive_file))
        try:
            return await begin()
        finally:
            touching.cancel()

    # A program that tries again waits for a connection that way.
    wait = 0.0 if tries_again else CONNECTION_SECONDS

    async def begin() -> T:
        while True:
            try:
                opening = open_atlas(settings, wait_seconds=wait, size=size, program=True, checks_inputs=True)
                async with opening as atlas:
                    relax_garbage_collection()
                    return await work(atlas, stop)
            except DatabaseNotReady as error:
                if not tries_again:
                    raise
                log.error("the program cannot begin now and tries again", reason=str(error))
                if await wait_for(stop, within=AGAIN_SECONDS):
                    raise

    with asyncio.Runner(loop_factory=NEW_LOOP) as runner:
        loop = runner.get_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        return _complete(loop, loop.create_task(run()))


async def _show_life(file: Path | None) -> None:
    """Touch the file for as long as the event loop runs: a probe looks at its age."""
    failed = RepeatedWarning(log, "ATLAS_ALIVE_FILE cannot be written")
    while file is not None:
        # Not in a thread: handlers may have taken all of them.
        _touch(file, failed)
        await asyncio.sleep(ALIVE_SECONDS)


def _touch(file: Path, failed: RepeatedWarning) -> None:
    try:
        file.touch()
    except OSError as error:
        failed.log(reason=str(error))


def _complete(loop: asyncio.AbstractEventLoop, program: asyncio.Task[T]) -> T:
    """Run the event loop until the program ends.

    A task that ends in KeyboardInterrupt or SystemExit stops the event loop. A handler may begin such a task:
    `asyncio.wait_for(…)` does. The exception is also the task's result, so the loop goes on, and the handler gets it.
    """
    while True:
        try:
            return loop.run_until_complete(program)
        except (KeyboardInterrupt, SystemExit) as error:
            if program.done():
                raise
            log.error("a task of a handler tried to end the program", reason=repr(error))
