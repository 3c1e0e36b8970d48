"""Group commit: items that arrive while one group is being committed go into the next group, together.

There is no timer. An idle committer writes an item immediately; a busy committer writes everything that has arrived
meanwhile. Each caller gets the result or the error of its own item.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from atlas.db.pool import Connection

T = TypeVar("T")
R = TypeVar("R")

# How long a cancelled caller waits to learn that its item was written.
SETTLE_SECONDS = 30.0


class Submitted(Generic[T, R]):
    """One item, and the caller that waits for its result."""

    __slots__ = ("future", "in_flight", "is_repeated", "item")

    def __init__(self, item: T) -> None:
        self.item = item
        self.future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        # Done when the write that holds the item has ended.
        self.in_flight: asyncio.Future[None] | None = None
        # A write that held it failed: it may be written all the same.
        self.is_repeated = False

    @property
    def is_settled(self) -> bool:
        """True if the caller has its result, or no longer waits."""
        return self.future.done()

    def resolve(self, result: R) -> None:
        """Return a result to the caller."""
        if not self.future.done():
            self.future.set_result(result)

    def reject(self, error: BaseException) -> None:
        """Raise an error in the caller."""
        if not self.future.done():
            self.future.set_exception(error)


# Commits a group and settles each item. What it leaves unsettled when it raises is up to `GroupCommit.return_items`.
Write = Callable[[Connection, Sequence[Submitted[T, R]]], Awaitable[None]]


class GroupCommit(Generic[T, R]):
    """Writes submitted items in groups of up to `largest`, on up to `lanes` connections at the same time.

    A further lane opens when `next_lane_at` items wait. A lane keeps its connection for `keep_seconds` at most, and for
    `linger_seconds` after the last item.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Connection]],
        write: Write[T, R],
        *,
        largest: int,
        lanes: int = 1,
        next_lane_at: int = 1,
        keep_seconds: float = math.inf,
        linger_seconds: float = 0.0,
    ) -> None:
        self._connect = connect
        self._write = write
        self._largest = largest
        self._lanes = lanes
        self._next_lane_at = next_lane_at
        self._keep_seconds = keep_seconds
        self._linger_seconds = linger_seconds
        self._waiting: deque[Submitted[T, R]] = deque()
        self._open_lanes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._sleepers: list[asyncio.Future[None]] = []

    @property
    def is_idle(self) -> bool:
        """True if nothing waits and nothing is being written."""
        return not self._open_lanes

    async def submit(self, item: T) -> R:
        """The result for one item, once it is committed.

        A caller that is cancelled during the write learns of it when the write has ended. What was written is then
        settled, and no later reader can have missed it.
        """
        submitted: Submitted[T, R] = Submitted(item)
        self._waiting.append(submitted)
        self._wake_lane()
        try:
            return await submitted.future
        except asyncio.CancelledError:
            if submitted.in_flight is not None:
                await asyncio.wait([submitted.in_flight], timeout=SETTLE_SECONDS)
            raise

    def return_items(self, group: Sequence[Submitted[T, R]], error: BaseException) -> None:
        """Decide about the items of a write that raised: by default each unsettled one gets the error."""
        for submitted in group:
            submitted.reject(error)

    async def recover(self, error: Exception) -> bool:
        """Decide about a lane whose connection failed: True if it tries again.

        By default it ends, and the items that wait get the error too, unless another lane is open to write them.
        """
        if self._open_lanes == 1:
            self.return_items(self._waiting, error)
            self._waiting.clear()
        return False

    def _wake_lane(self) -> None:
        while self._sleepers:
            sleeper = self._sleepers.pop()
            if not sleeper.done():
                sleeper.set_result(None)
                return
        has_reason = not self._open_lanes or len(self._waiting) >= self._next_lane_at
        if has_reason and self._open_lanes < self._lanes:
            self._open_lanes += 1
            task = asyncio.get_running_loop().create_task(self._lane(), name="group commit")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _lane(self) -> None:
        is_open = True
        try:
            while is_open:
                try:
                    async with self._connect() as conn:
                        await self._write_groups(conn)
                        if not self._waiting:
                            # Before the connection is released, which takes time: the next item opens a new lane.
                            self._open_lanes -= 1
                            is_open = False
                except Exception as error:
                    if not is_open or not await self.recover(error):
                        return
        finally:
            if is_open:
                self._open_lanes -= 1

    async def _write_groups(self, conn: Connection) -> None:
        """Write what waits over one connection, for as long as something arrives and it may be kept."""
        ends_at = time.monotonic() + self._keep_seconds
        while await self._has_items() and time.monotonic() < ends_at:
            group = self._next_group()
            if group:
                await self._write_group(conn, group)

    async def _write_group(self, conn: Connection, group: list[Submitted[T, R]]) -> None:
        in_flight: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for submitted in group:
            submitted.in_flight = in_flight
        try:
            await self._write(conn, group)
        except BaseException as error:
            self.return_items(group, error)
            raise
        finally:
            in_flight.set_result(None)

    async def _has_items(self) -> bool:
        """True immediately, or as soon as an item arrives; False if none does while the lane lingers."""
        if self._waiting or not self._linger_seconds:
            return bool(self._waiting)
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        try:
            async with asyncio.timeout(self._linger_seconds):
                await sleeper
        except TimeoutError:
            return bool(self._waiting)
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
        return bool(self._waiting)

    def _next_group(self) -> list[Submitted[T, R]]:
        """The items of the next write, without those whose caller no longer waits."""
        group: list[Submitted[T, R]] = []
        while self._waiting and len(group) < self._largest:
            submitted = self._waiting.popleft()
            if not submitted.future.done():
                group.append(submitted)
        return group
