"""Group commit: who is written together, and who gets which error."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from atlas.db.group_commit import GroupCommit


class Writes:
    """Records the groups that were written; `fail` decides whether a group raises."""

    def __init__(self, fail=lambda group: None):
        self.groups = []
        self._fail = fail

    async def __call__(self, _conn, group):
        self.groups.append([one.item for one in group])
        await asyncio.sleep(0.01)
        error = self._fail(group)
        if error is not None:
            raise error
        for one in group:
            one.resolve(one.item * 2)


async def test_items_that_arrive_during_a_write_are_written_together(pool):
    write = Writes()
    committer = GroupCommit(pool.acquire, write, largest=50)
    first = asyncio.create_task(committer.submit(0))
    while not write.groups:
        await asyncio.sleep(0)
    results = await asyncio.gather(*(committer.submit(number) for number in range(1, 120)))

    assert await first == 0
    assert results == [number * 2 for number in range(1, 120)]
    assert [len(group) for group in write.groups] == [1, 50, 50, 19]
    assert committer.is_idle


async def test_a_second_lane_opens_only_for_enough_items(pool):
    busy = max_busy = 0

    async def write(_conn, group):
        nonlocal busy, max_busy
        busy += 1
        max_busy = max(max_busy, busy)
        await asyncio.sleep(0.01)
        busy -= 1
        for one in group:
            one.resolve(None)

    committer = GroupCommit(pool.acquire, write, largest=1, lanes=2, next_lane_at=4)
    await asyncio.gather(*(committer.submit(n) for n in range(3)))
    assert max_busy == 1
    await asyncio.gather(*(committer.submit(n) for n in range(8)))
    assert max_busy == 2


async def test_a_failed_connection_fails_those_who_wait_and_none_later(pool):
    write = Writes(lambda group: ConnectionResetError() if group[0].item == 1 else None)
    committer = GroupCommit(pool.acquire, write, largest=1)

    failed = await asyncio.gather(*(committer.submit(n) for n in (1, 2, 3)), return_exceptions=True)
    assert [type(one) for one in failed] == [ConnectionResetError] * 3
    assert await committer.submit(4) == 8


async def test_an_item_that_was_settled_keeps_its_result_when_its_group_fails(pool):
    async def write(_conn, group):
        group[0].resolve("done")
        raise ValueError("the rest is not")

    committer = GroupCommit(pool.acquire, write, largest=10)
    first, second = await asyncio.gather(committer.submit("a"), committer.submit("b"), return_exceptions=True)
    assert first == "done"
    assert isinstance(second, ValueError)


async def test_a_busy_lane_gives_its_connection_back_in_time(pool):
    connections = 0

    def connect():
        nonlocal connections
        connections += 1
        return pool.acquire()

    committer = GroupCommit(connect, Writes(), largest=1, keep_seconds=0.015)
    await asyncio.gather(*(committer.submit(n) for n in range(6)))
    assert connections >= 3


async def test_a_cancelled_caller_learns_of_it_when_the_write_has_ended(pool):
    write = Writes()
    committer = GroupCommit(pool.acquire, write, largest=1)
    task = asyncio.create_task(committer.submit(1))
    while not write.groups:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert committer.is_idle


async def test_a_missing_connection_fails_all_that_wait():
    @asynccontextmanager
    async def refuse():
        await asyncio.sleep(0.01)
        raise ConnectionRefusedError
        yield

    group = GroupCommit(refuse, Writes(), largest=50)
    results = await asyncio.gather(*map(group.submit, "ab"), return_exceptions=True)

    assert [type(result) for result in results] == [ConnectionRefusedError] * 2
    assert group.is_idle


async def test_a_broken_connection_leaves_what_waits_to_another_that_works(pool):
    release = asyncio.Event()

    async def write(_conn, group):
        if group[0].item == "bad":
            raise ConnectionResetError
        if group[0].item == "slow":
            await release.wait()
        group[0].resolve("written")

    group = GroupCommit(pool.acquire, write, largest=1, lanes=2)
    slow = asyncio.create_task(group.submit("slow"))
    await asyncio.sleep(0.05)
    bad, good = (asyncio.create_task(group.submit(item)) for item in ("bad", "good"))
    with pytest.raises(ConnectionResetError):
        await bad
    release.set()

    assert (await slow, await good) == ("written", "written")


async def test_an_item_whose_caller_was_canceled_while_it_waited_is_not_written(pool):
    write = Writes()
    committer = GroupCommit(pool.acquire, write, largest=1)
    first, second, third = (asyncio.create_task(committer.submit(number)) for number in (1, 2, 3))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([first, second, third])

    assert second.cancelled()
    assert write.groups == [[1], [3]]
