"""Handlers that fork: their children do not go on as a second copy of the worker."""

import signal
import subprocess
import sys
from typing import Any

import orjson
import pytest

from atlas.workers.attempts.forked_child import RETURNED_STATUS
from tests.workers.processes import workers

TYPES = "fork.async,fork.thread,fork.multiprocessing,fork.subprocess,fork.bystander"
OPTIONS: dict[str, Any] = {"lease": 30, "app": "tests.workers.forking", "concurrency": 40}
UNFINISHED = "select count(*) from atlas.jobs where status in ('queued', 'running')"


@pytest.fixture
async def effects(owner) -> None:
    """Where handlers record that they ran."""
    await owner.execute("create table effects (job_id uuid, attempt int); grant all on effects to public")


async def outputs(pool: Any, job_type: str) -> dict[str, Any]:
    rows = await pool.fetch(
        "select input, output, status::text, error from atlas.jobs where job_type = $1 order by id", job_type
    )
    assert [row["error"] for row in rows if row["status"] != "succeeded"] == []
    return {next(iter(orjson.loads(row["input"]).values()), ""): orjson.loads(row["output"]) for row in rows}


@pytest.mark.long
async def test_a_forked_child_that_leaves_its_handler_ends_and_the_bystanders_run_once(
    pool, database_url, given, effects, eventually
):
    bystanders = await given("fork.bystander", *({} for _ in range(20)))
    behaviours = ("returns", "raises", "awaits", "uses_pool", "exits", "executes")
    await given("fork.async", *({"child": behaviour} for behaviour in behaviours))
    await given("fork.thread", {})
    async with workers(database_url, 1, types=TYPES, **OPTIONS) as [one]:
        await eventually(UNFINISHED, equals=0)
        assert one.returncode is None

    left = {"exit_code": RETURNED_STATUS}
    assert await outputs(pool, "fork.async") == {
        **dict.fromkeys(("returns", "raises", "awaits", "uses_pool"), left),
        "exits": {"exit_code": 7},
        "executes": {"exit_code": 8},
    }
    assert await outputs(pool, "fork.thread") == {"": left}
    marks = await pool.fetch("select job_id, attempt from effects")
    assert sorted(row["job_id"] for row in marks) == sorted(bystanders)
    assert {row["attempt"] for row in marks} == {one.pid}


@pytest.mark.long
async def test_handlers_use_multiprocessing_and_subprocess_as_anywhere_else(pool, database_url, given, eventually):
    """A signal for a child does not reach the worker, and the child may run an event loop of its own."""
    methods = ("fork", "spawn", "forkserver")
    await given("fork.multiprocessing", *({"method": method} for method in methods))
    await given("fork.subprocess", {})
    async with workers(database_url, 1, types=TYPES, **OPTIONS) as [one]:
        await eventually(UNFINISHED, equals=0, within=120)
        assert one.returncode is None
    ended = {"squares": [1, 4, 9], "exit_code": -signal.SIGTERM}
    assert await outputs(pool, "fork.multiprocessing") == dict.fromkeys(methods, ended)
    assert await outputs(pool, "fork.subprocess") == {"": {"plain": 0, "said": "hello\n"}}


@pytest.mark.parametrize(("loop", "child_awaits"), [("asyncio", "next turn"), ("uvloop", "future")])
def test_nothing_that_was_scheduled_runs_in_a_child(loop, child_awaits):
    run = subprocess.run(
        [sys.executable, "-c", SCHEDULES, loop, child_awaits], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout.splitlines() == [f"child ended with {RETURNED_STATUS}", "ready", "timer", "socket"], run.stderr


@pytest.mark.parametrize("forks_in", ["event loop", "thread"])
def test_a_signal_for_a_child_that_has_only_begun_does_not_reach_the_worker(forks_in):
    """On a busy machine a child is off its processor for long between the fork and what separates it."""
    run = subprocess.run(
        [sys.executable, "-c", SIGNALS, forks_in], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout.splitlines() == [f"child ended with {-signal.SIGTERM}", "the worker goes on"], run.stderr


SIGNALS = """
import asyncio, os, signal, sys, time
from atlas.workers.attempts.forked_child import guard_forks

# Before what guard_forks registers.
os.register_at_fork(after_in_child=lambda: time.sleep(0.5))

def fork():
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    os.kill(child, signal.SIGTERM)
    print(f"child ended with {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}", flush=True)

async def main():
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    guard_forks(loop)
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    fork() if sys.argv[1] == "event loop" else await asyncio.to_thread(fork)
    await asyncio.sleep(0.1)
    print("the worker stops" if stopped.is_set() else "the worker goes on", flush=True)
    # Its own signals reach it as before.
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(stopped.wait(), 10)

asyncio.run(main())
"""

SCHEDULES = """
import asyncio, importlib, os, socket, sys
from atlas.logs import configure_logs
from atlas.workers.attempts.forked_child import guard_forks

def say(text):
    os.write(1, f"{text}\\n".encode())

async def main():
    loop = asyncio.get_running_loop()
    guard_forks(loop)
    ours, theirs = socket.socketpair()
    done = loop.create_future()

    def read():
        loop.remove_reader(ours)
        say("socket")
        done.set_result(None)

    loop.add_reader(ours, read)
    child = os.fork()
    if child == 0:
        await (done if sys.argv[2] == "future" else asyncio.sleep(0))
        say("the child went on")
    say(f"child ended with {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")
    await asyncio.sleep(0.02)
    theirs.send(b"x")
    await done

async def schedule():
    loop = asyncio.get_running_loop()
    task = loop.create_task(main())
    loop.call_soon(say, "ready")
    loop.call_later(0.01, say, "timer")
    await task

configure_logs()
with asyncio.Runner(loop_factory=importlib.import_module(sys.argv[1]).new_event_loop) as runner:
    runner.run(schedule())
"""
