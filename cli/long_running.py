"""Runs a long-running program on an open installation, until it is done or stopped."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from atlas.cli.process_group import follow_parent
from atlas.cli.runtime import Atlas, execute, open_atlas
from atlas.settings import Settings

T = TypeVar("T")


def atlas_argv(*arguments: str) -> list[str]:
    """The argv of an `atlas` command as a child process. `-P` keeps the working folder off the import path."""
    return [sys.executable, "-P", "-m", "atlas.cli.main", *arguments]


def relax_garbage_collection() -> None:
    """Freeze what is loaded by now, which stays anyway, and collect less often: jobs make few reference cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def run_program(work: Callable[[Atlas, asyncio.Event], Coroutine[Any, Any, T]], *, size: int, **overrides: object) -> T:
    """Run `work` with an open installation and an event that SIGTERM, SIGINT or the parent's end sets."""

    async def run(settings: Settings) -> T:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        follow_parent(grace=settings.atlas_grace_seconds)
        async with open_atlas(settings, size=size) as atlas:
            relax_garbage_collection()
            return await work(atlas, stop)

    return execute(run, **overrides)
