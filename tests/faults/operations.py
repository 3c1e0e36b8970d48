"""What operators and the scheduler do with jobs: a bulk action, jobs of past days in history, triggers on events."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.engine.metering.usage import meter_usage
from atlas.engine.retention.retention import id_at
from atlas.engine.workflows.events import publish_event
from tests.engine.jobs.given import given_worker, success
from tests.engine.triggers.given import given_event_trigger
from tests.faults.capability import Capability, Marked
from tests.faults.judge import Evidence
from tests.support import DANA, publish

COUNT = 6
AGE = """
with jobs as (
  update atlas.jobs set finished_at = finished_at - $2::int * interval '1 day', created_at = created_at - $2::int * interval '1 day'
  where job_type = $1 returning id)
update atlas.job_attempts a set finished_at = a.finished_at - $2::int * interval '1 day' from jobs where a.job_id = jobs.id"""
MOVE = "select moved from atlas.move_to_history(array[$1::uuid], '00000000-0000-0000-0000-000000000000', 99, 30, true)"

# Failed jobs that a bulk action retries.


@job("fault.failed")
async def failed(input: dict[str, Any], ctx: JobContext) -> None:
    """Failed before anything was struck, and is retried."""
    async with Marked("fault.failed", ctx):
        pass


async def give_failed(conn: Any) -> None:
    await publish(conn, "fault.failed")
    await enqueue_many(conn, [NewJob("fault.failed", {"n": n}) for n in range(COUNT)], actor=DANA)
    worker = await given_worker(conn, "fault.failed")
    for claimed in await claim(conn, worker, limit=COUNT):
        await finish(conn, worker, [decide(claimed, worker.id, PermanentError("no"), ATLAS)])
    failed = JobFilter(statuses=("failed",), job_type="fault.failed")
    # One job a second: the scheduler goes on with it during the storm.
    await begin_bulk_action(conn, "retry", actor=DANA, job_filter=failed, rate_per_second=1)


async def each_is_retried_once(evidence: Evidence) -> list[str]:
    rows = await evidence.conn.fetch(
        "select count(*) from atlas.audit_log where action = 'JOB_RETRIED' and entity_id in"
        " (select id::text from atlas.jobs where job_type = 'fault.failed') group by entity_id"
    )
    counts = [row["count"] for row in rows]
    return [] if counts == [1] * COUNT else [f"the bulk action retried its {COUNT} jobs {counts} times"]


# Jobs of past days: some go into history, others leave it.


async def give_old(conn: Any) -> None:
    await _give_finished(conn, "past.older", days=40)
    await meter_usage(conn)
    assert await conn.fetchval(MOVE, SYSTEM_TENANT) == COUNT
    await _give_finished(conn, "past.old", days=2)


async def _give_finished(conn: Any, job_type: str, *, days: int) -> None:
    past = id_at(datetime.now(UTC) - timedelta(days=days)).int
    ids = [UUID(int=past | uuid4().int >> 50) for _ in range(COUNT)]
    jobs = [NewJob(job_type, {}, id=id, allow_unknown=True) for id in ids]
    await enqueue_many(conn, jobs, actor=DANA)
    worker = await given_worker(conn, job_type)
    for claimed in await claim(conn, worker, limit=COUNT):
        await finish(conn, worker, [success(worker, claimed)])
    await conn.execute(AGE, job_type, days)


async def each_is_in_one_place(evidence: Evidence) -> list[str]:
    """What is kept is there once with its attempt, and what is past its age is gone."""
    row = await evidence.conn.fetchrow(
        "select count(*) as jobs, count(distinct j.id) as ids, count(r.job_id) as attempts from atlas.jobs j"
        " left join atlas.job_runs r on r.job_id = j.id where j.job_type like 'past.old%'"
    )
    return [] if set(row.values()) == {COUNT} else [f"{dict(row)} of {COUNT} jobs of past days"]


# A trigger on events.


@job("fault.reacts")
async def reacts(input: dict[str, Any], ctx: JobContext) -> None:
    """Started by an event."""
    async with Marked("fault.reacts", ctx):
        pass


async def give_event(conn: Any) -> None:
    await publish(conn, "fault.reacts")
    fields = {"job_type": "fault.reacts", "dedupe_window_seconds": 0}
    await given_event_trigger(conn, SYSTEM_TENANT, "fault.paid", **fields)
    for n in range(COUNT):
        await publish_event(conn, SYSTEM_TENANT, "fault.paid", {"n": n}, actor=DANA)


async def each_event_fires_once(evidence: Evidence) -> list[str]:
    jobs = await evidence.conn.fetchval("select count(*) from atlas.jobs where job_type = 'fault.reacts'")
    return [] if jobs == COUNT else [f"{COUNT} events started {jobs} jobs"]


OPERATIONS = (
    Capability(
        "a bulk action",
        give_failed,
        (each_is_retried_once,),
        types=("fault.failed",),
        done="select bool_and(status = 'done') from atlas.bulk_actions",
        needs_installation=True,
    ),
    Capability(
        "history",
        give_old,
        (each_is_in_one_place,),
        done="select not exists (select from only atlas.jobs where job_type = 'past.old')"
        " and not exists (select from atlas.jobs where job_type = 'past.older')",
        needs_installation=True,
    ),
    Capability(
        "a trigger on events",
        give_event,
        (each_event_fires_once,),
        types=("fault.reacts",),
        done=f"select count(*) >= {COUNT} from atlas.jobs where job_type = 'fault.reacts'",
        needs_installation=True,
    ),
)
