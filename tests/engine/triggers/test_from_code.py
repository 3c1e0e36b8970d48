"""Schedules beside the code: the triggers table follows the decorators, and leaves people's triggers alone."""

import asyncio
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from atlas.engine.jobs.handlers.types import job, registered
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.schedules import code_schedules
from atlas.engine.schedules.code_schedules import declare_schedule
from atlas.engine.triggers.find import list_triggers
from atlas.engine.triggers.from_code import sync_code_schedules
from atlas.engine.triggers.store import edit_trigger
from atlas.engine.workflows.registry import registered_workflows, workflow
from atlas.errors import AtlasError
from tests.engine.triggers.given import given_schedule
from tests.support import DANA, given_tenant

SHOP = "shop_of_a_test"


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only what the test declares, in a package that is there."""
    monkeypatch.setattr(code_schedules, "_declared", {})
    shop = ModuleType(SHOP)
    shop.__path__ = []
    monkeypatch.setitem(sys.modules, SHOP, shop)
    monkeypatch.setitem(sys.modules, f"{SHOP}.jobs", ModuleType(f"{SHOP}.jobs"))
    before = set(registered())
    yield
    for key in set(registered()) - before:
        del registered()[key]  # type: ignore[attr-defined]


def given_cron(cron: str | None, name: str = "report", **chosen: Any) -> None:
    facts = {"timezone": None, "tenant": None, "module": f"{SHOP}.jobs", **chosen}
    declare_schedule("job_type", name, cron, **facts)


async def stored(pool) -> list[tuple[str, str | None, str | None]]:
    async with pool.acquire() as conn:
        return [(trigger.cron_expr, trigger.timezone, trigger.declared_by) for trigger in await list_triggers(conn)]


async def audited(pool) -> list[tuple[str, str]]:
    rows = await pool.fetch("select action, actor_id from atlas.audit_log where entity_type = 'trigger' order by id")
    return [tuple(row) for row in rows]


async def test_a_schedule_is_added_changed_and_removed_with_its_code(pool):
    by = f"{SHOP}.jobs"
    given_cron("0 7 * * *", timezone="Europe/Berlin")
    await sync_code_schedules(pool)
    await sync_code_schedules(pool)
    assert await stored(pool) == [("0 7 * * *", "Europe/Berlin", by)]
    given_cron("30 7 * * *")
    await sync_code_schedules(pool)
    assert await stored(pool) == [("30 7 * * *", None, by)]
    given_cron(None)
    await sync_code_schedules(pool)
    assert await stored(pool) == []
    actions = ("TRIGGER_ADDED", "TRIGGER_EDITED", "TRIGGER_REMOVED")
    assert await audited(pool) == [(action, f"code:{by}") for action in actions]


async def test_what_people_made_or_paused_stays_as_it_is(pool):
    async with pool.acquire() as conn:
        theirs = await given_schedule(conn, SYSTEM_TENANT, "0 8 * * *", job_type="report")
    given_cron("0 7 * * *")
    await sync_code_schedules(pool)
    async with pool.acquire() as conn:
        [ours] = [trigger for trigger in await list_triggers(conn) if trigger.id != theirs.id]
        await edit_trigger(conn, ours.id, {"is_enabled": False}, actor=DANA)
    given_cron("0 9 * * *")
    await sync_code_schedules(pool)
    async with pool.acquire() as conn:
        found = {trigger.id: trigger for trigger in await list_triggers(conn)}
    assert (found[ours.id].cron_expr, found[ours.id].is_enabled) == ("0 9 * * *", False)
    assert found[theirs.id] == theirs


async def test_a_program_leaves_the_schedules_of_modules_that_it_does_not_have(pool, monkeypatch):
    given_cron("0 7 * * *", module="another_shop.jobs")
    given_cron("0 8 * * *", "sweep", module=f"{SHOP}.gone")
    await sync_code_schedules(pool)
    monkeypatch.setattr(code_schedules, "_declared", {})
    await sync_code_schedules(pool)
    # The package is here without that module; the other package may be on another machine.
    assert await stored(pool) == [("0 7 * * *", None, "another_shop.jobs")]


async def test_programs_that_start_together_add_it_once(pool):
    given_cron("0 7 * * *")
    await asyncio.gather(*(sync_code_schedules(pool) for _ in range(4)))
    assert len(await stored(pool)) == 1


async def test_a_schedule_that_cannot_be_set_does_not_stop_the_others(pool):
    async with pool.acquire() as conn:
        acme = await given_tenant(conn)
    given_cron("0 7 * * *")
    await sync_code_schedules(pool)
    given_cron("not a cron")
    given_cron("0 7 * * *", "sweep", tenant="nowhere")
    given_cron("0 8 * * *", "pack", tenant="acme")
    await sync_code_schedules(pool)
    # The one whose new text is wrong keeps the old one.
    assert sorted(await stored(pool)) == [(f"0 {hour} * * *", None, f"{SHOP}.jobs") for hour in (7, 8)]
    assert await pool.fetchval("select count(*) from atlas.job_triggers where tenant_id = $1", acme) == 1


def test_decorators_declare_schedules_for_what_can_run_without_an_input():
    class Month(BaseModel):
        month: int

    @job("cron.report", cron="0 7 * * *", timezone="Europe/Berlin", tenant="acme")
    async def report(input: dict[str, Any]) -> None: ...

    @workflow("cron.brief", cron="@daily")
    async def brief(run: Any, input: dict[str, Any]) -> None: ...

    try:
        found = code_schedules.declared_schedules()
        assert [(one.cron, one.timezone, one.tenant) for one in found.values()] == [
            ("0 7 * * *", "Europe/Berlin", "acme"),
            ("@daily", None, "system"),
        ]
        assert {one.module for one in found.values()} == {__name__}
    finally:
        del registered_workflows()["cron.brief"]  # type: ignore[attr-defined]

    async def monthly(input: Month) -> None: ...

    with pytest.raises(AtlasError, match="when its schedule starts it is not valid: month: Field required"):
        job("cron.monthly", cron="@monthly")(monthly)
    assert "cron.monthly" not in registered()
