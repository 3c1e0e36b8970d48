"""Finish: many outcomes in one statement, fenced; at most one is ever accepted."""

from datetime import datetime

import orjson
import pytest

from atlas.audit.record import event_body
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.backoff import AGENT, ATLAS, CAPPED
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import Notes, finish, finish_and_claim
from atlas.engine.jobs.lease import reap
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import (
    JobCanceled,
    JobTimeout,
    PermanentError,
    RetryAfter,
    Snooze,
    decide,
    release,
    succeed,
)
from tests.engine.jobs.given import (
    DANA,
    actions,
    attempts,
    given_claimed,
    given_job,
    given_worker,
    load,
    lose_lease,
    make_due,
    success,
)


async def test_a_success_keeps_its_output_and_is_audited(conn):
    worker, job = await given_claimed(conn)
    assert (await finish(conn, worker, [success(worker, job, {"pages": 3})])).lost == []

    row = await load(conn, job.id)
    assert (row["status"], orjson.loads(row["output"]), row["claimed_by"]) == ("succeeded", {"pages": 3}, worker.id)
    assert row["finished_at"] is not None
    assert await actions(conn, job.id) == ["JOB_CREATED", "JOB_SUCCEEDED"]
    assert await attempts(conn, job.id) == [(1, "succeeded", None)]


@pytest.mark.parametrize("message", ["", 'with "quotes", ünïcode and \n breaks'])
async def test_the_bytes_of_an_outcome_are_what_the_audit_log_would_write(conn, message):
    worker, job = await given_claimed(conn)
    notes = Notes(audit_message=message, audit_meta={"provider": "outbox"} if message else {})
    await finish(conn, worker, [succeed(job, worker.id, None, "EMAIL_SENT", notes)])

    [row] = await conn.fetch(
        "select * from atlas.audit_log where entity_id = $1 and action = 'EMAIL_SENT'", str(job.id)
    )
    facts = {**notes.audit_meta, "attempt": 1}
    meta = orjson.dumps(facts).decode()
    assert row["body"] == event_body(
        "EMAIL_SENT", "system", worker.id, "job", str(job.id), job.tenant_id, meta, message
    )
    assert (row["message"], orjson.loads(row["meta"])) == (message, facts)


async def test_the_bytes_of_a_plain_success_are_the_same_by_itself_and_among_others(conn):
    worker, job = await given_claimed(conn)
    for _ in range(2):
        await given_job(conn)
    beside, failing = await claim(conn, worker, limit=2)
    await finish(conn, worker, [succeed(job, worker.id, None, "JOB_SUCCEEDED")])
    others = [succeed(beside, worker.id, None, "JOB_SUCCEEDED"), decide(failing, worker.id, ValueError("no"), ATLAS)]
    await finish(conn, worker, others)

    for one in (job, beside):
        [row] = await conn.fetch(
            "select * from atlas.audit_log where entity_id = $1 and action <> 'JOB_CREATED'", str(one.id)
        )
        expected = event_body("JOB_SUCCEEDED", "system", worker.id, "job", one.id, one.tenant_id, '{"attempt":1}')
        assert orjson.loads(row["body"]) == orjson.loads(expected)
        assert (row["message"], row["level"], orjson.loads(row["meta"])) == ("", "info", {"attempt": 1})


@pytest.mark.parametrize("with_bytes", [3, 2], ids=["every event has its bytes", "one has none"])
async def test_successes_keep_the_facts_of_each(conn, with_bytes):
    await enqueue_many(conn, [NewJob("mixed", {"n": n}) for n in range(3)], actor=DANA)
    worker = await given_worker(conn, "mixed")
    jobs = await claim(conn, worker, limit=3)
    notes = [Notes(audit_meta={"n": n}) if n < with_bytes else None for n in range(3)]
    outcomes = [succeed(job, worker.id, f'{{"pages": {n}}}', "JOB_SUCCEEDED", notes[n]) for n, job in enumerate(jobs)]
    assert [outcome.body is not None for outcome in outcomes] == [n < with_bytes for n in range(3)]
    assert (await finish(conn, worker, outcomes)).lost == []

    for n, job in enumerate(jobs):
        [row] = await conn.fetch(
            "select * from atlas.audit_log where entity_id = $1 and action <> 'JOB_CREATED'", str(job.id)
        )
        facts = {"attempt": 1, "n": n} if n < with_bytes else {"attempt": 1}
        assert orjson.loads(row["meta"]) == orjson.loads(row["body"])["meta"] == facts
        assert orjson.loads(row["body"])["entity_id"] == str(job.id)
        assert orjson.loads((await load(conn, job.id))["output"]) == {"pages": n}


async def test_a_failure_with_retries_left_waits_and_says_why(conn):
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [decide(job, worker.id, ValueError("no paper"), ATLAS)])

    row = await load(conn, job.id)
    error = orjson.loads(row["error"])
    assert (row["status"], row["retry_count"], row["claimed_by"]) == ("queued", 1, None)
    assert (error["message"], error["type"], error["retryCount"]) == ("ValueError: no paper", "ValueError", 0)
    waits = await conn.fetchval(
        "select extract(epoch from next_retry_at - updated_at)::float8 from atlas.jobs where id = $1", job.id
    )
    assert 9.9 <= waits <= 11.1
    assert await actions(conn, job.id) == ["JOB_CREATED", "JOB_RETRY_SCHEDULED"]
    assert await attempts(conn, job.id) == [(1, "failed", None)]


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_n_retries_give_exactly_n_plus_one_failures_and_a_dead_letter(conn, retries):
    worker, job = await given_claimed(conn, max_retries=retries)
    for _ in range(retries):
        await finish(conn, worker, [decide(job, worker.id, ValueError("x"), ATLAS)])
        await make_due(conn, job.id)
        [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [decide(job, worker.id, ValueError("x"), ATLAS)])

    row = await load(conn, job.id)
    assert (row["status"], row["retry_count"], row["attempt_count"]) == ("failed", retries + 1, retries + 1)
    assert row["dead_lettered_at"] is not None
    assert await actions(conn, job.id) == ["JOB_CREATED", *["JOB_RETRY_SCHEDULED"] * retries, "JOB_EXHAUSTED_RETRIES"]


async def test_a_permanent_error_fails_at_once_without_a_dead_letter(conn):
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [decide(job, worker.id, PermanentError("wrong address", outcome="unknown"), ATLAS)])

    row = await load(conn, job.id)
    assert (row["status"], row["dead_lettered_at"]) == ("failed", None)
    assert orjson.loads(row["error"])["outcome"] == "unknown"
    assert await actions(conn, job.id) == ["JOB_CREATED", "JOB_FAILED"]
    assert await attempts(conn, job.id) == [(1, "failed", "unknown")]


async def test_what_a_handler_raises_decides(conn):
    worker, job = await given_claimed(conn)

    assert decide(job, worker.id, Snooze(30), ATLAS).delay == 30
    assert 40 <= (decide(job, worker.id, RetryAfter(40), ATLAS).delay or 0) <= 44
    assert decide(job, worker.id, JobTimeout("slow"), ATLAS).status == "queued"
    assert decide(job, worker.id, JobCanceled("stop"), ATLAS).status == "canceled"
    assert 1 <= (decide(job, worker.id, ValueError(), CAPPED).delay or 0) <= 1.1
    assert 2 <= (decide(job, worker.id, ValueError(), AGENT).delay or 0) <= 2.2


async def test_when_an_attempt_failed_is_the_databases_time(conn):
    worker, job = await given_claimed(conn)
    failed = decide(job, worker.id, ValueError("broken"), ATLAS)
    # The clock of the worker's machine may be off: it is not sent.
    assert "attemptedAt" not in (failed.error or "")
    before = await conn.fetchval("select clock_timestamp()")
    await finish(conn, worker, [failed])

    error = orjson.loads((await load(conn, job.id))["error"])
    assert set(error) == {"message", "type", "attemptedAt", "retryCount"}
    assert before <= datetime.fromisoformat(error["attemptedAt"]) <= await conn.fetchval("select clock_timestamp()")


async def test_a_timeout_is_recorded_as_one(conn):
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [decide(job, worker.id, JobTimeout("slow"), ATLAS)])
    assert await attempts(conn, job.id) == [(1, "timeout", None)]


async def test_costs_add_up_over_attempts(conn):
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [decide(job, worker.id, ValueError("x"), ATLAS, Notes(cost=3))])
    await make_due(conn, job.id)
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [succeed(job, worker.id, None, "JOB_SUCCEEDED", Notes(cost=4))])
    assert (await load(conn, job.id))["cost_cents"] == 7


async def test_many_outcomes_of_all_kinds_take_one_statement(conn):
    await enqueue_many(conn, [NewJob("mixed", {"n": n}) for n in range(200)], actor=DANA)
    worker = await given_worker(conn, "mixed")
    jobs = await claim(conn, worker, limit=200)
    kinds = [
        lambda job: success(worker, job, {"ok": True}),
        lambda job: decide(job, worker.id, ValueError("x"), ATLAS),
        lambda job: decide(job, worker.id, PermanentError("x"), ATLAS),
        lambda job: release(job),
        lambda job: decide(job, worker.id, JobCanceled("x"), ATLAS),
    ]
    turn = await finish(conn, worker, [kinds[n % 5](job) for n, job in enumerate(jobs)])

    assert turn.lost == []
    counts = await conn.fetch("select status::text, count(*) from atlas.jobs group by 1 order by 1")
    assert {row[0]: row[1] for row in counts} == {"canceled": 40, "failed": 40, "queued": 80, "succeeded": 40}
    assert (
        await conn.fetchval("select count(*) from atlas.audit_log where action <> 'JOB_CREATED' and action like 'JOB%'")
        == 160
    )


@pytest.mark.parametrize("alike", [True, False])
async def test_what_outcomes_share_is_sent_once_and_recorded_for_each(conn, alike):
    await enqueue_many(conn, [NewJob("mixed", {"n": n}) for n in range(3)], actor=DANA)
    worker = await given_worker(conn, "mixed")
    jobs = await claim(conn, worker, limit=3)
    outcomes = [decide(job, worker.id, PermanentError("no paper"), ATLAS) for job in jobs]
    if not alike:
        outcomes[1] = succeed(jobs[1], worker.id, None, "EMAIL_SENT", Notes(audit_message="sent"))
    await finish(conn, worker, outcomes)

    for job, outcome in zip(jobs, outcomes, strict=True):
        [row] = await conn.fetch(
            "select * from atlas.audit_log where entity_id = $1 and action <> 'JOB_CREATED'", str(job.id)
        )
        event = orjson.loads(row["body"])
        assert (row["action"], row["level"], row["message"]) == (event["action"], event["level"], event["message"])
        assert (orjson.loads(row["meta"]), event["action"]) == (event["meta"], outcome.action)
        assert (await load(conn, job.id))["status"] == outcome.status


class TestFences:
    async def test_a_worker_that_lost_its_lease_cannot_finish_the_job(self, conn):
        worker, job = await given_claimed(conn)
        await lose_lease(conn, worker)

        turn = await finish(conn, worker, [success(worker, job)])
        assert turn.lost == [(job.id, 1)]
        assert (await load(conn, job.id))["status"] == "running"

    async def test_a_late_finish_after_another_took_over_changes_nothing(self, conn):
        slow, first = await given_claimed(conn)
        await lose_lease(conn, slow)
        await reap(conn)
        await make_due(conn, first.id)
        quick = await given_worker(conn, "report.build")
        [second] = await claim(conn, quick, limit=1)

        assert (await finish(conn, slow, [success(slow, first, {"late": True})])).lost == [(first.id, 1)]
        assert (await finish(conn, quick, [success(quick, second, {"late": False})])).lost == []
        assert orjson.loads((await load(conn, first.id))["output"]) == {"late": False}
        assert await actions(conn, first.id) == ["JOB_CREATED", "LEASE_EXPIRED", "JOB_SUCCEEDED"]

    async def test_a_second_finish_of_the_same_attempt_is_refused(self, conn):
        worker, job = await given_claimed(conn)
        await finish(conn, worker, [success(worker, job)])
        assert (await finish(conn, worker, [decide(job, worker.id, ValueError(), ATLAS)])).lost == [(job.id, 1)]
        assert (await load(conn, job.id))["status"] == "succeeded"

    async def test_a_refused_finish_does_not_spoil_the_others(self, conn):
        worker, gone = await given_claimed(conn)
        await finish(conn, worker, [success(worker, gone)])
        await enqueue_many(conn, [NewJob("report.build", {}) for _ in range(3)], actor=DANA)
        good = await claim(conn, worker, limit=3)

        turn = await finish(conn, worker, [success(worker, gone), *[success(worker, job) for job in good]])
        assert turn.lost == [(gone.id, 1)]
        assert await conn.fetchval("select count(*) from atlas.jobs where status = 'succeeded'") == 4

    async def test_a_retry_of_a_job_asked_to_stop_is_refused_and_named(self, conn):
        worker, job = await given_claimed(conn)
        assert await cancel(conn, job.id, actor=DANA) == "requested"

        turn = await finish_and_claim(conn, worker, [decide(job, worker.id, ValueError("x"), ATLAS)])
        assert (turn.canceled, turn.lost) == ([(job.id, 1)], [])
        assert (await finish(conn, worker, [decide(job, worker.id, JobCanceled("x"), ATLAS)])).lost == []
        assert (await load(conn, job.id))["status"] == "canceled"

    async def test_a_success_of_a_job_asked_to_stop_wins_if_it_is_first(self, conn):
        worker, job = await given_claimed(conn)
        await cancel(conn, job.id, actor=DANA)
        assert (await finish(conn, worker, [success(worker, job)])).lost == []
        assert (await load(conn, job.id))["status"] == "succeeded"
