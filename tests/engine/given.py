"""A tenant that has something in every table."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from atlas.audit.record import Event, record
from atlas.engine.access.sessions import open_session
from atlas.engine.access.tokens import add_token
from atlas.engine.enqueue import enqueue_group
from atlas.engine.hosts.hosts import add_host
from atlas.engine.hosts.server_instances import add_server_instance
from atlas.engine.idempotency import StoredResponse, call_key, once
from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action
from atlas.engine.jobs.actions.bulk_previews import preview_bulk_action
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import decide
from atlas.engine.metering.usage import meter_usage
from atlas.engine.policy.rules import add_rule
from atlas.engine.schedules.recurring import save_recurring
from atlas.engine.schedules.recurring_runs import claim_runs, finish_run
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.triggers.store import add_trigger, remove_trigger
from atlas.engine.webhooks.inbound import add_hook
from atlas.engine.webhooks.store import add_webhook
from atlas.engine.workflows.declared.store import save_workflow
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.intents import request_workflow, take_intents
from atlas.models.tenants import Tenant
from tests.engine.jobs.given import given_claimed, given_job, success
from tests.support import DANA

# No program has a right to history_contents.
TABLES_OF_A_TENANT = """
select c.relname from pg_class c
where c.relnamespace = 'atlas'::regnamespace and c.relkind = 'r' and c.relname <> 'history_contents'
  and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped)
order by 1"""
EVERY = {"label": "hourly", "trigger_type": "schedule", "cron_expr": "0 * * * *", "job_type": "a"}
# What only a program in the middle of its work writes.
WRITTEN_BY_PROGRAMS = """
insert into atlas.job_secrets (job_id, field, tenant_id, key_id, nonce, ciphertext)
select id, '/password', tenant_id, 'k', substr(sha256('n'), 1, 12), '' from atlas.jobs where tenant_id = '{0}' limit 1;
insert into atlas.mail_ledger (job_id, provider, tenant_id, sender, attempt_no)
select id, 'resend', tenant_id, 'a@example.org', 1 from atlas.jobs where tenant_id = '{0}' limit 1;
insert into atlas.mail_slots (job_id, provider, tenant_id, pace, slot_at)
select id, 'resend', tenant_id, 'resend', now() from atlas.jobs where tenant_id = '{0}' limit 1;
insert into atlas.effects (id, tenant_id, job_id, job_type, name, key, state, attempt_no)
select gen_random_uuid(), tenant_id, id, job_type, 'stripe.charge', 'k', 'unknown', 1 from atlas.jobs where tenant_id = '{0}' limit 1;
select atlas.record_effect(e, 'EFFECT_UNKNOWN', 'warn', 'system', 'worker', '', '{{}}') from atlas.effects e where tenant_id = '{0}';
insert into atlas.mail_pace (bucket, next_at) values ('tenant:{0}', now());
insert into atlas.tenant_shares (tenant_id, used) values ('{0}', 0);
insert into atlas.job_limits (id, tenant_id, per_second, burst, tokens) values (gen_random_uuid(), '{0}', 1, 1, 1);
select atlas.pause_target('trigger', gen_random_uuid()::text, '{0}', null, null, 'user', 'dana', '{{}}');
insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status)
select id, '', 1, tenant_id, 'a', 'step', 'succeeded' from atlas.workflow_runs where tenant_id = '{0}';
insert into atlas.trigger_fires (trigger_id, tenant_id, fired_at, created_by)
select id, tenant_id, now(), 'dana' from atlas.job_triggers where tenant_id = '{0}';
insert into atlas.limit_events (limit_id, tenant_id) values (gen_random_uuid(), '{0}')"""


async def given_full_tenant(conn: Any, slug: str = "acme") -> Tenant:
    """Jobs that ended in several ways, one that is queued, a run, and one of everything else."""
    await switch(conn, online=True, actor=DANA)
    tenant = await add_tenant(conn, slug=slug, name=slug, actor=DANA)
    await _give_things(conn, tenant)
    await _give_work(conn, tenant.id)
    await conn.execute(WRITTEN_BY_PROGRAMS.format(tenant.id))
    while await meter_usage(conn):
        pass
    assert await count_jobs(conn)
    return tenant


async def rows_of(conn: Any, tenant_id: UUID) -> dict[str, int]:
    """How many rows of each table belong to a tenant."""
    tables = [row[0] for row in await conn.fetch(TABLES_OF_A_TENANT)]
    return {
        table: await conn.fetchval(f"select count(*) from atlas.{table} where tenant_id = $1", tenant_id)
        for table in tables
    }


async def _give_things(conn: Any, tenant: Tenant) -> None:
    host = await add_host(conn, tenant_id=tenant.id, name="box", actor=DANA)
    await add_server_instance(conn, host, name="web", actor=DANA)
    token, _ = await add_token(conn, subject="ann", role="tenant_admin", tenant=tenant, actor=DANA)
    await open_session(conn, token, actor=DANA)
    await add_trigger(conn, tenant.id, EVERY, actor=DANA)
    await add_webhook(conn, tenant.id, "https://shop.example/", ["*"], actor=DANA)
    await add_hook(conn, tenant.id, "shop.paid", actor=DANA)
    await enqueue_group(conn, [], tenant_id=tenant.id, actor=DANA)
    await begin_bulk_action(conn, "retry", actor=DANA, ids=[host.id], tenant_id=tenant.id)
    failed = JobFilter(tenant.id, ("failed",))
    await preview_bulk_action(conn, "retry", failed, actor=DANA, tenant_id=tenant.id)
    over = await add_trigger(conn, tenant.id, {**EVERY, "label": "over"}, actor=DANA)
    await remove_trigger(conn, over.id, actor=DANA)
    await add_rule(conn, label="cheap", effect="allow", tenant_id=tenant.id, actor=DANA)
    await add_rule(conn, label="ask", effect="review", workflow="b", tenant_id=tenant.id, actor=DANA)
    for key in ("a", "b"):
        document = {"key": key, "steps": [{"id": "wait", "sleep": "10m"}]}
        await save_workflow(conn, document, actor=DANA, tenant_id=tenant.id)
    tidy = (tenant.id, "tidy")
    await save_recurring(conn, tidy, start_at=datetime.now(UTC) - timedelta(hours=1), repeat_every=timedelta(hours=1))
    [run] = await claim_runs(conn, "w", [tidy], lease=60)
    await finish_run(conn, run, outcome="succeeded")
    thing = Event("THING_CHANGED", "thing", f"thing of {tenant.slug}", DANA, tenant.id)
    await record(conn, thing, personal={"owner": "ann@example.org"})

    async def respond() -> StoredResponse:
        return StoredResponse(201, b"{}")

    async with conn.transaction():
        await once(conn, call_key(tenant.id, "ann", "key 1", b""), respond)


async def _give_work(conn: Any, tenant_id: UUID) -> None:
    await publish_event(conn, tenant_id, "order.paid", {}, actor=DANA)
    for workflow in ("a", "b"):
        await request_workflow(conn, tenant_id, workflow, {}, DANA, allow_unknown=True)
    await take_intents(conn, "engine")
    for job_type, outcome in (("ok", None), ("again", ValueError("no")), ("dead", ValueError("no"))):
        worker, job = await given_claimed(
            conn, job_type, tenant_id=tenant_id, max_retries=0 if job_type == "dead" else 3
        )
        ended = decide(job, worker.id, outcome, ATLAS) if outcome else success(worker, job)
        await finish(conn, worker, [ended])
        mail = Event("MAIL_NOTED", "job", str(job.id), DANA, tenant_id)
        await record(conn, mail, personal={"to": ["ann@example.org"], "subject": "Hello"})
    await cancel(conn, await given_job(conn, "stopped", tenant_id=tenant_id), actor=DANA)
    await given_job(conn, "waits", tenant_id=tenant_id)
