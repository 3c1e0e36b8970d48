"""The pool: opened on a supported server, as the programs' own role, or refused in words."""

import asyncio
import socket

import asyncpg
import pytest

from atlas.errors import DatabaseUnreachable, UnsupportedPostgres
from atlas.pool import connect, open_pool, shown
from atlas.testing import TestDatabases


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
    monkeypatch.setattr("atlas.pool.OLDEST_POSTGRES", 99)

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
    monkeypatch.setattr("atlas.pool.CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with asyncio.timeout(10):
            with pytest.raises(DatabaseUnreachable):
                await connect(f"postgresql://someone@127.0.0.1:{port}/atlas?sslmode=disable")


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
