"""Handlers that keep connections of their own go on after the server has closed these: with Django, SQLAlchemy, psycopg and asyncpg."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from atlas import job, lifespan
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers import around_job
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.integrations.django.connection_hooks import close_stale_connections, use_thread_of_its_own
from atlas.integrations.django.management.commands.atlas import Command
from atlas.workers import lifespan as lifespans
from atlas.workers.attempts import executor
from atlas.workers.worker import Worker, WorkerOptions
from tests.integrations.ways import configure_django
from tests.support import DANA, until

THREADS = 10
NAME = "shop-handler"
OPEN = "from pg_stat_activity where application_name = $1 and datname = current_database()"


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Job types, lifespans and hooks of one test do not reach another."""
    monkeypatch.setattr(lifespans, "_registry", {})
    monkeypatch.setattr(around_job, "_plain", {})
    monkeypatch.setattr(around_job, "_async", {})
    before = set(registered())
    yield
    for key in set(registered()) - before:
        del registered()[key]  # type: ignore[attr-defined]


@pytest.fixture
async def results(pool: Any, owner: Any, database_url: str) -> Any:
    """Run ten jobs at a time in one worker, kill their connections, and return the states of ten more."""

    async def run() -> tuple[int, list[str]]:
        async with pool.acquire() as conn:
            await switch(conn, online=True, actor=DANA)
        worker = Worker(pool, database_url, WorkerOptions(["shop.query"], poll=0.2, concurrency=THREADS))
        serving = asyncio.create_task(worker.run())
        try:
            await _finish_jobs(pool, [0.1] * THREADS)
            killed = await owner.fetchval(f"select count(pg_terminate_backend(pid, 10000)) {OPEN}", NAME)
            return killed, await _finish_jobs(pool, [0] * THREADS)
        finally:
            worker.stop()
            await serving

    return run


async def _finish_jobs(pool: Any, seconds: list[float]) -> list[str]:
    async with pool.acquire() as conn:
        jobs = [NewJob("shop.query", {"seconds": second}, max_retries=0) for second in seconds]
        ids = [made.id for made in await enqueue_many(conn, jobs, actor=DANA)]

    async def states() -> list[str]:
        return [row["status"] for row in await pool.fetch("select status from atlas.jobs where id = any($1)", ids)]

    async def have_ended() -> bool:
        return {"queued", "running"}.isdisjoint(await states())

    await until(have_ended)
    return await states()


@pytest.fixture
def django(database_url: str) -> Iterator[None]:
    configure_django(database_url)
    connections.settings["default"]["OPTIONS"] = {"application_name": NAME}
    yield
    connections["default"].close()
    del connections["default"]


@pytest.mark.parametrize("max_age", [0, None], ids=["a connection a job", "connections that stay"])
async def test_plain_handlers_of_django_do(results, django, max_age):
    connections.settings["default"]["CONN_MAX_AGE"] = max_age
    around_job.around_job(close_stale_connections)

    @job("shop.query")
    def query(input: dict[str, Any]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("select pg_sleep(%s)", [input["seconds"]])

    killed, states = await results()
    assert bool(killed) == (max_age is None)
    assert states == ["succeeded"] * THREADS


async def test_async_handlers_of_django_do_each_with_a_connection_of_its_own(results, django, owner):
    around_job.around_job(use_thread_of_its_own)
    at_once: list[int] = []
    everyone = asyncio.Barrier(THREADS)

    def run_query() -> None:
        with connection.cursor() as cursor:
            cursor.execute("select 7")

    @job("shop.query")
    async def query(input: dict[str, Any]) -> None:
        await sync_to_async(run_query)()
        async with everyone as position:
            if position == 0 and not at_once:
                at_once.append(await owner.fetchval(f"select count(*) {OPEN}", NAME))
        await everyone.wait()

    killed, states = await results()
    assert (killed, at_once) == (0, [THREADS])
    assert states == ["succeeded"] * THREADS


async def test_handlers_with_an_engine_of_sqlalchemy_do(results, database_url):
    @lifespan
    async def engine() -> AsyncIterator[AsyncEngine]:
        url = database_url.replace("postgresql://", "postgresql+psycopg://")
        opened = create_async_engine(
            url, pool_size=THREADS, pool_pre_ping=True, connect_args={"application_name": NAME}
        )
        yield opened
        await opened.dispose()

    @job("shop.query")
    async def query(input: dict[str, Any], engine: AsyncEngine) -> None:
        async with engine.connect() as conn:
            await conn.execute(text("select pg_sleep(:seconds)"), {"seconds": input["seconds"]})

    killed, states = await results()
    assert killed > 0
    assert states == ["succeeded"] * THREADS


async def test_handlers_with_a_pool_of_psycopg_do(results, database_url):
    @lifespan
    async def pool() -> AsyncIterator[AsyncConnectionPool]:
        async with AsyncConnectionPool(
            database_url,
            min_size=THREADS,
            kwargs={"application_name": NAME},
            check=AsyncConnectionPool.check_connection,
        ) as opened:
            yield opened

    @job("shop.query")
    async def query(input: dict[str, Any], pool: AsyncConnectionPool) -> None:
        async with pool.connection() as conn:
            await conn.execute("select pg_sleep(%s)", [input["seconds"]])

    killed, states = await results()
    assert killed > 0
    assert states == ["succeeded"] * THREADS


async def test_handlers_with_a_pool_of_asyncpg_do(results, database_url):
    @lifespan
    async def pool() -> AsyncIterator[asyncpg.Pool]:
        async with asyncpg.create_pool(
            database_url, min_size=THREADS, server_settings={"application_name": NAME}
        ) as opened:
            yield opened

    @job("shop.query")
    async def query(input: dict[str, Any], pool: asyncpg.Pool) -> None:
        await pool.execute("select pg_sleep($1)", input["seconds"])

    killed, states = await results()
    assert killed > 0
    assert states == ["succeeded"] * THREADS


@pytest.mark.long
async def test_a_query_that_outlasts_its_async_job_does_not_hold_the_event_loop(results, django, pool, monkeypatch):
    monkeypatch.setattr(executor, "CANCEL_AGAIN_SECONDS", 0.2)
    around_job.around_job(use_thread_of_its_own)
    may_end = threading.Event()

    @job("shop.query", timeout=0.2)
    async def query(input: dict[str, Any]) -> None:
        await sync_to_async(may_end.wait)(60)

    running = asyncio.create_task(results())
    try:
        failed = "select count(*) = 10 from atlas.jobs where status = 'failed'"
        await until(lambda: pool.fetchval(failed), within=30)
    finally:
        may_end.set()
        await running


def test_the_command_of_django_runs_atlas_with_the_jobs_of_the_project(monkeypatch):
    programs: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda path, arguments, env: programs.append(arguments[4:]))

    Command().run_from_argv(["manage.py", "atlas", "worker", "--all", "--concurrency", "5"])
    Command().run_from_argv(["manage.py", "atlas", "jobs", "list"])
    assert programs == [
        ["worker", "--app", "atlas.integrations.django.app", "--all", "--concurrency", "5"],
        ["jobs", "list"],
    ]


LOAD_APP = """
from atlas.engine.jobs.handlers import around_job
from atlas.workers.user_modules import load_apps
load_apps(["shop_jobs"])
print(sorted([*around_job._plain, *around_job._async]))
"""


@pytest.mark.long
@pytest.mark.parametrize(("set_up", "hooks"), [("django.setup()", 2), ("", 0)], ids=["sets it up", "only imports it"])
def test_a_module_of_app_that_sets_django_up_by_itself_gets_the_hooks(tmp_path: Path, set_up: str, hooks: int):
    module = f"import django.apps\nfrom django.conf import settings\nsettings.configure()\n{set_up}\n"
    (tmp_path / "shop_jobs.py").write_text(module, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", LOAD_APP], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count("atlas.integrations.django.connection_hooks.") == hooks
