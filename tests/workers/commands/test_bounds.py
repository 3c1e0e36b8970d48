"""Programs that misbehave: each is gone within its limit and two seconds, and the worker does not notice."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import time
from typing import Any
from uuid import uuid4

import orjson
import psutil
import pytest

from atlas.engine.jobs.actions.cancel import cancel
from atlas.programs.runner import Order, start
from atlas.workers.commands.types import load_command_types
from tests.support import DANA, PROOF

LIMIT = 1
MARGIN = 2.0
LIMITS = {"memory_mb": 256, "processes": 40, "files": 64, "file_size_mb": 8}

FORK_BOMB = "b() { b | b & }; b; while :; do :; done"
# Every child leaves the session, so that no signal to a group finds it.
SCATTERING = """#!/bin/sh
while :; do setsid "$0" & done 2>/dev/null
"""
FLOOD = f"yes 0123456789abcdef | head -c {10 * 2**30}"
DEAF = "trap '' TERM INT HUP; while :; do sleep 0.05; done"
FORGETFUL = "setsid sleep 300 & sleep 300 & nohup setsid sh -c 'trap \"\" TERM; sleep 300' >/dev/null 2>&1 & exit 0"


def left_behind(job_id: Any) -> list[str]:
    """What still runs in the folder of a job's command, removed or not."""
    found = []
    for process in psutil.process_iter(["cwd", "cmdline"]):
        if f"/atlas-job-{job_id}-" in (process.info["cwd"] or ""):
            found.append(" ".join(process.info["cmdline"] or ["?"]))
    return found


async def seconds(pool: Any, job_id: Any) -> float:
    """How long the attempt took, on the database's clock."""
    took = await pool.fetchval("select duration_ms from atlas.job_runs where job_id = $1", job_id)
    return took / 1000


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "text", "status"),
    [
        ("fork-bomb", FORK_BOMB, "timeout"),
        ("scattering-bomb", SCATTERING, "failed"),
        ("flood", FLOOD, "timeout"),
        ("deaf", DEAF, "timeout"),
        ("forgetful", FORGETFUL, "succeeded"),
    ],
)
async def test_a_program_that_will_not_end_is_ended_with_all_it_started(
    define, order, run_commands, story, pool, name, text, status
):
    limit = 40 if PROOF and name == "flood" else LIMIT
    await define(name, text, timeout_seconds=limit, max_retries=0, limits=LIMITS)
    job_id = await order(name)
    before = psutil.Process().memory_info().rss

    await run_commands()

    grown = psutil.Process().memory_info().rss - before
    job, attempt = await story(job_id)
    took = await seconds(pool, job_id)
    print(f"{name}: {attempt['status']} after {took:.2f} s of {limit} s, worker {grown / 2**20:+.1f} MiB", end=" ")
    print(f"{attempt['result']['stdout_bytes']:,} bytes written")
    assert attempt["status"] in ((status, "succeeded") if name == "flood" else (status,))
    assert took <= limit + MARGIN
    assert grown < 24 * 2**20
    assert left_behind(job_id) == []
    assert len(attempt["stdout_tail"]) <= 64 * 1024 + 100
    if attempt["status"] == "timeout":
        assert job.dead_lettered_at is not None
        assert job.error["type"] == "JobTimeout"


@pytest.mark.long
async def test_the_beginning_and_the_end_of_a_flood_are_kept(define, order, run_commands, story):
    await define("flood", "echo begin; yes | head -c 20000000; echo; echo end")
    job_id = await order("flood")
    await run_commands()

    _, attempt = await story(job_id)
    kept = attempt["stdout_tail"]
    assert kept.startswith("begin\ny\ny\n")
    assert kept.endswith("y\n\nend\n")
    assert "bytes left out]" in kept
    assert attempt["result"]["stdout_bytes"] == 20_000_011


@pytest.mark.long
async def test_other_jobs_go_on_while_a_program_floods(define, order, given, serving, pool, eventually):
    await define("flood", FLOOD, timeout_seconds=20, max_retries=0)
    job_id = await order("flood")
    async with serving("test.noop", load_types=load_command_types, concurrency=4):
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
        began = time.monotonic()
        await given("test.noop", *({} for _ in range(50)))
        await eventually(
            "select count(*) from atlas.jobs where job_type = 'test.noop' and status = 'succeeded'", equals=50
        )
        took = time.monotonic() - began
        async with pool.acquire() as conn:
            await cancel(conn, job_id, actor=DANA)
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="canceled", within=5)
    assert took < 5


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "text", "limits", "sign"),
    [
        ("hog", "x=$(yes | head -c 900000000); echo kept", {"memory_mb": 64}, ""),
        ("burner", "while :; do :; done", {"cpu_seconds": 1}, "SIG"),
        ("writer", "exec head -c 20000000 /dev/zero > big", {"file_size_mb": 1}, "SIGXFSZ"),
    ],
)
async def test_a_program_that_uses_too_much_fails(define, order, run_commands, story, name, text, limits, sign):
    await define(name, text, timeout_seconds=20, max_retries=0, limits=limits)
    job_id = await order(name)
    await run_commands()

    job, attempt = await story(job_id)
    assert (job.status, attempt["status"]) == ("failed", "failed"), attempt
    assert sign in job.error["message"]


def test_the_timeout_holds_when_nothing_reads_the_output_of_a_program(program, tmp_path):
    path = program("teller", f"while :; do echo '::progress 1 {'😀' * 500}'; sleep 0.05; done")
    bounds = {"limits": {}, "time_limit": 1.0, "grace": 1.0, "own_user": False}
    order = {"argv": [path], "env": {"PATH": os.environ["PATH"]}, "folder": str(tmp_path / "own"), **bounds}
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "atlas.programs.supervisor"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        fcntl.fcntl(supervisor.stdout, fcntl.F_SETPIPE_SZ, 4096)
        supervisor.stdin.write(orjson.dumps(order) + b"\n")
        supervisor.stdin.flush()
        began = time.monotonic()
        started = orjson.loads(os.read(supervisor.stdout.fileno(), 4096))["started"]
        while psutil.pid_exists(started) and time.monotonic() < began + 10:
            time.sleep(0.05)
        assert time.monotonic() < began + LIMIT + MARGIN
    finally:
        supervisor.kill()
        supervisor.communicate()


async def test_a_program_that_is_stopped_before_it_begins_never_does(program, tmp_path):
    async def ignore(*_: Any) -> None:
        return None

    touch = program("touch", 'touch "$1"')
    order = Order([touch, str(tmp_path / "begun")], {"PATH": os.environ["PATH"]}, {}, 60.0, own_user=False)
    run = await start(uuid4(), order, ignore)
    result = await run.stop()

    assert (result.exit_code, result.timed_out, result.stdout.total) == (-signal.SIGTERM, False, 0)
    assert not (tmp_path / "begun").exists()


@pytest.mark.long
async def test_a_program_goes_with_a_worker_that_is_killed(define, order, pool, database_url, eventually):
    await define("long", "setsid sleep 60 & sleep 60", timeout_seconds=60)
    job_id = await order("long")
    code = f"""
import asyncio
from atlas.db.pool import open_pool
from atlas.workers.commands.types import load_command_types
from atlas.workers.worker import Worker, WorkerOptions

async def main():
    pool = await open_pool({database_url!r})
    await Worker(pool, {database_url!r}, WorkerOptions([], load_types=load_command_types)).run()

asyncio.run(main())
"""
    silent = asyncio.subprocess.DEVNULL
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=silent, stderr=silent)
    try:
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
        async with asyncio.timeout(10):
            while len(left_behind(job_id)) < 3:
                await asyncio.sleep(0.02)
    finally:
        worker.kill()
        await worker.wait()
    async with asyncio.timeout(MARGIN):
        while left_behind(job_id):
            await asyncio.sleep(0.02)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a program a user of its own")
async def test_detached_processes_end_before_a_job_whose_supervisor_was_killed_has_failed(
    define, order, run_commands, story
):
    scatter = "setsid sh -c 'while :; do sleep 0.1; done' >/dev/null 2>&1 &\nsleep 300"
    job_id = await order(await define("scatter", scatter, timeout_seconds=60, max_retries=0))
    running = asyncio.create_task(run_commands())
    async with asyncio.timeout(20):
        while len(left_behind(job_id)) < 3:
            await asyncio.sleep(0.05)
    [supervisor] = [
        child for child in psutil.Process().children() if any("supervisor" in word for word in child.cmdline())
    ]
    supervisor.kill()
    await asyncio.wait_for(running, 20)

    job, _ = await story(job_id)
    assert (job.status, job.error["type"]) == ("failed", "SupervisorLost")
    assert left_behind(job_id) == []


def test_without_root_detached_descendants_are_found():
    """The way of ending everything that needs no user of its own, in a process that can fail by itself."""
    code = """
import os, signal
from atlas.programs.sandbox import _descendants, adopt_orphans, end_all
adopt_orphans()
group = os.fork()
if group == 0:
    for _ in range(4):
        os.fork()
        os.setsid() if os.getsid(0) != os.getpid() else None
    while True:
        signal.pause()
while len(list(_descendants(os.getpid()))) < 16:
    pass
reaped = [pid for pid, *_ in end_all(group, None)]
assert group in reaped
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("nothing left of", len(reaped))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)

    assert done.stdout == "nothing left of 16\n", done.stderr
