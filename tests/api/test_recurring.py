"""Recurring functions over HTTP: what is registered, and what became of its runs."""

from datetime import UTC, datetime, timedelta

from atlas.engine.schedules.recurring import save_recurring
from atlas.engine.schedules.recurring_runs import claim_runs, finish_run
from tests.api.test_bad_input import assert_problem

START = datetime(2026, 1, 1, tzinfo=UTC)


async def given_run(pool, tenant, id, *, repeat=timedelta(days=1), outcome="succeeded", error=None):
    async with pool.acquire() as conn:
        await save_recurring(conn, (tenant.id, id), start_at=START, repeat_every=repeat)
        [run] = await claim_runs(conn, "box:1", [(tenant.id, id)], lease=60)
        if outcome is not None:
            await finish_run(conn, run, outcome=outcome, error=error)
    return run


async def test_a_function_is_shown_with_its_last_run_and_its_history(pool, world, admin):
    run = await given_run(pool, world.acme, "prices/refresh all", outcome="failed", error="no paper")
    await given_run(pool, world.acme, "runs now", outcome=None)
    await given_run(pool, world.other, "elsewhere")

    failed, running = (await admin.get("/recurring")).json()["items"]
    one = (await admin.get("/recurring/prices/refresh%20all")).json()
    history = (await admin.get("/recurring/prices%2Frefresh%20all/runs")).json()["items"]

    assert one == failed
    assert (one["id"], one["repeat_seconds"], one["run_count"]) == ("prices/refresh all", 86_400, 1)
    assert (one["last_outcome"], one["last_error"], one["worker_id"]) == ("failed", "no paper", None)
    assert (running["last_outcome"], running["worker_id"]) == (None, "box:1")
    [shown] = history
    assert (shown["id"], shown["outcome"], shown["error"]) == (str(run.id), "failed", "no paper")
    assert (shown["attempt_no"], shown["worker_id"], shown["due_at"]) == (1, "box:1", "2026-01-01T00:00:00Z")
    assert shown["duration_ms"] >= 0


async def test_what_ran_once_is_gone_and_its_history_stays(pool, world, admin):
    await given_run(pool, world.acme, "once", repeat=timedelta())

    gone = assert_problem(await admin.get("/recurring/once"), 404)
    assert "It is no longer registered; /runs has its history." in gone["remedy"]
    assert [item["outcome"] for item in (await admin.get("/recurring/once/runs")).json()["items"]] == ["succeeded"]
    assert_problem(await admin.get("/recurring/never/runs"), 404)


async def test_an_operator_names_the_tenant_where_several_have_the_same_id(pool, world, operator):
    for tenant in (world.acme, world.other):
        await given_run(pool, tenant, "tidy")

    assert "Name the tenant." in assert_problem(await operator.get("/recurring/tidy"), 409)["remedy"]
    found = (await operator.get("/recurring/tidy/runs", params={"tenant": "other"})).json()["items"]
    assert [one["tenant_id"] for one in found] == [str(world.other.id)]
