"""Group commit: what many runs ask for while a statement is in flight goes into the next one, together.

There is no timer: an idle lane sends at once, a busy one sends all that has come meanwhile. A call that failed because
the database was away, or takes no writes for now, is repeated for as long as anyone still waits for its answer. Only
what is wrong with an item itself is told to who asked.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import asyncpg

from atlas.db.pool import UNREACHABLE, Connection, Pool
from atlas.logs import get_logger

T = TypeVar("T")
R = TypeVar("R")
# The last argument: the answer to some of these may have been lost before.
Call = Callable[[Connection, Sequence[T], bool], Awaitable[Sequence[R]]]

# How long a lane keeps its connection when nothing more comes.
LINGER_SECONDS = 0.05
PAUSE_SECONDS = 0.1
# A connection that is silent for so long is given up.
SILENCE_SECONDS = 30.0

# What an item has of its own and no later time mends: its values.
OWN_FAULTS = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
# By the first two signs of their code: no connection, a read-only server, deadlocks, no disk or memory left, locks, an
# operator at work, input and output.
PASSING = frozenset({"08", "25", "40", "53", "55", "57", "58"})

log = get_logger("engine")


class AskAgain(Exception):
    """The database cannot say now; nothing was done."""


class _Asked(Generic[T, R]):
    """One item, who waits for its answer, and the call it is in at this moment."""

    __slots__ = ("flight", "future", "item")

    def __init__(self, item: T, future: asyncio.Future[R]) -> None:
        self.item = item
        self.future = future
        self.flight: asyncio.Future[None] | None = None


class GroupCommit(Generic[T, R]):
    """Asks for many things in one call, on at most `lanes` connections at once."""

    def __init__(self, pool: Pool, call: Call[T, R], *, most: int, lanes: int = 1) -> None:
        self._pool = pool
        self._call = call
        self._most = most
        self._lanes = lanes
        self._waiting: deque[_Asked[T, R]] = deque()
        self._open_lanes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._sleepers: list[asyncio.Future[None]] = []
        self._again = False

    async def ask(self, item: T) -> R:
        """The answer for one item.

        Who is cancelled while the call is in flight learns of it when the call is over: what it wrote is then settled,
        and nobody who takes up the run meanwhile can have missed it.
        """
        asked = _Asked[T, R](item, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        self._wake_lane()
        try:
            return await asked.future
        except asyncio.CancelledError:
            if asked.flight is not None:
                await asyncio.wait([asked.flight], timeout=SILENCE_SECONDS)
            raise

    def _wake_lane(self) -> None:
        while self._sleepers:
            sleeper = self._sleepers.pop()
            if not sleeper.done():
                sleeper.set_result(None)
                return
        if self._open_lanes < self._lanes:
            self._open_lanes += 1
            task = asyncio.get_running_loop().create_task(self._lane(), name="group commit")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _lane(self) -> None:
        try:
            while self._waiting:
                await self._serve()
        finally:
            # Between the last look and this nothing is awaited: what comes from now on opens a new lane.
            self._open_lanes -= 1

    async def _serve(self) -> None:
        """Send what waits over one connection, for as long as it lasts and something comes."""
        try:
            async with self._pool.acquire() as conn:
                while await self._something_waits():
                    await self._send(conn)
        except AskAgain:
            await asyncio.sleep(PAUSE_SECONDS / 5)
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            log.warning("a group of steps is written again", reason=str(error) or type(error).__name__)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _something_waits(self) -> bool:
        """True at once or as soon as something comes, False after a moment of quiet."""
        if self._waiting:
            return True
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await sleeper
        except TimeoutError:
            return bool(self._waiting)
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
        return bool(self._waiting)

    async def _send(self, conn: Connection) -> None:
        batch = self._take()
        if not batch:
            return
        again, self._again = self._again, False
        flight: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for asked in batch:
            asked.flight = flight
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                await self._ask_for(conn, batch, again)
        except BaseException:
            self._waiting.extendleft(asked for asked in reversed(batch) if not asked.future.done())
            self._again = True
            raise
        finally:
            flight.set_result(None)

    def _take(self) -> list[_Asked[T, R]]:
        """What goes into the next call. What nobody waits for any more is left out."""
        batch: list[_Asked[T, R]] = []
        while self._waiting and len(batch) < self._most:
            asked = self._waiting.popleft()
            if not asked.future.done():
                batch.append(asked)
        return batch

    async def _ask_for(self, conn: Connection, batch: list[_Asked[T, R]], again: bool) -> None:
        try:
            answers = await self._call(conn, [asked.item for asked in batch], again)
        except asyncpg.UniqueViolationError:
            if again:
                raise
            await self._ask_for(conn, batch, True)
        except (AskAgain, *UNREACHABLE):
            raise
        except Exception as error:
            if _passes(error):
                raise
            if len(batch) > 1:
                await self._ask_one_by_one(conn, batch, again)
            elif isinstance(error, asyncpg.PostgresError) and not isinstance(error, OWN_FAULTS):
                # A database that is being upgraded, say. The run is not to blame and waits.
                raise
            elif not batch[0].future.done():
                batch[0].future.set_exception(error)
        else:
            for asked, answer in zip(batch, answers, strict=True):
                if not asked.future.done():
                    asked.future.set_result(answer)

    async def _ask_one_by_one(self, conn: Connection, batch: list[_Asked[T, R]], again: bool) -> None:
        """Something is wrong with one of them: it alone gets the error, or is asked for again."""
        trouble: asyncpg.PostgresError | None = None
        for one in batch:
            try:
                await self._ask_for(conn, [one], again)
            except asyncpg.PostgresError as error:
                if _passes(error):
                    raise
                trouble = error
        if trouble is not None:
            raise trouble


def _passes(error: Exception) -> bool:
    return isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "")[:2] in PASSING
