"""What the loss of a worker says about the jobs that it ran: evidence decides which of them is poison."""

from typing import Any

import orjson
import pytest

from atlas.engine.jobs.attempts.stalls import report_stall
from atlas.engine.jobs.claim import ClaimedJob, claim
from atlas.engine.jobs.lease import heartbeat, reap
from atlas.engine.jobs.lists.find import list_attempts
from tests.engine.jobs.given import given_job, given_worker, load, lose_lease

STACK = 'File "shop.py", line 7 in match'


async def lose_with(conn: Any, *job_ids: Any, suspect: Any = None, stalled: bool = False) -> dict[Any, str]:
    """A worker that runs these jobs is lost; returns their verdicts."""
    await conn.execute("update atlas.jobs set next_retry_at = null where status = 'queued'")
    worker = await given_worker(conn, "report.build")
    held: list[ClaimedJob] = await claim(conn, worker, limit=100)
    assert {job.id for job in held} == set(job_ids)
    if stalled:
        assert await report_stall(conn, worker.id, seconds=12, job_id=suspect, stack=STACK)
    await lose_lease(conn, worker)
    return {job.id: job.verdict for job in await reap(conn)}


async def lose_idle_worker(conn: Any) -> None:
    """A worker that runs nothing is lost, as when a machine is taken away."""
    await lose_lease(conn, await given_worker(conn, "other.type"))
    await reap(conn)


async def test_a_job_is_not_poison_while_as_many_workers_die_without_it(conn):
    job_id = await given_job(conn)
    verdicts = []
    for _ in range(5):
        verdicts += (await lose_with(conn, job_id)).values()
        await lose_idle_worker(conn)
    assert verdicts == ["requeued"] * 5
    # From now on it is the only one whose workers die: three more than those that died without it.
    for _ in range(3):
        verdicts += (await lose_with(conn, job_id)).values()
    assert verdicts == ["requeued"] * 7 + ["poisoned"]


async def test_a_job_that_is_lost_ten_times_is_poison_whatever_else_dies(conn):
    job_id = await given_job(conn)
    verdicts = []
    for _ in range(10):
        verdicts += (await lose_with(conn, job_id)).values()
        await lose_idle_worker(conn)
        await lose_idle_worker(conn)
    assert verdicts == ["requeued"] * 9 + ["poisoned"]


async def test_workers_that_died_before_its_first_loss_or_of_another_suspect_do_not_speak_for_a_job(conn):
    other = await given_job(conn)
    await conn.execute("update atlas.jobs set lost_count = 2, careful = true where id = $1", other)
    for _ in range(3):
        await lose_idle_worker(conn)
    assert await lose_with(conn, other) == {other: "poisoned"}
    job_id = await given_job(conn)
    verdicts = [(await lose_with(conn, job_id))[job_id] for _ in range(3)]
    assert verdicts == ["requeued", "requeued", "poisoned"]


async def test_a_job_whose_handler_kept_the_event_loop_runs_alone_and_is_poison_the_second_time(conn):
    job_id, bystander = await given_job(conn), await given_job(conn)
    verdicts = await lose_with(conn, job_id, bystander, suspect=job_id, stalled=True)
    assert verdicts == {job_id: "requeued", bystander: "requeued"}
    assert [(await load(conn, one))["lost_count"] for one in (job_id, bystander)] == [2, 0]
    await conn.execute("update atlas.jobs set status = 'canceled', next_retry_at = null where id = $1", bystander)

    assert await lose_with(conn, job_id, suspect=job_id, stalled=True) == {job_id: "poisoned"}
    error = orjson.loads((await load(conn, job_id))["error"])
    assert (error["type"], "event loop did not turn for 12 s" in error["message"]) == ("Poison", True)


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_lost_attempt_says_that_the_event_loop_did_not_turn(conn, is_known):
    job_id, bystander = await given_job(conn), await given_job(conn)
    await lose_with(conn, job_id, bystander, suspect=job_id if is_known else None, stalled=True)
    told = [(await list_attempts(conn, one))[0]["error_text"] for one in (job_id, bystander)]
    assert all(text.startswith("The worker's event loop did not turn for 12 s while this job was") for text in told)
    if is_known:
        assert told[0].endswith(f"The job's own handler kept it.\n{STACK}")
        assert told[1].endswith("The handler of another job kept it.")
    else:
        assert all(text.endswith("Which handler kept it is not known.") for text in told)
        assert (await load(conn, bystander))["lost_count"] == 1


async def test_a_job_that_must_run_alone_is_due_after_those_that_its_worker_held_too(conn):
    job_id = await given_job(conn)
    bystanders = [await given_job(conn) for _ in range(20)]
    await lose_with(conn, job_id, *bystanders, suspect=job_id, stalled=True)
    due = [(await load(conn, id))["next_retry_at"] for id in bystanders]
    assert (await load(conn, job_id))["next_retry_at"] > max(due)


async def test_a_stall_that_passes_is_forgotten_and_one_of_a_dead_worker_is_refused(conn):
    job_id = await given_job(conn)
    worker = await given_worker(conn, "report.build")
    await claim(conn, worker, limit=1)
    assert await report_stall(conn, worker.id, seconds=12, job_id=job_id, stack=None)
    assert await heartbeat(conn, worker.id, lease=60, running=1) is not None
    await lose_lease(conn, worker)
    await reap(conn)
    assert (await list_attempts(conn, job_id))[0]["error_text"].startswith("The lease expired before")
    assert not await report_stall(conn, worker.id, seconds=12, job_id=job_id, stack=None)
    stalls = "select level::text, entity_id from atlas.audit_log where action = 'WORKER_STALLED'"
    assert [tuple(row) for row in await conn.fetch(stalls)] == [("error", worker.id)]
