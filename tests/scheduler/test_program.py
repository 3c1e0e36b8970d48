"""The scheduler as a program: the functions of modules, the sealer, and an error in one line."""

import asyncio

import pytest

from atlas.engine.schedules.recurring import list_recurring
from atlas.scheduler.maintenance import Maintenance


@pytest.mark.long
async def test_a_module_registers_its_functions_and_the_audit_log_is_sealed(pool, conn, scheduler, eventually):
    running = await scheduler("--app", "tests.scheduler.functions")
    await eventually("select outcome from atlas.recurring_runs where recurring_id = 'tidy often'", equals="succeeded")
    await eventually("select exists (select from atlas.recurring_runs where recurring_id = 'sleep')")
    await eventually("select exists (select from atlas.audit_seal) and exists (select from atlas.audit_checkpoint)")
    running.terminate()

    assert await asyncio.wait_for(running.wait(), 10) == 0
    # Its time has not come.
    assert await pool.fetchval("select run_count from atlas.recurring_jobs where id = 'tidy'") == 0
    assert await pool.fetchval("select outcome from atlas.recurring_runs where recurring_id = 'sleep'") == "stopped"


@pytest.mark.long
async def test_a_run_of_a_process_that_was_killed_is_lost_and_due_again(pool, conn, scheduler, eventually):
    running = await scheduler("--app", "tests.scheduler.functions")
    await eventually("select exists (select from atlas.recurring_runs where recurring_id = 'sleep')")
    running.kill()
    await running.wait()
    await conn.execute("update atlas.recurring_runs set lease_expires_at = clock_timestamp() where finished_at is null")
    await Maintenance(pool, asyncio.Event()).sweep()

    assert await conn.fetchval("select outcome from atlas.recurring_runs where recurring_id = 'sleep'") == "lost"
    [function] = [one for one in await list_recurring(conn) if one.id == "sleep"]
    assert (function.due_in < 0, function.last_outcome, function.worker_id) == (True, "lost", None)


@pytest.mark.long
async def test_a_module_that_cannot_be_imported_is_refused_before_anything_runs(conn, scheduler, tmp_path):
    running = await scheduler("--app", "tests.scheduler.nowhere")

    assert await asyncio.wait_for(running.wait(), 20) == 1
    [line] = (tmp_path / "scheduler-0.log").read_text().splitlines()
    assert "The module 'tests.scheduler.nowhere' of --app cannot be imported" in line
