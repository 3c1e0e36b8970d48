"""Every table is compared with the audit log, or named with the reason why not; and what was changed behind the log is found."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from atlas import job
from atlas.audit.state import COMPARED_OTHERWISE, NOT_COMPARED, STATE_KINDS
from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.commands.definitions import add_definition, disable_definition, edit_definition
from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action
from atlas.engine.jobs.groups import insert_group, settle_groups
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.switches.pauses import pause, resume
from atlas.engine.schedules.recurring import remove_recurring, save_recurring
from atlas.engine.schedules.recurring_runs import claim_runs, finish_run
from tests.support import DANA, given_tenant


@pytest.fixture
def limited(monkeypatch):
    """A type with limits, of this test alone."""

    @job("compared.limited", concurrency=3, rate="10/minute")
    async def handle(input: dict[str, Any]) -> None:
        """Do nothing."""

    found = registered()["compared.limited"]
    monkeypatch.delitem(registered(), "compared.limited")
    return found


async def test_every_table_is_compared_or_left_out_with_a_reason(owner):
    named = [*STATE_KINDS.values(), *COMPARED_OTHERWISE, *NOT_COMPARED]
    tables = await owner.fetch(
        "select relname from pg_class where relnamespace = 'atlas'::regnamespace and relkind in ('r', 'p')"
    )
    assert sorted(named) == sorted(row["relname"] for row in tables)
    kinds = await owner.fetch("select kind, source from atlas.state_kinds()")
    assert {row["kind"]: row["source"] for row in kinds} == STATE_KINDS


@pytest.fixture
async def tenant_id(conn, limited) -> UUID:
    """A tenant with pauses, recurring functions, groups, bulk actions and a published type."""
    await switch(conn, online=True, actor=DANA)
    tenant_id = await given_tenant(conn)
    await publish_types(conn, [limited])
    await publish_types(conn, [limited])
    await pause(conn, "tenant", "acme", actor=DANA)
    await pause(conn, "tenant", "acme", actor=DANA, reason="stock taking", until=timedelta(hours=1))
    await resume(conn, (await pause(conn, "type", "compared.limited", actor=DANA)).id, actor=DANA)
    start = datetime.now(UTC)
    for id in ("tidy", "gone"):
        await save_recurring(conn, (tenant_id, id), start_at=start, repeat_every=timedelta(hours=1))
    await save_recurring(conn, (tenant_id, "tidy"), start_at=start, repeat_every=timedelta(minutes=5))
    await remove_recurring(conn, (tenant_id, "gone"))
    [run] = await claim_runs(conn, "w", [(tenant_id, "tidy")], lease=60)
    await finish_run(conn, run, outcome="failed", error="no disk")
    await insert_group(conn, tenant_id, [], then=None, name="empty", actor=DANA)
    await insert_group(conn, tenant_id, [NewJob("x", tenant_id=tenant_id)], then=None, name="one", actor=DANA)
    job_id = await conn.fetchval("select id from atlas.jobs")
    await begin_bulk_action(conn, "cancel", ids=[job_id], actor=DANA, tenant_id=tenant_id, reason="not needed")
    await settle_groups(conn)
    await insert_group(conn, tenant_id, [NewJob("x", tenant_id=tenant_id)], then=None, name="open", actor=DANA)
    return tenant_id


LEFT = "is not as its last event left it"
CHANGES = [
    ("update atlas.pauses set until = null", f"pause .* {LEFT} .PAUSED"),
    ("delete from atlas.pauses", "pause .* is gone without an event"),
    (
        "insert into atlas.pauses (kind, target, version, paused_by) values ('type', 'x', 9, 'eve')",
        "pause .* has no event",
    ),
    ("update atlas.recurring_jobs set repeat_seconds = 9", f"recurring tidy {LEFT} .RECURRING_REGISTERED"),
    ("delete from atlas.recurring_jobs", "recurring tidy is gone without an event"),
    (
        "insert into atlas.recurring_jobs (tenant_id, id, start_at, repeat_seconds, next_run_at)"
        " select id, 'eve', now(), 1, now() from atlas.tenants where slug = 'acme'",
        "recurring eve has no event",
    ),
    ("update atlas.recurring_runs set outcome = 'succeeded'", "run .* of a recurring function differs from its event"),
    ("delete from atlas.recurring_runs", "run .* of a recurring function is gone without an event"),
    (
        "insert into atlas.recurring_runs (tenant_id, recurring_id, due_at, attempt_no, worker_id, finished_at, outcome)"
        " select id, 'eve', now(), 1, 'eve', now(), 'lost' from atlas.tenants where slug = 'acme'",
        "run .* of a recurring function has no event",
    ),
    ("update atlas.job_groups set total = 7 where name = 'open'", f"group .* {LEFT} .GROUP_CREATED"),
    ("update atlas.job_groups set ended_counts = '{}' where name = 'one'", f"group .* {LEFT} .GROUP_ENDED"),
    ("delete from atlas.job_groups where name = 'empty'", "group .* is gone without an event"),
    ("update atlas.bulk_actions set created_by = 'eve'", f"bulk action .* {LEFT} .BULK_ACTION_ENDED"),
    ("update atlas.bulk_actions set changed = 0", f"bulk action .* {LEFT}"),
    ("delete from atlas.bulk_actions", "bulk action .* is gone without an event"),
    ("update atlas.job_types set concurrency = 300", f"job type compared.limited {LEFT} .JOB_TYPE_PUBLISHED"),
    ("update atlas.job_types set rate = null", f"job type compared.limited {LEFT}"),
    ("insert into atlas.job_types (key) values ('eve')", "job type eve has no event"),
    ("update atlas.tenants set limits = '{\"rate\": 1}' where slug = 'system'", "tenant .* has no event"),
    ("update atlas.jobs set created_by = 'eve' where status = 'canceled'", "differs from its events: creator"),
]


async def test_what_was_changed_behind_the_audit_log_is_found(owner, tenant_id):
    assert await cross_check(owner) == []
    for change, words in CHANGES:
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute(change)
        findings = await cross_check(owner)
        await transaction.rollback()
        assert len(findings) == 1, (change, findings)
        assert re.search(words, findings[0].message), findings[0].message


async def test_events_from_before_they_had_digests_explain_what_they_name(owner, tenant_id):
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute(
        "update atlas.audit_log set meta = meta - 'state' - 'pause_state'"
        " where entity_type in ('recurring', 'group', 'bulk_action') or action in ('PAUSED', 'RESUMED')"
    )
    await owner.execute("delete from atlas.audit_log where action = 'JOB_TYPE_PUBLISHED'")
    assert await cross_check(owner) == []


async def test_a_type_is_published_with_an_event_where_something_of_it_changed(conn, tenant_id, limited):
    count = "select count(*) from atlas.audit_log where action = 'JOB_TYPE_PUBLISHED'"
    assert await conn.fetchval(count) == 1
    await conn.execute("update atlas.job_types set concurrency = 300")
    await publish_types(conn, [limited])
    assert await conn.fetchval(count) == 2
    assert await cross_check(conn) == []


async def test_the_type_of_a_definition_is_compared_with_the_definition(conn, owner, tenant_id):
    limits = {"concurrency": 2, "rate": "10/minute", "max_retries": 1, "retry_policy": {"base": 5}}
    for key, described in (("sync.it", limits), ("sync.plain", {})):
        await add_definition(conn, {"key": key, "argv": ["/bin/true"], **described}, actor=DANA)
    assert await conn.fetchval("select exists (select from atlas.job_types where key = 'sync.it')")
    assert await cross_check(conn) == []
    await edit_definition(conn, "sync.it", {"concurrency": 3}, actor=DANA)
    await disable_definition(conn, "sync.it", actor=DANA)
    assert await cross_check(conn) == []
    # made before the first event that says what a type is, as those that an installation begins with
    await owner.execute("update atlas.job_types set last_seen_at = '2020-01-01' where key like 'sync.%'")
    assert await cross_check(conn) == []
    for change in ("concurrency = 300", "rate = null", "max_retries = 9", "timeout_seconds = 1"):
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute(f"update atlas.job_types set {change} where key = 'sync.it'")
        [finding] = await cross_check(owner)
        await transaction.rollback()
        assert finding.message == "The job type sync.it differs from its definition."


async def test_groups_and_bulk_actions_that_are_forgotten_after_90_days_are_no_finding(owner, tenant_id):
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute("update atlas.audit_log set created_at = created_at - interval '91 days'")
    await owner.execute("delete from atlas.job_groups where ended_at is not null; delete from atlas.bulk_actions")
    assert [finding.message for finding in await cross_check(owner) if "group" in finding.message] == []
    await owner.execute("delete from atlas.job_groups")
    [finding] = await cross_check(owner)
    assert re.search("group .* is gone without an event", finding.message)
