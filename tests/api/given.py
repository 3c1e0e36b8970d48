"""One row of every kind, for each tenant, so that every address has something to return."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from atlas.db.pool import Pool
from atlas.engine.access.sessions import open_session
from atlas.engine.access.tokens import add_token
from atlas.engine.commands.definitions import add_definition
from atlas.engine.enqueue import enqueue_group
from atlas.engine.hosts.hosts import find_host
from atlas.engine.hosts.server_instances import add_server_instance
from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.lease import register_worker
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.pauses import pause
from atlas.engine.policy.rules import add_rule
from atlas.engine.schedules.recurring import save_recurring
from atlas.engine.schedules.recurring_runs import claim_runs, finish_run
from atlas.engine.triggers.store import add_trigger
from atlas.engine.webhooks.inbound import add_hook
from atlas.engine.webhooks.store import add_webhook
from atlas.engine.workflows.declared.store import save_workflow
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.intents import request_workflow, take_intents
from atlas.ids import new_id
from atlas.models.effect_reports import EffectReport
from atlas.models.tenants import Tenant
from tests.support import DANA, given_review

DOCUMENT = {"key": "greet", "steps": [{"id": "wait", "sleep": "10m"}]}
ADD_GRANT = """
insert into atlas.enqueue_grants (login, tenant_id, job_type, created_by) values ('shop', $1, 'x.work', 'dana') returning id"""
ADD_EFFECT = """
insert into atlas.effects (id, tenant_id, job_id, job_type, name, key, state, attempt_no)
values (gen_random_uuid(), $1, $2, 'x.work', 'stripe.charge', 'k', 'unknown', 1) returning id"""
DEFINITION = {"key": "echo.it", "argv": ["/bin/echo", "hello"]}


async def furnish_tenant(pool: Pool, tenant: Tenant) -> dict[str, Any]:
    """The ids of what belongs to a tenant, under the names that addresses use."""
    async with pool.acquire() as conn:
        job = await enqueue(conn, NewJob("x.work", {"of": tenant.slug}, tenant.id), actor=DANA)
        host = await find_host(conn, f"box-{tenant.slug}", tenant_id=tenant.id)
        instance = await add_server_instance(conn, host, name=f"web-{tenant.slug}", actor=DANA)
        described = {"label": "t", "trigger_type": "schedule", "cron_expr": "0 7 * * *", "job_type": "x.work"}
        trigger = await add_trigger(conn, tenant.id, described, actor=DANA)
        await save_workflow(conn, {**DOCUMENT, "key": f"greet-{tenant.slug}"}, actor=DANA, tenant_id=tenant.id)
        await add_rule(conn, label=f"rule-{tenant.slug}", effect="allow", actor=DANA, tenant_id=tenant.id)
        run = await request_workflow(conn, tenant.id, f"greet-{tenant.slug}", {"to": tenant.slug}, DANA)
        await take_intents(conn, "tests")
        intent = await request_workflow(conn, tenant.id, f"greet-{tenant.slug}", {}, DANA)
        await given_review(conn, intent)
        approval: UUID = await conn.fetchval("select id from atlas.approvals where run_id = $1", intent)
        row: int = await conn.fetchval("select id from atlas.audit_log where tenant_id = $1 limit 1", tenant.id)
        event = await publish_event(conn, tenant.id, "it.happened", {"of": tenant.slug}, actor=DANA)
        worker = f"box:1:{new_id()}"
        await register_worker(conn, worker, lease=3600, job_types=["x.work"])
        token, _ = await add_token(conn, subject=f"visitor@{tenant.slug}", role="auditor", tenant=tenant, actor=DANA)
        session, _ = await open_session(conn, token, actor=DANA)
        key = (tenant.id, f"tidy {tenant.slug}")
        await save_recurring(conn, key, start_at=datetime(2026, 1, 1, tzinfo=UTC), repeat_every=timedelta(days=1))
        [recurring] = await claim_runs(conn, "tests", [key], lease=30)
        await finish_run(conn, recurring, outcome="failed", error=f"of {tenant.slug}")
        webhook, _ = await add_webhook(conn, tenant.id, f"https://{tenant.slug}.example/", ["job.*"], actor=DANA)
        paused = await pause(conn, "trigger", str(trigger.id), actor=DANA, tenant_id=tenant.id)
        hook, _ = await add_hook(conn, tenant.id, f"from-{tenant.slug}", actor=DANA)
        group = await enqueue_group(conn, [NewJob("x.work", {}, tenant.id, allow_unknown=True)], actor=DANA)
        slowly: dict[str, Any] = {"ids": [job.id, new_id()], "rate_per_second": 0.01, "reason": "known"}
        bulk = await begin_bulk_action(conn, "discard", actor=DANA, tenant_id=tenant.id, **slowly)
        grant = await conn.fetchval(ADD_GRANT, tenant.id)
        effect = await conn.fetchval(ADD_EFFECT, tenant.id, job.id)
    return {
        "job_id": job.id,
        "grant_id": grant,
        "effect_id": effect,
        "host_id": host.id,
        "instance_id": instance.id,
        "trigger_id": trigger.id,
        "recurring_id": key[1],
        "run_id": run,
        "intent_id": intent,
        "approval_id": approval,
        "row_id": row,
        "event_id": event.id,
        "worker_id": worker,
        "session_id": session.id,
        "webhook_id": webhook.id,
        "pause_id": paused.id,
        "hook_id": hook.id,
        "bulk_id": bulk.id,
        "group_id": group,
        "slug_or_id": tenant.slug,
        "label": f"rule-{tenant.slug}",
        "key": f"greet-{tenant.slug}",
        "version": 1,
    }


async def furnish_installation(pool: Pool) -> None:
    """What belongs to no one."""
    async with pool.acquire() as conn:
        await add_definition(conn, DEFINITION, actor=DANA)


def report_about(provider: str) -> EffectReport:
    """A reconciliation without differences."""
    now = datetime.now(UTC)
    figures = dict.fromkeys(("effects", "entries", "in_doubt", "differences", "settled"), 0)
    return EffectReport(
        provider=provider, since=now, visible_before=now, finished_at=now, counts={}, rows=[], **figures
    )
