"""The worker: slots, outcomes, timeouts, cancellation, stopping, draining."""

import asyncio
import time
from datetime import timedelta
from uuid import uuid4

import orjson
import pytest
import structlog

from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.claim import Claimant, TurnResult
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.finish import Finish, finish_and_claim
from atlas.engine.jobs.handlers.types import job
from atlas.engine.jobs.lease import promote, request_drain
from atlas.engine.jobs.lists.find import list_attempts
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.start_right import boot_seconds
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.secrets.key import SecretKey, use_secret_key
from atlas.logs import _redacted
from atlas.workers.claims.demand import Request
from atlas.workers.claims.drain import Drain
from atlas.workers.claims.turn_call import TurnCall
from atlas.workers.worker import Worker
from tests.engine.jobs.given import make_due
from tests.support import DANA, PROOF
from tests.workers.handlers import ENDED, MET, SAID, STARTED
from tests.workers.processes import workers


async def row(pool, job_id):
    return await pool.fetchrow("select * from atlas.jobs where id = $1", job_id)


async def test_a_typed_handler_gets_its_input_and_its_output_is_kept(pool, given, drain):
    [job_id] = await given("test.double", {"n": 21})
    await drain()
    found = await row(pool, job_id)
    assert (found["status"], orjson.loads(found["output"]), found["cost_cents"]) == ("succeeded", {"n": 42}, 2)
    progress = orjson.loads(found["progress"])
    assert (progress["percent"], progress["message"]) == (50, "halfway")


async def test_a_plain_function_runs_in_a_thread(pool, given, drain):
    [job_id] = await given("test.plain", {"n": 1})
    await drain()
    assert "atlas-handler" in orjson.loads((await row(pool, job_id))["output"])["thread"]


async def test_thousands_of_jobs_are_each_run_once(pool, given, drain):
    many = 3000 if PROOF else 1000
    await given("test.noop", *({"n": n} for n in range(many)))
    worker = await drain()
    assert worker.finished == many
    counts = await pool.fetchrow(
        "select count(*), min(attempt_count), max(attempt_count) from atlas.jobs where status = 'succeeded'"
    )
    assert tuple(counts) == (many, 1, 1)
    assert await pool.fetchval("select count(*) from atlas.audit_log where action = 'JOB_SUCCEEDED'") == many


async def test_a_busy_worker_finishes_and_claims_in_the_same_calls(given, drain, monkeypatch):
    await given("test.noop", *({"n": n} for n in range(3000)))
    alone = []

    async def watched(conn, claimant, finishes=(), **asked):
        turn = await finish_and_claim(conn, claimant, finishes, **asked)
        if finishes and not turn.claimed:
            alone.append(len(finishes))
        return turn

    monkeypatch.setattr("atlas.workers.claims.claim_loop.finish_and_claim", watched)
    worker = await drain()
    assert worker.finished == 3000
    assert sum(alone) < 2000  # The last batch of each connection finds nothing more to claim.


async def test_what_is_done_is_recorded_while_the_slots_work_on(pool, given, drain):
    await given("test.busy", *({"n": n} for n in range(50)))
    await drain(concurrency=50)
    recorded, began = await pool.fetchrow(
        "select extract(epoch from min(finished_at))::float8, max((output->>'began')::float8) from atlas.jobs"
    )
    assert recorded < began  # the first outcome, before the last job began


async def test_a_failing_handler_is_retried_and_ends_as_a_dead_letter(pool, given, drain):
    [job_id] = await given("test.fails", max_retries=2)
    await drain()
    found = await row(pool, job_id)
    assert (found["status"], found["retry_count"], found["dead_lettered_at"] is not None) == ("failed", 3, True)
    attempts = await list_attempts(pool, job_id)
    assert [attempt["status"] for attempt in attempts] == ["failed"] * 3
    assert "ValueError: no paper" in attempts[0]["error_text"]


@pytest.mark.parametrize(
    ("what", "status", "retries", "attempt"),
    [
        ("permanent", "failed", 1, "failed"),
        ("later", "queued", 1, "failed"),
        ("snooze", "queued", 0, "canceled"),
        ("exit", "queued", 1, "failed"),
        ("interrupt", "queued", 1, "failed"),
        ("generator", "queued", 1, "failed"),
        ("cancelled", "queued", 1, "failed"),
        ("panic", "queued", 1, "failed"),
        ("surrogate", "queued", 1, "failed"),
        ("nul", "queued", 1, "failed"),
        ("unreadable", "failed", 1, "failed"),
    ],
)
async def test_what_a_handler_raises_decides_what_becomes_of_the_job(
    pool, given, drain, what, status, retries, attempt
):
    [job_id] = await given("test.raises", {"what": what})
    await drain()
    found = await row(pool, job_id)
    assert (found["status"], found["retry_count"]) == (status, retries)
    assert [one["status"] for one in await list_attempts(pool, job_id)] == [attempt]


@pytest.mark.parametrize("what", ["exit", "interrupt", "generator"])
async def test_a_thread_that_tries_to_end_the_program_fails_its_job(pool, given, drain, what):
    [job_id] = await given("test.exits_in_thread", {"what": what})
    await drain()
    assert ((await row(pool, job_id))["status"], (await row(pool, job_id))["retry_count"]) == ("queued", 1)


@pytest.mark.long
async def test_a_task_of_a_handler_that_tries_to_end_the_program_fails_its_job(pool, database_url, given, eventually):
    jobs = [(await given("test.exits_in_task", {"what": what}))[0] for what in ("exit", "interrupt", "generator")]
    [sound] = await given("test.noop")
    async with workers(database_url, 1, types="test.exits_in_task,test.noop", concurrency=1) as [worker]:
        await eventually("select status from atlas.jobs where id = $1", sound, equals="succeeded")
        assert worker.returncode is None
    found = [orjson.loads((await row(pool, one))["error"])["message"] for one in jobs]
    assert found == ["SystemExit: 3", "KeyboardInterrupt", "RuntimeError: the handler raised GeneratorExit"]


async def test_an_output_over_the_limit_of_its_type_fails_for_good_with_its_size(pool, given, drain):
    mib = 2**20
    kept = await given("test.large", {"n": mib // 2 - 4}) + await given("test.larger", {"n": 2 * mib - 12})
    [large] = await given("test.large", {"n": mib // 2 - 3})
    [more] = await given("test.larger", {"n": 2 * mib})
    await drain()
    assert [(await row(pool, one))["status"] for one in kept] == ["succeeded", "succeeded"]
    found = [await row(pool, one) for one in (large, more)]
    assert [(one["status"], one["retry_count"], one["output"]) for one in found] == [("failed", 1, "{}")] * 2
    assert [orjson.loads(one["error"])["message"].split(". ")[0] for one in found] == [
        "What the handler returned has 1,048,578 bytes as JSON; 1,048,576 are allowed",
        "What the handler returned has 2,097,154 bytes as JSON; 2,097,152 are allowed",
    ]


async def test_large_outputs_are_recorded_in_calls_of_bounded_size(pool, given, drain, monkeypatch):
    sizes = []

    async def watched(conn, claimant, finishes=(), **more):
        sizes.append(sum(len(finish.output) for finish in finishes))
        return await finish_and_claim(conn, claimant, finishes, **more)

    monkeypatch.setattr("atlas.workers.claims.claim_loop.finish_and_claim", watched)
    monkeypatch.setattr("atlas.workers.claims.held_jobs.MAX_CALL_CHARACTERS", 50_000)
    jobs = await given("test.large", *({"n": n} for n in [20_000] * 30 + [60_000]))
    await drain(concurrency=40)
    assert await pool.fetchval("select count(*) from atlas.jobs where status = 'succeeded'") == len(jobs)
    assert max(sizes) < 61_000


async def test_input_that_does_not_fit_fails_for_good_with_field_and_reason(pool, drain):
    await pool.execute(
        "select * from atlas.enqueue('system', 'test.double', '{\"n\": \"many\"}', allow_unknown => true)"
    )
    await drain()
    found = await pool.fetchrow("select status, error from atlas.jobs")
    assert found["status"] == "failed"
    assert "n: Input should be a valid integer" in orjson.loads(found["error"])["message"]


async def test_a_handler_that_outlasts_its_time_is_stopped(pool, given, drain):
    [job_id] = await given("test.slow", max_retries=0)
    await drain()
    assert [attempt["status"] for attempt in await list_attempts(pool, job_id)] == ["timeout"]
    assert "did not end within 0.2 s" in orjson.loads((await row(pool, job_id))["error"])["message"]


async def test_a_thread_that_outlasts_its_timeout_is_recorded_and_asked_to_stop(pool, given, drain):
    [job_id] = await given("test.stubborn", max_retries=0)
    await drain()
    assert [attempt["status"] for attempt in await list_attempts(pool, job_id)] == ["timeout"]


async def test_a_thread_that_outlasts_its_attempt_still_logs_no_secret(pool, given, serving):
    use_secret_key(SecretKey(bytes(range(32))))
    try:
        async with serving("test.logs_late"):
            await given("test.logs_late", {"password": "sesame-canary"})
            async with asyncio.timeout(10):
                while not SAID:
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.1)
    finally:
        use_secret_key(None)
    assert "sesame-canary" not in SAID.pop()
    # Once the thread has ended, logs are not cleaned any more.
    assert _redacted(None, "", "sesame-canary") == "sesame-canary"


@pytest.mark.long
async def test_a_thread_that_outlasts_its_attempt_keeps_its_slot(pool, given, serving, eventually):
    async with serving("test.lingers", "test.noop", concurrency=1):
        [late] = await given("test.lingers", {"seconds": 3})
        await eventually("select status::text from atlas.jobs where id = $1", late, equals="failed")
        [next_one] = await given("test.noop")
        await asyncio.sleep(1.8)
        assert (await row(pool, next_one))["attempt_count"] == 0
        await eventually("select status::text from atlas.jobs where id = $1", next_one, equals="succeeded")
    assert (await row(pool, next_one))["attempt_count"] == 1


async def test_a_plain_function_may_ask_an_iterator_for_one_too_many(pool, given, drain):
    [job_id] = await given("test.exhausts")
    await drain()
    found = await row(pool, job_id)
    assert (found["status"], orjson.loads(found["error"])["type"]) == ("failed", "RuntimeError")


async def test_a_cancel_reaches_a_running_handler_within_a_second(pool, given, serving, eventually):
    """By its notification: the next poll is a minute away."""
    [job_id] = await given("test.sleeps")
    async with serving(poll=60):
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
        async with pool.acquire() as conn:
            await cancel(conn, job_id, actor=DANA)
        asked = time.monotonic()
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="canceled")
        assert time.monotonic() - asked < 1.5


async def test_a_handler_that_swallows_its_cancellation_is_canceled_all_the_same(pool, given, serving, eventually):
    [job_id] = await given("test.deaf")
    async with serving():
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
        async with pool.acquire() as conn:
            await cancel(conn, job_id, actor=DANA)
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="canceled")


async def test_a_cancellation_ends_with_the_job_it_was_meant_for(pool, given, drain):
    """A handler that makes something else of it leaves neither its slot nor the next job cancelled."""
    [first] = await given("test.converts")
    [group] = await given("test.group")
    [inner] = await given("test.raises", {"what": "cancelled"}, max_retries=0)
    [itself] = await given("test.converts", {"itself": True})
    [last] = await given("test.noop")
    await drain(concurrency=1)
    found = [(await row(pool, one))["error"] for one in (first, group, inner)]
    assert [orjson.loads(one).get("type") for one in found] == ["ValueError", "ExceptionGroup", "RuntimeError"]
    assert [(await row(pool, one))["status"] for one in (itself, last)] == ["succeeded", "succeeded"]


async def test_a_handler_that_cancels_its_own_task_costs_the_next_job_nothing(pool, given, drain):
    await given("test.some_cancel_themselves", *({"n": n} for n in range(300)))
    await drain(concurrency=5)
    found = await pool.fetch("select status::text, sum(retry_count), sum(attempt_count) from atlas.jobs group by 1")
    assert [tuple(one) for one in found] == [("succeeded", 0, 300)]


async def test_nothing_leaks_from_one_job_into_the_next(pool, given, drain):
    await given("test.leaks", *({} for _ in range(30)))
    await drain(concurrency=1)
    found = await pool.fetch("select distinct output #>> '{}' as found from atlas.jobs")
    assert [one["found"] for one in found] == ["clean"]


@pytest.mark.parametrize(
    ("what", "output"),
    [
        ("list", [1, 2]),
        ("number", 4),
        ("false", False),
        ("text", "four"),
        ("nothing", {}),
        ("nul", {"x": "a\ufffdb"}),
        ("object", {"x": [1, 2]}),
        ("surrogate", {"x": ["caf\ufffd", ["caf\ufffd"]]}),
        ("model", {"x": "caf\ufffd"}),
    ],
)
async def test_any_returned_value_becomes_json_that_postgres_takes(pool, given, drain, what, output):
    [job_id] = await given("test.returns", {"what": what})
    await drain()
    assert orjson.loads((await row(pool, job_id))["output"]) == output


async def test_a_returned_value_that_is_not_json_fails_only_its_own_job(pool, given, drain):
    [bad] = await given("test.returns", {"what": "huge"})
    good = await given("test.noop", *({} for _ in range(20)))
    await drain()
    assert (await row(pool, bad))["status"] in ("failed", "succeeded")
    assert (
        await pool.fetchval("select count(*) from atlas.jobs where id = any($1) and status = 'succeeded'", good) == 20
    )


async def test_a_job_asked_to_stop_is_canceled_though_an_outcome_beside_its_retry_cannot_be_stored(
    pool, database_url, given, options
):
    """Both outcomes go in one call, which fails; recorded one by one, the retry is refused."""
    [bad] = await given("test.costly")
    [again] = await given("test.fails")
    worker = Worker(pool, database_url, options("test.costly", "test.fails", drain=True))

    async def ask_to_stop():
        async with pool.acquire() as conn:
            await cancel(conn, again, actor=DANA)

    worker.before_finish(ask_to_stop)
    async with asyncio.timeout(20):
        await worker.run()
    assert [(await row(pool, one))["status"] for one in (bad, again)] == ["failed", "canceled"]


@pytest.mark.parametrize("what", ["surrogate", "nul"])
async def test_a_message_that_postgres_refuses_is_recorded_without_the_characters_it_refuses(pool, given, drain, what):
    [job_id] = await given("test.raises", {"what": what})
    await drain()
    error = orjson.loads((await row(pool, job_id))["error"])
    assert (error["type"], error["message"]) == ("ValueError", "ValueError: caf\ufffd.txt")
    [attempt] = await list_attempts(pool, job_id)
    assert "ValueError: caf\ufffd.txt" in attempt["error_text"]
    event = await pool.fetchrow("select message, body from atlas.audit_log where action = 'JOB_RETRY_SCHEDULED'")
    assert event["message"] == orjson.loads(event["body"])["message"] == "ValueError: caf\ufffd.txt"


@pytest.mark.parametrize("raises", [False, True])
async def test_notes_that_postgres_refuses_are_recorded_too(pool, given, drain, raises):
    [job_id] = await given("test.notes", {"what": "surrogate", "raises": raises})
    await drain()
    found = await row(pool, job_id)
    assert found["status"] == ("queued" if raises else "succeeded")
    assert orjson.loads(found["progress"])["message"] == "caf\ufffd"
    event = await pool.fetchrow("select * from atlas.audit_log where action in ('CAFE_VISITED', 'JOB_RETRY_SCHEDULED')")
    assert orjson.loads(event["meta"])["caf\ufffd"] == ["caf\ufffd", 1]
    assert orjson.loads(event["body"])["message"] == event["message"]


@pytest.mark.usefixtures("default_logs")
@pytest.mark.parametrize("raises", [False, True])
async def test_an_outcome_that_cannot_be_made_fails_the_job_and_frees_its_slot(pool, given, drain, raises, monkeypatch):
    # A logger that was used before a test keeps where it writes.
    monkeypatch.setattr("atlas.workers.attempts.attempt_report.log", structlog.get_logger("worker"))
    [bad] = await given("test.notes", {"what": "huge", "raises": raises})
    with structlog.testing.capture_logs() as lines:
        await drain(concurrency=1)
    found = await row(pool, bad)
    assert (found["status"], found["retry_count"]) == ("failed", 1)
    assert "cannot be recorded: TypeError" in orjson.loads(found["error"])["message"]
    [line] = [line for line in lines if line["event"] == "attempt failed"]
    assert (line["job_id"], line["tenant_id"]) == (str(bad), str(SYSTEM_TENANT))
    assert (line["definition_key"], line["attempt_no"]) == ("test.notes", found["attempt_count"])
    assert line["worker_id"]
    [good] = await given("test.noop")
    await drain(concurrency=1)
    assert (await row(pool, good))["status"] == "succeeded"


async def test_stopping_lets_running_jobs_end_and_gives_back_the_rest_uncounted(pool, given, serving, eventually):
    STARTED.clear()
    await given("test.sleeps", *({"seconds": 2} for _ in range(6)))
    async with serving(concurrency=2):
        await eventually("select count(*) from atlas.jobs where status = 'running'", equals=2)
    counts = await pool.fetch(
        "select status::text, count(*), max(retry_count), max(lost_count) from atlas.jobs group by 1 order by 1"
    )
    assert [tuple(count) for count in counts] == [("queued", 4, 0, 0), ("succeeded", 2, 0, 0)]


async def test_what_outlasts_the_grace_time_is_requeued_uncounted_and_at_once(pool, given, serving, eventually):
    [job_id] = await given("test.sleeps")
    async with serving(grace=0.2):
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
        stopped = time.monotonic()
    assert time.monotonic() - stopped < 3
    found = await row(pool, job_id)
    assert (found["status"], found["retry_count"], found["lost_count"], found["next_retry_at"]) == (
        "queued",
        0,
        0,
        None,
    )
    assert [attempt["outcome"] for attempt in await list_attempts(pool, job_id)] == ["released"]
    assert await pool.fetchval("select count(*) from atlas.job_workers where dead_at is null") == 0


async def test_a_worker_that_is_cancelled_gives_back_uncounted_and_at_once(
    pool, database_url, given, options, eventually
):
    [job_id] = await given("test.sleeps")
    running = asyncio.create_task(Worker(pool, database_url, options("test.sleeps", lease=60)).run())
    await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
    running.cancel()
    async with asyncio.timeout(4):
        with pytest.raises(asyncio.CancelledError):
            await running
    found = await row(pool, job_id)
    assert (found["status"], found["retry_count"], found["lost_count"]) == ("queued", 0, 0)
    assert await pool.fetchval("select count(*) from atlas.job_workers where dead_at is null") == 0


async def test_a_plain_function_is_requeued_when_its_thread_has_ended(pool, given, serving, eventually):
    async with serving("test.winds_up", grace=0.1):
        [job_id] = await given("test.winds_up")
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
        await asyncio.sleep(0.2)
    found = await row(pool, job_id)
    assert (found["status"], found["retry_count"], found["lost_count"]) == ("queued", 0, 0)
    assert found["updated_at"].timestamp() >= ENDED.pop()


@pytest.mark.long
async def test_a_slot_kept_by_a_handler_of_a_lost_job_is_not_free(pool, owner, given, serving, eventually):
    """A handler that refuses its cancellation goes on after the lease is lost; nothing is claimed into its slot."""
    async with serving("test.refuses", "test.noop", concurrency=1, lease=3, grace=0.1):
        [lost] = await given("test.refuses", {"seconds": 3})
        await eventually("select status::text from atlas.jobs where id = $1", lost, equals="running")
        await owner.execute("update atlas.job_workers set lease_expires_at = clock_timestamp() - interval '1 s'")
        [other] = await given("test.noop")
        await eventually("select status::text from atlas.jobs where id = $1", other, equals="succeeded")
    assert (await row(pool, other))["attempt_count"] == 1


async def test_a_drain_while_offline_stops_and_says_so(pool, given, drain):
    await given("test.noop")
    async with pool.acquire() as conn:
        await switch(conn, online=False, actor=DANA)
    worker = await drain()
    assert worker.found_gate_closed
    assert worker.finished == 0


async def test_a_drain_that_loses_its_lease_goes_on_and_does_not_take_it_for_offline(
    pool, database_url, given, options
):
    await given("test.noop", *({"n": n} for n in range(5)))
    worker = Worker(pool, database_url, options(drain=True, concurrency=1, batch=1, lease=60))
    lost: list[str] = []

    async def lose_lease():
        if not lost:
            lost.append(worker.id)
            moved = "update atlas.job_workers set lease_expires_at = now() - interval '1 s' where worker_id = $1"
            await pool.execute(moved, worker.id)

    worker.before_finish(lose_lease)
    async with asyncio.timeout(15):
        await worker.run()
    assert (worker.found_gate_closed, worker.id in lost) == (False, False)
    # What it held under the lost name comes back when someone sweeps; the rest was done.
    counts = dict(await pool.fetch("select status::text, count(*) from atlas.jobs group by 1"))
    assert (counts.get("queued", 0), counts["succeeded"] >= 3) == (0, True)


async def test_a_drain_waits_while_the_gate_is_being_switched(pool, owner, given, drain):
    await given("test.noop", {}, {})
    await owner.execute("begin; select pg_advisory_xact_lock(atlas.lock_class('gate'), 0)")
    draining = asyncio.create_task(drain())
    await asyncio.sleep(0.7)
    await owner.execute("commit")
    worker = await draining
    assert (worker.found_gate_closed, worker.finished) == (False, 2)


async def test_a_drain_leaves_what_is_not_due(pool, given, drain):
    await given("test.raises", {"what": "snooze"})
    await given("test.noop")
    worker = await drain()
    assert worker.finished == 2
    assert await pool.fetchval("select count(*) from atlas.jobs where status = 'queued'") == 1


async def test_a_drain_asks_again_when_a_job_is_notified_while_it_claims(pool, database_url, options, monkeypatch):
    worker = Worker(pool, database_url, options(drain=True))
    drained = []

    async def slow(conn, claimant, finishes=(), **asked):
        drained.append(worker._drain.ended.is_set())
        turn = await finish_and_claim(conn, claimant, finishes, **asked)
        if len(drained) == 1:
            worker._claim_loop.hint()  # as when a job was committed after the claim had looked
        return turn

    monkeypatch.setattr("atlas.workers.claims.claim_loop.finish_and_claim", slow)
    async with asyncio.timeout(10):
        await worker.run()
    assert len(drained) > 1
    assert not any(drained)


async def test_a_drain_runs_a_job_that_fell_due_after_hundreds_of_other_types(conn, given, drain):
    [mine] = await given("test.noop", delay=timedelta(hours=1))
    await given("other.type", *[{}] * 450, delay=timedelta(hours=1), allow_unknown=True)
    await conn.execute(
        "update atlas.jobs set next_retry_at = clock_timestamp() - case when id = $1 then interval '1 second' else interval '1 minute' end",
        mine,
    )
    worker = await drain("test.noop")
    assert worker.finished == 1


async def test_a_drain_waits_for_what_a_sweep_is_marking_as_ready(
    conn, pool, database_url, options, given, monkeypatch
):
    [job_id] = await given("test.noop", delay=timedelta(hours=1))
    await make_due(conn, job_id)
    asked = asyncio.Event()

    async def watched(conn, claimant, finishes=(), **facts):
        turn = await finish_and_claim(conn, claimant, finishes, **facts)
        asked.set()
        return turn

    monkeypatch.setattr("atlas.workers.claims.claim_loop.finish_and_claim", watched)
    worker = Worker(pool, database_url, options(drain=True))
    async with asyncio.timeout(30), conn.transaction():
        assert await promote(conn) == 1
        task = asyncio.create_task(worker.run())
        await asked.wait()
    await task
    assert worker.finished == 1


async def test_a_drain_ends_with_an_empty_claim_that_began_after_a_look_for_jobs_to_mark_as_ready(conn):
    """What is marked between a claim and the look after it is seen by neither."""
    drain = Drain(when_empty=True, max_jobs=None)

    async def goes_on(*, asked_at, finishes=()):
        call = TurnCall(Claimant("a worker", None), list(finishes), Request(1, 0, False), None, None, 0, asked_at)
        turn = TurnResult()
        await drain.check_due(conn, call, turn, within=30)
        return turn.again

    before = boot_seconds()
    assert await goes_on(asked_at=before)
    assert await goes_on(asked_at=before)
    assert not await goes_on(asked_at=boot_seconds())
    assert await goes_on(asked_at=boot_seconds(), finishes=[Finish(uuid4(), 1, "succeeded")])
    assert not await goes_on(asked_at=boot_seconds())


async def test_a_drain_that_found_nothing_more_asks_again_only_when_all_it_held_has_ended(
    pool, database_url, options, given, monkeypatch
):
    for n in range(4):
        await given("test.sleeps", {"seconds": 0.1 * (n + 1)})
    worker = Worker(pool, database_url, options(drain=True, poll=60))
    asked_beside_what_runs = []

    async def watched(conn, claimant, finishes=(), **asked):
        if len(worker._held) > len(finishes):
            asked_beside_what_runs.append((len(finishes), asked["slots"]))
        return await finish_and_claim(conn, claimant, finishes, **asked)

    monkeypatch.setattr("atlas.workers.claims.claim_loop.finish_and_claim", watched)
    await worker.run()
    assert worker.finished == 4
    # Two more claims at the start, for what came while the first was under way, or was marked as ready meanwhile; then outcomes
    # alone, several in one call perhaps.
    assert not any(slots for finishes, slots in asked_beside_what_runs if finishes)
    assert sum(slots > 0 for _, slots in asked_beside_what_runs) <= 2


async def test_a_drain_does_not_end_by_a_claim_older_than_its_own_finish(
    pool, database_url, options, given, monkeypatch
):
    [job_id] = await given("test.again_at_once", {})
    worker = Worker(pool, database_url, options(drain=True))
    looked, finished = asyncio.Event(), asyncio.Event()

    async def tangled(conn, claimant, finishes=(), **asked):
        if finishes and not finished.is_set():
            worker._claim_loop.hint()  # the other connection claims before this commits, and gets its response after
            await looked.wait()
            turn = await finish_and_claim(conn, claimant, finishes, **asked)
            finished.set()
            return turn
        turn = await finish_and_claim(conn, claimant, finishes, **asked)
        if worker._demand.in_flight.finishes and not finished.is_set():
            looked.set()
            await finished.wait()
            await asyncio.sleep(0.1)
        return turn

    monkeypatch.setattr("atlas.workers.claims.claim_loop.finish_and_claim", tangled)
    async with asyncio.timeout(10):
        await worker.run()
    assert (await row(pool, job_id))["status"] == "succeeded"


async def test_what_was_claimed_while_the_worker_is_stopped_goes_back_untouched(pool, given, serving, monkeypatch):
    [job_id] = await given("test.noop", {"n": 1})
    stopped = asyncio.Event()

    async def slow(conn, claimant, finishes=(), **asked):
        turn = await finish_and_claim(conn, claimant, finishes, **asked)
        if turn.claimed:
            worker.stop()
            await asyncio.sleep(0.2)
            stopped.set()
        return turn

    monkeypatch.setattr("atlas.workers.claims.claim_loop.finish_and_claim", slow)
    async with serving() as worker, asyncio.timeout(10):
        await stopped.wait()
    found = await row(pool, job_id)
    assert (found["status"], found["retry_count"], found["lost_count"]) == ("queued", 0, 0)
    assert [attempt["outcome"] for attempt in await list_attempts(pool, job_id)] == ["released"]


@pytest.mark.long
async def test_what_was_prefetched_behind_slow_jobs_goes_back_once(pool, given, serving, eventually):
    await given("test.noop", *({"n": n} for n in range(3000)), priority=1)
    await given("test.sleeps", *({"n": n} for n in range(500)))
    async with serving("test.noop", "test.sleeps", grace=0.1):
        await eventually(
            "select count(*) > 9 from atlas.jobs where status = 'running' and job_type = 'test.sleeps'", equals=True
        )
        await asyncio.sleep(5 if PROOF else 2.5)
        assert await pool.fetchval("select count(*) from atlas.jobs where status = 'running'") == 10
        assert await pool.fetchval("select max(attempt_count) from atlas.jobs") <= 3


async def test_an_unknown_job_type_stays_queued(pool, given, drain):
    [job_id] = await given("test.unheard")
    await drain()
    assert (await row(pool, job_id))["status"] == "queued"


async def test_a_new_job_wakes_an_idle_worker_at_once(pool, serving, eventually):
    async with serving(poll=30):
        await eventually("select count(*) from atlas.job_workers where dead_at is null", equals=1)
        await asyncio.sleep(0.3)
        async with pool.acquire() as conn:
            asked = time.monotonic()
            await enqueue(conn, NewJob("test.noop"), actor=DANA)
        await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=1)
        assert time.monotonic() - asked < 2


async def test_without_notifications_polling_finds_the_work(pool, serving, eventually, monkeypatch):
    monkeypatch.setattr("atlas.db.notifications.Listener.start", lambda self: None)
    async with serving(poll=0.1):
        await eventually("select count(*) from atlas.job_workers where dead_at is null", equals=1)
        async with pool.acquire() as conn:
            await enqueue(conn, NewJob("test.noop"), actor=DANA)
        await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=1, within=2)


async def test_a_killed_listener_comes_back_and_work_goes_on(pool, owner, serving, eventually, monkeypatch):
    monkeypatch.setattr("atlas.db.notifications.PING_SECONDS", 0.3)
    async with serving(poll=0.2):
        await eventually(
            "select count(*) from pg_stat_activity where application_name = 'atlas listener' and datname = current_database()",
            equals=1,
        )
        await owner.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'atlas listener' and datname = current_database()"
        )
        async with pool.acquire() as conn:
            await enqueue(conn, NewJob("test.noop"), actor=DANA)
        await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=1)
        await eventually(
            "select count(*) from pg_stat_activity where application_name = 'atlas listener' and datname = current_database()",
            equals=1,
            within=60,
        )


async def test_a_worker_whose_connections_are_cut_goes_on_and_loses_nothing(pool, owner, serving, eventually):
    async with serving(lease=3):
        await eventually("select count(*) from atlas.job_workers", equals=1)
        for _ in range(5):
            await enqueue_many(owner, [NewJob("test.noop") for _ in range(200)], actor=DANA)
            await owner.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid() and application_name = 'atlas'"
            )
            await asyncio.sleep(0.1)
        await eventually("select count(*) from atlas.jobs where status <> 'succeeded'", equals=0, within=25)
    assert await pool.fetchval("select count(*) from atlas.jobs") == 1000


async def test_a_worker_that_lost_its_lease_begins_again_under_a_new_id(pool, given, serving, eventually):
    [job_id] = await given("test.sleeps")
    async with serving(lease=1.5) as worker:
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="running")
        first = worker.id
        await pool.execute("update atlas.job_workers set lease_expires_at = clock_timestamp() - interval '1 s'")
        await eventually(
            "select count(*) from atlas.job_workers where dead_at is null and worker_id <> $1", first, equals=1
        )
        await eventually("select lost_count from atlas.jobs where id = $1", job_id, equals=1)
        assert worker.id != first


@pytest.mark.long
async def test_handlers_that_borrow_every_connection_do_not_cost_the_worker_its_lease(pool, given, serving, eventually):
    await given("test.borrows", *({"seconds": 2, "n": n} for n in range(10)))
    async with serving("test.borrows", lease=1):
        await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=10, within=25)
    assert await pool.fetchval("select max(attempt_count) from atlas.jobs") == 1


@pytest.mark.long
async def test_handlers_that_block_one_after_the_other_do_not_cost_the_worker_its_lease(
    pool, given, serving, eventually
):
    """Each is shorter than the lease; together they are longer, and between two of them there is a heartbeat."""
    await given("test.blocks", *({"seconds": 2, "n": n} for n in range(8)))
    async with serving("test.blocks", lease=10, concurrency=8):
        await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=8)
    assert await pool.fetchval("select count(*) from atlas.job_workers") == 1
    assert await pool.fetchval("select max(attempt_count) from atlas.jobs") == 1


async def test_a_job_lost_twice_runs_alone(pool, given, serving, eventually):
    MET.clear()
    [lost_twice] = await given("test.meets", {"seconds": 0.3})
    await pool.execute("update atlas.jobs set lost_count = 2, careful = true where id = $1", lost_twice)
    others = await given("test.meets", *({"seconds": 0.1} for _ in range(5)))
    async with serving(concurrency=10):
        await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=6)
    assert MET[str(lost_twice)] == set()
    assert all(MET[str(other)] for other in others)


async def test_a_worker_holds_back_for_a_job_lost_twice_only_while_it_waits(
    pool, database_url, given, options, serving, eventually
):
    async with serving("test.sleeps", "test.noop", grace=0.1) as busy:
        await given("test.sleeps")
        await eventually("select count(*) from atlas.jobs where status = 'running'", equals=1)
        [lost_twice] = await given("test.noop", delay=timedelta(hours=1))
        await pool.execute(
            "update atlas.jobs set lost_count = 2, careful = true, next_retry_at = null where id = $1", lost_twice
        )
        async with asyncio.timeout(10):
            while not busy._demand.solo.is_waiting:
                await asyncio.sleep(0.02)
        # Another worker takes it.
        await Worker(pool, database_url, options("test.noop", drain=True)).run()
        began = time.monotonic()
        others = await given("test.noop", {}, {})
        await eventually(
            "select count(*) from atlas.jobs where status = 'succeeded' and id = any($1)", others, equals=2
        )
        assert time.monotonic() - began < 3


@pytest.mark.long
async def test_a_worker_that_holds_back_for_a_job_lost_twice_still_claims_others_now_and_then(
    pool, given, serving, eventually, monkeypatch
):
    monkeypatch.setattr("atlas.workers.claims.demand.HOLD_BACK_SECONDS", 0.5)
    async with serving("test.sleeps", "test.noop", grace=0.1):
        await given("test.sleeps")
        await eventually("select count(*) from atlas.jobs where status = 'running'", equals=1)
        [lost_twice] = await given("test.noop", delay=timedelta(hours=1))
        await pool.execute(
            "update atlas.jobs set lost_count = 2, careful = true, next_retry_at = null where id = $1", lost_twice
        )
        await asyncio.sleep(1)
        others = await given("test.noop", {}, {})
        await eventually(
            "select count(*) from atlas.jobs where status = 'succeeded' and id = any($1)", others, equals=2
        )
        assert (await row(pool, lost_twice))["status"] == "queued"


async def test_jobs_lost_twice_never_share_a_worker(pool, given, serving, eventually):
    MET.clear()
    lost_twice = await given("test.meets", *({"seconds": 0.1} for _ in range(3)))
    await pool.execute("update atlas.jobs set lost_count = 2, careful = true where id = any($1)", lost_twice)
    others = await given("test.meets", *({"seconds": 0.05} for _ in range(20)))
    held_together = []
    async with serving(concurrency=4):
        async with asyncio.timeout(20):
            while await pool.fetchval("select count(*) from atlas.jobs where status = 'succeeded'") < 23:
                held_together.append(
                    await pool.fetchval(
                        "select count(*) from atlas.jobs where status = 'running' having bool_or(lost_count >= 2)"
                    )
                )
    assert max(count or 0 for count in held_together) == 1
    assert all(MET[str(one)] == set() for one in lost_twice)
    assert len(others) == 20


async def test_a_sweep_that_cannot_take_back_still_opens_the_gate_and_makes_due_jobs_ready(
    pool, owner, given, serving, eventually
):
    async with pool.acquire() as conn:
        await switch(conn, online=False, actor=DANA, until=timedelta(hours=1))
    [delayed] = await given("test.unknown", delay=timedelta(hours=1))
    await owner.execute("alter function atlas.reap_leases(int) rename to reap_leases_no_more")
    await pool.execute("update atlas.jobs set next_retry_at = clock_timestamp() where id = $1", delayed)
    await pool.execute(
        "update atlas.system_state set value = jsonb_set(value, '{until}', to_jsonb(clock_timestamp())) where key = 'atlas_online'"
    )
    async with serving(lease=1):
        await eventually("select value->>'online' from atlas.system_state where key = 'atlas_online'", equals="true")
        await eventually("select next_retry_at is null from atlas.jobs where id = $1", delayed, equals=True)


async def test_job_types_are_published_as_their_decorators_define_them(pool, drain):
    @job("test.published", timeout=30, max_retries=7, retry="agent", concurrency=4)
    async def published(input: dict[str, int]) -> None:
        """Says what it is."""

    await drain("test.published", "test.double")
    found = await pool.fetchrow("select * from atlas.job_types where key = 'test.published'")
    assert (found["max_retries"], found["timeout_seconds"], found["concurrency"]) == (7, 30, 4)
    assert (found["description"], orjson.loads(found["retry_policy"])["name"]) == ("Says what it is.", "agent")
    schema = orjson.loads(await pool.fetchval("select input_schema from atlas.job_types where key = 'test.double'"))
    assert schema["required"] == ["n"]


async def test_a_job_enqueued_beside_a_worker_starts_without_its_notification(
    pool, owner, serving, eventually, monkeypatch
):
    monkeypatch.setattr("atlas.workers.worker.Worker._notified", lambda *_: None)
    async with serving(poll=60):
        await eventually("select count(*) from atlas.job_workers", equals=1)
        await enqueue(owner, NewJob("test.noop"), actor=DANA)
        await eventually("select count(*) from atlas.jobs where status = 'succeeded'", equals=1)
        async with owner.transaction():
            await enqueue(owner, NewJob("test.noop"), actor=DANA)
        await asyncio.sleep(0.3)
        # Inside a transaction there is no local wake-up, and the next poll is far away.
        assert await pool.fetchval("select count(*) from atlas.jobs where status = 'queued'") == 1


async def test_retries_are_those_of_the_handler_that_runs_the_job(pool, drain):
    # Enqueued by a process that did not know the type, before any worker had published it.
    async with pool.acquire() as conn:
        for_all = await conn.fetchval("select id from atlas.enqueue('system', 'test.fails', allow_unknown => true)")
        own = await conn.fetchval(
            "select id from atlas.enqueue('system', 'test.fails', max_retries => 0, allow_unknown => true)"
        )
    assert [(await row(pool, job_id))["max_retries"] for job_id in (for_all, own)] == [3, 0]
    await drain("test.fails")

    found = [await row(pool, job_id) for job_id in (for_all, own)]
    assert [(one["status"], one["attempt_count"]) for one in found] == [("failed", 3), ("failed", 1)]
    # Who compares the row's own numbers sees what the worker decided by.
    assert [(one["retry_count"], one["max_retries"]) for one in found] == [(3, 2), (1, 0)]
    assert all(one["dead_lettered_at"] is not None for one in found)


async def test_a_worker_that_is_asked_to_drain_takes_nothing_new_and_ends_when_idle(pool, serving, given, eventually):
    async with serving("test.sleeps", concurrency=1, lease=30) as worker:
        [running] = await given("test.sleeps", {"seconds": 1.5})
        status = "select status::text from atlas.jobs where id = $1"
        await eventually(status, running, equals="running")
        async with pool.acquire() as conn:
            await request_drain(conn, worker.id, actor=DANA)
        await eventually(
            "select drain_requested_by from atlas.job_workers where worker_id = $1", worker.id, equals="dana"
        )
        ended = "select dead_at is not null from atlas.job_workers where worker_id = $1"
        await eventually(ended, worker.id, equals=True)
        [late] = await given("test.sleeps", {"seconds": 0})

        assert await pool.fetchval(status, running) == "succeeded"
        assert await pool.fetchval(status, late) == "queued"
