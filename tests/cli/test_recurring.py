"""`atlas recurring`: what people see of functions that programs run at intervals."""

from datetime import UTC, datetime, timedelta

from atlas.engine.jobs.switches.gate import switch
from atlas.engine.schedules.recurring import save_recurring
from atlas.engine.schedules.recurring_runs import claim_runs, finish_run
from tests.support import DANA, given_tenant

START = datetime(2026, 1, 1, tzinfo=UTC)


async def test_functions_and_their_runs_are_shown(atlas, pool):
    nothing = await atlas("recurring", "list")
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=DANA)
        acme, other = await given_tenant(conn), await given_tenant(conn, "other")
        for id, repeat in (("refresh prices", timedelta(minutes=5)), ("move in", timedelta())):
            key = (acme, id)
            await save_recurring(conn, key, start_at=START, repeat_every=repeat, timeout=timedelta(minutes=1))
            [run] = await claim_runs(conn, "box:1", [key], lease=60)
            await finish_run(conn, run, outcome="failed", error="no [red]paper")
        await save_recurring(conn, (other, "tidy"), start_at=START, repeat_every=timedelta(days=1))
        await claim_runs(conn, "box:2", [(other, "tidy")], lease=60)
        await save_recurring(conn, (acme, "idle"), start_at=START, repeat_every=timedelta(days=1))

    listed = await atlas("recurring", "list")
    of_acme = await atlas("recurring", "list", "--tenant", "acme", "--json")
    shown = await atlas("recurring", "show", "refresh prices")
    as_json = await atlas("recurring", "show", "refresh prices", "--json")
    running = await atlas("recurring", "show", "tidy")
    idle = await atlas("recurring", "show", "idle")
    once = await atlas("recurring", "show", "move in")
    near = await atlas("recurring", "show", "refresh price")
    unknown = await atlas("recurring", "show", "xyz", "--tenant", "other")

    assert nothing.stdout.startswith("There are no recurring functions. A module that `atlas scheduler --app` loads")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["TENANT", "acme", "acme", "other"]
    assert "every 0:05:00" in listed.stdout
    assert [one["id"] for one in of_acme.document["recurring"]] == ["idle", "refresh prices"]
    assert "refresh prices runs every 0:05:00, for at most 0:01:00. It is next due at 20" in shown.stdout
    assert "no [red]paper" in shown.stdout
    assert as_json.document["function"]["last_outcome"] == "failed"
    assert [one["outcome"] for one in as_json.document["runs"]] == ["failed"]
    assert "It runs now, in box:2." in running.stdout
    assert running.stdout.splitlines()[-1].split()[2] == "running"
    assert idle.stdout.endswith("It has not run yet.\n")
    assert once.stdout.startswith("move in is no longer registered.\n")
    assert "There is no recurring function refresh price. Did you mean refresh prices?" in near.refusal
    assert "`atlas recurring list` shows them." in unknown.refusal
