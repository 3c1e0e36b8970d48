"""Stored triggers: what is refused, what is stored, what is audited."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from atlas.engine.jobs import switch
from atlas.engine.tenants import edit_tenant, find_tenant
from atlas.engine.triggers import (
    add_trigger,
    edit_trigger,
    find_trigger,
    fire_due,
    list_schedules,
    list_triggers,
    remove_trigger,
)
from atlas.errors import InvalidInput, NotFound
from tests.engine.triggers.given import actions, fires, given_event_trigger, given_schedule, hours, set_clock
from tests.support import DANA, given_tenant

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)


async def test_a_schedule_is_due_by_the_tenants_clock_unless_it_has_one_of_its_own(conn, owner):
    await set_clock(owner, NOON)
    tokyo = await given_tenant(conn, "tokyo", "Asia/Tokyo")

    theirs = await given_schedule(conn, tokyo, "0 9 * * *")
    own = await given_schedule(conn, tokyo, "0 9 * * *", timezone="America/New_York")

    assert (theirs.zone, theirs.next_fire_at) == ("Asia/Tokyo", datetime(2027, 6, 2, 0, tzinfo=UTC))
    assert (own.zone, own.next_fire_at) == ("America/New_York", datetime(2027, 6, 1, 13, tzinfo=UTC))


async def test_a_schedule_follows_its_tenant_to_another_zone(conn, owner):
    tenant = await given_tenant(conn, "mover", "Asia/Tokyo")
    theirs = await given_schedule(conn, tenant, "0 9 * * *")
    own = await given_schedule(conn, tenant, "0 9 * * *", timezone="UTC")

    await conn.execute("update atlas.tenants set timezone = 'Europe/Berlin' where id = $1", tenant)

    assert (await find_trigger(conn, theirs.id)).next_fire_at is None  # computed anew by the next look
    assert (await find_trigger(conn, own.id)).next_fire_at == own.next_fire_at


@pytest.mark.parametrize(("policy", "due"), [("all", [13, 14, 15, 16, 17]), ("latest", [17]), ("skip", [])])
async def test_a_tenant_that_moves_while_nothing_fires_loses_no_due_time(conn, acme, owner, policy, due):
    await set_clock(owner, NOON)
    hourly = await given_schedule(conn, acme, "0 * * * *", misfire=policy)
    await switch(conn, online=False, actor=DANA)
    await set_clock(owner, NOON + hours(2.5))
    await edit_tenant(conn, await find_tenant(conn, acme), {"timezone": "Europe/Berlin"}, actor=DANA)
    await set_clock(owner, NOON + hours(5.5))
    await switch(conn, online=True, actor=DANA)
    await fire_due(conn)

    assert [at.hour for _, at in await fires(conn, hourly)] == due


async def test_a_due_time_of_the_old_zone_fires_and_then_those_since_the_move(conn, acme, owner):
    await set_clock(owner, NOON)
    open_still = await given_schedule(conn, acme, "0 13 * * *", misfire="all")
    not_yet = await given_schedule(conn, acme, "0 22 * * *", misfire="all")
    await set_clock(owner, NOON + hours(2))
    await edit_tenant(conn, await find_tenant(conn, acme), {"timezone": "Europe/Berlin"}, actor=DANA)
    await set_clock(owner, NOON + hours(24))
    await fire_due(conn)

    assert await fires(conn, open_still) == [("fired", NOON + hours(1)), ("fired", NOON + hours(23))]
    assert await fires(conn, not_yet) == [("fired", NOON + hours(8))]


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"cron_expr": "61 * * * *"}, "cron_expr", "at character 1: '61' is no minute"),
        ({"timezone": "Europe/Berln"}, "timezone", "did you mean Europe/Berlin?"),
        ({"cron_expr": None}, "cron_expr", "is needed by a schedule"),
        ({"event_name": "a.b"}, "event_name", "has no meaning for a schedule"),
        ({"trigger_type": "event"}, "event_name", "is needed by an event trigger"),
        ({"trigger_type": "event", "event_name": "*", "cron_expr": None}, "event_name", "is neither a name"),
        ({"trigger_type": "event", "event_name": "a.*.b", "cron_expr": None}, "event_name", "is neither a name"),
        ({"workflow": "WF-010"}, "target", "there is job_type and workflow"),
        ({"job_type": None}, "target", "there is none"),
        ({"job_type": ""}, "job_type", "must not be empty"),
        ({"label": "a\nb"}, "label", "line breaks"),
        ({"misfire": "sometimes"}, "misfire", "'skip', 'latest' or 'all'"),
        ({"dedupe_window_seconds": -1}, "dedupe_window_seconds", "greater than or equal to 0"),
        ({"payload_template": {"a": "{{ event.id }}"}}, "payload_template.a", "'event' is not defined here"),
        ({"payload_template": {"a": ["{{ 1 + }}"]}}, "payload_template.a[0]", "{{ 1 + }}"),
        ({"payload_template": {"a": "\x00"}}, "payload_template", "U+0000"),
        ({"color": "red"}, "color", "Extra inputs"),
    ],
)
async def test_a_wrong_field_is_refused_by_its_name_and_reason(conn, acme, fields, field, reason):
    described = {"label": "x", "trigger_type": "schedule", "cron_expr": "@daily", "job_type": "report.build", **fields}

    with pytest.raises(InvalidInput) as refused:
        await add_trigger(conn, acme, described, actor=DANA)

    found = {error.field: error.reason for error in refused.value.errors}
    assert reason in found[field]
    assert await list_triggers(conn) == []


async def test_a_definition_that_does_not_exist_is_refused(conn, acme):
    with pytest.raises(NotFound, match="There is no definition backup"):
        await given_schedule(conn, acme, definition_key="backup")


SECRET = '{"type": "object", "properties": {"token": {"type": "string", "x-secret": true}}}'


async def test_a_secret_of_its_job_is_not_kept_in_a_trigger(conn, acme):
    await conn.execute("insert into atlas.job_types (key, input_schema) values ('deploy', $1)", SECRET)
    with pytest.raises(InvalidInput, match=r"payload_template\.token.*in clear"):
        await given_schedule(conn, acme, job_type="deploy", payload_template={"token": "hunter22"})
    trigger = await given_schedule(conn, acme, job_type="deploy", payload_template={"token": "{{ fire.due_at }}"})
    with pytest.raises(InvalidInput, match="in clear"):
        await edit_trigger(conn, trigger.id, {"payload_template": {"token": "hunter22"}}, actor=DANA)


async def test_a_tenant_that_does_not_exist_is_refused(conn):
    with pytest.raises(NotFound, match="There is no tenant"):
        await given_schedule(conn, UUID(int=7))


async def test_every_change_of_a_trigger_is_audited(conn, acme):
    trigger = await given_schedule(conn, acme)
    await edit_trigger(conn, trigger.id, {"label": "renamed", "misfire": "all"}, actor=DANA)
    await remove_trigger(conn, trigger.id, actor=DANA)

    assert await actions(conn, trigger) == ["TRIGGER_ADDED", "TRIGGER_EDITED", "TRIGGER_REMOVED"]
    changed = await conn.fetchval("select meta->'changed' from atlas.audit_log where action = 'TRIGGER_EDITED'")
    assert changed == '["label", "misfire"]'


async def test_an_edit_keeps_what_it_does_not_name(conn, acme, owner):
    await set_clock(owner, NOON)
    trigger = await given_schedule(conn, acme, "0 9 * * *", payload_template={"a": 1})
    await set_clock(owner, datetime(2027, 6, 3, tzinfo=UTC))

    renamed = await edit_trigger(conn, trigger.id, {"label": "renamed"}, actor=DANA)
    moved = await edit_trigger(conn, trigger.id, {"cron_expr": "0 10 * * *"}, actor=DANA)

    assert renamed.next_fire_at == trigger.next_fire_at  # overdue, and still to be dealt with
    assert moved.next_fire_at == datetime(2027, 6, 3, 10, tzinfo=UTC)
    assert moved.spec.payload_template == {"a": 1}


async def test_a_schedule_that_is_enabled_again_begins_anew(conn, acme, owner):
    await set_clock(owner, NOON)
    trigger = await given_schedule(conn, acme, "0 9 * * *")
    await edit_trigger(conn, trigger.id, {"is_enabled": False}, actor=DANA)
    await set_clock(owner, datetime(2027, 7, 1, tzinfo=UTC))

    again = await edit_trigger(conn, trigger.id, {"is_enabled": True}, actor=DANA)

    assert again.next_fire_at == datetime(2027, 7, 1, 9, tzinfo=UTC)


async def test_a_removed_trigger_is_gone_for_everyone(conn, acme):
    trigger = await given_schedule(conn, acme)
    await remove_trigger(conn, trigger.id, actor=DANA)

    assert await list_triggers(conn) == []
    assert await list_schedules(conn, within=timedelta(days=1)) == {}
    for verb in (find_trigger(conn, trigger.id), remove_trigger(conn, trigger.id, actor=DANA)):
        with pytest.raises(NotFound):
            await verb


async def test_a_trigger_is_not_seen_from_another_tenant(conn, acme):
    other = await given_tenant(conn, "other")
    trigger = await given_event_trigger(conn, acme)

    assert await list_triggers(conn, tenant_id=other) == []
    for verb in (
        find_trigger(conn, trigger.id, tenant_id=other),
        edit_trigger(conn, trigger.id, {"label": "mine"}, actor=DANA, tenant_id=other),
        remove_trigger(conn, trigger.id, actor=DANA, tenant_id=other),
    ):
        with pytest.raises(NotFound):
            await verb


@pytest.mark.parametrize("first", ["the edit", "the move"])
async def test_a_schedule_that_is_edited_while_its_tenant_moves_follows_the_new_clock(pool, conn, acme, owner, first):
    await set_clock(owner, NOON)
    tenant = await find_tenant(conn, acme)
    own = await given_schedule(conn, acme, "0 9 * * *", timezone="UTC")

    async def move(by: Any) -> None:
        await edit_tenant(by, tenant, {"timezone": "Asia/Tokyo"}, actor=DANA)

    async def edit(by: Any) -> None:
        await edit_trigger(by, own.id, {"timezone": None}, actor=DANA)

    sooner, later = (edit, move) if first == "the edit" else (move, edit)
    async with pool.acquire() as other:
        async with conn.transaction():
            await sooner(conn)
            waiting = asyncio.create_task(later(other))
            await asyncio.sleep(0.2)
            assert not waiting.done()
        await asyncio.wait_for(waiting, 5)
    await fire_due(conn)

    assert await conn.fetchval("select next_fire_at from atlas.job_triggers") == datetime(2027, 6, 2, 0, tzinfo=UTC)


@pytest.mark.parametrize("first", ["the schedule", "the move"])
async def test_a_schedule_that_is_added_while_its_tenant_moves_follows_the_new_clock(pool, conn, acme, owner, first):
    await set_clock(owner, NOON)
    tenant = await find_tenant(conn, acme)

    async def move(by: Any) -> None:
        await edit_tenant(by, tenant, {"timezone": "Asia/Tokyo"}, actor=DANA)

    async def add(by: Any) -> None:
        await given_schedule(by, acme, "0 9 * * *")

    sooner, later = (add, move) if first == "the schedule" else (move, add)
    async with pool.acquire() as other:
        async with conn.transaction():
            await sooner(conn)
            waiting = asyncio.create_task(later(other))
            await asyncio.sleep(0.2)
            assert not waiting.done()
        await asyncio.wait_for(waiting, 5)
    await fire_due(conn)

    assert await conn.fetchval("select next_fire_at from atlas.job_triggers") == datetime(2027, 6, 2, 0, tzinfo=UTC)
