"""The pool: opened on a supported server, as the programs' own role, or refused in words."""

import asyncio
import socket

import asyncpg
import pytest

from atlas.db.pool import connect, open_pool, shown
from atlas.errors import DatabaseUnreachable, UnsupportedPostgres
from atlas.test_databases import TestDatabases
from tests.proxy import FaultyProxy


async def test_programs_act_as_their_own_role_and_cannot_change_the_account(pool):
    async with pool.acquire() as conn:
        assert await conn.fetchval("select current_user") == "atlas_engine"
        for statement in ("delete from audit_log", "truncate audit_log", "update audit_log set message = ''"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await conn.execute(statement)


async def test_a_connection_that_was_given_back_and_taken_again_still_acts_as_the_role(database_url):
    pool = await open_pool(database_url, size=1)
    try:
        for _ in range(3):
            assert await pool.fetchval("select current_user") == "atlas_engine"
    finally:
        await pool.close()


async def test_without_the_tables_the_login_acts_for_itself(databases: TestDatabases):
    async with databases.database(migrated=False) as url:
        pool = await open_pool(url, size=1)
        try:
            assert await pool.fetchval("select current_user = session_user")
        finally:
            await pool.close()


async def test_a_server_that_is_too_old_is_refused(database_url, monkeypatch):
    monkeypatch.setattr("atlas.db.pool.OLDEST_POSTGRES", 99)

    with pytest.raises(UnsupportedPostgres, match=r"Atlas needs 99 or newer\. Upgrade the server"):
        await open_pool(database_url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://localhost:1/atlas",
        "postgresql://localhost:99999/atlas",
        "postgresql://localhost:port/atlas",
        "postgresql://no-such-host.invalid/atlas",
        "postgresql://[::1/atlas",
        "postgresql://localhost:1/atlas?sslmode=sometimes",
    ],
)
async def test_an_address_that_leads_nowhere_is_refused_in_words(url):
    with pytest.raises(DatabaseUnreachable, match=r"cannot be reached: .*Check that the server runs"):
        await open_pool(url)


async def test_a_wrong_password_user_or_database_is_refused_in_words(database_url):
    with pytest.raises(DatabaseUnreachable, match="does not exist"):
        await connect(database_url.replace("/test_", "/missing_"))


async def test_a_server_that_accepts_and_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr("atlas.db.pool.CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with asyncio.timeout(10):
            with pytest.raises(DatabaseUnreachable):
                await connect(f"postgresql://someone@127.0.0.1:{port}/atlas?sslmode=disable")


async def test_a_connection_whose_line_went_silent_is_given_back_in_a_bearable_time(database_url, monkeypatch):
    monkeypatch.setattr("atlas.db.pool.GIVE_BACK_SECONDS", 0.2)
    async with FaultyProxy(database_url) as proxy:
        pool = await open_pool(proxy.url, size=1)
        assert await pool.fetchval("select 1") == 1
        proxy.sink()
        async with asyncio.timeout(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await pool.fetchval("select 2")
            assert await pool.fetchval("select 3") == 3
        await pool.close()


async def test_a_line_that_goes_silent_within_a_transaction_holds_nobody_up(database_url, monkeypatch):
    monkeypatch.setattr("atlas.db.pool.GIVE_BACK_SECONDS", 0.2)
    async with FaultyProxy(database_url) as proxy:
        pool = await open_pool(proxy.url, size=1)
        async with asyncio.timeout(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1), pool.acquire() as conn, conn.transaction():
                    proxy.sink()
                    await conn.fetchval("select 2")
            assert await pool.fetchval("select 3") == 3
        await pool.close()


async def test_a_cancellation_reaches_who_waits_behind_a_silent_line(database_url, monkeypatch):
    monkeypatch.setattr("atlas.db.pool.GIVE_BACK_SECONDS", 0.2)
    async with FaultyProxy(database_url) as proxy:
        pool = await open_pool(proxy.url, size=1)
        proxy.sink()
        asking = asyncio.create_task(pool.fetchval("select 1"))
        await asyncio.sleep(0.1)
        asking.cancel()
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await asking
        await pool.close()


async def test_what_is_given_up_on_a_line_that_works_keeps_its_connection(database_url):
    pool = await open_pool(database_url, size=1)
    served_by = await pool.fetchval("select pg_backend_pid()")
    with pytest.raises(TimeoutError):
        await pool.fetchval("select pg_sleep(60)", timeout=0.1)
    assert await pool.fetchval("select pg_backend_pid()") == served_by
    await pool.close()


async def test_a_pool_behind_silent_lines_is_closed_in_a_bearable_time(database_url, monkeypatch):
    monkeypatch.setattr("atlas.db.pool.CLOSE_SECONDS", 0.2)
    async with FaultyProxy(database_url) as proxy:
        pool = await open_pool(proxy.url, size=1)
        proxy.sink()
        async with asyncio.timeout(5):
            await pool.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://user:secret@db:5433/atlas", "db:5433/atlas"),
        ("postgresql://user:secret@db/atlas?password=secret", "db/atlas"),
        ("postgresql://user:secret@[broken/atlas", "the given address"),
    ],
)
def test_an_address_is_shown_without_its_password(url, words):
    assert shown(url) == words
