"""The scheduler under faults: its loops, with something to do for each."""

from typing import Any

from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.webhooks.store import add_webhook
from tests.engine.jobs.given import given_job, given_worker, lose_lease
from tests.engine.triggers.given import given_schedule
from tests.faults.maintenance import EVENTS, JOBS, equals
from tests.faults.program import Program
from tests.support import DANA, given_tenant, publish

COUNT = 3
DONE = f"""
select ({JOBS.format("fired.work")}) >= {COUNT} and ({JOBS.format("report.sum")}) > 0 and ({JOBS.format("HTTP_CALL")}) >= {COUNT}
  and not exists (select from atlas.jobs where status = 'running') and exists (select from atlas.audit_checkpoint)
  and exists (select from atlas.usage_hourly)"""


async def give_loops(conn: Any) -> None:
    """Due schedules, jobs of a lost worker, a group that has ended, events for a webhook."""
    await publish(conn, "fired.work")
    for _ in range(COUNT):
        await given_job(conn, "lost.work", allow_unknown=True)
    worker = await given_worker(conn)
    await claim(conn, worker, limit=COUNT)
    await lose_lease(conn, worker)
    acme = await given_tenant(conn)
    for n in range(COUNT):
        await given_schedule(conn, acme, label=f"t{n}", misfire="all", job_type="fired.work")
    await conn.execute("update atlas.job_triggers set next_fire_at = date_trunc('hour', clock_timestamp())")
    await add_webhook(conn, SYSTEM_TENANT, "https://shop.example/atlas", ("job.canceled",), actor=DANA)
    members = [NewJob("report.build", {"n": n}, allow_unknown=True) for n in range(COUNT)]
    await enqueue_group(conn, members, then=NewJob("report.sum", {}, allow_unknown=True), actor=DANA)
    await change_many(conn, "cancel", [member.id for member in members], actor=DANA, tenant_id=None)


SCHEDULER = Program(
    "scheduler",
    ("scheduler",),
    give_loops,
    DONE,
    (
        equals(JOBS.format("fired.work"), COUNT, "fired jobs"),
        equals("select count(distinct (trigger_id, due_at)) from atlas.trigger_fires", COUNT, "firings"),
        equals(EVENTS.format("LEASE_EXPIRED"), COUNT, "expired leases"),
        equals(JOBS.format("report.sum"), 1, "jobs that follow the group"),
        equals(JOBS.format("HTTP_CALL"), COUNT, "deliveries"),
    ),
    serves=True,
    expire="update atlas.scheduler_leader set expires_at = clock_timestamp() - interval '1 second'",
)
