"""The life of a command job: what its program says and how it ends decide what becomes of it."""

import asyncio
import subprocess
import sys
from datetime import timedelta
from typing import Any

import orjson
import pytest

from atlas.engine.commands.active_definitions import load_active_definition
from atlas.engine.commands.definitions import disable_definition, edit_definition
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.lists.find import list_attempts
from atlas.engine.jobs.switches.gate import switch, wait_until_closed
from atlas.workers.commands.types import load_command_types
from atlas.workers.tick import tick
from tests.support import DANA

TEXT = {"type": "string"}


async def test_the_output_of_a_program_is_kept_with_its_attempt(define, order, run_commands, story):
    await define("say", "echo out; echo err >&2; echo '::output [1]'", description="Says something.")
    job_id = await order("say")
    await run_commands()

    job, attempt = await story(job_id)
    assert (job.status, job.output) == ("succeeded", [1])
    assert (attempt["exit_code"], attempt["stderr_tail"]) == (0, "err\n")
    assert attempt["stdout_tail"].startswith("out\n")
    assert attempt["pid"] > 1
    assert 0 < attempt["duration_ms"] < 10_000
    assert attempt["result"]["argv"][0].endswith("/say")
    assert attempt["job_run_id"] == f"{job_id}:1"


async def test_a_program_does_not_start_when_atlas_went_offline_since_its_job_did(
    pool, define, order, serving, eventually, tmp_path, monkeypatch
):
    """The handler has started and reads the definition; the program is what would start after the switch."""
    await define("touch", "true")
    job_id = await order("touch")
    began, offline = asyncio.Event(), asyncio.Event()

    async def slow(*given: Any) -> Any:
        began.set()
        await offline.wait()
        return await load_active_definition(*given)

    monkeypatch.setattr("atlas.workers.commands.handler.load_active_definition", slow)
    async with serving("test.noop", load_types=load_command_types), pool.acquire() as conn:
        await began.wait()
        gate = await wait_until_closed(conn, await switch(conn, online=False, actor=DANA))
        assert (gate.confirmed, gate.workers) == (1, 1)
        offline.set()
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="queued")
        attempts = await list_attempts(conn, job_id)
        assert [(attempt["status"], attempt["outcome"], attempt["pid"]) for attempt in attempts] == [
            ("canceled", "released", None)
        ]
        await switch(conn, online=True, actor=DANA)
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="succeeded")


async def test_progress_is_seen_while_the_program_runs(define, order, serving, eventually):
    await define("walk", "echo '::progress 40 \033[31mresizing'; while :; do sleep 0.05; done")
    job_id = await order("walk")
    async with serving("test.noop", load_types=load_command_types, grace=0):
        sql = "select progress->>'percent' || ' ' || (progress->>'message') from atlas.jobs where id = $1"
        await eventually(sql, job_id, equals="40.0 resizing")


async def test_a_flood_of_progress_is_passed_on_as_it_was_last(define, order, run_commands, story):
    text = "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo ::progress $i step; done; echo '::progress ninety x'; echo '::nothing'"
    await define("hurry", text)
    job_id = await order("hurry")
    await run_commands()

    job, _ = await story(job_id)
    assert (job.progress["percent"], job.progress["message"]) == (100, "step")


async def test_a_failure_is_retried_by_policy_and_becomes_a_dead_letter(define, order, run_commands, story, pool):
    policy = {"name": "custom", "base": 0, "factor": 1, "cap": 0, "jitter": 0}
    await define("fail", "echo first; echo 'disk is full' >&2; exit 3", max_retries=2, retry_policy=policy)
    job_id = await order("fail")
    await run_commands()

    job, attempt = await story(job_id)
    assert (job.status, job.retry_count, job.attempt_count) == ("failed", 3, 3)
    assert job.dead_lettered_at is not None
    assert job.error["message"] == "The program ended with exit status 3: disk is full"
    assert (attempt["status"], attempt["exit_code"], attempt["stderr_tail"]) == ("failed", 3, "disk is full\n")
    assert (
        await pool.fetchval("select count(*) from atlas.job_attempts where job_id = $1 and exit_code = 3", job_id) == 3
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kill -9 $$", "was ended by SIGKILL"),
        ("echo '::output {'", "its ::output line is not JSON"),
        ("printf '::output {\"a\": \"'; head -c 300000 /dev/zero | tr '\\0' x; echo '\"}'", "longer than 256 KiB"),
    ],
)
async def test_how_a_program_failed_is_recorded(define, order, run_commands, story, text, reason):
    await define("wrong", text, max_retries=0)
    job_id = await order("wrong")
    await run_commands()

    job, _ = await story(job_id)
    assert job.status == "failed"
    assert reason in job.error["message"]


async def test_a_missing_program_is_reported_with_a_remedy(define, order, run_commands, story, pool):
    await define("gone", "true", max_retries=0)
    async with pool.acquire() as conn:
        await edit_definition(conn, "gone", {"argv": ["/opt/no/such/program"]}, actor=DANA)
    job_id = await order("gone")
    await run_commands()

    job, _ = await story(job_id)
    assert job.error["message"].startswith("/opt/no/such/program could not be started: No such file or directory.")


async def test_a_canceled_command_is_ended_and_its_output_is_kept(define, order, serving, eventually, story, pool):
    await define("wait", "echo waiting; setsid sleep 60 & while :; do sleep 0.05; done", timeout_seconds=60)
    job_id = await order("wait")
    async with serving("test.noop", load_types=load_command_types):
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
        await asyncio.sleep(0.3)
        async with pool.acquire() as conn:
            assert await cancel(conn, job_id, actor=DANA) == "requested"
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="canceled", within=4)

    _, attempt = await story(job_id)
    assert (attempt["status"], attempt["stdout_tail"]) == ("canceled", "waiting\n")


async def test_a_worker_that_stops_gives_its_commands_back_uncounted(define, order, serving, eventually, story):
    await define("wait", "while :; do sleep 0.05; done", timeout_seconds=60)
    job_id = await order("wait")
    async with serving("test.noop", load_types=load_command_types, grace=0.1):
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")

    job, _ = await story(job_id)
    assert (job.status, job.retry_count, job.lost_count) == ("queued", 0, 0)


async def test_a_worker_serves_definitions_that_come_change_and_go_while_it_runs(
    define, order, serving, eventually, story, pool
):
    status = "select status::text from atlas.jobs where id = $1"
    async with serving("test.noop", load_types=load_command_types, poll=0.05) as worker:
        await define("late", "echo '::output {\"n\": 1}'")
        first = await order("late")
        await eventually(status, first, equals="succeeded")
        served = "select 'late' = any (job_types) from atlas.job_workers where worker_id = $1"
        await eventually(served, worker.id, equals=True)

        waiting = await order("late", delay=timedelta(hours=1))
        async with pool.acquire() as conn:
            await edit_definition(conn, "late", {"description": "changed", "timeout_seconds": 7}, actor=DANA)
            await disable_definition(conn, "late", actor=DANA)
        await eventually(served, worker.id, equals=False)
        await pool.execute("update atlas.jobs set next_retry_at = null where id = $1", waiting)
        # One claim passes over it for sure before the definition comes back.
        await pool.execute("select pg_notify('atlas_jobs', '')")
        other = await order_noop(pool)
        await eventually(status, other, equals="succeeded")
        assert (await story(waiting))[0].status == "queued"
        assert (await explain(pool, waiting)).sentence.startswith("The definition late is disabled.")

        async with pool.acquire() as conn:
            await edit_definition(conn, "late", {"is_active": True}, actor=DANA)
        await eventually(status, waiting, equals="succeeded")


async def order_noop(pool: Any) -> Any:
    return await pool.fetchval("select id from atlas.enqueue('system', 'test.noop', allow_unknown => true)")


async def test_a_job_claimed_just_before_its_definition_was_disabled_waits(define, order, run_commands, story, owner):
    await define("late", "true")
    job_id = await order("late")
    known = await load_command_types(owner)
    await owner.execute("update atlas.job_definitions set is_active = false")

    async def stale(_: Any) -> Any:
        return known

    await run_commands(load_types=stale)
    job, attempt = await story(job_id)
    assert (job.status, job.retry_count, attempt["outcome"]) == ("queued", 0, "snoozed")


@pytest.mark.long
async def test_no_more_run_at_once_than_a_definition_allows(define, order, serving, eventually, pool):
    await define("one", "sleep 0.15", concurrency=2)
    jobs = [await order("one") for _ in range(8)]
    running = "select count(*) from atlas.jobs where job_type = 'one' and status = 'running'"
    most = 0
    async with serving("test.noop", load_types=load_command_types, poll=0.05):
        async with serving("test.noop", load_types=load_command_types, poll=0.05):
            async with asyncio.timeout(20):
                while await pool.fetchval("select count(*) from atlas.jobs where status = 'succeeded'") < len(jobs):
                    most = max(most, await pool.fetchval(running))
                    await asyncio.sleep(0.01)
    assert most == 2


async def test_values_of_the_workers_own_environment_are_not_recorded(define, order, run_commands, story, monkeypatch):
    monkeypatch.setenv("UPSTREAM_TOKEN", "t0ps3cret-value")
    await define("leak", "echo $UPSTREAM_TOKEN; exit 1", env={"UPSTREAM_TOKEN": None}, max_retries=0)
    job_id = await order("leak")
    await run_commands()

    job, attempt = await story(job_id)
    assert "t0ps3cret" not in orjson.dumps([job.error, attempt["stdout_tail"], attempt["error_text"]]).decode()
    assert "[secret of the worker's environment]" in attempt["stdout_tail"]


async def test_a_value_of_the_workers_environment_is_passed_on_byte_by_byte(
    define, order, run_commands, story, monkeypatch
):
    monkeypatch.setenv("PLACE", "caf\udce9")
    monkeypatch.setenv("UPSTREAM_TOKEN", "t0ps3cret\udce9")
    tell = "printf '%s' \"$PLACE\" | od -An -tx1; printf '%s' \"$UPSTREAM_TOKEN\""
    await define("places", tell, env={"PLACE": None, "UPSTREAM_TOKEN": None, "PATH": "/usr/bin:/bin"}, max_retries=0)
    job_id = await order("places")
    await run_commands()

    job, attempt = await story(job_id)
    assert (job.status, attempt["stdout_tail"]) == (
        "succeeded",
        " 63 61 66 e9\n[secret of the worker's environment]",
    )


async def test_a_tick_runs_commands_too(define, order, pool, database_url, story):
    await define("say", "echo '::output {\"a\": 1}'")
    job_id = await order("say")

    assert (await tick(pool, database_url)).succeeded == 1
    assert (await story(job_id))[0].output == {"a": 1}


@pytest.mark.parametrize("correlation_id", ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "order-4711"])
async def test_a_program_gets_the_place_of_its_job_in_a_trace(define, order, run_commands, story, correlation_id):
    await define("trace", 'echo "at $TRACEPARENT."')
    job_id = await order("trace", correlation_id=correlation_id)
    await run_commands()

    _, attempt = await story(job_id)
    assert attempt["stdout_tail"] == f"at {correlation_id if correlation_id.startswith('00-') else ''}.\n"


WITHOUT_PRISMA = """
import asyncio, sys
from atlas.db.pool import open_pool
from atlas.settings import Settings
from atlas.workers.tick import Ticker

async def main(url):
    pool = await open_pool(url, size=4)
    ran = await Ticker(Settings())(pool, url)
    await pool.close()
    print(ran.succeeded, "atlas.generated" in sys.modules)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.long
async def test_a_worker_runs_commands_without_importing_the_generated_client(define, order, database_url):
    await define("say", "true")
    await order("say")
    ran = await asyncio.to_thread(
        subprocess.check_output, [sys.executable, "-c", WITHOUT_PRISMA, database_url], text=True
    )
    assert ran.split()[-2:] == ["1", "False"]
