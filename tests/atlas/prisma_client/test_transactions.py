"""Transactions: shared with hand-written SQL in both directions, rolled back, nested, limited in time."""

import asyncio
import subprocess
from datetime import timedelta

import asyncpg
import pytest

from atlas.generated.errors import (
    ClientNotConnectedError,
    DataError,
    TransactionError,
    TransactionExpiredError,
    TransactionNotStartedError,
    UniqueViolationError,
)
from atlas.prisma_client import AsyncpgPrisma, ConnectionLost, UnsupportedQuery
from tests.pgbouncer import without_pooler

pytestmark = pytest.mark.asyncio(loop_scope="module")

IDLE = """
select count(*) from pg_stat_activity where datname = current_database() and state = 'idle in transaction'"""
BY_HAND = "insert into atlas.job_types (key) values ($1)"


async def keys(db):
    return [row.key for row in await db.jobtype.find_many(order={"key": "asc"})]


class Mishap(Exception):
    pass


async def test_hand_written_sql_joins_a_transaction_of_the_client(db):
    async with db.tx() as tx:
        await tx.jobtype.create({"key": "typed"})
        assert await tx.connection.fetchval("select count(*) from atlas.job_types") == 1
        await tx.connection.execute(BY_HAND, "by hand")
        assert await keys(tx) == ["by hand", "typed"]
        assert await keys(db) == []
        assert tx.is_transaction()
    assert not db.is_transaction()
    assert await keys(db) == ["by hand", "typed"]


async def test_the_client_joins_a_transaction_opened_by_hand(db, clean_pool):
    async with clean_pool.acquire() as conn:
        client = AsyncpgPrisma.on(conn)
        assert not client.is_transaction()
        async with conn.transaction():
            assert client.is_transaction()
            await conn.execute(BY_HAND, "by hand")
            assert await keys(client) == ["by hand"]
            await client.jobtype.create({"key": "typed"})
            assert await conn.fetchval("select count(*) from atlas.job_types") == 2
            assert await keys(db) == []
        assert await keys(db) == ["by hand", "typed"]


async def test_a_rollback_takes_back_both_sides(db, clean_pool):
    with pytest.raises(Mishap):
        async with db.tx() as tx:
            await tx.jobtype.create({"key": "typed"})
            await tx.connection.execute(BY_HAND, "by hand")
            raise Mishap
    async with clean_pool.acquire() as conn:
        with pytest.raises(Mishap):
            async with conn.transaction():
                await AsyncpgPrisma.on(conn).jobtype.create({"key": "typed"})
                await conn.execute(BY_HAND, "by hand")
                raise Mishap
    assert await keys(db) == []


async def test_a_transaction_inside_another_is_a_savepoint(db):
    async with db.tx() as outer:
        await outer.jobtype.create({"key": "outer"})
        async with outer.tx() as inner:
            await inner.jobtype.create({"key": "kept"})
        with pytest.raises(UniqueViolationError):
            async with outer.tx() as inner:
                await inner.jobtype.create({"key": "lost"})
                await inner.jobtype.create({"key": "outer"})
        with pytest.raises(Mishap):
            async with outer.connection.transaction():
                await outer.jobtype.create({"key": "lost as well"})
                raise Mishap
        await outer.jobtype.create({"key": "after"})
    assert await keys(db) == ["after", "kept", "outer"]


async def test_a_transaction_can_be_run_by_hand(db):
    manager = db.tx()
    with pytest.raises(TransactionNotStartedError):
        await manager.commit()
    tx = await manager.start()
    await tx.jobtype.create({"key": "kept"})
    await manager.commit()
    with pytest.raises(TransactionError):
        await manager.commit()
    with pytest.raises(TransactionExpiredError, match="already closed"):
        await tx.jobtype.create({"key": "late"})
    manager = db.tx()
    tx = await manager.start()
    await tx.jobtype.create({"key": "lost"})
    await manager.rollback()
    with pytest.raises(TransactionExpiredError):
        await tx.jobtype.count()
    with pytest.raises(TransactionExpiredError):
        await tx.tx().start()
    assert not tx.is_transaction()
    assert await keys(db) == ["kept"]


async def test_concurrent_calls_take_turns_in_a_transaction(db):
    async with db.tx() as tx:
        await asyncio.gather(*(tx.jobtype.create({"key": str(number)}) for number in range(10)))
    assert await db.jobtype.count() == 10


async def test_a_failed_statement_that_was_swallowed_does_not_look_like_a_commit(db):
    await db.jobtype.create({"key": "taken"})
    with pytest.raises(TransactionError, match="nothing was committed"):
        async with db.tx() as tx:
            await tx.jobtype.create({"key": "lost"})
            with pytest.raises(UniqueViolationError):
                await tx.jobtype.create({"key": "taken"})
            with pytest.raises(DataError, match="aborted"):
                await tx.jobtype.count()
    assert await keys(db) == ["taken"]


async def test_a_swallowed_failure_inside_a_savepoint_does_no_harm(db):
    await db.jobtype.create({"key": "taken"})
    async with db.tx() as tx:
        with pytest.raises(UniqueViolationError):
            async with tx.connection.transaction():
                await tx.jobtype.create({"key": "taken"})
        await tx.jobtype.create({"key": "kept"})
    assert await keys(db) == ["kept", "taken"]


async def test_a_call_that_outlasts_its_transaction_is_cut_short(db, clean_pool):
    started = asyncio.get_running_loop().time()
    with pytest.raises(TransactionExpiredError):
        async with db.tx(timeout=timedelta(milliseconds=150)) as tx:
            await tx.jobtype.create({"key": "lost"})
            await tx.query_raw("select pg_sleep(30)")
    assert asyncio.get_running_loop().time() - started < 5
    assert await keys(db) == []
    asleep = "select count(*) from pg_stat_activity where query = 'select pg_sleep(30)' and state = 'active'"
    assert await clean_pool.fetchval(asleep) == 0


async def test_a_transaction_that_idles_past_its_time_lets_go_of_its_locks(db, clean_pool):
    manager = db.tx(timeout=timedelta(milliseconds=50))
    tx = await manager.start()
    await tx.jobtype.create({"key": "lost"})
    while await clean_pool.fetchval(IDLE):
        await asyncio.sleep(0.01)
    await asyncio.wait_for(db.jobtype.create({"key": "lost"}), timeout=5)
    with pytest.raises(TransactionExpiredError, match="timeout"):
        await tx.jobtype.count()
    with pytest.raises(TransactionExpiredError, match="timeout"):
        await manager.commit()
    assert await keys(db) == ["lost"]
    assert await asyncio.gather(*(db.jobtype.count() for _ in range(8))) == [1] * 8


async def test_a_savepoint_that_is_late_does_not_take_the_callers_connection_with_it(db):
    async with db.tx() as outer:
        await outer.jobtype.create({"key": "kept"})
        with pytest.raises(TransactionExpiredError):
            async with outer.tx(timeout=timedelta(milliseconds=30)) as inner:
                await inner.jobtype.create({"key": "lost"})
                await inner.query_raw("select pg_sleep(30)")
        assert await keys(outer) == ["kept"]
    assert await keys(db) == ["kept"]


async def test_a_full_pool_is_waited_for_only_so_long(db, clean_pool):
    held = [await clean_pool.acquire() for _ in range(clean_pool.get_max_size())]
    try:
        with pytest.raises(TransactionError, match="Unable to start"):
            async with db.tx(max_wait=timedelta(milliseconds=30)):
                pass
    finally:
        for conn in held:
            await clean_pool.release(conn)
    assert await db.jobtype.count() == 0


async def test_a_cancelled_transaction_is_rolled_back(db, clean_pool):
    ready = asyncio.Event()

    async def work():
        async with db.tx() as tx:
            await tx.jobtype.create({"key": "lost"})
            ready.set()
            await tx.query_raw("select pg_sleep(30)")

    task = asyncio.create_task(work())
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await keys(db) == []
    assert clean_pool.get_idle_size() == clean_pool.get_size()


@without_pooler("its sessions are not those of the connections")
async def test_a_constraint_that_is_checked_at_commit_is_reported(workshop, clean_pool):
    async with clean_pool.acquire() as conn:
        await conn.execute("set role none; create temp table later (id int unique deferrable initially deferred)")
        await conn.execute("insert into later values (1)")
        client = AsyncpgPrisma.on(conn)
        with pytest.raises(DataError, match="duplicate key"):
            async with client.tx() as tx:
                await tx.execute_raw("insert into later values (1)")
        assert await client.query_first("select count(*)::int as n from later") == {"n": 1}


async def test_a_batch_is_made_whole_or_not_at_all(db):
    async with db.batch_() as batch:
        batch.jobtype.create({"key": "a"})
        batch.jobtype.create_many([{"key": "b"}, {"key": "c"}])
        batch.jobtype.update(where={"key": "a"}, data={"maxRetries": 9})
        batch.jobtype.upsert(where={"key": "d"}, data={"create": {"key": "d"}, "update": {}})
        batch.jobtype.delete(where={"key": "b"})
        batch.jobtype.update_many(where={"key": "c"}, data={"description": "c"})
        batch.execute_raw("update atlas.job_types set concurrency = $1 where key = $2", 5, "d")
        assert await keys(db) == []
    rows = await db.jobtype.find_many(order={"key": "asc"})
    assert [(row.key, row.maxRetries, row.description, row.concurrency) for row in rows] == [
        ("a", 9, "", None),
        ("c", 3, "c", None),
        ("d", 3, "", 5),
    ]
    with pytest.raises(UniqueViolationError):
        async with db.batch_() as batch:
            batch.jobtype.delete_many()
            batch.jobtype.create({"key": "x"})
            batch.jobtype.create({"key": "x"})
    with pytest.raises(Mishap):
        async with db.batch_() as batch:
            batch.jobtype.delete_many()
            raise Mishap
    batcher = db.batch_()
    batcher.jobtype.delete_many(where={"key": "a"})
    await batcher.commit()
    await batcher.commit()
    assert await keys(db) == ["c", "d"]


async def test_a_batch_in_a_transaction_belongs_to_it(db):
    with pytest.raises(Mishap):
        async with db.tx() as tx:
            async with tx.batch_() as batch:
                batch.jobtype.create({"key": "a"})
            assert await keys(tx) == ["a"]
            raise Mishap
    assert await keys(db) == []


async def test_a_client_answers_until_it_is_disconnected(clean_pool):
    client = AsyncpgPrisma(clean_pool)
    assert client.is_connected()
    async with client as entered:
        assert entered is client
        assert await client.jobtype.count() == 0
    assert not client.is_connected()
    for call in (
        lambda: client.jobtype.count(),
        lambda: client.query_raw("select 1"),
        lambda: client.batch_().commit(),
    ):
        with pytest.raises(ClientNotConnectedError):
            await call()
    with pytest.raises(ClientNotConnectedError):
        client.tx()
    await client.connect(timeout=timedelta(seconds=5))
    assert await client.jobtype.count() == 0
    assert await clean_pool.fetchval("select 1") == 1


async def test_the_connection_is_only_there_where_there_is_one(db, clean_pool):
    with pytest.raises(UnsupportedQuery, match="connection"):
        _ = db.connection
    async with clean_pool.acquire() as conn:
        client = AsyncpgPrisma.on(conn)
        assert client.connection is conn
    with pytest.raises(ConnectionLost):
        await client.jobtype.count()


async def test_a_lost_server_is_said_plainly(databases):
    async with databases.database() as url:
        pool = await asyncpg.create_pool(url, min_size=1, max_size=1)
        client = AsyncpgPrisma(pool)
        async with pool.acquire() as conn:
            bound = AsyncpgPrisma.on(conn)
            with pytest.raises(ConnectionLost) as lost:
                await bound.query_raw("select pg_terminate_backend(pg_backend_pid())")
            assert lost.value.remedy
            with pytest.raises(ConnectionLost):
                await bound.jobtype.count()
        assert await client.query_first("select 1 as one") == {"one": 1}
        await pool.close()
        with pytest.raises(ClientNotConnectedError):
            await client.jobtype.count()
        with pytest.raises(ClientNotConnectedError):
            await client.connect()
    gone = await asyncpg.create_pool(databases.url("no_such_database"), min_size=0, max_size=1)
    with pytest.raises(DataError, match="does not exist"):
        await AsyncpgPrisma(gone).jobtype.count()
    await gone.close()


async def test_engine_features_are_refused_by_name(db):
    with pytest.raises(UnsupportedQuery, match="get_metrics"):
        await db.get_metrics()
    with pytest.raises(UnsupportedQuery, match="query engine"):
        db._create_engine()


async def test_no_engine_process_and_no_dotenv_are_involved(db, monkeypatch, tmp_path):
    from atlas.generated import _base_client

    def never(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(_base_client, "load_env", never)
    monkeypatch.setattr(subprocess, "Popen", never)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    async with AsyncpgPrisma(db._source.pool) as client:
        assert await client.jobtype.count() == 0
