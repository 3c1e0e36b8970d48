"""Moves into history and out of it under faults: no job is in both, none in neither, and its attempts are where it is."""

from typing import Any

from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.backoff import policy_of
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.verdicts import PermanentError, decide
from tests.engine.jobs.given import given_job, given_worker
from tests.engine.retention.test_history_counts import stored_and_counted
from tests.engine.retention.test_retention import age, old
from tests.faults.commands import JOB, command, exists, give_canceled, status_is
from tests.faults.judge import Evidence, Law
from tests.faults.maintenance import COUNT, equals, maintenance
from tests.support import DANA

MOVE = "select moved from atlas.move_to_history(array[$1::uuid], '00000000-0000-0000-0000-000000000000', 99, 30, true)"
PLACES = """
select
  (select count(*) from atlas.jobs)::int as jobs,
  (select count(distinct id) from atlas.jobs)::int as ids,
  (select count(*) from only atlas.jobs)::int as hot,
  (select count(*) from atlas.job_attempts)::int as attempts,
  (select count(*) from only atlas.job_attempts a where not exists (select from only atlas.jobs j where j.id = a.job_id))::int as apart"""


def are_whole(count: int, attempts: int) -> Law:
    """So many jobs in all, each in one place with its attempts."""

    async def law(evidence: Evidence) -> list[str]:
        row = await evidence.conn.fetchrow(PLACES)
        found = (row["jobs"], row["ids"], row["attempts"], row["apart"])
        return [] if found == (count, count, attempts, 0) else [f"{dict(row)} instead of {count} jobs"]

    return law


async def numbers_hold(evidence: Evidence) -> list[str]:
    """A drop would record what the tables hold, without counting it."""
    found = await stored_and_counted(evidence.conn)
    return [f"{part}: {numbers}" for part, numbers in found.items() if not numbers[0] or numbers[1] != numbers[2]]


async def give_finished(conn: Any) -> None:
    """Jobs that failed at their second attempt, two days ago."""
    for _ in range(COUNT):
        await given_job(conn, max_retries=1, id=old())
    worker = await given_worker(conn)
    for error in (ValueError("first"), PermanentError("second")):
        for job in await claim(conn, worker, limit=COUNT):
            await finish(conn, worker, [decide(job, worker.id, error, policy_of(None))])
        await conn.execute("update atlas.jobs set next_retry_at = null where status = 'queued'")
    await conn.execute("update atlas.jobs set dead_lettered_at = null")
    await age(conn, days=2)


async def give_expired(conn: Any) -> None:
    """A day of history that is past its age, and of which a job was deleted since."""
    await give_finished(conn)
    await age(conn, days=38)
    assert await conn.fetchval(MOVE, SYSTEM_TENANT) == COUNT
    await delete(conn, await conn.fetchval("select id from atlas.jobs order by id offset 2 limit 1"), actor=DANA)


async def give_filed(conn: Any) -> None:
    """Canceled jobs in history, two of the same day."""
    await give_canceled(conn)
    await cancel(conn, await given_job(conn, id=old()), actor=DANA)
    await age(conn, days=2)
    tenant = await conn.fetchval("select tenant_id from atlas.jobs where id = $1", JOB)
    assert await conn.fetchval(MOVE, tenant) + await conn.fetchval(MOVE, SYSTEM_TENANT) == 2


PRUNED = "select coalesce(sum((meta->>'jobs')::int), 0)::int from atlas.audit_log where action = 'JOBS_PRUNED'"
GIVEN = f"id = '{JOB}'"
NO_TABLES = "select count(*)::int from atlas.history_parts()"

HISTORY = (
    maintenance(
        "file",
        give_finished,
        "select not exists (select from only atlas.jobs)",
        are_whole(COUNT, 2 * COUNT),
        numbers_hold,
    ),
    maintenance(
        "drop",
        give_expired,
        f"select not ({exists('jobs')})",
        are_whole(0, 0),
        equals(PRUNED, COUNT - 1, "pruned jobs"),
        equals(NO_TABLES, 0, "tables of history"),
    ),
    command(
        "retry-filed",
        f"jobs retry {JOB}",
        give_filed,
        status_is("queued"),
        "JOB_RETRIED",
        laws=(are_whole(2, 0), numbers_hold),
    ),
    command(
        "delete-filed",
        f"jobs delete {JOB}",
        give_filed,
        f"select not ({exists('jobs', GIVEN)})",
        "JOB_DELETED",
        laws=(are_whole(1, 0), numbers_hold),
    ),
)
