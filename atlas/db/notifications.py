"""Listens for NOTIFY. Notifications are only hints: polling finds everything, so a lost one costs a short delay."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import asyncpg

from atlas.db.pool import UNREACHABLE, connect
from atlas.db.pooler import is_behind_pooler
from atlas.db.schema import channel
from atlas.errors import DatabaseError
from atlas.logs import get_logger
from atlas.settings import load_settings
from atlas.waiting import wait_for

OnNotification = Callable[[str, str], None]

PING_SECONDS = 10.0
PING_TIMEOUT = 5.0
PAUSE_SECONDS = 1.0

log = get_logger("notifications")


class Listener:
    """Listens on its own connection, and connects again when that fails.

    It sends itself a notification now and then. A connection that looks open but receives nothing is noticed this way,
    logged once, and replaced. A pooler passes no notifications on: behind one it needs ATLAS_LISTEN_DATABASE_URL.
    """

    def __init__(self, url: str, channels: Sequence[str], on_notification: OnNotification) -> None:
        self._url = load_settings().atlas_listen_database_url or url
        self._channels = tuple(channels)
        self._on_notification = on_notification
        self._ping = f"atlas_ping_{uuid4().hex[:12]}"
        self._received = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_listening = False
        # How long the last notification to itself took.
        self.lag_seconds: float | None = None

    def start(self) -> None:
        """Start to listen in the background."""
        self._task = asyncio.create_task(self._run(), name="atlas listener")

    async def stop(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                if not await self._listen():
                    log.warning(
                        "DATABASE_URL leads to a pooler, which passes no notifications on: programs poll;"
                        " set ATLAS_LISTEN_DATABASE_URL to the server itself"
                    )
                    return
            except (*UNREACHABLE, DatabaseError, asyncpg.PostgresError) as error:
                if self.is_listening:
                    log.warning(
                        "the listening connection failed; polling continues", reason=str(error) or type(error).__name__
                    )
                self.is_listening = False
            await asyncio.sleep(PAUSE_SECONDS)

    async def _listen(self) -> bool:
        """Listen for as long as the connection works. False: a pooler is in the way."""
        conn = await connect(self._url, application="atlas listener")
        try:
            if is_behind_pooler(conn):
                return False
            for name in self._channels:
                await conn.add_listener(channel(name), self._receive)
            await conn.add_listener(self._ping, self._receive)
            # Notifications that were sent before are lost, so each channel is treated as notified once.
            for name in self._channels:
                self._on_notification(name, "")
            closed = asyncio.Event()
            conn.add_termination_listener(lambda _: closed.set())
            while not conn.is_closed():
                await self._check(conn)
                await wait_for(closed, within=PING_SECONDS)
            return True
        finally:
            conn.terminate()

    async def _check(self, conn: Any) -> None:
        self._received.clear()
        began = time.monotonic()
        async with asyncio.timeout(PING_TIMEOUT):
            await conn.execute("select pg_notify($1, '')", self._ping)
            await self._received.wait()
        self.lag_seconds = time.monotonic() - began
        self.is_listening = True

    def _receive(self, _conn: Any, _pid: int, on_channel: str, payload: object) -> None:
        if on_channel == self._ping:
            self._received.set()
        else:
            self._on_notification(on_channel.removeprefix(channel("")), str(payload))
