"""Jobs that end in a transaction of psycopg, SQLAlchemy or Django, with the application's login."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from asgiref.sync import sync_to_async
from django.db import connection, connections
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import atlas.integrations.django
import atlas.integrations.psycopg
import atlas.integrations.sqlalchemy
from atlas import JobContext, job
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.workers.worker import Worker, WorkerOptions
from tests.integrations.ways import configure_django
from tests.support import DANA

WAYS = (
    "asyncpg",
    "psycopg",
    "psycopg_async",
    "session",
    "async_session",
    "async_session_psycopg",
    "django",
    "django_async",
)
BOOK = "insert into ledger values ('{way}')"


@pytest.fixture
def handlers(shop: Any) -> Iterator[None]:
    """A handler for each way. Those whose input says so fail after they have written."""
    before = set(registered())
    configure_django(shop.url)

    def check(input: dict[str, Any]) -> None:
        if input["fails"]:
            raise ValueError("no paper")

    def address(driver: str) -> str:
        return shop.url.replace("postgresql://", f"postgresql+{driver}://")

    @job("ledger.asyncpg", max_retries=0)
    async def over_asyncpg(input: dict[str, Any], ctx: JobContext) -> None:
        async with ctx.transaction() as conn:
            await conn.execute(BOOK.format(way="asyncpg"))
            check(input)

    @job("ledger.psycopg", max_retries=0)
    def over_psycopg(input: dict[str, Any], ctx: JobContext) -> None:
        with psycopg.connect(shop.url) as conn, atlas.integrations.psycopg.transaction(ctx, conn):
            conn.execute(BOOK.format(way="psycopg"))
            ctx.output({"by": "psycopg"})
            check(input)

    @job("ledger.psycopg_async", max_retries=0)
    async def over_async_psycopg(input: dict[str, Any], ctx: JobContext) -> None:
        async with await psycopg.AsyncConnection.connect(shop.url) as conn:
            async with atlas.integrations.psycopg.transaction_async(ctx, conn):
                await conn.execute(BOOK.format(way="psycopg_async"))
                check(input)

    @job("ledger.session", max_retries=0)
    def in_session(input: dict[str, Any], ctx: JobContext) -> None:
        engine = sqlalchemy.create_engine(address("psycopg"))
        with Session(engine) as session, atlas.integrations.sqlalchemy.transaction(ctx, session):
            session.execute(sqlalchemy.text(BOOK.format(way="session")))
            check(input)
        engine.dispose()

    async def in_async_session(driver: str, way: str, input: dict[str, Any], ctx: JobContext) -> None:
        engine = create_async_engine(address(driver))
        async with AsyncSession(engine) as session:
            async with atlas.integrations.sqlalchemy.transaction_async(ctx, session):
                await session.execute(sqlalchemy.text(BOOK.format(way=way)))
                check(input)
        await engine.dispose()

    @job("ledger.async_session", max_retries=0)
    async def on_asyncpg(input: dict[str, Any], ctx: JobContext) -> None:
        await in_async_session("asyncpg", "async_session", input, ctx)

    @job("ledger.async_session_psycopg", max_retries=0)
    async def on_psycopg(input: dict[str, Any], ctx: JobContext) -> None:
        await in_async_session("psycopg", "async_session_psycopg", input, ctx)

    def by_django(way: str, input: dict[str, Any], ctx: JobContext) -> None:
        try:
            with atlas.integrations.django.transaction(ctx), connection.cursor() as cursor:
                cursor.execute(BOOK.format(way=way))
                check(input)
        finally:
            connections["default"].close()

    @job("ledger.django", max_retries=0)
    def in_django(input: dict[str, Any], ctx: JobContext) -> None:
        by_django("django", input, ctx)

    @job("ledger.django_async", max_retries=0)
    async def in_async_django(input: dict[str, Any], ctx: JobContext) -> None:
        await sync_to_async(by_django)("django_async", input, ctx)

    yield
    connections["default"].close()
    del connections["default"]
    for key in set(registered()) - before:
        del registered()[key]  # type: ignore[attr-defined]


@pytest.mark.long
async def test_every_library_ends_its_job_in_one_commit_or_leaves_nothing(shop, pool, database_url, handlers):
    await shop.owner.execute(f"create table ledger (way text); alter table ledger owner to {shop.login}")
    types = [f"ledger.{way}" for way in WAYS]
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=DANA)
        jobs = [NewJob(job_type, {"fails": fails}) for job_type in types for fails in (False, True)]
        await enqueue_many(conn, jobs, actor=DANA)
    options = WorkerOptions(types, poll=0.2, drain=True, application_url=shop.url)
    await Worker(pool, database_url, options).run()

    ended = await shop.owner.fetch("select job_type, status::text, error->>'type' as error from atlas.jobs order by id")
    assert {tuple(row) for row in ended} == {
        row for way in types for row in ((way, "succeeded", None), (way, "failed", "ValueError"))
    }
    assert sorted(row[0] for row in await shop.owner.fetch("select way from ledger")) == sorted(WAYS)
    # One transaction wrote the application's row, the job's outcome and its event, which names the login.
    apart = """select count(*) from ledger l
    where not exists (select from atlas.jobs j where j.xmin = l.xmin and j.job_type = 'ledger.' || l.way)
       or not exists (select from atlas.audit_log a where a.xmin = l.xmin and a.meta->>'login' = $1)"""
    assert await shop.owner.fetchval(apart, shop.login) == 0
    assert (
        await shop.owner.fetchval(
            "select output->>'by' from atlas.jobs where job_type = 'ledger.psycopg' and status = 'succeeded'"
        )
        == "psycopg"
    )
