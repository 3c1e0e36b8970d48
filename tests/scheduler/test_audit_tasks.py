"""A scheduler verifies the audit log at intervals; what it finds is an event, an alert and a metric."""

import asyncio
from datetime import timedelta

import orjson
import pytest

from atlas.audit.sealing.sealer import seal_and_sign
from atlas.audit.verifier.format import Report
from atlas.db.statements import fetch_value
from atlas.engine.alerts import find_alerts
from atlas.engine.tenants.tenants import add_tenant
from atlas.scheduler import audit_tasks
from atlas.scheduler.audit_tasks import CLAIM, LEASE, AuditTasks
from atlas.scheduler.tasks import TaskScheduler
from atlas.settings import load_settings
from tests.support import DANA

STATE = "select value from atlas.system_state where key = 'audit_verification'"
LATER = (
    "update atlas.system_state set value = value || jsonb_build_object('began_at',"
    " (value->>'began_at')::timestamptz - interval '25 hours') where key = 'audit_verification'"
)
PAST_LEASE = (
    "update atlas.system_state set value = value || jsonb_build_object('leased_until',"
    " clock_timestamp() - interval '1 second') where key = 'audit_verification'"
)
FACTS = "select action, actor_id, meta->>'verdict' as verdict from atlas.audit_log where action = 'AUDIT_VERIFIED' order by id"


@pytest.fixture
async def tasks(pool, tmp_path, database_url):
    settings = load_settings(atlas_home=tmp_path, database_url=database_url)
    await seal_and_sign(pool, settings)
    return AuditTasks(pool, settings)


async def state(conn):
    return orjson.loads(await conn.fetchval(STATE))


async def test_it_is_verified_when_it_is_due_and_once_by_all_schedulers(conn, tasks, pool, tmp_path, database_url):
    second = AuditTasks(pool, load_settings(atlas_home=tmp_path, database_url=database_url))
    for task in (tasks, second):
        await task.verify()  # the first time is an interval later
    assert await conn.fetch(FACTS) == []

    await conn.execute(LATER)
    for task in (tasks, second):
        await task.verify()

    assert [tuple(row) for row in await conn.fetch(FACTS)] == [("AUDIT_VERIFIED", "scheduler", "whole")]
    assert (await state(conn))["status"] == "whole"
    assert "verified_at" in await state(conn)
    assert await find_alerts(conn) == []


async def test_findings_are_an_alert_until_a_later_one_finds_nothing(conn, owner, tasks):
    await tasks.verify()
    await owner.execute("alter table atlas.audit_log disable trigger audit_log_append_only")
    await conn.execute(LATER)
    await tasks.verify()

    [alert] = await find_alerts(conn)
    assert alert.kind == "audit_damaged"
    assert "The audit log has 1 finding, the first: " in alert.message
    assert (await conn.fetch(FACTS))[-1]["verdict"] == "damaged"
    assert "verified_at" not in await state(conn)

    await owner.execute("alter table atlas.audit_log enable always trigger audit_log_append_only")
    await conn.execute(LATER)
    await tasks.verify()
    assert await find_alerts(conn) == []


async def test_a_table_that_was_changed_behind_the_log_is_an_alert(conn, owner, tasks):
    await tasks.verify()
    await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    await owner.execute("update atlas.tenants set name = 'Eve' where slug = 'acme'")
    await conn.execute(LATER)
    await tasks.verify()

    [alert] = await find_alerts(conn)
    assert alert.kind == "audit_damaged"
    assert "is not as its last event left it (TENANT_ADDED" in alert.message


async def test_one_that_cannot_be_done_is_an_alert_and_is_tried_again_within_the_hour(conn, tasks, tmp_path):
    await tasks.verify()
    for file in (tmp_path / "keys").glob("audit*"):
        file.unlink()
    (tmp_path / "keys" / "audit.pub").write_text("no key")
    await conn.execute(LATER)
    await tasks.verify()

    [alert] = await find_alerts(conn)
    assert (alert.kind, alert.subject) == ("audit_damaged", "audit log")
    assert "could not be verified" in alert.message
    due_in = await conn.fetchval(
        "select (value->>'began_at')::timestamptz + interval '24 hours' - now() from atlas.system_state"
        " where key = 'audit_verification'"
    )
    assert timedelta(minutes=59) < due_in < timedelta(minutes=61)


async def test_one_whose_process_was_lost_is_made_by_another(conn, tasks):
    await tasks.verify()
    await conn.execute(LATER)
    assert await fetch_value(conn, CLAIM, every=timedelta(hours=24), lease=LEASE, by="killed") is not None
    await tasks.verify()
    assert await conn.fetch(FACTS) == [], "it may still be at work"

    await conn.execute(PAST_LEASE)
    await tasks.verify()

    assert [row["verdict"] for row in await conn.fetch(FACTS)] == ["whole"]
    assert (await state(conn)).keys() == {"began_at", "findings", "message", "status", "verified_at"}
    await tasks.verify()
    assert len(await conn.fetch(FACTS)) == 1, "the next is due an interval later"


async def test_one_that_lasts_keeps_its_lease(conn, tasks, monkeypatch):
    await tasks.verify()
    await conn.execute(LATER)
    monkeypatch.setattr(audit_tasks, "LOOK_SECONDS", 0.01)
    seen: list[str] = []

    async def last(*_: object) -> Report:
        until = (await state(conn))["leased_until"]
        while (later := (await state(conn))["leased_until"]) == until:
            await asyncio.sleep(0.01)
        seen.extend((until, later))
        return Report()

    monkeypatch.setattr(AuditTasks, "_report", last)
    await tasks.verify()

    assert seen == sorted(seen)
    assert "leased_until" not in await state(conn)


@pytest.mark.parametrize(("options", "count"), [({"atlas_audit_verify_hours": 0}, 0), ({}, 1)])
async def test_settings_say_what_a_scheduler_does(pool, tmp_path, options, count):
    added = []
    scheduler = TaskScheduler()
    scheduler.add = lambda seconds, work, **more: added.append(work)  # type: ignore[method-assign]
    AuditTasks(pool, load_settings(atlas_home=tmp_path, **options)).add_to(scheduler)
    assert len(added) == count
