"""The scheduler as a program: the functions of modules, the sealer, and an error in one line."""

import asyncio


async def test_a_module_registers_its_functions_and_the_audit_log_is_sealed(pool, conn, scheduler, eventually):
    running = await scheduler("--app", "tests.scheduler.functions")
    await eventually("select last_outcome from atlas.recurring_jobs where id = 'tidy often'", equals="succeeded")
    await eventually("select exists (select from atlas.audit_seal) and exists (select from atlas.audit_checkpoint)")
    running.terminate()

    assert await asyncio.wait_for(running.wait(), 10) == 0
    # Its time has not come.
    assert await pool.fetchval("select run_count from atlas.recurring_jobs where id = 'tidy'") == 0


async def test_a_module_that_cannot_be_imported_is_refused_before_anything_runs(conn, scheduler, tmp_path):
    running = await scheduler("--app", "tests.scheduler.nowhere")

    assert await asyncio.wait_for(running.wait(), 20) == 1
    [line] = (tmp_path / "scheduler-0.log").read_text().splitlines()
    assert "The module 'tests.scheduler.nowhere' of --app cannot be imported" in line
