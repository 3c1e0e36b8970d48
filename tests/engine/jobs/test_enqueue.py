"""Enqueue: one statement, in the caller's transaction, with dedupe, audit row and wake-up."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import orjson
import pytest

from atlas.actors import Actor
from atlas.db.migrations import load_migrations
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import NewJob, hash_key
from atlas.errors import DedupeConflict, InvalidInput, NotFound
from tests.engine.jobs.given import actions, given_job, given_worker, load, success
from tests.support import DANA


async def test_a_job_is_queued_with_its_audit_row(conn):
    job_id = await given_job(conn, "report.build", input={"month": 3}, priority=7, correlation_id="c-1")

    row = await load(conn, job_id)
    assert (row["status"], row["job_type"], row["priority"], row["created_by"]) == ("queued", "report.build", 7, "dana")
    assert orjson.loads(row["input"]) == {"month": 3}
    [event] = await conn.fetch("select * from atlas.audit_log where entity_id = $1", str(job_id))
    assert (event["action"], event["actor_type"], event["actor_id"]) == ("JOB_CREATED", "user", "dana")


async def test_a_job_of_which_nothing_more_is_said_is_stored_as_one_that_says_the_defaults(conn):
    plain = await given_job(conn, "report.build", input={"month": 3})
    said = await given_job(conn, "report.build", input={"month": 3}, priority=0, source="manual", delay=timedelta())

    rows = [dict(await load(conn, job_id)) for job_id in (plain, said)]
    for row in rows:
        for name in ("id", "created_at", "updated_at", "due_at"):
            row.pop(name, None)
    assert rows[0] == rows[1]
    assert (rows[0]["priority"], rows[0]["source"], rows[0]["max_retries"]) == (0, "manual", 3)


async def test_the_bytes_of_the_event_say_what_its_columns_say(conn):
    job_id = await given_job(conn, "report.build")

    [event] = await conn.fetch("select * from atlas.audit_log where entity_id = $1", str(job_id))
    body = orjson.loads(event["body"])
    for name in ("actor_type", "actor_id", "level", "action", "entity_type", "entity_id", "message"):
        assert body[name] == event[name], name
    assert body["meta"] == orjson.loads(event["meta"])
    assert body["tenant_id"] == str(event["tenant_id"])


async def test_a_job_enqueued_in_a_transaction_that_rolls_back_never_was(conn):
    with pytest.raises(RuntimeError):
        async with conn.transaction():
            await given_job(conn)
            raise RuntimeError("the caller's own work failed")

    assert await conn.fetchval("select count(*) from atlas.jobs") == 0
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'JOB_CREATED'") == 0


async def test_thousands_of_jobs_take_one_round_trip_and_keep_their_order(conn):
    jobs = [NewJob("bulk", {"n": n}) for n in range(3000)]
    results = await enqueue_many(conn, jobs, actor=DANA)

    assert [result.id for result in results] == [job.id for job in jobs]
    worker = await given_worker(conn, "bulk")
    claimed = await claim(conn, worker, limit=3000)
    assert [orjson.loads(job.input)["n"] for job in sorted(claimed, key=lambda job: job.id)] == list(range(3000))
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'JOB_CREATED'") == 3000


async def test_jobs_of_several_requests_are_one_batch_and_each_event_names_its_own_request(conn):
    requests = [Actor("user", "dana", request_id=f"r{n}") for n in range(3)]
    jobs = [
        NewJob("report.build", {"n": n}, correlation_id=correlation, asked_by=request)
        for n, (request, correlation) in enumerate(zip(requests, ("c-0", None, "c-2"), strict=True))
    ]
    ran: list[str] = []
    conn.add_query_logger(lambda query: ran.append(query.query))
    times: list[datetime] = []
    await enqueue_many(conn, jobs, actor=requests[0], times=times)
    assert not any("enqueue_many(" in query for query in ran)

    for job, created_at in zip(jobs, times, strict=True):
        row = await load(conn, job.id)
        assert (row["created_at"], row["correlation_id"]) == (created_at, job.correlation_id)
        event = await conn.fetchrow("select meta, body from atlas.audit_log where entity_id = $1", str(job.id))
        body = orjson.loads(event["body"])
        assert body["meta"] == orjson.loads(event["meta"])
        assert body["entity_id"] == str(job.id)
        assert body["meta"]["request_id"] == job.asked_by.request_id
        assert body["meta"].get("correlation_id") == job.correlation_id


async def test_a_delayed_job_and_one_with_a_date_wait_and_a_past_date_is_due(conn):
    delayed = await given_job(conn, delay=timedelta(minutes=10))
    dated = await given_job(conn, run_at=datetime.now(UTC) + timedelta(hours=1))
    past = await given_job(conn, run_at=datetime.now(UTC) - timedelta(hours=1))

    worker = await given_worker(conn)
    assert [job.id for job in await claim(conn, worker, limit=10)] == [past]
    assert (await load(conn, delayed))["next_retry_at"] is not None
    assert (await load(conn, dated))["next_retry_at"] is not None


async def test_the_time_that_was_asked_for_is_kept_by_one_and_by_many(conn):
    past = datetime.now(UTC) - timedelta(hours=1)
    kinds = [{"delay": timedelta(hours=1)}, {"run_at": past}, {}]
    one_by_one = [(await enqueue(conn, NewJob("t", **kind), actor=DANA)).id for kind in kinds]
    together = [made.id for made in await enqueue_many(conn, [NewJob("t", **kind) for kind in kinds], actor=DANA)]
    for ids in (one_by_one, together):
        delayed, dated, plain = [await load(conn, id) for id in ids]
        assert delayed["scheduled_for"] == delayed["next_retry_at"]
        assert delayed["scheduled_for"] is not None
        assert (dated["scheduled_for"], dated["next_retry_at"]) == (past, None)
        assert (plain["scheduled_for"], plain["next_retry_at"]) == (None, None)


async def test_delayed_jobs_of_the_version_before_get_the_time_they_were_enqueued_for(conn, owner):
    [migration] = [one for one in load_migrations() if one.name.endswith("scheduled_for_of_queued_jobs")]
    delayed, plain = [
        (await enqueue(conn, NewJob("t", **kind), actor=DANA)).id for kind in ({"delay": timedelta(hours=1)}, {})
    ]
    await owner.execute("update atlas.jobs set scheduled_for = null")
    await owner.execute("set search_path = atlas")
    await owner.execute(migration.sql)

    row = await load(conn, delayed)
    assert row["scheduled_for"] == row["next_retry_at"]
    assert row["scheduled_for"] is not None
    assert (await load(conn, plain))["scheduled_for"] is None


async def test_retries_come_from_the_job_type_unless_the_caller_names_them(conn):
    await conn.execute("insert into atlas.job_types (key, max_retries) values ('report.build', 9)")

    made = [await given_job(conn), await given_job(conn, max_retries=1), await given_job(conn, "unknown.type")]
    rows = [await load(conn, job_id) for job_id in made]
    assert [(row["max_retries"], row["retries_chosen"]) for row in rows] == [(9, False), (1, True), (3, False)]


async def test_an_active_key_answers_with_the_job_that_holds_it(conn):
    first = await enqueue(conn, NewJob("report.build", {"n": 1}, dedupe_key="k"), actor=DANA)
    second = await enqueue(conn, NewJob("report.build", {"n": 1}, dedupe_key="k"), actor=DANA)

    assert (second.id, second.deduplicated) == (first.id, True)
    assert await conn.fetchval("select count(*) from atlas.jobs") == 1
    assert await actions(conn, first.id) == ["JOB_CREATED"]


async def test_a_key_with_another_input_is_a_conflict_that_names_the_holder(conn):
    first = await enqueue(conn, NewJob("report.build", {"n": 1}, dedupe_key="k"), actor=DANA)

    with pytest.raises(DedupeConflict, match=str(first.id)):
        await enqueue(conn, NewJob("report.build", {"n": 2}, dedupe_key="k"), actor=DANA)
    coalesced = await enqueue(conn, NewJob("report.build", {"n": 2}, dedupe_key="k"), actor=DANA, coalesce=True)
    assert coalesced.id == first.id


async def test_a_conflict_in_a_batch_makes_none_of_its_jobs(conn):
    await enqueue(conn, NewJob("report.build", {"n": 1}, dedupe_key="k"), actor=DANA)

    with pytest.raises(DedupeConflict):
        await enqueue_many(
            conn, [NewJob("report.build", {}), NewJob("report.build", {"n": 2}, dedupe_key="k")], actor=DANA
        )
    assert await conn.fetchval("select count(*) from atlas.jobs") == 1


async def test_a_batch_dedupes_within_itself(conn):
    jobs = [NewJob("report.build", {"n": n // 2}, dedupe_key=f"k{n // 2}") for n in range(10)] + [
        NewJob("report.build")
    ]
    results = await enqueue_many(conn, jobs, actor=DANA)

    assert [result.deduplicated for result in results] == [False, True] * 5 + [False]
    assert all(results[n].id == results[n + 1].id for n in range(0, 10, 2))
    assert await conn.fetchval("select count(*) from atlas.jobs") == 6
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'JOB_CREATED'") == 6


async def test_a_finished_job_frees_its_key(conn):
    first = await enqueue(conn, NewJob("report.build", {"n": 1}, dedupe_key="k"), actor=DANA)
    worker = await given_worker(conn, "report.build")
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, job)])

    second = await enqueue(conn, NewJob("report.build", {"n": 1}, dedupe_key="k"), actor=DANA)
    assert second.id != first.id
    assert not second.deduplicated


async def test_fifty_callers_with_one_key_make_one_job(pool):
    async def call():
        async with pool.acquire() as conn:
            return await enqueue(conn, NewJob("report.build", {"n": 1}, dedupe_key="raced"), actor=DANA)

    results = await asyncio.gather(*(call() for _ in range(50)))

    assert len({result.id for result in results}) == 1
    assert [result.deduplicated for result in results].count(False) == 1


async def test_callers_racing_against_the_end_of_the_holder_always_get_a_result(pool):
    """The holder ends again and again while others ask for its key: every call returns a job that was active."""
    made = []

    async def caller():
        async with pool.acquire() as conn:
            for _ in range(40):
                made.append(await enqueue(conn, NewJob("raced", {}, dedupe_key="k"), actor=DANA))

    async def ender(stop: asyncio.Event):
        async with pool.acquire() as conn:
            worker = await given_worker(conn, "raced")
            while not stop.is_set():
                claimed = await claim(conn, worker, limit=10)
                await finish(conn, worker, [success(worker, job) for job in claimed])
                await asyncio.sleep(0)

    stop = asyncio.Event()
    ending = asyncio.create_task(ender(stop))
    await asyncio.gather(*(caller() for _ in range(6)))
    stop.set()
    await ending

    assert len(made) == 240
    async with pool.acquire() as conn:
        known = {row["id"] for row in await conn.fetch("select id from atlas.jobs")}
        events = await conn.fetchval("select count(*) from atlas.audit_log where action = 'JOB_CREATED'")
    assert {result.id for result in made} == known
    assert [result.deduplicated for result in made].count(False) == len(known) == events


async def test_a_long_key_is_stored_as_its_hash(conn):
    key = "x" * 500
    job_id = await given_job(conn, dedupe_key=key)

    row = await load(conn, job_id)
    assert row["dedupe_key"] == hash_key(key).hex()
    assert row["dedupe_hash"] == hash_key(key)


async def test_an_unknown_tenant_is_refused_by_name(conn):
    stranger = uuid4()
    with pytest.raises(NotFound, match=f"no tenant {stranger}"):
        await given_job(conn, tenant_id=stranger)


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (NewJob("", {}), "job_type"),
        (NewJob("t", {"x": "a" * (256 * 1024)}), "larger than 256 KiB"),
        (NewJob("t", {"x": "ü" * (128 * 1024)}), "larger than 256 KiB"),
        (NewJob("EMAIL_SEND", {"text": "ü" * 2_000_000}, secrets=()), "larger than 3072 KiB|more than 3 MiB"),
        (NewJob("t", {"x": "\0"}), r"U\+0000"),
        (NewJob("t", {"x": object()}), "not plain JSON"),
        (NewJob("t", {}, max_retries=-1), "max_retries"),
        (NewJob("t", {}, max_retries=5000), "max_retries"),
        (NewJob("t", {}, max_retries=10**11), "max_retries"),
        (NewJob("t", {}, priority=3_000_000_000), "priority"),
        (NewJob("t", {}, priority=-1_000_001), "priority"),
        (NewJob("t", {}, delay=timedelta(days=36_500)), "delay"),
        (NewJob("t", {}, dedupe_key=""), "dedupe_key"),
        (NewJob("t", {}, dedupe_key="a\0"), "dedupe_key"),
        (NewJob("t", {}, dedupe_key="caf\udce9"), "dedupe_key"),
        (NewJob("t", {}, correlation_id="a\0"), "correlation_id"),
        (NewJob("t", {}, correlation_id="caf\udce9"), "correlation_id"),
        (NewJob("t", {}, source_ref="a\0"), "source_ref"),
        (NewJob("t", {}, timeout_seconds=0), "timeout_seconds"),
        (NewJob("t", {}, timeout_seconds=1.5), "timeout_seconds"),
        (NewJob("t", {}, timeout_seconds=2**40), "timeout_seconds"),
        (NewJob("t", {"x": [{"y": math.nan}]}), "not finite"),
        (NewJob("t", {"x": (None, math.inf)}), "not finite"),
        (NewJob("\u0001\n", {}), "cannot be printed"),
    ],
)
async def test_bad_input_is_refused_with_the_field_and_nothing_is_made(conn, job, reason):
    with pytest.raises(InvalidInput, match=reason):
        await enqueue(conn, job, actor=DANA)
    assert await conn.fetchval("select count(*) from atlas.jobs") == 0


async def test_an_input_may_have_as_many_bytes_as_its_limit(conn):
    input = {"x": "ü" * (128 * 1024 - 4)}
    assert len(orjson.dumps(input)) == 256 * 1024
    await given_job(conn, input=input)


async def test_text_that_only_talks_about_the_character_is_no_such_character(conn):
    job_id = await given_job(conn, input={"x": r"a \u0000 b"})
    assert orjson.loads((await load(conn, job_id))["input"]) == {"x": r"a \u0000 b"}


async def test_other_spellings_of_a_type_are_stored_as_the_one_that_is_served(conn):
    assert (
        await load(conn, await given_job(conn, "EMAILSEND", input={"to": "a@example.com", "subject": "s", "text": "t"}))
    )["job_type"] == "EMAIL_SEND"


async def test_an_sql_caller_enqueues_with_the_same_verb(conn):
    first = await conn.fetchrow(
        "select * from atlas.enqueue('system', 'report.build', '{\"n\": 1}', dedupe_key => 'k', allow_unknown => true)"
    )
    again = await conn.fetchrow(
        "select * from atlas.enqueue('system', 'report.build', '{\"n\": 1}', dedupe_key => 'k', allow_unknown => true)"
    )

    assert (first["deduplicated"], again["deduplicated"]) == (False, True)
    assert again["id"] == first["id"]
    assert await actions(conn, first["id"]) == ["JOB_CREATED"]
    assert (await enqueue(conn, NewJob("report.build", {"n": 1}, dedupe_key="k"), actor=DANA)).id == first["id"]


@pytest.mark.parametrize(
    ("call", "state"),
    [
        ("atlas.enqueue('nobody', 't')", "AT404"),
        ("atlas.enqueue('system', 't', '[1]')", "AT422"),
        ("atlas.enqueue('system', 't', jsonb_build_object('x', repeat('a', 300000)))", "AT422"),
        ("atlas.enqueue('system', 'SERVER_STOP', '{\"serverInstanceId\": \"x\"}')", "AT422"),
        ("atlas.enqueue('system', 'ENGINE_RUN', '{\"workflow\": \"x\"}')", "AT422"),
    ],
)
async def test_an_sql_caller_is_refused_in_words(conn, call, state):
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await conn.fetchrow(f"select * from {call}")
    assert refusal.value.sqlstate == state


async def test_an_sql_caller_never_stores_a_secret_in_clear(conn):
    schema = orjson.dumps({"properties": {"login": {"properties": {"password": {"type": "string", "x-secret": True}}}}})
    await conn.execute(
        "insert into atlas.job_types (key, input_schema) values ('sign.in', $1::text::jsonb)", schema.decode()
    )
    with pytest.raises(asyncpg.PostgresError, match="is not made by atlas.enqueue"):
        await conn.fetchrow(
            "select * from atlas.enqueue('system', 'sign.in', '{\"login\": {\"password\": \"hunter22\"}}')"
        )
    assert await conn.fetchval("select count(*) from atlas.jobs") == 0


ALL_OPTIONS = {
    "priority": 7,
    "delay": timedelta(hours=1),
    "max_retries": 2,
    "correlation_id": 'c-1 "quoted" \\ é',
    "source": "event",
    "source_ref": "order 17",
    "timeout_seconds": 90,
    "parent_run_id": uuid4(),
}
QUOTED = Actor("user", 'dana "\\" é', request_id="r-1")
OF_THE_ROW = {"id", "input", "created_at", "updated_at", "next_retry_at", "scheduled_for"}


@pytest.mark.parametrize("options", [{}, ALL_OPTIONS, {"run_at": datetime(2020, 1, 1, tzinfo=UTC)}])
async def test_jobs_that_are_alike_are_stored_as_each_would_be(conn, options):
    alike = [NewJob("report.build", {"n": n}, **options) for n in range(2)]
    one_alone = NewJob("report.build", {"n": 2}, **options)
    in_company = NewJob("report.build", {"n": 3}, **options)

    await enqueue_many(conn, alike, actor=QUOTED)
    await enqueue(conn, one_alone, actor=QUOTED)
    await enqueue_many(conn, [in_company, NewJob("other.type", dedupe_key="k")], actor=QUOTED)

    stored = [await _job_and_event(conn, job.id) for job in (*alike, one_alone, in_company)]
    assert [job["input"] for job, _ in stored] == [f'{{"n": {n}}}' for n in range(4)]
    shared = [({name: job[name] for name in job if name not in OF_THE_ROW}, event) for job, event in stored]
    assert shared == [shared[0]] * 4
    assert len({job["next_retry_at"] is None for job, _ in stored}) == 1
    assert len({job["scheduled_for"] is None for job, _ in stored}) == 1


async def _job_and_event(conn, job_id):
    """A job's row, and what its event says but for the job's id."""
    [event] = await conn.fetch("select body, meta from atlas.audit_log where entity_id = $1", str(job_id))
    said = orjson.loads(event["body"])
    assert said["meta"] == orjson.loads(event["meta"])
    assert said.pop("entity_id") == str(job_id)
    return dict(await load(conn, job_id)), said


async def test_a_batch_of_an_unknown_tenant_is_refused_by_name(conn):
    tenant = uuid4()

    with pytest.raises(NotFound, match=str(tenant)):
        await enqueue_many(conn, [NewJob("report.build", tenant_id=tenant) for _ in range(2)], actor=DANA)


async def test_one_bad_input_refuses_a_batch_of_jobs_that_are_alike(conn):
    with pytest.raises(InvalidInput, match="not finite"):
        await enqueue_many(conn, [NewJob("report.build", {"n": n}) for n in (1.0, math.nan)], actor=DANA)

    assert await conn.fetchval("select count(*) from atlas.jobs") == 0
