"""Live notifications: hints that something changed. Polling is the truth, so losing one costs a moment, never a job."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import asyncpg

from atlas.db.pool import UNREACHABLE, connect
from atlas.db.schema import channel
from atlas.errors import DatabaseUnreachable
from atlas.logs import get_logger

Heard = Callable[[str, str], None]

PING_SECONDS = 10.0
ANSWER_SECONDS = 5.0
PAUSE_SECONDS = 1.0

log = get_logger("notifications")


class Listener:
    """Listens on a connection of its own and comes back by itself when that breaks.

    It sends itself a notification now and then: a connection that looks alive and hears nothing (half open, or behind
    a transaction pooler) is noticed, told once, and tried anew.
    """

    def __init__(self, url: str, channels: Sequence[str], heard: Heard) -> None:
        self._url = url
        self._channels = tuple(channels)
        self._heard = heard
        self._ping = f"atlas_ping_{uuid4().hex[:12]}"
        self._answered = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.hears = False
        # How long the last notification to itself was under way.
        self.lag_seconds: float | None = None

    def start(self) -> None:
        """Begin to listen, in the background."""
        self._task = asyncio.create_task(self._run(), name="atlas listener")

    async def stop(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except (*UNREACHABLE, DatabaseUnreachable, asyncpg.PostgresError) as error:
                if self.hears:
                    log.warning(
                        "the listening connection broke; polling goes on", reason=str(error) or type(error).__name__
                    )
                self.hears = False
            await asyncio.sleep(PAUSE_SECONDS)

    async def _listen(self) -> None:
        conn = await connect(self._url, application="atlas listener")
        try:
            for name in self._channels:
                await conn.add_listener(channel(name), self._receive)
            await conn.add_listener(self._ping, self._receive)
            # What was sent while nobody listened is not repeated: look at everything once.
            for name in self._channels:
                self._heard(name, "")
            while not conn.is_closed():
                await self._check(conn)
                await asyncio.sleep(PING_SECONDS)
        finally:
            conn.terminate()

    async def _check(self, conn: Any) -> None:
        self._answered.clear()
        began = time.monotonic()
        async with asyncio.timeout(ANSWER_SECONDS):
            await conn.execute("select pg_notify($1, '')", self._ping)
            await self._answered.wait()
        self.lag_seconds = time.monotonic() - began
        self.hears = True

    def _receive(self, _conn: Any, _pid: int, heard_on: str, payload: object) -> None:
        if heard_on == self._ping:
            self._answered.set()
        else:
            self._heard(heard_on.removeprefix(channel("")), str(payload))
