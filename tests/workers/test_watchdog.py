"""A handler that keeps the event loop: its worker is ended from outside, its neighbours go on, its attempts say why."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import orjson
import pytest

from atlas.workers.watchdog.watchdog_process import Scheduled, Times, was_starved
from tests.support import ROOT

# Each look of the watchdog, a 24th of it, is long beside the time slices of a scheduler.
LEASE_SECONDS = 2
STALLS = """
import asyncio, ctypes, re, sys, time
from types import SimpleNamespace
from uuid import UUID
from atlas.workers.watchdog.loop_watchdog import LoopWatchdog, WorkerWatchdog
from atlas.workers.watchdog.thread_table import note_job

def match_in_a_thread():
    note_job(UUID(int=7))
    re.match(r"(a+)+$", "a" * 60 + "b")

async def main():
    how, lease = sys.argv[1], int(sys.argv[2])
    process = WorkerWatchdog("postgresql://127.0.0.1:1/none", SimpleNamespace(seconds=lease, worker_id="host:1:one"))
    watchdog = LoopWatchdog(lambda task: None, process)
    watchdog.start(asyncio.get_running_loop())
    # Where it only turns: for longer than after which a process that does not is ended.
    end = time.monotonic() + (2.5 * lease if how == "turns" else 0.2)
    while time.monotonic() < end:
        watchdog.beat()
        await asyncio.sleep(0.05)
    print("begins", flush=True)
    if how == "regex":
        re.match(r"(a+)+$", "a" * 60 + "b")
    elif how == "thread":
        await asyncio.to_thread(match_in_a_thread)
    elif how == "sleep":
        time.sleep(60)
    elif how == "call that keeps the lock":
        mutex = ctypes.create_string_buffer(64)
        for _ in range(2):
            ctypes.PyDLL(None).pthread_mutex_lock(mutex)
    watchdog.stop()

asyncio.run(main())
"""


def run_process(how: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", STALLS, how, str(LEASE_SECONDS)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=ROOT)


# Those that compute keep a processor for two leases; of the others, one keeps the interpreter's lock as they do.
COMPUTING = [pytest.param(how, marks=pytest.mark.long) for how in ("call that keeps the lock", "regex", "thread")]


@pytest.mark.parametrize("how", ["sleep", *COMPUTING])
def test_a_process_whose_event_loop_does_not_turn_is_ended_from_outside(how):
    run = run_process(how)
    assert (run.stdout, run.returncode) == ("begins\n", -signal.SIGKILL), run.stderr
    [ended] = [orjson.loads(line) for line in run.stderr.splitlines() if "its process is ended" in line]
    assert ended["worker_id"] == "host:1:one"
    assert 2 * LEASE_SECONDS <= ended["seconds"] < 2.5 * LEASE_SECONDS
    [noted] = [orjson.loads(line) for line in run.stderr.splitlines() if "a worker does not turn" in line]
    assert 'File "<string>", line' in noted["stack"]
    if how == "thread":
        assert noted["job_id"] == str(UUID(int=7))
        assert "in match_in_a_thread" in noted["stack"]
    else:
        assert noted["job_id"] is None


@pytest.mark.parametrize(
    ("loop", "thread", "is_starved"),
    [
        ((0.001, 0.0), None, False),  # asleep in a call
        ((1.0, 0.0), None, False),  # computing
        ((0.05, 0.95), None, True),
        ((0.2, 0.8), None, False),  # slow, but it would have turned
        ((0.001, 0.0), (1.0, 0.0), False),  # a plain function keeps the interpreter's lock
        ((0.001, 0.0), (0.05, 0.95), True),  # it cannot let go of it
        ((0.001, 0.0), (0.0, 0.0), False),  # it sleeps, and the event loop too
    ],
)
def test_time_in_which_the_machine_kept_the_worker_from_turning_is_not_held_against_it(loop, thread, is_starved):
    ran = {1: Scheduled(*loop), 2: thread and Scheduled(*thread)}
    before = Times(0.0, False, {number: Scheduled(0.0, 0.0) for number in ran})
    now = Times(1.0, False, {number: times for number, times in ran.items() if times is not None})
    assert was_starved(1, before, now, 1.0) == is_starved


@pytest.mark.long
def test_a_process_whose_event_loop_turns_is_left_alone():
    run = run_process("turns")
    assert (run.stdout, run.returncode, run.stderr) == ("begins\n", 0, "")


@asynccontextmanager
async def worker_group(url: str, *, lease: float) -> Any:
    """`atlas worker --processes 2`, stopped with all its processes at the end."""
    group = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "atlas.cli.main", "worker", "--types", "stall.regex,stall.thread,stall.bystander"),
        *("--app", "tests.workers.stalling", "--concurrency", "5", "--processes", "2", "--poll-ms", "200"),
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "ATLAS_LEASE_SECONDS": str(lease), "ATLAS_GRACE_SECONDS": "1"},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        group.terminate()
        await asyncio.wait_for(group.wait(), 60)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job_type", "function"), [("stall.regex", "match_for_ever"), ("stall.thread", "match_in_a_thread")]
)
async def test_a_handler_that_keeps_the_interpreter_is_poison_and_its_neighbours_are_done(
    pool, database_url, given, eventually, job_type, function
):
    """Ten seconds of lease leave the watchdog the time to report before it is over. A worker that gets next to no share of a
    processor in them is not at fault: then the lease expires without a report, and the job runs once more."""
    [stalls] = await given(job_type, max_retries=50)
    bystanders = await given("stall.bystander", *({} for _ in range(200)))
    async with worker_group(database_url, lease=10):
        done = "select count(*) from atlas.jobs where status = 'succeeded'"
        await eventually(done, equals=len(bystanders), within=90)
        await eventually("select status::text from atlas.jobs where id = $1", stalls, equals="failed", within=120)
    lost = await pool.fetch("select error_text from atlas.job_attempts where job_id = $1 order by attempt_no", stalls)
    starved = [row for row in lost if row["error_text"] == "The lease expired before an outcome was recorded."]
    reported = [row for row in lost if row not in starved]
    assert len(reported) == 2 or len(lost) == 3
    for row in reported:
        assert "event loop did not turn for" in row["error_text"]
        assert "The job's own handler kept it." in row["error_text"]
        assert f"in {function}" in row["error_text"]
    error = orjson.loads(await pool.fetchval("select error from atlas.jobs where id = $1", stalls))
    assert error["type"] == "Poison"
    assert lost[-1] in starved or "event loop did not turn" in error["message"]
    # The evidence speaks for them, where there is some: none was counted as lost.
    counted = await pool.fetchval("select max(lost_count) from atlas.jobs where id = any($1)", bystanders)
    assert counted <= len(starved)
