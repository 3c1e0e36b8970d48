"""The cross-check: jobs, the gate, and what people set up are as their last events tell."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from atlas.audit import Event, cross_check, prune, record, seal
from atlas.engine.commands.definitions import add_definition, edit_definition
from atlas.engine.hosts.hosts import add_host, edit_host
from atlas.engine.jobs import cancel, claim, finish, switch
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.delete import delete
from atlas.engine.jobs.finish import Notes
from atlas.engine.jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.verdicts import PermanentError, succeed
from atlas.engine.jobs.verdicts import decide as decided
from atlas.engine.tenants import add_tenant, edit_tenant, find_tenant
from atlas.engine.tokens import add_token, ensure_operator_token, revoke_token
from atlas.engine.triggers.store import add_trigger, edit_trigger, remove_trigger
from atlas.engine.workflows.policy_rules import add_rule, remove_rule
from tests.engine.jobs.given import given_claimed, given_job, given_worker, success
from tests.support import DANA


@pytest.fixture
async def jobs(conn):
    """Jobs that ended in every way, and some that have not, through the engine's own verbs."""
    await switch(conn, online=True, actor=DANA)
    worker, job = await given_claimed(conn, "a")
    await finish(conn, worker, [success(worker, job)])
    worker, job = await given_claimed(conn, "b")
    await finish(conn, worker, [succeed(job, worker.id, None, "INVOICE_SENT", Notes(audit_action="INVOICE_SENT"))])
    worker, job = await given_claimed(conn, "c")
    await finish(conn, worker, [decided(job, worker.id, PermanentError("no"), ATLAS)])
    worker, job = await given_claimed(conn, "d")
    await finish(conn, worker, [decided(job, worker.id, ValueError("again"), ATLAS)])
    worker, job = await given_claimed(conn, "e", max_retries=0)
    await finish(conn, worker, [decided(job, worker.id, ValueError("over"), ATLAS)])
    await cancel(conn, await given_job(conn, "f"), actor=DANA)
    await given_claimed(conn, "g")
    await given_job(conn, "h")


async def test_what_the_engine_did_agrees_with_its_events(conn, jobs):
    statuses = await conn.fetch("select status::text as status, count(*) from atlas.jobs group by 1")
    assert {row["status"] for row in statuses} == {"succeeded", "failed", "canceled", "queued", "running"}
    assert await cross_check(conn) == []


CHANGES = [
    ("a", "status = 'failed'", "is failed, but its last event is JOB_SUCCEEDED"),
    ("c", "status = 'succeeded'", "is succeeded, but its last event is JOB_FAILED"),
    ("h", "status = 'succeeded', finished_at = now()", "is succeeded, but its last event is JOB_CREATED"),
    ("f", "status = 'queued', finished_at = null", "is queued, but its last event is JOB_CANCELED"),
    (
        "e",
        "status = 'canceled', dead_lettered_at = null",
        "is canceled, but its last event is JOB_EXHAUSTED_RETRIES",
    ),
    ("b", "id = gen_random_uuid()", "has no JOB_CREATED event"),
]


async def test_a_job_that_was_changed_behind_the_audit_log_back_is_found(conn, jobs):
    for job_type, change, words in CHANGES:
        transaction = conn.transaction()
        await transaction.start()
        await conn.execute(f"update atlas.jobs set {change} where job_type = '{job_type}'")
        finding, *_ = await cross_check(conn)
        await transaction.rollback()
        assert finding.kind == "outcome"
        assert words in finding.message


async def test_a_gate_that_was_turned_behind_the_audit_log_back_is_found(conn, jobs):
    await conn.execute(
        "update atlas.system_state set value = value || '{\"online\": false}' where key = 'atlas_online'"
    )

    [finding] = await cross_check(conn)
    assert finding.message == "Atlas is offline, but the last event of the gate is ATLAS_ONLINE."


async def test_a_gate_whose_event_was_removed_by_order_has_nothing_to_be_compared_with(conn, owner, jobs, installation):
    await seal(conn)
    await installation.sign(conn)
    assert await prune(owner, older_than=timedelta(0), actor=DANA) is not None
    assert await cross_check(conn) == []

    await conn.execute(
        "update atlas.system_state set value = '{\"online\": false}', updated_at = clock_timestamp() where key = 'atlas_online'"
    )
    assert await cross_check(conn) == []  # as an installation that was never switched on
    await conn.execute("update atlas.system_state set value = '{\"online\": true}' where key = 'atlas_online'")
    [finding] = await cross_check(conn)
    assert finding.message == "Atlas is online, but the last event of the gate is missing."


async def test_only_the_newest_jobs_are_compared_where_a_limit_says_so(conn, jobs):
    await conn.execute("update atlas.jobs set status = 'failed' where job_type = 'a'")
    assert await cross_check(conn, limit=2) == []
    assert await claim(conn, await given_worker(conn, "z"), limit=1) == []


async def test_jobs_that_are_gone_without_an_event_are_counted_by_tenant_and_day(conn, jobs):
    await delete(conn, await given_job(conn, "i"), actor=DANA)
    assert await cross_check(conn) == []

    await conn.execute("delete from atlas.jobs where job_type in ('a', 'b')")
    [finding] = await cross_check(conn)
    today = await conn.fetchval("select (now() at time zone 'UTC')::date")
    what = f"2 entities of tenant {SYSTEM_TENANT} with JOB_CREATED on {today}"
    assert finding.message == f"{what} are gone without an event."
    assert await cross_check(conn, rows=1) == []


async def test_jobs_that_retention_removed_are_accounted_for_and_others_between_them_are_not(conn, jobs):
    gone = await conn.fetch("delete from atlas.jobs where job_type in ('a', 'c') returning id")
    first, last = sorted(row["id"] for row in gone)
    facts = {"jobs": 2, "attempts": 0, "steps": 0, "first": str(first), "last": str(last)}
    await record(conn, Event("JOBS_PRUNED", "tenant", str(SYSTEM_TENANT), DANA, SYSTEM_TENANT, meta=facts))
    assert await cross_check(conn) == []

    await conn.execute("delete from atlas.jobs where job_type = 'b'")
    [finding] = await cross_check(conn)
    assert finding.message == f"3 jobs of tenant {SYSTEM_TENANT} are gone, of which JOBS_PRUNED events account for 2."


SYNC = {
    "key": "sync",
    "argv": ["/opt/sync", "--all", {"when": "deep", "args": ["--deep={{deep}}"]}],
    "arg_schema": {"type": "object", "properties": {"deep": {"type": "integer"}}},
}


@pytest.fixture
async def things(conn):
    """One of each thing that is changed by people, and some that were changed."""
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    tenant = await edit_tenant(conn, tenant, {"limits": {"in_flight": 3}}, actor=DANA)
    await edit_tenant(conn, tenant, {"name": "Acme Ltd", "timezone": "Europe/Berlin"}, actor=DANA)
    host = await add_host(conn, tenant_id=tenant.id, name="box", actor=DANA)
    await edit_host(conn, host, is_active=False, actor=DANA)
    await edit_host(conn, host, is_active=True, actor=DANA)
    later = datetime.now(UTC) + timedelta(days=1)
    await add_token(conn, subject="ann", role="enqueuer", tenant=tenant, expires_at=later, actor=DANA)
    await add_token(conn, subject="box", role="host", tenant=tenant, scopes={"host_id": str(host.id)}, actor=DANA)
    old, _ = await add_token(conn, subject="old", role="auditor", actor=DANA)
    await revoke_token(conn, old.prefix, actor=DANA)
    await ensure_operator_token(conn, "a token that was chosen by hand", actor=DANA)
    described = {"label": "nightly", "trigger_type": "schedule", "cron_expr": "0 3 * * *", "job_type": "x.work"}
    trigger = await add_trigger(conn, tenant.id, {**described, "timezone": "UTC"}, actor=DANA)
    await edit_trigger(conn, trigger.id, {"timezone": None, "cron_expr": "0 4 * * *"}, actor=DANA)
    other = await add_trigger(conn, tenant.id, {**described, "label": "over"}, actor=DANA)
    await remove_trigger(conn, other.id, actor=DANA)
    await add_definition(conn, SYNC, actor=DANA)
    await edit_definition(conn, SYNC["key"], {"max_retries": 7, "is_active": False}, actor=DANA)
    await edit_definition(conn, SYNC["key"], {"is_active": True, "concurrency": 2}, actor=DANA)
    await add_rule(conn, label="ask", effect="review", tenant_id=tenant.id, runs_per_day=3, actor=DANA)
    await add_rule(conn, label="for all", effect="block", except_workflows=["a"], actor=DANA)
    await add_rule(conn, label="gone", effect="block", actor=DANA)
    await remove_rule(conn, "gone", actor=DANA)
    return tenant


async def test_what_people_did_agrees_with_its_events(conn, things):
    assert await cross_check(conn) == []


THING_CHANGES = [
    ("insert into atlas.tenants (slug, name) values ('eve', 'Eve')", "tenant .* has no event"),
    ("update atlas.tenants set limits = '{}' where slug = 'acme'", "tenant .* differs from its last event: limits"),
    (
        "update atlas.tenants set retention = '{\"jobs\": 1}' where slug = 'acme'",
        "differs from its last event: retention",
    ),
    ("update atlas.tenants set name = 'Acme' where slug = 'acme'", "differs from its last event: name"),
    ("update atlas.api_tokens set role = 'operator', tenant_id = null where subject = 'ann'", "token .*: role, tenant"),
    ("update atlas.api_tokens set revoked_at = null where subject = 'old'", "token .*: revoked"),
    ("update atlas.api_tokens set expires_at = null where subject = 'ann'", "token .*: expires_at"),
    ("update atlas.api_tokens set scopes = '{}' where subject = 'box'", "token .*: scopes"),
    ("update atlas.hosts set is_active = false", "host .*: is_active"),
    ("update atlas.job_triggers set job_type = 'other' where label = 'nightly'", "trigger .*: job_type"),
    ("update atlas.job_triggers set timezone = 'Asia/Tokyo' where label = 'nightly'", "trigger .*: timezone"),
    ("update atlas.job_triggers set deleted_at = null where label = 'over'", "trigger .*: is_enabled, removed"),
    ("update atlas.job_definitions set argv = '[\"/bin/sh\"]'", "definition .*: argv"),
    ("update atlas.policy_rules set is_enabled = false where label = 'ask'", "policy rule .*: is_enabled"),
    ("update atlas.policy_rules set runs_per_day = 1000 where label = 'ask'", "policy rule .*: runs_per_day"),
    ("delete from atlas.policy_rules where label = 'ask'", "1 entities of tenant .* with POLICY_ADDED on .* are gone"),
    ("delete from atlas.api_tokens where subject = 'old'", "1 entities with TOKEN_ADDED on .* are gone"),
]


async def test_a_thing_that_was_changed_behind_the_audit_log_back_is_found(owner, things):
    for change, words in THING_CHANGES:
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute(change)
        [finding] = await cross_check(owner)
        await transaction.rollback()
        assert re.search(words, finding.message), finding.message


async def test_things_whose_first_events_were_removed_by_order_are_compared_with_what_is_left(
    conn, owner, things, installation
):
    await seal(conn)
    await installation.sign(conn)
    assert await prune(owner, older_than=timedelta(0), actor=DANA) is not None
    assert await cross_check(conn) == []

    await edit_tenant(conn, await find_tenant(conn, "acme"), {"name": "Acme"}, actor=DANA)
    assert await cross_check(conn) == []
    await owner.execute("update atlas.tenants set name = 'Eve' where slug = 'acme'")
    [finding] = await cross_check(conn)
    assert finding.message.endswith("differs from its last event: name.")
