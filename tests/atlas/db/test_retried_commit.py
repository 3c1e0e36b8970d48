"""Group commit that outlasts the database: a write that failed is repeated, and one bad item fails alone."""

import asyncio

import asyncpg
import pytest

from atlas.db import retried_commit
from atlas.db.retried_commit import DatabaseBusy, RetriedCommit
from tests.pgbouncer import without_pooler


async def lose_the_connection(conn, owner):
    pid = conn.get_server_pid()
    await owner.execute("select pg_terminate_backend($1, 5000)", pid)
    await conn.execute("select 1")


@pytest.fixture
async def notes(owner, pool):
    """A table to write to, and a function that reads it."""
    await owner.execute("create table notes (item text primary key, batch int not null)")
    await owner.execute("grant all on notes to public")

    async def read():
        return {row["item"]: row["batch"] for row in await pool.fetch("select item, batch from notes")}

    return read


class Writer:
    """A call that writes the items of each batch in one statement."""

    def __init__(self):
        self.batches = []

    async def __call__(self, conn, items, _is_repeated):
        self.batches.append(list(items))
        await conn.execute("insert into notes select unnest($1::text[]), $2", list(items), len(self.batches))
        return [f"{item} is written" for item in items]


async def test_items_that_come_together_are_committed_together(pool, notes):
    write = Writer()
    group = RetriedCommit(pool, write, largest=50)
    results = await asyncio.gather(*map(group.submit, "abc"))

    assert results == ["a is written", "b is written", "c is written"]
    assert await notes() == {"a": 1, "b": 1, "c": 1}


async def test_items_that_come_during_a_call_are_the_next_batch(pool):
    sizes = []

    async def call(_conn, items, _is_repeated):
        sizes.append(len(items))
        await asyncio.sleep(0.01)
        return [item * 2 for item in items]

    group = RetriedCommit(pool, call, largest=50)
    results = await asyncio.gather(*(group.submit(number) for number in range(120)))

    assert results == [number * 2 for number in range(120)]
    assert sizes == [50, 50, 20]


async def test_no_result_is_lost_between_two_connections(pool):
    async def call(_conn, items, _is_repeated):
        await asyncio.sleep(0)
        return items

    group = RetriedCommit(pool, call, largest=3, lanes=2)

    async def submit_many(start):
        return [await group.submit((start, number)) for number in range(200)]

    async with asyncio.timeout(30):
        results = await asyncio.gather(*map(submit_many, range(10)))
    assert results == [[(start, number) for number in range(200)] for start in range(10)]


async def test_an_item_that_cannot_be_stored_fails_alone(pool, notes):
    group = RetriedCommit(pool, Writer(), largest=50)
    results = await asyncio.gather(*map(group.submit, ["a", "no\0text", "b"]), return_exceptions=True)

    assert (results[0], results[2]) == ("a is written", "b is written")
    assert isinstance(results[1], asyncpg.DataError)
    assert set(await notes()) == {"a", "b"}


async def test_an_item_the_database_cannot_take_for_now_does_not_hold_up_the_others(pool):
    refusals = []

    async def call(_conn, items, _is_repeated):
        if "late" in items and len(refusals) < 3:
            refusals.append(items)
            raise asyncpg.UndefinedFunctionError("not yet")
        return [item.upper() for item in items]

    group = RetriedCommit(pool, call, largest=50)
    late = asyncio.create_task(group.submit("late"))
    assert await group.submit("a") == "A"
    assert not late.done()
    assert await late == "LATE"


@without_pooler("its sessions are not those of the connections")
async def test_a_batch_whose_connection_broke_is_sent_again_and_says_so(pool, owner, notes):
    write = Writer()
    seen = []

    async def call(conn, items, is_repeated):
        seen.append(is_repeated)
        if len(seen) == 1:
            await lose_the_connection(conn, owner)
        if len(seen) == 2:
            raise DatabaseBusy
        return await write(conn, items, is_repeated)

    group = RetriedCommit(pool, call, largest=50)
    assert await asyncio.gather(*map(group.submit, "ab")) == ["a is written", "b is written"]
    assert await group.submit("c") == "c is written"
    assert seen == [False, True, True, False]
    assert await notes() == {"a": 1, "b": 1, "c": 2}


async def test_every_item_of_every_broken_batch_counts_as_repeated(pool):
    together = asyncio.Event()
    sent = []

    async def call(_conn, items, is_repeated):
        sent.append((set(items), is_repeated))
        if len(sent) <= 2:
            if len(sent) == 2:
                together.set()
            await together.wait()
            raise ConnectionResetError
        return items

    group = RetriedCommit(pool, call, largest=2, lanes=2)
    await asyncio.gather(*(group.submit(number) for number in range(4)))

    assert [is_repeated for _, is_repeated in sent] == [False, False, True, True]


async def test_a_silent_connection_is_left_after_the_timeout(pool, monkeypatch):
    monkeypatch.setattr(retried_commit, "SILENCE_SECONDS", 0.2)
    tries = 0

    async def call(conn, items, _is_repeated):
        nonlocal tries
        tries += 1
        if tries == 1:
            await conn.execute("select pg_sleep(60)")
        return items

    async with asyncio.timeout(10):
        assert await RetriedCommit(pool, call, largest=50).submit("x") == "x"


async def test_an_item_whose_caller_was_canceled_while_it_waited_is_not_written(pool, notes):
    write = Writer()
    group = RetriedCommit(pool, write, largest=1)
    first, second, third = (asyncio.create_task(group.submit(item)) for item in "abc")
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([first, second, third])

    assert second.cancelled()
    assert set(await notes()) == {"a", "c"}


async def test_an_item_whose_caller_was_canceled_is_not_repeated(pool):
    tries = 0

    async def call(_conn, items, _is_repeated):
        nonlocal tries
        tries += 1
        raise ConnectionResetError

    group = RetriedCommit(pool, call, largest=50)
    task = asyncio.create_task(group.submit("x"))
    while tries < 2:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.3)
    before = tries
    await asyncio.sleep(0.3)

    assert tries == before


async def test_a_caller_that_is_canceled_during_the_call_leaves_when_it_has_ended(pool):
    ended = asyncio.Event()
    began = asyncio.Event()

    async def call(_conn, items, _is_repeated):
        began.set()
        await asyncio.sleep(0.1)
        ended.set()
        return items

    task = asyncio.create_task(RetriedCommit(pool, call, largest=50).submit("x"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_connection_that_lingers_takes_the_next_item(pool, monkeypatch):
    monkeypatch.setattr(retried_commit, "LINGER_SECONDS", 0.2)
    connections = []

    async def call(conn, items, _is_repeated):
        connections.append(conn)
        return items

    group = RetriedCommit(pool, call, largest=50)
    for number in range(3):
        await group.submit(number)
        await asyncio.sleep(0.01)
    assert len(set(connections)) == 1
    assert not group.is_idle

    await asyncio.sleep(0.4)
    assert group.is_idle
