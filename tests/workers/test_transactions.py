"""Handlers that write in the transaction that ends their job: all of it stays, or nothing."""

import asyncio
from typing import Any

import orjson
import pytest

from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.verdicts import PermanentError, RetryAfter, Snooze
from atlas.errors import Conflict, InvalidInput
from atlas.integrations.asyncpg import enqueue
from tests.pgbouncer import direct_url
from tests.proxy import FaultyProxy
from tests.support import DANA

STATE = "select status::text, retry_count, output from atlas.jobs where id = $1"


@pytest.fixture(autouse=True)
async def ledger(owner: Any) -> None:
    """The application's table."""
    await owner.execute("create table ledger (job_id uuid, n int); grant all on ledger to public")


async def book(conn: Any, ctx: JobContext, n: int = 0) -> None:
    await conn.execute("insert into ledger values ($1, $2)", ctx.job_id, n)


@job("tx.books", max_retries=1, retry={"base": 0, "factor": 1, "jitter": 0})
async def books(input: dict[str, Any], ctx: JobContext) -> Any:
    """Writes, then does what the input says, within the block or after it."""
    async with ctx.transaction() as conn:
        await book(conn, ctx)
        ctx.output({"n": input.get("n")})
        ctx.log.info("booked")
        if "enqueues" in input:
            await enqueue(conn, "tx.wraps", {}, tenant="system")
        await act(input.get("within"))
    await act(input.get("after"))
    return input.get("returns")


@job("tx.wraps", transactional=True, max_retries=0)
async def wraps(input: dict[str, Any], ctx: JobContext) -> dict[str, int]:
    await book(ctx.connection, ctx)
    await act(input.get("within"))
    return {"n": 7}


async def act(what: str | None) -> None:
    match what:
        case "permanent":
            raise PermanentError("no such account")
        case "snooze":
            raise Snooze(300)
        case "later":
            raise RetryAfter(300)
        case "fails":
            raise ValueError("no paper")
        case "sleeps":
            await asyncio.sleep(60)
        case "cancels":
            raise asyncio.CancelledError


async def rows(pool: Any) -> int:
    return await pool.fetchval("select count(*) from ledger")


async def test_what_a_handler_writes_its_output_its_event_and_new_jobs_are_one_commit(pool, given, drain):
    [job_id] = await given("tx.books", {"n": 3, "enqueues": True, "returns": {"not": "recorded"}})
    worker = await drain("tx.books", "tx.wraps")

    assert worker.outcomes == {"succeeded": 2}
    assert tuple(await pool.fetchrow(STATE, job_id)) == ("succeeded", 0, '{"n": 3}')
    # One transaction wrote the row of the application, the outcome, the event and the new job.
    written = await pool.fetch(
        """select l.xmin::text from ledger l where l.job_id = $1
        union select j.xmin::text from atlas.jobs j where j.id = $1
        union select a.xmin::text from atlas.audit_log a where a.entity_id = $1::text and a.action = 'JOB_SUCCEEDED'
        union select a.xmin::text from atlas.audit_log a where a.action = 'JOB_CREATED' and a.entity_id <> $1::text""",
        job_id,
    )
    assert len(written) == 1
    meta = await pool.fetchval("select meta from atlas.audit_log where action = 'JOB_SUCCEEDED' order by id limit 1")
    assert orjson.loads(meta).keys() == {"attempt", "login"}
    assert "booked" in await pool.fetchval("select log_tail from atlas.job_attempts where job_id = $1", job_id)
    assert await pool.fetchval("select output->>'n' from atlas.jobs where job_type = 'tx.wraps'") == "7"
    assert await rows(pool) == 2


@pytest.mark.parametrize(
    ("job_type", "input", "status", "retries", "booked"),
    [
        ("tx.books", {"within": "permanent"}, "failed", 1, 0),
        ("tx.books", {"within": "snooze"}, "queued", 0, 0),
        ("tx.books", {"within": "later"}, "queued", 1, 0),
        ("tx.books", {"within": "fails"}, "failed", 2, 0),
        ("tx.books", {"after": "fails"}, "succeeded", 0, 1),
        ("tx.books", {"after": "snooze"}, "succeeded", 0, 1),
        ("tx.books", {"after": "cancels"}, "succeeded", 0, 1),
        ("tx.wraps", {"within": "fails"}, "failed", 1, 0),
    ],
)
async def test_what_a_handler_raises(pool, given, drain, job_type, input, status, retries, booked):
    [job_id] = await given(job_type, input)
    await drain(job_type)
    assert tuple(await pool.fetchrow(STATE, job_id))[:2] == (status, retries)
    assert await rows(pool) == booked


@job("tx.ends", timeout=0.1, max_retries=0)
async def ends(input: dict[str, Any], ctx: JobContext) -> None:
    """Is stopped in its block."""
    async with ctx.transaction() as conn:
        await book(conn, ctx)
        await act("sleeps")


async def test_a_timeout_within_the_block_rolls_it_back(pool, given, drain):
    [job_id] = await given("tx.ends")
    await drain("tx.ends")
    assert (await pool.fetchrow(STATE, job_id))[0] == "failed"
    assert await rows(pool) == 0


async def test_a_cancellation_within_the_block_rolls_it_back_and_after_it_there_is_nothing_to_cancel(
    pool, given, serving, eventually
):
    async with serving("tx.books", grace=0.1):
        [within] = await given("tx.books", {"within": "sleeps"})
        await eventually("select count(*) from atlas.jobs where status = 'running'", equals=1)
        async with pool.acquire() as conn:
            await cancel(conn, within, actor=DANA)
        await eventually("select status::text from atlas.jobs where id = $1", within, equals="canceled")
        assert await rows(pool) == 0
        [after] = await given("tx.books", {"after": "sleeps"})
        await eventually("select count(*) from ledger", equals=1)
        async with pool.acquire() as conn:
            with pytest.raises(Conflict, match="already finished"):
                await cancel(conn, after, actor=DANA)
    assert (await pool.fetchrow(STATE, after))[0] == "succeeded"


@job("tx.batch", transactional=True, batch_size=4, retry={"base": 300, "factor": 1, "jitter": 0})
async def batch(inputs: list[dict[str, Any]], ctxs: list[JobContext]) -> list[Any]:
    """One transaction for all of a call."""
    for ctx in ctxs:
        await book(ctx.connection, ctx)
    return [ValueError("no paper") if "fails" in input else {"n": len(inputs)} for input in inputs]


async def test_a_batch_is_one_transaction_and_a_job_that_fails_rolls_all_of_it_back(pool, given, drain):
    *_, failing = await given("tx.batch", {}, {}, {}, {"fails": True})
    await drain("tx.batch")
    assert (await pool.fetchrow(STATE, failing))[:2] == ("queued", 1)
    # The others ran again without it, and were not counted as failed.
    others = await pool.fetch(
        "select status::text, retry_count, attempt_count, output from atlas.jobs where id <> $1", failing
    )
    assert {tuple(row) for row in others} == {("succeeded", 0, 2, '{"n": 3}')}
    assert await rows(pool) == 3
    assert await pool.fetchval("select count(distinct xmin::text) from ledger") == 1


@job("tx.network", max_retries=2, retry={"base": 0, "factor": 1, "jitter": 0})
async def network(input: dict[str, Any], ctx: JobContext) -> None:
    async with ctx.transaction() as conn:
        await book(conn, ctx, ctx.attempt)
        if ctx.attempt == 1:
            await FAULTS[input["fault"]](ctx)


FAULTS: dict[str, Any] = {}


async def test_the_network_is_cut_before_the_commit_and_after_it(pool, given, drain, database_url):
    async with FaultyProxy(direct_url(database_url)) as proxy:

        async def before(ctx: JobContext) -> None:
            proxy.cut()

        async def after(ctx: JobContext) -> None:
            """The server commits, and its response is lost."""
            proxy.swallows = True

            async def cut_when_committed() -> None:
                while await pool.fetchval("select status from atlas.jobs where id = $1", ctx.job_id) != "succeeded":
                    await asyncio.sleep(0.01)
                proxy.cut()
                proxy.swallows = False

            CUTTING.append(asyncio.create_task(cut_when_committed()))

        FAULTS.update(before=before, after=after)
        for fault, attempts in (("before", 2), ("after", 1)):
            [job_id] = await given("tx.network", {"fault": fault})
            await drain("tx.network", application_url=proxy.url)
            found = await pool.fetch("select n from ledger where job_id = $1", job_id)
            assert [row[0] for row in found] == [attempts], fault
            state = await pool.fetchrow("select status::text, attempt_count from atlas.jobs where id = $1", job_id)
            assert tuple(state) == ("succeeded", attempts)
            assert await pool.fetchval(ENDS, str(job_id)) == 1


CUTTING: list[asyncio.Task[None]] = []
ENDS = "select count(*) from atlas.audit_log where entity_id = $1 and action = 'JOB_SUCCEEDED'"


@job("tx.loses", max_retries=0)
async def loses(input: dict[str, Any], ctx: JobContext) -> None:
    async with ctx.transaction() as conn:
        await book(conn, ctx, ctx.attempt)
        if ctx.attempt == 1:
            await FAULTS["lose"](ctx)


async def test_a_worker_that_lost_its_lease_commits_nothing(pool, owner, given, serving, eventually):
    async def lose(ctx: JobContext) -> None:
        await owner.execute(
            "update atlas.job_workers set lease_expires_at = now() - interval '1 minute' where worker_id = $1",
            ctx.worker_id,
        )

    FAULTS["lose"] = lose
    [job_id] = await given("tx.loses")
    async with serving("tx.loses", lease=1.5):
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="succeeded")
    assert [row[0] for row in await pool.fetch("select n from ledger")] == [2]


async def test_an_address_without_atlas_and_a_login_without_the_right_are_named(pool, owner, given, drain, databases):
    async with databases.database(migrated=False) as empty:
        [job_id] = await given("tx.wraps")
        await drain("tx.wraps", application_url=empty)
    assert "ATLAS_APPLICATION_DATABASE_URL" in await pool.fetchval(
        "select error->>'message' from atlas.jobs where id = $1", job_id
    )


def test_a_plain_function_cannot_be_transactional():
    with pytest.raises(InvalidInput, match="atlas.integrations"):

        @job("tx.plain", transactional=True)
        def plain(input: dict[str, Any]) -> None:
            """Runs in a thread."""
