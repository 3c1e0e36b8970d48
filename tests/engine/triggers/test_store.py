"""Stored triggers: what is refused, what is stored, what is audited."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from atlas.engine.commands.definitions import add_definition, edit_definition
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.tenants.tenants import edit_tenant, find_tenant
from atlas.engine.triggers.find import find_trigger, list_triggers
from atlas.engine.triggers.fire_schedules import fire_due
from atlas.engine.triggers.store import add_trigger, edit_trigger, remove_trigger
from atlas.engine.workflows.declared.store import save_workflow
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
        ({"event_name": "a.b"}, "event_name", "does not apply to a schedule"),
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


SYNC: dict[str, Any] = {
    "key": "sync-dropbox",
    "argv": ["/opt/sync", "--provider={{provider_id}}"],
    "arg_schema": {
        "type": "object",
        "properties": {"provider_id": {"type": "string", "format": "uuid"}, "path_prefix": {"type": "string"}},
        "required": ["provider_id"],
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (
            {"path_prefix": "/"},
            'payload_template: "provider_id" is a required property, so it can never fit sync-dropbox',
        ),
        ({"path_prefix": "{{ fire.local }}"}, '"provider_id" is a required property'),
        ({"provider_id": "p1"}, r'payload_template\.provider_id: the value is not a "uuid"'),
        ({"provider_id": "{{ fire.local }}", "path": "/"}, "'path' was unexpected"),
        ({"provider_id": "{{ fire.local }}", "path_prefix": 5}, "payload_template.path_prefix"),
    ],
)
async def test_a_template_that_can_never_fit_is_refused_when_it_is_saved(conn, acme, template, reason):
    await add_definition(conn, SYNC, actor=DANA)
    with pytest.raises(InvalidInput, match=reason):
        await given_schedule(conn, acme, "0 2 * * *", definition_key="sync-dropbox", payload_template=template)
    fits = {"provider_id": "{{ fire.local }}"}
    trigger = await given_schedule(conn, acme, definition_key="sync-dropbox", payload_template=fits)
    with pytest.raises(InvalidInput, match=reason):
        await edit_trigger(conn, trigger.id, {"payload_template": template}, actor=DANA)


async def test_a_template_of_a_declared_workflow_is_checked_too(conn, acme):
    document = {"key": "greet", "inputSchema": SYNC["arg_schema"], "steps": [{"id": "wait", "sleep": "10m"}]}
    await save_workflow(conn, document, actor=DANA, tenant_id=acme)
    with pytest.raises(InvalidInput, match="can never fit greet"):
        await given_schedule(conn, acme, workflow="greet", payload_template={"path_prefix": "/"})
    await given_schedule(conn, acme, workflow="greet", payload_template={"provider_id": str(UUID(int=7))})


async def test_a_value_that_decides_what_else_is_needed_is_left_to_the_firing(conn, acme):
    schema = {
        "type": "object",
        "if": {"properties": {"kind": {"const": "full"}}, "required": ["kind"]},
        "then": {"required": ["reason"]},
    }
    await add_definition(conn, {"key": "sync", "argv": ["/opt/sync"], "arg_schema": schema}, actor=DANA)
    await given_schedule(conn, acme, definition_key="sync", payload_template={"kind": "{{ fire.local }}"})
    with pytest.raises(InvalidInput, match='"reason" is a required property'):
        await given_schedule(conn, acme, definition_key="sync", payload_template={"kind": "full"})


async def test_a_trigger_that_no_longer_fits_can_be_disabled_and_not_enabled(conn, acme):
    await add_definition(conn, {**SYNC, "argv": ["/opt/sync"], "arg_schema": {"type": "object"}}, actor=DANA)
    trigger = await given_schedule(conn, acme, definition_key="sync-dropbox", payload_template={"a": 1})
    await edit_definition(conn, "sync-dropbox", {"arg_schema": SYNC["arg_schema"]}, actor=DANA)

    disabled = await edit_trigger(conn, trigger.id, {"is_enabled": False, "label": "old"}, actor=DANA)
    assert not disabled.is_enabled
    with pytest.raises(InvalidInput, match="can never fit"):
        await edit_trigger(conn, trigger.id, {"is_enabled": True}, actor=DANA)


async def test_a_target_that_is_not_published_yet_is_marked(conn, acme):
    workflow = await given_schedule(conn, acme, workflow="greet")
    job_type = await given_schedule(conn, acme, job_type="report.build")
    assert (workflow.target_exists, job_type.target_exists) == (False, False)

    await conn.execute("insert into atlas.job_types (key) values ('report.build')")
    document = {"key": "greet", "steps": [{"id": "wait", "sleep": "10m"}]}
    await save_workflow(conn, document, actor=DANA, tenant_id=await given_tenant(conn, "other", "UTC"))
    found = {trigger.id: trigger.target_exists for trigger in await list_triggers(conn, tenant_id=acme)}
    assert found == {workflow.id: False, job_type.id: True}
    await save_workflow(conn, document, actor=DANA, tenant_id=acme)
    assert (await find_trigger(conn, workflow.id)).target_exists


async def test_a_label_that_is_the_schedule_follows_it(conn, acme):
    unnamed = await given_schedule(conn, acme, "0 2 * * *", label="0 2 * * *")
    named = await given_schedule(conn, acme, "0 2 * * *", label="Nightly provider sync")

    assert (await edit_trigger(conn, unnamed.id, {"cron_expr": "@hourly"}, actor=DANA)).label == "@hourly"
    assert (await edit_trigger(conn, named.id, {"cron_expr": "@hourly"}, actor=DANA)).label == named.label
    chosen = {"cron_expr": "@daily", "label": "Daily"}
    assert (await edit_trigger(conn, unnamed.id, chosen, actor=DANA)).label == "Daily"
    event = {"trigger_type": "event", "event_name": "provider.folder.updated", "cron_expr": None}
    await edit_trigger(conn, unnamed.id, {"label": "@daily"}, actor=DANA)
    assert (await edit_trigger(conn, unnamed.id, event, actor=DANA)).label == "provider.folder.updated"


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
    assert moved.payload_template == {"a": 1}


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
