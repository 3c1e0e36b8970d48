"""Steps of runs in a transaction of psycopg, SQLAlchemy or Django, with the application's login."""

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy
from django.db import connection, connections
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

import atlas.integrations.django
import atlas.integrations.psycopg
import atlas.integrations.sqlalchemy
from atlas import Run, StepFailed, workflow
from atlas.engine.workflows.registry import registered_workflows
from atlas.workers.worker import Worker, WorkerOptions
from tests.engine.workflows.kit import Kit
from tests.integrations.ways import configure_django

WAYS = ("asyncpg", "psycopg", "psycopg_async", "session", "engine", "async_session", "async_session_psycopg", "django")
BOOK = "insert into ledger values ('{way}')"


# The ways whose next call fails after it has written.
FAILING: set[str] = set()


def check(way: str) -> str:
    if way in FAILING:
        FAILING.remove(way)
        raise ValueError("no paper")
    return way


async def on_asyncpg(conn: Any, way: str) -> str:
    await conn.execute(BOOK.format(way=way))
    return check(way)


def on_psycopg(conn: psycopg.Connection[Any], way: str) -> str:
    conn.execute(BOOK.format(way=way))
    return check(way)


async def on_async_psycopg(conn: psycopg.AsyncConnection[Any], way: str) -> str:
    await conn.execute(BOOK.format(way=way))
    return check(way)


def in_session(session: Session | sqlalchemy.Connection, way: str) -> str:
    session.execute(sqlalchemy.text(BOOK.format(way=way)))
    return check(way)


async def in_async_session(session: AsyncSession, way: str) -> str:
    await session.execute(sqlalchemy.text(BOOK.format(way=way)))
    return check(way)


def in_django(way: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(BOOK.format(way=way))
    return check(way)


def late(conn: psycopg.Connection[Any]) -> None:
    conn.execute(BOOK.format(way="late"))
    time.sleep(1)


async def by_sqlalchemy(run: Run, url: str, options: Any) -> list[str]:
    """A step in a session and in a connection, plain and async, on both drivers."""
    engine = sqlalchemy.create_engine(url.format("psycopg"))
    engines = {driver: create_async_engine(url.format(driver)) for driver in ("asyncpg", "psycopg")}
    over_alchemy = atlas.integrations.sqlalchemy
    made = [
        await over_alchemy.run_transaction(run, "session", sessionmaker(engine), in_session, "session", **options),
        await over_alchemy.run_transaction(run, "engine", engine.connect, in_session, "engine", **options),
    ]
    for way, driver in {"async_session": "asyncpg", "async_session_psycopg": "psycopg"}.items():
        make = async_sessionmaker(engines[driver])
        made.append(await over_alchemy.run_transaction_async(run, way, make, in_async_session, way, **options))
    engine.dispose()
    for one in engines.values():
        await one.dispose()
    return made


@pytest.fixture
def flows(shop: Any) -> Iterator[None]:
    """A run with a step for each way, each of which fails once, and one whose step takes too long."""
    FAILING.update(WAYS)
    before = set(registered_workflows())
    configure_django(shop.url)
    over_psycopg = atlas.integrations.psycopg

    def connect() -> psycopg.Connection[Any]:
        return psycopg.connect(shop.url)

    def connect_async() -> Any:
        return psycopg.AsyncConnection.connect(shop.url)

    @workflow("ledger.ways")
    async def ways(run: Run, input: dict[str, Any]) -> list[str]:
        once = {"retries": 1, "retry": {"base": 0.01}}
        return [
            await run.transaction("asyncpg", on_asyncpg, "asyncpg", **once),
            await over_psycopg.run_transaction(run, "psycopg", connect, on_psycopg, "psycopg", **once),
            await over_psycopg.run_transaction_async(
                run, "psycopg_async", connect_async, on_async_psycopg, "psycopg_async", **once
            ),
            *await by_sqlalchemy(run, shop.url.replace("postgresql://", "postgresql+{}://"), once),
            await atlas.integrations.django.run_transaction(run, "django", in_django, "django", **once),
        ]

    @workflow("ledger.late")
    async def too_late(run: Run, input: dict[str, Any]) -> str:
        try:
            await over_psycopg.run_transaction(run, "late", connect, late, timeout=0.2, retries=0)
        except StepFailed as error:
            return error.kind
        return "committed"

    yield
    connections["default"].close()
    del connections["default"]
    for key in set(registered_workflows()) - before:
        del registered_workflows()[key]  # type: ignore[attr-defined]


async def finish(shop: Any, kit: Kit, name: str) -> Any:
    """Run a workflow to its end."""
    await shop.owner.execute(f"create table ledger (way text); alter table ledger owner to {shop.login}")
    await kit.online()
    run_id = await kit.ask(name)
    await kit.tick()
    options = WorkerOptions(["ENGINE_RUN"], poll=0.05, drain=True, application_url=shop.url)
    for _ in range(2 * len(WAYS)):
        await Worker(kit.pool, kit.url, options).run()
        run = await kit.get(run_id)
        # A step that is tried again a moment later may leave its run waiting.
        if run.status not in ("queued", "waiting", "running"):
            return run
        await kit.pool.execute("update atlas.jobs set next_retry_at = null")
        await kit.pool.execute("update atlas.workflow_steps set wake_at = now() where status = 'retrying'")
    raise AssertionError(run)


async def test_every_library_records_its_step_in_one_commit_or_leaves_nothing(shop, pool, database_url, flows):
    run = await finish(shop, Kit(pool, database_url), "ledger.ways")

    assert (run.status, sorted(run.output)) == ("succeeded", sorted(WAYS))
    assert not FAILING
    assert sorted(row[0] for row in await shop.owner.fetch("select way from ledger")) == sorted(WAYS)
    apart = """select count(*) from ledger l
    where not exists (select from atlas.workflow_steps s where s.xmin = l.xmin and s.name = l.way)"""
    assert await shop.owner.fetchval(apart) == 0


async def test_a_thread_that_goes_on_after_its_step_has_timed_out_commits_nothing(shop, pool, database_url, flows):
    run = await finish(shop, Kit(pool, database_url), "ledger.late")

    assert (run.status, run.output) == ("succeeded", "StepTimeout")
    assert await shop.owner.fetchval("select count(*) from ledger") == 0
