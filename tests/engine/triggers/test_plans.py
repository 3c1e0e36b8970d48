"""Query plans: a poll of the triggers costs the same however many triggers and past events there are."""

import re
from uuid import UUID

import pytest

from atlas.engine.triggers.find import list_fires
from atlas.engine.triggers.fire_events import fire_due_events
from atlas.engine.triggers.fire_schedules import fire_due
from atlas.engine.workflows.events import publish_event
from tests.engine.triggers.given import given_event_trigger, given_schedule
from tests.support import DANA

TRIGGERS = """
insert into atlas.job_triggers (tenant_id, label, trigger_type, cron_expr, job_type, next_fire_at, created_by)
select '00000000-0000-7000-8000-000000000001', 'n' || n, 'schedule', '@daily', 'a', clock_timestamp() + n * interval '1 minute', 'dana'
from generate_series(1, 10000) n"""
EVENT_TRIGGERS = """
insert into atlas.job_triggers (tenant_id, label, trigger_type, event_name, job_type, created_by)
select '00000000-0000-7000-8000-000000000001', 'n' || n, 'event', 'some.event' || n, 'a', 'dana' from generate_series(1, 10000) n"""
EVENTS = """
insert into atlas.events (tenant_id, name, created_by, handled_at)
select '00000000-0000-7000-8000-000000000001', 'some.event' || n, 'dana', clock_timestamp() from generate_series(1, 20000) n"""


async def scans(owner) -> dict[str, int]:
    await owner.execute("select pg_stat_clear_snapshot()")
    rows = await owner.fetch(
        "select relname, seq_scan from pg_stat_user_tables where relname in ('job_triggers', 'events', 'trigger_fires')"
    )
    return {row["relname"]: row["seq_scan"] for row in rows}


@pytest.mark.parametrize("analyzed", [False, True])
async def test_no_poll_of_the_triggers_scans_a_table(conn, owner, acme, analyzed):
    for fill in (TRIGGERS, EVENT_TRIGGERS, EVENTS):
        await owner.execute(fill)
    if analyzed:
        await owner.execute("analyze atlas.job_triggers")
        await owner.execute("analyze atlas.events")
    due = await given_schedule(conn, acme, "0 0 * * *")
    await given_event_trigger(conn, acme, "other.*")
    await conn.execute(
        "update atlas.job_triggers set next_fire_at = next_fire_at - interval '1 day' where id = $1", due.id
    )
    await conn.execute("select pg_stat_force_next_flush()")
    before = await scans(owner)

    assert (await fire_due(conn)).fired == 1
    assert (await fire_due(conn)).fired == 0
    await publish_event(conn, acme, "other.thing", {}, actor=DANA)
    assert (await fire_due_events(conn)).fired == 1
    assert (await fire_due_events(conn)).fired == 0

    await conn.execute("select pg_stat_force_next_flush()")
    assert await scans(owner) == before


FIRES = """
insert into atlas.trigger_fires (trigger_id, tenant_id, fired_at, created_by)
select ('00000000-0000-7000-8000-00000000000' || n % 2)::uuid, '00000000-0000-7000-8000-000000000001', now() - n / 10 * interval '1 minute', 'dana'
from generate_series(1, 20000) n"""
TRIGGER = UUID("00000000-0000-7000-8000-000000000001")


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_later_page_of_firings_begins_in_the_index(conn, owner, analyzed):
    await owner.execute(FIRES)
    if analyzed:
        await owner.execute("analyze atlas.trigger_fires")
    texts: list[tuple[str, tuple[object, ...]]] = []
    async with conn.transaction():
        first = await list_fires(conn, TRIGGER, limit=7)
        with conn.query_logger(lambda one: texts.append((one.query, one.args))):
            later = await list_fires(conn, TRIGGER, after=(first[2].fired_at, first[2].id), limit=4)
    assert later == first[3:]
    [(text, values)] = texts
    plan = "\n".join([row[0] for row in await conn.fetch(f"explain {text}", *values)])
    assert re.search(r"Index Cond: .*fired_at <=", plan), plan
