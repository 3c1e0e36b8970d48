"""Maintenance under faults: sealing, metering, retention, sweeps, groups, bulk actions, webhooks and schedules."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.actions import bulk_actions
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.verdicts import decide
from atlas.engine.tenants.removal import begin_removal
from atlas.engine.tenants.tenants import find_tenant
from atlas.engine.webhooks.deliver import deliver_events
from atlas.engine.webhooks.store import add_webhook
from tests.audit.given import write
from tests.engine.jobs.given import given_job, given_worker, lose_lease, success
from tests.engine.jobs.test_bulk_actions import given_dead
from tests.engine.retention.test_retention import age, given_ended
from tests.engine.triggers.given import given_schedule
from tests.faults.judge import Evidence, Law
from tests.faults.program import Program
from tests.faults.steps import HAS_COPY, HAS_VERDICT
from tests.support import DANA, given_tenant

COUNT = 6
CENTS = 7


def equals(sql: str, expected: Any, what: str) -> Law:
    """A query returns just this."""

    async def law(evidence: Evidence) -> list[str]:
        found = await evidence.conn.fetchval(sql)
        return [] if found == expected else [f"{what}: {found} instead of {expected}"]

    return law


async def give_events(conn: Any) -> None:
    await write(conn, 20)


async def give_finished(conn: Any) -> None:
    """Jobs that have ended: one is a dead letter, the others have each cost something."""
    for _ in range(COUNT):
        await given_job(conn, max_retries=0)
    worker = await given_worker(conn)
    failed, *others = await claim(conn, worker, limit=COUNT)
    await finish(conn, worker, [decide(failed, worker.id, ValueError("no"), ATLAS)])
    await finish(conn, worker, [replace(success(worker, job), cost=CENTS) for job in others])


async def give_old(conn: Any) -> None:
    await given_ended(conn, COUNT)
    await given_job(conn)
    await age(conn)


async def give_lost(conn: Any) -> None:
    for _ in range(COUNT):
        await given_job(conn)
    worker = await given_worker(conn)
    await claim(conn, worker, limit=COUNT)
    await lose_lease(conn, worker)


async def give_ended_group(conn: Any) -> None:
    members = [NewJob("report.build", {"n": n}, allow_unknown=True) for n in range(COUNT)]
    await enqueue_group(conn, members, then=NewJob("report.sum", {}, allow_unknown=True), actor=DANA)
    await change_many(conn, "cancel", [member.id for member in members], actor=DANA, tenant_id=None)


async def give_bulk_action(conn: Any) -> None:
    await given_dead(conn, 5 * COUNT)
    with patch.object(bulk_actions, "FIRST_STEP_JOBS", COUNT):
        await bulk_actions.begin_bulk_action(conn, "retry", actor=DANA, job_filter=JobFilter(statuses=("dead_letter",)))


async def give_deliveries(conn: Any) -> None:
    await add_webhook(conn, SYSTEM_TENANT, "https://shop.example/atlas", ("job.created",), actor=DANA)
    await enqueue_many(conn, [NewJob("report.build", {"n": n}, allow_unknown=True) for n in range(COUNT)], actor=DANA)


async def give_overfull(conn: Any) -> None:
    """A webhook that fails, for which deliveries wait."""
    await give_deliveries(conn)
    await deliver_events(conn)
    await conn.execute("update atlas.webhooks set failing_since = clock_timestamp()")


async def give_alert(conn: Any) -> None:
    """A worker that was lost."""
    await given_worker(conn)
    await conn.execute("update atlas.job_workers set lease_expires_at = clock_timestamp() - interval '1 minute'")


async def give_due_verification(conn: Any) -> None:
    """A verification of the audit log that is due."""
    await give_events(conn)
    await conn.execute(
        "insert into atlas.system_state (key, value, updated_by) values ('audit_verification',"
        " jsonb_build_object('began_at', clock_timestamp() - interval '2 days'), 'tests')"
    )


async def give_due_schedules(conn: Any) -> None:
    acme = await given_tenant(conn)
    for n in range(COUNT):
        await given_schedule(conn, acme, label=f"t{n}", misfire="all")
    await conn.execute("update atlas.job_triggers set next_fire_at = date_trunc('hour', clock_timestamp())")


async def give_missed(conn: Any) -> None:
    """Schedules that catch up with the last hours, when nothing ran."""
    await give_due_schedules(conn)
    hours = "date_trunc('hour', clock_timestamp()) - interval '2 hours'"
    await conn.execute(f"update atlas.job_triggers set next_fire_at = {hours}")


async def give_removal(conn: Any) -> None:
    acme = await given_tenant(conn)
    await enqueue_many(
        conn, [NewJob("report.build", {"n": n}, acme, allow_unknown=True) for n in range(COUNT)], actor=DANA
    )
    await begin_removal(conn, await find_tenant(conn, "acme"), actor=DANA, cancel=True)


EVENTS = "select count(*) from atlas.audit_log where action = '{}'"
JOBS = "select count(*) from atlas.jobs where job_type = '{}'"


def maintenance(name: str, give: Callable[[Any], Awaitable[None]], done: str, *laws: Law) -> Program:
    """One turn of a task of the scheduler."""
    return Program(name, (name,), give, done, laws, main="tests.faults.steps:main")


MAINTENANCE = (
    maintenance(
        "seal",
        give_events,
        "select (select count(*) from atlas.audit_log) = (select sum(count - 1) from atlas.audit_seal)"
        " and exists (select from atlas.audit_checkpoint)",
    ),
    maintenance(
        "meter",
        give_finished,
        f"select coalesce(sum(runs), 0) >= {COUNT} from atlas.usage_hourly",
        equals("select sum(runs)::int from atlas.usage_hourly", COUNT, "metered runs"),
        equals("select sum(cents)::int from atlas.usage_costs", (COUNT - 1) * CENTS, "metered cents"),
        equals("select count(*)::int from atlas.dead_letters", 1, "dead letters"),
    ),
    maintenance(
        "prune",
        give_old,
        "select count(*) = 1 from atlas.jobs",
        equals(
            "select sum((meta->>'jobs')::int)::int from atlas.audit_log where action = 'JOBS_PRUNED'",
            COUNT,
            "pruned jobs",
        ),
    ),
    maintenance(
        "sweep",
        give_lost,
        "select not exists (select from atlas.jobs where status = 'running')",
        equals(EVENTS.format("LEASE_EXPIRED"), COUNT, "expired leases"),
    ),
    maintenance(
        "settle",
        give_ended_group,
        "select bool_and(ended_at is not null) from atlas.job_groups",
        equals(JOBS.format("report.sum"), 1, "jobs that follow the group"),
    ),
    maintenance(
        "bulk",
        give_bulk_action,
        "select bool_and(status = 'done') from atlas.bulk_actions",
        equals(EVENTS.format("JOB_RETRIED"), 5 * COUNT, "retried jobs"),
    ),
    maintenance(
        "deliver",
        give_deliveries,
        f"select ({JOBS.format('HTTP_CALL')}) > 0",
        equals(JOBS.format("HTTP_CALL"), COUNT, "deliveries"),
    ),
    maintenance(
        "disable_overfull",
        give_overfull,
        "select bool_and(not is_enabled) from atlas.webhooks",
        equals(EVENTS.format("WEBHOOK_DISABLED"), 1, "disabled webhooks"),
    ),
    maintenance(
        "watch",
        give_alert,
        "select exists (select from atlas.system_state where key = 'watchdog' and value::text like '%worker_lost%')",
    ),
    maintenance(
        "verify",
        give_due_verification,
        HAS_VERDICT,
        equals(
            "select value ? 'leased_until' from atlas.system_state where key = 'audit_verification'", False, "a lease"
        ),
    ),
    maintenance("copy", give_events, HAS_COPY),
    maintenance(
        "fire",
        give_due_schedules,
        f"select count(*) >= {COUNT} from atlas.trigger_fires",
        equals("select count(*) from atlas.jobs where job_type = 'report.build'", COUNT, "fired jobs"),
        equals("select count(distinct (trigger_id, due_at)) from atlas.trigger_fires", COUNT, "firings"),
    ),
    Program(
        "catch-up",
        ("fire",),
        give_missed,
        f"select count(*) >= {3 * COUNT} from atlas.trigger_fires",
        (
            equals(JOBS.format("report.build"), 3 * COUNT, "fired jobs"),
            equals("select count(distinct (trigger_id, due_at)) from atlas.trigger_fires", 3 * COUNT, "firings"),
        ),
        main="tests.faults.steps:main",
    ),
    maintenance(
        "remove",
        give_removal,
        "select not exists (select from atlas.tenants where slug = 'acme')",
    ),
)
