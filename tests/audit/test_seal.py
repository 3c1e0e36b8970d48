"""Sealing: every committed row in exactly one leaf, whatever order transactions begin, write and end in."""

import asyncio

import asyncpg
import pytest

from atlas.audit.record import record
from atlas.audit.sealing.seal import BATCH, OtherCluster, seal, seal_batch
from atlas.audit.sealing.seal_status import seal_lag
from atlas.audit.verification.verify import verify
from atlas.audit.verifier.tree import split
from atlas.db.pool import connect
from tests.audit.given import TENANTS, event, seal_in_small_batches, write, write_many


@pytest.fixture
async def other(database_url):
    """A second writer."""
    connection = await connect(database_url)
    yield connection
    await connection.close()


async def sealed_ids(conn) -> list[list[int]]:
    """The ids in each seal, by the windows and cursors that it names."""
    seals = await conn.fetch("select *, snap_prev::text as p, snap_cur::text as c from atlas.audit_seal order by n")
    found, cursor = [], (0, 0)
    for one in seals:
        rows = await conn.fetch(
            "select id, xid from atlas.audit_log where epoch = $1 and pg_visible_in_snapshot(xid, $2::text::pg_snapshot)"
            " and not pg_visible_in_snapshot(xid, $3::text::pg_snapshot) order by xid, id",
            one["epoch"], one["c"], one["p"],
        )  # fmt: skip
        last = (2**62, 0) if one["closes"] else (one["to_xid"], one["to_id"])
        found.append([row["id"] for row in rows if cursor < (row["xid"], row["id"]) <= last])
        cursor = (0, 0) if one["closes"] else last
    return found


async def test_every_row_is_sealed_once_and_each_seal_ends_with_its_header(conn, installation):
    await write(conn, 5)
    assert await seal(conn) == 5
    await write(conn, 3)
    assert await seal(conn) == 3

    assert await sealed_ids(conn) == [[1, 2, 3, 4, 5], [6, 7, 8]]
    seals = await conn.fetch("select * from atlas.audit_seal order by n")
    assert [(one["first_index"], one["count"], one["size"]) for one in seals] == [(0, 6, 6), (6, 4, 10)]
    await installation.sign(conn)
    assert (await verify(conn, installation.keys, installation.notes)).ok


async def test_rows_that_commit_late_go_into_a_later_seal(conn, other):
    late = other.transaction()
    await late.start()
    await record(other, event(1))
    await write(conn, 2)
    assert await seal(conn) == 2
    await write(conn, 1)
    assert await seal(conn) == 1

    await late.commit()
    assert await seal(conn) == 1
    assert await sealed_ids(conn) == [[2, 3], [4], [1]]


async def test_rows_after_a_savepoint_belong_to_their_transaction_and_rolled_back_ones_to_none(conn, other):
    outer = other.transaction()
    await outer.start()
    await record(other, event(1))
    async with other.transaction():
        await record(other, event(2))
    lost = other.transaction()
    await lost.start()
    await record(other, event(3))
    await lost.rollback()
    await record(other, event(4))
    assert await seal(conn) == 0

    await outer.commit()
    assert await seal(conn) == 3
    assert await sealed_ids(conn) == [[], [1, 2, 4]]


@pytest.mark.long
async def test_a_large_window_takes_several_batches_and_leaves_out_none(conn, installation):
    await write_many(conn, BATCH + 10)
    assert await seal(conn) == BATCH + 10
    assert [len(ids) for ids in await sealed_ids(conn)] == [BATCH, 10]

    await write_many(conn, BATCH)
    assert await seal(conn) == BATCH
    seals = await conn.fetch("select count, closes from atlas.audit_seal order by n")
    assert [tuple(one) for one in seals[2:]] == [(BATCH + 1, False), (1, True)]
    await installation.sign(conn)
    assert (await verify(conn, installation.keys)).ok


async def test_a_window_that_was_left_open_is_finished_before_the_next_begins(conn):
    await write(conn, 5)
    assert not (await seal_batch(conn, limit=2)).closes
    await write(conn, 4)
    await seal_in_small_batches(conn, 2)
    await seal_in_small_batches(conn, 2)

    assert [ids for ids in await sealed_ids(conn) if ids] == [[1, 2], [3, 4], [5], [6, 7], [8, 9]]


async def test_a_tenants_rows_are_numbered_without_gaps(conn):
    for count in (3, 1, 4):
        for number in range(count):
            await record(conn, event(number, tenant_id=TENANTS[0]))
            await record(conn, event(number, tenant_id=TENANTS[1]))
        await seal(conn)

    numbers = "select first_number, count from atlas.audit_seal_tenant where tenant_id = $1 order by n"
    rows = await conn.fetch(numbers, TENANTS[0])
    assert [tuple(row) for row in rows] == [(1, 3), (4, 1), (5, 4)]


async def test_with_nothing_to_seal_only_a_sign_of_life_is_written_each_minute(conn, owner):
    await seal(conn)
    assert await conn.fetchval("select count(*) from atlas.audit_seal") == 1
    await seal(conn)
    assert await conn.fetchval("select count(*) from atlas.audit_seal") == 1

    await owner.execute("alter table atlas.audit_seal disable trigger all")
    await owner.execute("update atlas.audit_seal set sealed_at = sealed_at - interval '1 minute'")
    await seal(conn)
    assert await conn.fetchval("select count(*) from atlas.audit_seal where count = 1") == 2


async def test_a_second_sealer_does_nothing_while_the_first_is_at_it(conn, other):
    await write(conn, 3)
    async with other.transaction():
        await other.fetchval("select pg_advisory_xact_lock(atlas.lock_class('seal'), 0)")
        assert await seal(conn) == 0
    assert await seal(conn) == 3


@pytest.mark.long
async def test_many_sealers_at_once_seal_every_row_once(pool, conn):
    await write_many(conn, 9000)
    stop = asyncio.Event()

    async def sealer() -> int:
        rows = 0
        async with pool.acquire() as own:
            while not stop.is_set():
                rows += await seal(own)
                await asyncio.sleep(0)
        return rows

    sealers = [asyncio.create_task(sealer()) for _ in range(4)]
    for count in range(1, 30):
        await write(conn, count % 4 + 1)
    stop.set()
    rows = sum(await asyncio.gather(*sealers)) + await seal(conn)

    assert rows == await conn.fetchval("select count(*) from atlas.audit_log")
    leaves = await conn.fetch("select leaf_hashes from atlas.audit_seal")
    unique = {leaf for row in leaves for leaf in split(row["leaf_hashes"])}
    assert len(unique) == rows + len(leaves)


async def test_a_doubled_seal_is_refused_by_the_table(conn, owner):
    await write(conn, 1)
    await seal(conn)
    with pytest.raises(asyncpg.UniqueViolationError):
        await owner.execute("insert into atlas.audit_seal select * from atlas.audit_seal")


async def test_a_killed_sealer_leaves_nothing_behind(conn, other):
    await write(conn, 3)
    unfinished = other.transaction()
    await unfinished.start()
    assert await seal(other) == 3
    assert await seal(conn) == 0
    await unfinished.rollback()

    assert await seal(conn) == 3


async def test_the_lag_is_the_age_of_the_oldest_row_without_a_seal(conn, owner):
    assert await seal_lag(conn) == 0
    await write(conn, 2)
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute("update atlas.audit_log set created_at = created_at - interval '90 seconds' where id = 1")
    assert 90 <= await seal_lag(conn) < 120

    await seal(conn)
    assert await seal_lag(conn) == 0


async def test_sealing_is_refused_in_another_cluster(conn, owner):
    await write(conn, 1)
    await seal(conn)
    await owner.execute("alter table atlas.audit_epoch disable trigger all")
    await owner.execute("update atlas.audit_epoch set system_identifier = 42")

    with pytest.raises(OtherCluster, match="epoch 1 belongs to cluster 42"):
        await seal(conn)


async def test_sealing_is_refused_where_transaction_ids_fell_back(conn, owner):
    await seal(conn)
    await owner.execute("alter table atlas.audit_seal disable trigger all")
    await owner.execute("update atlas.audit_seal set snap_cur = '999999999:999999999:'")

    with pytest.raises(OtherCluster, match="999999999 was sealed before"):
        await seal(conn)


async def test_sealing_outlives_a_long_writer_without_reading_old_rows_again(conn, other):
    """The rows that a window takes in are found by the index, however long a transaction has been open."""
    late = other.transaction()
    await late.start()
    await record(other, event(1))
    await write_many(conn, 5000)
    await seal(conn)
    await write(conn, 2)
    before = await conn.fetchval("select snap_cur::text from atlas.audit_seal order by n desc limit 1")
    window = "atlas.audit_window(1, $1::text::pg_snapshot, pg_current_snapshot(), '0', 0, null, null, null, 4096)"
    plan = await conn.fetch(f"explain analyze select * from {window}", before)
    await late.rollback()
    text = "\n".join(row[0] for row in plan)
    assert "Seq Scan on audit_log" not in text
    assert sum(int(line.split(":")[1]) for line in text.splitlines() if "Rows Removed by Filter" in line) < 100
