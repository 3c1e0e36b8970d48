"""The cross-check: what became of jobs and of the gate is what their last events tell."""

from datetime import timedelta

import pytest

from audit import cross_check, prune, seal
from engine.jobs import cancel, claim, finish, switch
from engine.jobs.backoff import ATLAS
from engine.jobs.outcomes import Notes, PermanentError, succeed
from engine.jobs.outcomes import decide as decided
from tests.engine.jobs.given import DANA, given_claimed, given_job, given_worker, success


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
    statuses = await conn.fetch("select status::text as status, count(*) from jobs group by 1")
    assert {row["status"] for row in statuses} == {"succeeded", "failed", "canceled", "queued", "running"}
    assert await cross_check(conn) == []


CHANGES = [
    ("a", "status = 'failed'", "is failed, but was last told as JOB_SUCCEEDED"),
    ("c", "status = 'succeeded'", "is succeeded, but was last told as JOB_FAILED"),
    ("h", "status = 'succeeded', finished_at = now()", "is succeeded, but was last told as JOB_CREATED"),
    ("f", "status = 'queued', finished_at = null", "is queued, but was last told as JOB_CANCELED"),
    (
        "e",
        "status = 'canceled', dead_lettered_at = null",
        "is canceled, but was last told as JOB_EXHAUSTED_RETRIES",
    ),
    ("b", "id = gen_random_uuid()", "has no JOB_CREATED event"),
]


async def test_a_job_that_was_changed_behind_the_accounts_back_is_found(conn, jobs):
    for job_type, change, words in CHANGES:
        transaction = conn.transaction()
        await transaction.start()
        await conn.execute(f"update jobs set {change} where job_type = '{job_type}'")
        [finding] = await cross_check(conn)
        await transaction.rollback()
        assert finding.kind == "outcome"
        assert words in finding.message


async def test_a_gate_that_was_turned_behind_the_accounts_back_is_found(conn, jobs):
    await conn.execute("update system_state set value = value || '{\"online\": false}' where key = 'atlas_online'")

    [finding] = await cross_check(conn)
    assert finding.message == "Atlas is offline, but was last told as ATLAS_ONLINE."


async def test_a_gate_whose_event_was_removed_by_order_has_nothing_to_be_compared_with(conn, owner, jobs, installation):
    await seal(conn)
    await installation.sign(conn)
    assert await prune(owner, older_than=timedelta(0), actor=DANA) is not None
    assert await cross_check(conn) == []

    await conn.execute(
        "update system_state set value = '{\"online\": false}', updated_at = clock_timestamp() where key = 'atlas_online'"
    )
    assert await cross_check(conn) == []  # as an installation that was never switched on
    await conn.execute("update system_state set value = '{\"online\": true}' where key = 'atlas_online'")
    [finding] = await cross_check(conn)
    assert finding.message == "Atlas is online, but was last told as nothing at all."


async def test_only_the_newest_jobs_are_compared_where_a_limit_says_so(conn, jobs):
    await conn.execute("update jobs set status = 'failed' where job_type = 'a'")
    assert await cross_check(conn, limit=2) == []
    assert await claim(conn, await given_worker(conn, "z"), limit=1) == []
