"""The name of a program or a person is enough to say who acts."""

from atlas import Actor, JobsRepository, NewJob, cancel, enqueue, publish_event, request_workflow
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.repository import EnqueueJob


async def test_a_name_alone_acts_as_a_user(conn):
    job = await enqueue(conn, NewJob("report.build", allow_unknown=True), actor="app")
    await cancel(conn, job.id, actor="app")
    await JobsRepository(actor="app").enqueue(conn, EnqueueJob("report.build"))
    await publish_event(conn, SYSTEM_TENANT, "order.paid", {"order": 1}, actor="app")
    await request_workflow(conn, SYSTEM_TENANT, "wf.later", {}, "app", allow_unknown=True)
    await publish_event(conn, SYSTEM_TENANT, "order.paid", {"order": 2}, actor=Actor("agent", "importer"))

    rows = await conn.fetch(
        "select action, actor_type, actor_id from atlas.audit_log where actor_id in ('app', 'importer')"
    )
    assert sorted((row["action"], row["actor_type"], row["actor_id"]) for row in rows) == [
        ("EVENT_PUBLISHED", "agent", "importer"),
        ("EVENT_PUBLISHED", "user", "app"),
        ("INTENT_REQUESTED", "user", "app"),
        ("JOB_CANCELED", "user", "app"),
        ("JOB_CREATED", "user", "app"),
        ("JOB_CREATED", "user", "app"),
    ]
