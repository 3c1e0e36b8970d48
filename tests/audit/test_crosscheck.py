"""The cross-check: jobs, the gate, and what people set up are as their last events tell."""

import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from atlas.actors import Actor
from atlas.audit.record import Event, record
from atlas.audit.retention import prune
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.access.sessions import end_session, open_session
from atlas.engine.access.tokens import add_token, ensure_operator_token, revoke_token
from atlas.engine.commands.definitions import add_definition, edit_definition
from atlas.engine.hosts.hosts import add_host, edit_host
from atlas.engine.hosts.server_instances import add_server_instance, edit_server_instance, remove_server_instance
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.actions.retry import retry_now
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.finish import Notes, finish
from atlas.engine.jobs.lease import reap
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch, switch_engine
from atlas.engine.jobs.verdicts import PermanentError, snooze, succeed
from atlas.engine.jobs.verdicts import decide as decided
from atlas.engine.policy.rules import add_rule, remove_rule
from atlas.engine.schedules.recurring import remove_recurring, save_recurring
from atlas.engine.schedules.recurring_runs import claim_runs, finish_run, sweep_runs
from atlas.engine.tenants.removal import begin_removal, continue_removal
from atlas.engine.tenants.tenants import add_tenant, edit_tenant, find_tenant
from atlas.engine.triggers.store import add_trigger, edit_trigger, remove_trigger
from atlas.engine.webhooks.inbound import add_hook, remove_hook
from atlas.engine.webhooks.store import add_webhook, edit_webhook, remove_webhook
from atlas.engine.webhooks.target import Target, note_failure
from atlas.engine.workflows.approvals import decide_approval, expire_approvals, list_approvals
from atlas.engine.workflows.declared.store import enable_workflow, save_workflow
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.intents import request_workflow, take_intents
from atlas.engine.workflows.run_actions import cancel_run
from tests.engine.jobs.given import given_claimed, given_job, given_worker, lose_lease, success
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


CONTENT_CHANGES = [
    ("update atlas.jobs set job_type = 'x' where job_type = 'a'", "type"),
    ("update atlas.jobs set tenant_id = gen_random_uuid() where job_type = 'a'", "tenant"),
    ("update atlas.jobs set input = '{\"n\": 2}' where job_type = 'audited'", "input"),
    ("update atlas.jobs set output = '{\"n\": 2}' where job_type = 'audited'", "output"),
    ("update atlas.jobs set cost_cents = 500 where job_type = 'audited'", "cost"),
    ("update atlas.jobs set cost_cents = 0 where job_type = 'tried'", "cost"),
    ("update atlas.jobs set cost_cents = 1 where job_type = 'a'", "cost"),
    ("delete from atlas.job_attempts where job_id = (select id from atlas.jobs where job_type = 'tried')", "attempts"),
    ("update atlas.jobs set finished_at = null where job_type = 'audited'", "times"),
    ("update atlas.jobs set dead_lettered_at = now() where job_type = 'audited'", "times"),
]


async def test_a_job_whose_content_was_changed_behind_the_audit_log_is_found(conn, owner, jobs):
    worker = await given_worker(conn, "audited", "tried")
    await enqueue(conn, NewJob("audited", {"n": 1.50, "at": [1e16, "é"]}, audit_content=True), actor=DANA)
    [job] = await claim(conn, worker, limit=1)
    notes = Notes(cost=5, audit_meta={"output_sha256": None})
    await finish(conn, worker, [succeed(job, worker.id, '{"n": 1}', "JOB_SUCCEEDED", notes)])
    await given_job(conn, "tried")
    for outcome in (ValueError("again"), None):
        await conn.execute("update atlas.jobs set next_retry_at = null where job_type = 'tried'")
        [job] = await claim(conn, worker, limit=1)
        failed = decided(job, worker.id, outcome, ATLAS, Notes(cost=7)) if outcome else None
        await finish(conn, worker, [failed or success(worker, job)])
    assert await cross_check(conn) == []

    for change, wrong in CONTENT_CHANGES:
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute(change)
        found = [finding.message for finding in await cross_check(owner)]
        await transaction.rollback()
        assert [message for message in found if message.endswith(f"differs from its events: {wrong}.")], (change, found)


async def test_a_cost_that_a_snooze_added_is_no_disagreement(conn, jobs):
    worker, job = await given_claimed(conn, "paid")
    await finish(conn, worker, [snooze(job, 0.0, Notes(cost=3))])
    assert await cross_check(conn) == []
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [succeed(job, worker.id, None, "JOB_SUCCEEDED", Notes(cost=4))])

    assert await conn.fetchval("select cost_cents from atlas.jobs where id = $1", job.id) == 7
    [event] = await conn.fetch(
        "select meta, body from atlas.audit_log where action = 'JOB_SUCCEEDED' and entity_id = $1", str(job.id)
    )
    assert orjson.loads(event["meta"]) == {"attempt": 2, "job_cost_cents": 7}
    assert orjson.loads(event["body"])["meta"] == {"attempt": 2, "job_cost_cents": 7}
    assert await cross_check(conn) == []


async def test_a_changed_requester_and_a_deleted_event_are_found(conn, owner, things):
    published = await publish_event(conn, things.id, "order.paid", {}, actor=DANA)
    assert await cross_check(conn) == []

    await owner.execute("update atlas.intents set requested_by = 'eve' where status = 'rejected'")
    await owner.execute("delete from atlas.events")
    found = [finding.message for finding in await cross_check(owner)]
    assert f"The event {published.id} is gone without an event." in found
    assert sum(message.endswith("names another requester than its event.") for message in found) == 3


async def test_a_gate_that_was_turned_behind_the_audit_log_back_is_found(conn, jobs):
    await conn.execute(
        "update atlas.system_state set value = value || '{\"online\": false}' where key = 'atlas_online'"
    )

    [finding] = await cross_check(conn)
    assert finding.message == "Atlas is offline, but the last event of the gate is ATLAS_ONLINE."


async def test_an_engine_that_was_switched_behind_the_audit_log_back_is_found(conn, jobs):
    behind = "update atlas.system_state set value = value || jsonb_build_object('engine_enabled', $1::boolean) where key = 'atlas_online'"
    await conn.execute(behind, False)
    [never] = await cross_check(conn)
    await conn.execute(behind, True)
    await switch_engine(conn, enabled=False, actor=DANA)
    assert await cross_check(conn) == []
    await conn.execute(behind, True)

    [finding] = await cross_check(conn)
    assert never.message == "The engine is off, but the last event of the engine is missing."
    assert finding.message == "The engine is on, but the last event of the engine is ENGINE_DISABLED."


async def test_a_gate_whose_event_was_removed_by_order_has_nothing_to_be_compared_with(conn, owner, jobs, installation):
    await seal(conn)
    await installation.sign(conn)
    assert await prune(owner, older_than=timedelta(0), actor=DANA, key=installation.key) is not None
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
    assert finding.message == f"2 jobs of tenant {SYSTEM_TENANT} of {today} are gone without an event."
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
async def things(conn, monkeypatch):
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
    server = await add_server_instance(conn, host, name="web", actor=DANA)
    await edit_server_instance(conn, server, name="web-1", actor=DANA)
    await remove_server_instance(conn, await add_server_instance(conn, host, name="old", actor=DANA), actor=DANA)
    webhook, _ = await add_webhook(conn, tenant.id, "https://shop.example/", ["job.*"], actor=DANA)
    await edit_webhook(conn, webhook.id, {"events": ["*"]}, actor=DANA)
    await note_failure(conn, Target(webhook.id, webhook.url, "", False), "no response")
    gone, _ = await add_webhook(conn, tenant.id, "https://gone.example/", ["*"], actor=DANA)
    await note_failure(conn, Target(gone.id, gone.url, "", False), "gone", gone=True)
    over, _ = await add_webhook(conn, tenant.id, "https://over.example/", ["*"], actor=DANA)
    await remove_webhook(conn, over.id, actor=DANA)
    await add_hook(conn, tenant.id, "shop.paid", actor=DANA)
    await remove_hook(conn, (await add_hook(conn, tenant.id, "shop.old", actor=DANA))[0].id, actor=DANA)
    token, _ = await add_token(conn, subject="ben", role="auditor", actor=DANA)
    session, _ = await open_session(conn, token, actor=DANA)
    await end_session(conn, session, actor=DANA)
    await open_session(conn, token, actor=DANA)
    for description in ("hello", "hello, you"):
        document = {"key": "greet", "description": description, "steps": [{"id": "a", "job": "x.work"}]}
        await save_workflow(conn, document, actor=DANA)
    await enable_workflow(conn, "greet", enabled=False, actor=DANA)
    await given_approvals(conn, tenant.id, monkeypatch)
    return tenant


async def given_approvals(conn, tenant_id, monkeypatch):
    """One that was rejected, one that was withdrawn, one that waits, and one that expired."""
    await switch(conn, online=True, actor=DANA)
    await add_rule(conn, label="ask all", effect="review", tenant_id=tenant_id, actor=DANA)
    document = {"key": "a", "steps": [{"id": "a", "job": "x.work"}]}
    await save_workflow(conn, document, actor=DANA, tenant_id=tenant_id)
    asked = [await request_workflow(conn, tenant_id, "a", {}, DANA, allow_unknown=True) for _ in range(3)]
    await take_intents(conn, "engine")
    [approval] = await list_approvals(conn, run_id=asked[0])
    await decide_approval(conn, approval.id, False, actor=Actor("user", "erin"))
    await cancel_run(conn, asked[1], actor=DANA)
    monkeypatch.setattr("atlas.engine.workflows.approvals.REVIEW_EXPIRES", timedelta(0))
    await request_workflow(conn, tenant_id, "a", {}, DANA, allow_unknown=True)
    await take_intents(conn, "engine")
    await expire_approvals(conn)
    statuses = await conn.fetch("select status::text as status from atlas.approvals order by 1")
    assert [row["status"] for row in statuses] == ["canceled", "expired", "pending", "rejected"]


async def test_what_people_did_agrees_with_its_events(conn, things):
    assert await cross_check(conn) == []


LEFT = "is not as its last event left it"
THING_CHANGES = [
    ("insert into atlas.tenants (slug, name) values ('eve', 'Eve')", "tenant .* has no event"),
    ("update atlas.tenants set limits = '{}' where slug = 'acme'", f"tenant .* {LEFT} .TENANT_EDITED, row "),
    ("update atlas.tenants set retention = '{\"jobs\": 1}' where slug = 'acme'", f"tenant .* {LEFT}"),
    ("update atlas.tenants set name = 'Acme' where slug = 'acme'", f"tenant .* {LEFT}"),
    ("update atlas.api_tokens set role = 'operator', tenant_id = null where subject = 'ann'", f"token .* {LEFT}"),
    ("update atlas.api_tokens set hash = sha256('mine') where subject = 'ann'", f"token .* {LEFT}"),
    ("update atlas.api_tokens set revoked_at = null where subject = 'old'", f"token .* {LEFT}"),
    ("update atlas.api_tokens set expires_at = null where subject = 'ann'", f"token .* {LEFT}"),
    ("update atlas.api_tokens set scopes = '{}' where subject = 'box'", f"token .* {LEFT}"),
    ("update atlas.hosts set is_active = false", f"host .* {LEFT}"),
    ("update atlas.server_instances set name = 'other'", f"server instance .* {LEFT}"),
    ("update atlas.job_triggers set job_type = 'other' where label = 'nightly'", f"trigger .* {LEFT}"),
    ("update atlas.job_triggers set payload_template = '{\"x\": 1}' where label = 'nightly'", f"trigger .* {LEFT}"),
    ("update atlas.job_triggers set deleted_at = null where label = 'over'", f"trigger .* {LEFT} .TRIGGER_REMOVED"),
    ("update atlas.webhooks set url = 'https://eve.example/' where is_enabled", f"webhook .* {LEFT} .WEBHOOK_EDITED"),
    (
        "update atlas.webhooks set is_enabled = true, disabled_reason = null where not is_enabled",
        f"webhook .* {LEFT} .WEBHOOK_DISABLED",
    ),
    ("update atlas.inbound_hooks set event_name = 'eve'", f"inbound hook .* {LEFT} .HOOK_ADDED"),
    ("delete from atlas.inbound_hooks", "inbound hook .* is gone without an event"),
    ("update atlas.job_definitions set argv = '[\"/bin/sh\"]'", f"definition .* {LEFT}"),
    ("update atlas.job_definitions set limits = '{\"files\": 9}'", f"definition .* {LEFT}"),
    ('update atlas.job_definitions set env = \'{"LD_PRELOAD": "x"}\'', f"definition .* {LEFT}"),
    ("update atlas.policy_rules set is_enabled = false where label = 'ask'", f"policy rule .* {LEFT}"),
    ("update atlas.policy_rules set runs_per_day = 1000 where label = 'ask'", f"policy rule .* {LEFT}"),
    ("delete from atlas.policy_rules where label = 'ask'", "policy rule .* is gone without an event"),
    ("delete from atlas.sessions; delete from atlas.api_tokens where subject = 'old'", "token .* is gone without an"),
    ("update atlas.sessions set ended_at = null where ended_at is not null", f"session .* {LEFT} .SIGNED_OUT"),
    (
        "update atlas.sessions set expires_at = expires_at + interval '1 day' where ended_at is null",
        f"session .* {LEFT}",
    ),
    (
        "insert into atlas.sessions (token_id, hash, expires_at) select id, sha256('x'), now() from atlas.api_tokens limit 1",
        "session .* has no event",
    ),
    ("update atlas.workflows set document = '{}' where key = 'greet' and version = 1", f"workflow greet {LEFT}"),
    ("update atlas.workflows set is_enabled = true where key = 'greet'", f"workflow greet {LEFT} .WORKFLOW_DISABLED"),
    ("delete from atlas.workflows where key = 'greet'", "workflow greet is gone without an event"),
    (
        "update atlas.approvals set decided_by = 'eve' where decided_by = 'erin'",
        f"approval .* {LEFT} .APPROVAL_DECIDED",
    ),
    (
        "update atlas.approvals set status = 'approved', decided_at = now() where status = 'pending'",
        f"approval .* {LEFT}",
    ),
    ("update atlas.approvals set requested_by = 'eve' where status = 'expired'", f"approval .* {LEFT}"),
    ("update atlas.approvals set comment = 'fine' where status = 'canceled'", f"approval .* {LEFT}"),
]


@pytest.mark.long
async def test_a_thing_that_was_changed_behind_the_audit_log_back_is_found(owner, things):
    for change, words in THING_CHANGES:
        transaction = owner.transaction()
        await transaction.start()
        await owner.execute(change)
        findings = await cross_check(owner)
        await transaction.rollback()
        assert len(findings) == 1, (change, findings)
        assert re.search(words, findings[0].message), findings[0].message


STATE_TABLES = (
    *("tenants", "api_tokens", "sessions", "approvals", "policy_rules", "job_definitions", "workflows", "job_triggers"),
    *("hosts", "server_instances", "webhooks", "inbound_hooks"),
)


@pytest.mark.long
async def test_columns_that_an_upgrade_adds_are_no_change_until_someone_changes_them(owner, things):
    for table in STATE_TABLES:
        await owner.execute(f"alter table atlas.{table} add column note text, add column size int not null default 3")
    assert await cross_check(owner) == []

    for table in STATE_TABLES:
        for change in ("note = 'x'", "size = 4"):
            transaction = owner.transaction()
            await transaction.start()
            await owner.execute(f"update atlas.{table} set {change}")
            findings = await cross_check(owner)
            await transaction.rollback()
            assert any(LEFT in finding.message for finding in findings), (table, change)
    await edit_tenant(owner, things, {"name": "Acme AG"}, actor=DANA)
    assert await cross_check(owner) == []


@pytest.mark.long
async def test_things_whose_first_events_were_removed_by_order_are_compared_with_what_is_left(
    conn, owner, things, installation
):
    await seal(conn)
    await installation.sign(conn)
    assert await prune(owner, older_than=timedelta(0), actor=DANA, key=installation.key) is not None
    assert await cross_check(conn) == []

    await edit_tenant(conn, await find_tenant(conn, "acme"), {"name": "Acme"}, actor=DANA)
    assert await cross_check(conn) == []
    await owner.execute("update atlas.tenants set name = 'Eve' where slug = 'acme'")
    [finding] = await cross_check(conn)
    assert "is not as its last event left it (TENANT_EDITED" in finding.message


AUDITED = (
    *("jobs", "tenants", "api_tokens", "sessions", "approvals", "policy_rules", "job_definitions", "workflows"),
    *("job_triggers", "hosts", "server_instances", "intents", "events", "recurring_jobs", "recurring_runs"),
    *("webhooks", "inbound_hooks"),
)
TRACES = (
    "{last_used_at,last_seen_at,updated_at,last_fire_at,next_fire_at,active_since,last_error,outages,handled_at,"
    "next_run_at,run_id,run_count,failing_since}"
)
RECORDER = f"""
create table atlas.recorded (xid xid8, name text, was text, became text);
create function atlas.recorder() returns trigger language plpgsql security definer as $$
declare
  was jsonb := to_jsonb(old) - '{TRACES}'::text[];
  became jsonb := to_jsonb(new) - '{TRACES}'::text[];
begin
  if was is distinct from became and (tg_table_name <> 'jobs' or was->'status' is distinct from became->'status') then
    insert into atlas.recorded values (pg_current_xact_id(), tg_table_name,
      coalesce(was->>'status', was->>'outcome'), coalesce(became->>'status', became->>'outcome'));
  end if;
  return null;
end $$;
"""
TRIGGER = """
create trigger recorder after insert or update or delete on atlas.{} for each row execute function atlas.recorder()
"""
# What docs/audit.md names as not audited.
BY_DESIGN = {
    *(("jobs", "queued", "running"), ("jobs", "running", "queued")),
    *(("recurring_runs", None, outcome) for outcome in (None, "succeeded", "stopped")),
}


@pytest.fixture
async def recorder(owner):
    """Every change of these tables is recorded, with its transaction."""
    await owner.execute(RECORDER)
    for name in AUDITED:
        await owner.execute(TRIGGER.format(name))


@pytest.mark.long
async def test_every_change_of_a_table_has_an_event_or_is_named_as_not_audited(owner, recorder, conn, jobs, things):
    worker, job = await given_claimed(conn, "s")
    await finish(conn, worker, [snooze(job, 60.0)])
    await publish_event(conn, things.id, "order.paid", {}, actor=DANA)
    key = (things.id, "tidy")
    schedule = {"start_at": datetime.now(UTC), "repeat_every": timedelta(hours=1)}
    await save_recurring(conn, key, **schedule)
    await save_recurring(conn, key, **schedule)  # the same again changes nothing
    for outcome in ("stopped", "succeeded", "failed", "timeout", "lost"):
        await owner.execute("update atlas.recurring_jobs set next_run_at = now()")
        [run] = await claim_runs(conn, "w", [key], lease=0 if outcome == "lost" else 60)
        await (sweep_runs(conn) if outcome == "lost" else finish_run(conn, run, outcome=outcome))
    await remove_recurring(conn, key)
    await save_recurring(conn, key, start_at=datetime.now(UTC), repeat_every=timedelta())
    [run] = await claim_runs(conn, "w", [key], lease=60)
    assert await finish_run(conn, run, outcome="succeeded") == "removed"
    worker, job = await given_claimed(conn, "lost")
    await lose_lease(conn, worker)
    assert job.id in [one.id for one in await reap(conn)]
    await cancel(conn, job.id, actor=DANA)
    await retry_now(conn, job.id, actor=DANA)
    await delete(conn, job.id, actor=DANA)
    await begin_removal(conn, things, actor=DANA, cancel=True)

    @asynccontextmanager
    async def transaction():
        async with conn.transaction():
            yield conn

    async for _ in continue_removal(transaction, things.id, actor=DANA):
        pass

    changes = await owner.fetch("select distinct name, was, became from atlas.recorded")
    assert {row["name"] for row in changes} == set(AUDITED)
    silent = await owner.fetch(
        "select distinct r.name, r.was, r.became from atlas.recorded r"
        " where not exists (select from atlas.audit_log a where a.xid = r.xid)"
    )
    assert {tuple(row) for row in silent} == BY_DESIGN
    actions = {row["action"] for row in await owner.fetch("select distinct action from atlas.audit_log")}
    assert {"WORKER_LOST", "EVENT_PUBLISHED", "TENANT_REMOVED"} <= actions
    counted = "select action, count(*) from atlas.audit_log where entity_type = 'recurring' group by 1"
    expected = {"RECURRING_REGISTERED": 2, "RECURRING_FAILED": 3, "RECURRING_REMOVED": 2}
    assert dict(await owner.fetch(counted)) == expected
