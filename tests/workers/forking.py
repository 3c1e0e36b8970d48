"""Handlers that fork, or start other processes, for the tests of what becomes of their children."""

import asyncio
import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from typing import Any

from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job

# How long a bystander runs: a child that went on would end it a second time.
BYSTANDER_SECONDS = 0.5
CHILD_SECONDS = 20.0


def exit_code_of(pid: int) -> int | None:
    """The exit code of a child, None if it goes on."""
    until = time.monotonic() + CHILD_SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        threading.Event().wait(0.02)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return None


@job("fork.async", max_retries=0)
async def fork_async(input: dict[str, Any], ctx: JobContext) -> dict[str, Any]:
    """Forks on the event loop. The child does what the input says."""
    pid = os.fork()
    if pid == 0:
        match input["child"]:
            case "raises":
                raise ValueError("in the child")
            case "awaits":
                await asyncio.sleep(0)
            case "uses_pool":
                with contextlib.suppress(Exception):
                    async with ctx.pool.acquire() as conn:
                        await conn.execute("insert into effects values ($1, 99)", ctx.job_id)
            case "exits":
                os._exit(7)
            case "executes":
                os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(8)"])
        return {"in_child": True}
    return {"exit_code": await asyncio.to_thread(exit_code_of, pid)}


@job("fork.thread", max_retries=0)
def fork_in_thread(input: dict[str, Any]) -> dict[str, Any]:
    """Forks in a thread."""
    pid = os.fork()
    if pid == 0:
        return {"in_child": True}
    return {"exit_code": exit_code_of(pid)}


def square(number: int) -> int:
    return asyncio.run(_square(number))


async def _square(number: int) -> int:
    await asyncio.sleep(0.01)
    return number * number


def sleep() -> None:
    threading.Event().wait(CHILD_SECONDS)


@job("fork.multiprocessing", max_retries=0)
def use_multiprocessing(input: dict[str, Any]) -> dict[str, Any]:
    """Computes in child processes, and ends one of them by a signal."""
    context: Any = multiprocessing.get_context(input["method"])
    with context.Pool(2) as pool:
        squares = pool.map(square, [1, 2, 3])
    process = context.Process(target=sleep)
    process.start()
    process.terminate()
    process.join(CHILD_SECONDS)
    return {"squares": squares, "exit_code": process.exitcode}


@job("fork.subprocess", max_retries=0)
async def use_subprocess(input: dict[str, Any]) -> dict[str, Any]:
    """Runs programs, with and without code between fork and exec."""
    plain = await asyncio.create_subprocess_exec("true")
    command = [sys.executable, "-c", "print('hello')"]
    said = await asyncio.to_thread(subprocess.run, command, capture_output=True, preexec_fn=os.getpid)
    return {"plain": await plain.wait(), "said": said.stdout.decode()}


@job("fork.bystander", max_retries=0)
async def bystander(input: dict[str, Any], ctx: JobContext) -> None:
    """Leaves a mark when it ends."""
    await asyncio.sleep(BYSTANDER_SECONDS)
    async with ctx.pool.acquire() as conn:
        await conn.execute("insert into effects (job_id, attempt) values ($1, $2)", ctx.job_id, os.getpid())
