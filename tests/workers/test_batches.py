"""Batch handlers: several jobs of a type and a tenant in a call, each with its own outcome."""

import asyncio
import threading
import time
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.types import job
from atlas.engine.jobs.lists.find import get_job, list_attempts
from atlas.engine.jobs.verdicts import PermanentError, RetryAfter
from atlas.errors import InvalidInput
from tests.support import DANA, given_tenant, until

pytestmark = pytest.mark.usefixtures("default_logs")

CALLS: list[list[int]] = []
ENDED: list[str] = []


class Document(BaseModel):
    n: int


@pytest.fixture(autouse=True)
def fresh() -> None:
    CALLS.clear()
    ENDED.clear()


@job("batch.index", batch_size=4)
async def index(documents: list[Document]) -> list[dict[str, int]]:
    CALLS.append([document.n for document in documents])
    return [{"n": 2 * document.n} for document in documents]


@job("batch.plain")
def index_plain(documents: list[dict[str, Any]], contexts: list[JobContext]) -> None:
    CALLS.append([document["n"] for document in documents])
    contexts[0].log.info("indexing", thread=threading.current_thread().name, attempts=[c.attempt for c in contexts])


@job("batch.mixed", max_retries=1)
async def mixed(documents: list[Document]) -> list[Any]:
    outcomes: list[Any] = [{"ok": True}, PermanentError("not this one"), RetryAfter(3600), ValueError("odd")]
    return [outcomes[document.n] for document in documents]


@job("batch.fails", max_retries=0)
async def fails(documents: list[Document]) -> None:
    raise ValueError("no paper")


@job("batch.short", max_retries=5)
async def short(documents: list[Document]) -> list[int]:
    return [1]


@job("batch.slow", timeout=0.3, max_retries=0)
async def slow(documents: list[Document]) -> None:
    CALLS.append([document.n for document in documents])
    try:
        await asyncio.sleep(60)
    finally:
        ENDED.append("slow")


@job("batch.waits")
async def waits(documents: list[Document]) -> None:
    CALLS.append([document.n for document in documents])
    while len(ENDED) == 0:
        await asyncio.sleep(0.01)


@job("batch.lingers")
def lingers(documents: list[Document], contexts: list[JobContext]) -> None:
    CALLS.append([document.n for document in documents])
    while not all(context.cancelled for context in contexts):
        time.sleep(0.01)
    ENDED.append("lingers")


async def outputs(pool, ids):
    return [(await get_job(pool, one)).output for one in ids]


async def test_jobs_of_a_type_go_into_one_call_and_keep_their_own_outputs(pool, given, drain):
    ids = await given("batch.index", *({"n": n} for n in range(10)))
    await drain("batch.index")
    assert await outputs(pool, ids) == [{"n": 2 * n} for n in range(10)]
    assert sorted(n for call in CALLS for n in call) == list(range(10))
    assert max(map(len, CALLS)) == 4
    assert len(CALLS) < 10


async def test_a_plain_function_gets_a_list_too_and_its_log_is_kept_with_every_job(pool, given, drain):
    ids = await given("batch.plain", {"n": 1}, {"n": 2})
    await drain("batch.plain")
    assert sorted(n for call in CALLS for n in call) == [1, 2]
    for one in ids:
        assert "thread=atlas-handler" in (await list_attempts(pool, one))[0]["log_tail"]


async def test_jobs_of_two_tenants_never_share_a_call(pool, given, drain):
    async with pool.acquire() as conn:
        acme, other = await given_tenant(conn, "acme"), await given_tenant(conn, "other")
    await given("batch.index", {"n": 1}, {"n": 2}, tenant_id=acme)
    await given("batch.index", {"n": 3}, {"n": 4}, tenant_id=other)
    await drain("batch.index")
    assert all({*call} <= {1, 2} or {*call} <= {3, 4} for call in CALLS)


async def test_each_job_has_the_outcome_that_the_handler_gives_it(pool, given, drain):
    ids = await given("batch.mixed", *({"n": n} for n in range(5)))
    await pool.execute("""update atlas.jobs set input = '{"x": "does not fit"}' where id = $1""", ids[-1])
    await drain("batch.mixed")
    found = [await get_job(pool, one) for one in ids]
    assert [one.status for one in found] == ["succeeded", "failed", "queued", "queued", "failed"]
    assert [one.error.get("type") for one in found[1:4]] == ["PermanentError", "RetryAfter", "ValueError"]


@pytest.mark.parametrize(
    ("job_type", "reason"), [("batch.fails", "no paper"), ("batch.short", "returned 1 for 3 jobs")]
)
async def test_what_a_batch_handler_raises_is_the_outcome_of_all(pool, given, drain, job_type, reason):
    ids = await given(job_type, *({"n": n} for n in range(3)))
    await drain(job_type)
    found = [await get_job(pool, one) for one in ids]
    assert [one.status for one in found] == ["failed"] * 3
    assert all(reason in one.error["message"] for one in found)
    stacks = [(await list_attempts(pool, one))[0]["error_text"] for one in ids]
    assert len({len(stack) for stack in stacks}) == 1


async def test_a_call_ends_when_the_time_of_its_jobs_is_up(pool, given, drain):
    ids = await given("batch.slow", {"n": 1}, {"n": 2})
    await drain("batch.slow")
    assert [(await list_attempts(pool, one))[0]["status"] for one in ids] == ["timeout", "timeout"]
    assert len(ENDED) == len(CALLS)


async def test_a_canceled_job_leaves_the_others_of_its_call_alone(pool, given, serving, eventually):
    first, second = await given("batch.waits", {"n": 1}, {"n": 2})
    async with serving("batch.waits"):
        await until(lambda: CALLS)
        async with pool.acquire() as conn:
            await cancel(conn, first, actor=DANA)
        await asyncio.sleep(0.3)
        assert await pool.fetchval("select status::text from atlas.jobs where id = $1", second) == "running"
        ENDED.append("go on")
        await eventually("select status::text from atlas.jobs where id = $1", first, equals="canceled")
        await eventually("select status::text from atlas.jobs where id = $1", second, equals="succeeded")


async def test_a_stopped_worker_gives_back_the_jobs_of_a_call_when_its_thread_has_ended(pool, given, serving):
    ids = await given("batch.lingers", {"n": 1}, {"n": 2})
    async with serving("batch.lingers", grace=0):
        await until(lambda: CALLS)
    assert ["lingers"] * len(CALLS) == ENDED
    for one in ids:
        assert (await list_attempts(pool, one))[0]["outcome"] == "released"
        assert (await get_job(pool, one)).retry_count == 0


def test_wrong_batch_handlers_are_refused():
    class Login(BaseModel):
        password: Annotated[str, Field(json_schema_extra={"x-secret": True})]

    async def one(input: Document) -> None: ...

    async def none(inputs: list[Document]) -> None: ...

    async def secret(inputs: list[Login]) -> None: ...

    for handler, size, reason in (
        (one, 5, "whose input is a list"),
        (none, 0, "less than 1"),
        (secret, None, "secret"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            job("batch.wrong", batch_size=size)(handler)
