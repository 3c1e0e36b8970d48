"""The connection pool: opened on a supported server, as the programs' own role, or refused with a reason."""

import asyncio
import socket
from contextlib import nullcontext
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from atlas.db.failures import public_url
from atlas.db.operator_connections import OPERATOR_CONNECTIONS, leave_some_free
from atlas.db.pool import IDLE_TRANSACTION, borrow, connect, open_pool
from atlas.errors import DatabaseUnreachable, UnsupportedPostgres
from atlas.test_databases import TestDatabases
from tests.pgbouncer import direct_url, without_pooler
from tests.proxy import FaultyProxy
from tests.support import until


async def test_programs_act_as_their_own_role_and_cannot_change_the_audit_log(pool):
    async with pool.acquire() as conn:
        assert await conn.fetchval("select current_user") == "atlas_engine"
        for statement in (
            "delete from atlas.audit_log",
            "truncate atlas.audit_log",
            "update atlas.audit_log set message = ''",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await conn.execute(statement)


async def test_a_connection_that_is_borrowed_again_still_acts_as_the_role(database_url):
    pool = await open_pool(database_url, size=1)
    try:
        for _ in range(3):
            assert await pool.fetchval("select current_user") == "atlas_engine"
    finally:
        await pool.close()


@without_pooler("it passes on none of the settings with which a connection begins")
async def test_every_session_ends_when_its_process_or_its_network_is_gone(pool, database_url):
    query = "select name, source from pg_settings where name ~ '^tcp_(user|keep)|^idle_in_transaction' order by name"
    names = ["idle_in_transaction_session_timeout", "tcp_keepalives_count", "tcp_keepalives_idle"]
    names += ["tcp_keepalives_interval", "tcp_user_timeout"]
    own = await connect(database_url)
    try:
        for session in (pool, own):
            assert [tuple(row) for row in await session.fetch(query)] == [(name, "client") for name in names]
            assert await session.fetchval("show idle_in_transaction_session_timeout") == IDLE_TRANSACTION
    finally:
        await own.close()


@pytest.mark.parametrize("limit", ["500ms", pytest.param(None, marks=pytest.mark.long)])
async def test_locks_are_free_within_a_minute_when_the_network_swallows_the_end_of_a_process(
    database_url, conn, monkeypatch, limit
):
    if limit is not None:
        monkeypatch.setattr("atlas.db.pool.IDLE_TRANSACTION", limit)
    async with FaultyProxy(database_url) as proxy:
        lost = await open_pool(proxy.url, size=1)
        holder = await lost.acquire()
        await holder.execute("begin; select pg_advisory_xact_lock(77)")
        proxy.sink()
        lost.terminate()
        assert not await conn.fetchval("select pg_try_advisory_xact_lock(77)")
        await until(lambda: conn.fetchval("select pg_try_advisory_xact_lock(77)"), within=60)


WAIT = "select pg_advisory_xact_lock(9)"
WAITS = "select count(*) > 0 from pg_locks where locktype = 'advisory' and objid = 9 and not granted"


@without_pooler("its sessions have no name")
@pytest.mark.parametrize("way", ["fetch", "execute", "cursor"])
async def test_a_wait_for_a_response_that_was_lost_ends(database_url, conn, monkeypatch, way):
    monkeypatch.setattr("atlas.db.lost_response.LOOK_SECONDS", 0.1)

    async def ask(asking):
        if way == "cursor":
            async with asking.transaction():
                return [row async for row in asking.cursor(WAIT)]
        return await getattr(asking, way)(WAIT)

    async with FaultyProxy(database_url) as proxy:
        asking = await connect(proxy.url)
        for is_lost in (False, True):
            await conn.execute("select pg_advisory_lock(9)")
            asked = asyncio.create_task(ask(asking))
            await until(lambda: conn.fetchval(WAITS), within=60)
            # Several looks find that the session works.
            await asyncio.sleep(0.5)
            if is_lost:
                proxy.sink()
            await conn.execute("select pg_advisory_unlock(9)")
            if is_lost:
                with pytest.raises(asyncpg.ConnectionDoesNotExistError):
                    await asked
            else:
                await asked


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
async def test_an_address_that_leads_nowhere_is_refused_with_a_reason(url):
    with pytest.raises(DatabaseUnreachable, match=r"cannot be reached: .*Check that the server runs"):
        await open_pool(url)


async def test_a_missing_database_is_refused_with_a_reason(database_url):
    with pytest.raises(DatabaseUnreachable, match="does not exist"):
        await connect(database_url.replace("/test_", "/missing_"))


async def test_connecting_to_a_server_that_never_responds_has_a_timeout(monkeypatch):
    monkeypatch.setattr("atlas.db.pool.CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        async with asyncio.timeout(10):
            with pytest.raises(DatabaseUnreachable):
                await connect(f"postgresql://someone@127.0.0.1:{port}/atlas?sslmode=disable")


async def test_a_connection_that_goes_silent_is_closed_and_its_slot_is_free_again(database_url, monkeypatch):
    monkeypatch.setattr("atlas.db.pool.RELEASE_SECONDS", 0.2)
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


async def test_a_connection_that_goes_silent_within_a_transaction_is_closed(database_url, monkeypatch):
    monkeypatch.setattr("atlas.db.pool.RELEASE_SECONDS", 0.2)
    async with FaultyProxy(database_url) as proxy:
        pool = await open_pool(proxy.url, size=1)
        async with asyncio.timeout(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1), pool.acquire() as conn, conn.transaction():
                    proxy.sink()
                    await conn.fetchval("select 2")
            assert await pool.fetchval("select 3") == 3
        await pool.close()


async def test_a_connection_that_goes_silent_before_a_rollback_is_closed(database_url, monkeypatch):
    monkeypatch.setattr("atlas.db.pool.RELEASE_SECONDS", 0.2)
    async with FaultyProxy(database_url) as proxy:
        pool = await open_pool(proxy.url, size=1)
        async with asyncio.timeout(5):
            with pytest.raises(ZeroDivisionError):
                async with pool.acquire() as conn, conn.transaction(), conn.transaction():
                    proxy.sink()
                    raise ZeroDivisionError
            assert await pool.fetchval("select 3") == 3
        await pool.close()


@pytest.mark.parametrize("savepoints", [0, 1])
async def test_what_ended_a_block_is_raised_though_its_connection_was_terminated(database_url, savepoints):
    pool = await open_pool(database_url, size=1)
    with pytest.raises(ZeroDivisionError):
        async with pool.acquire() as conn, conn.transaction():
            async with conn.transaction() if savepoints else nullcontext():
                conn.terminate()
                await asyncio.sleep(0)
                raise ZeroDivisionError
    assert await pool.fetchval("select 3") == 3
    await pool.close()


async def test_what_ended_a_block_is_raised_though_its_connection_is_terminated_during_the_rollback(database_url):
    async with FaultyProxy(database_url) as proxy:
        pool = await open_pool(proxy.url, size=1)
        with pytest.raises(ZeroDivisionError):
            async with pool.acquire() as conn, conn.transaction():
                proxy.sink()
                asyncio.get_running_loop().call_later(0.1, conn.terminate)
                raise ZeroDivisionError
        await pool.close()


async def test_a_commit_whose_connection_is_terminated_raises_that_it_was_lost(database_url):
    async with FaultyProxy(database_url) as proxy:
        pool = await open_pool(proxy.url, size=1)
        with pytest.raises(asyncpg.PostgresConnectionError):
            async with pool.acquire() as conn, conn.transaction():
                proxy.sink()
                asyncio.get_running_loop().call_later(0.1, conn.terminate)
        await pool.close()


async def test_a_rollback_that_fails_on_an_open_connection_is_raised(database_url):
    pool = await open_pool(database_url, size=1)
    with pytest.raises(asyncpg.NoActiveSQLTransactionError) as raised:
        async with pool.acquire() as conn, conn.transaction(), conn.transaction():
            await conn.execute("commit")
            raise ZeroDivisionError
    assert isinstance(raised.value.__context__, ZeroDivisionError)
    await pool.close()


async def test_a_block_whose_connection_was_terminated_before_its_commit_fails(database_url):
    pool = await open_pool(database_url, size=1)
    with pytest.raises(asyncpg.InterfaceError):
        async with pool.acquire() as conn, conn.transaction():
            conn.terminate()
            await asyncio.sleep(0)
    await pool.close()


async def test_a_block_with_a_borrowed_connection_has_a_timeout(database_url):
    pool = await open_pool(database_url, size=1)
    async with asyncio.timeout(5):
        async with borrow(pool, within=60) as conn:
            assert await conn.fetchval("select 1") == 1
        with pytest.raises(TimeoutError):
            async with borrow(pool, within=0.1) as conn, conn.transaction():
                await conn.execute("select pg_sleep(60)")
        assert await pool.fetchval("select 2") == 2
    await pool.close()


async def test_the_timeout_covers_the_wait_for_a_free_connection(database_url):
    pool = await open_pool(database_url, size=1)
    async with asyncio.timeout(5), pool.acquire():
        with pytest.raises(TimeoutError):
            async with borrow(pool, within=0.1):
                pytest.fail("Only one connection exists, and it is taken.")
    await pool.close()


async def test_a_statement_on_a_silent_connection_can_be_cancelled(database_url, monkeypatch):
    monkeypatch.setattr("atlas.db.pool.RELEASE_SECONDS", 0.2)
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


async def test_a_statement_that_times_out_on_a_working_connection_keeps_it(database_url):
    pool = await open_pool(database_url, size=1)
    served_by = await pool.fetchval("select pg_backend_pid()")
    with pytest.raises(TimeoutError):
        await pool.fetchval("select pg_sleep(60)", timeout=0.1)
    assert await pool.fetchval("select pg_backend_pid()") == served_by
    await pool.close()


async def test_closing_a_pool_of_silent_connections_has_a_timeout(database_url, monkeypatch):
    monkeypatch.setattr("atlas.db.pool.CLOSE_SECONDS", 0.2)
    async with FaultyProxy(database_url) as proxy:
        pool = await open_pool(proxy.url, size=1)
        proxy.sink()
        async with asyncio.timeout(5):
            await pool.close()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://user:secret@db:5433/atlas", "db:5433/atlas"),
        ("postgresql://user:secret@db/atlas?password=secret", "db/atlas"),
        ("postgresql://user:secret@[broken/atlas", "the given address"),
    ],
)
def test_an_address_is_shown_without_its_password(url, address):
    assert public_url(url) == address


async def test_a_connection_that_broke_between_two_steps_of_a_statement_is_a_connection_error(database_url):
    """asyncpg calls it an internal error: the server's last words came while nothing was asked."""
    async with FaultyProxy(database_url) as proxy:
        pool = await open_pool(proxy.url, size=1)
        try:
            for name in ("fetchval", "execute"):
                async with pool.acquire() as conn:
                    await conn.fetchval("select 1")
                    proxy.say_crashed()
                    await asyncio.sleep(0.1)
                    with pytest.raises(asyncpg.PostgresConnectionError):
                        await getattr(conn, name)("select 2")
            assert await pool.fetchval("select 3") == 3
        finally:
            await pool.close()


async def test_programs_leave_the_last_connections_to_operators(owner, database_url):
    """The limit of a login stands for that of the server."""
    login = "create role atlas_few login password 'few' connection limit 8; grant atlas_engine to atlas_few"
    await owner.execute(f"drop role if exists atlas_few; {login}")
    parts = urlsplit(direct_url(database_url))
    url = urlunsplit(parts._replace(netloc=f"atlas_few:few@{parts.netloc.rpartition('@')[2]}"))
    pool = await open_pool(url, size=8, check=leave_some_free)
    borrowed = []
    try:
        with pytest.raises(asyncpg.TooManyConnectionsError, match="the last 3 connections are left to operators"):
            while True:
                borrowed.append(await pool.acquire())
        assert len(borrowed) == 8 - OPERATOR_CONNECTIONS
        operators = [await connect(url) for _ in range(OPERATOR_CONNECTIONS)]
        for conn in operators:
            await conn.close()
        await pool.release(borrowed.pop())
        assert await pool.fetchval("select 1") == 1
    finally:
        for conn in borrowed:
            await pool.release(conn)
        await pool.close()
        await owner.execute("drop role atlas_few")
