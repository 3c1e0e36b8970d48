"""The engine loop: turns intents into runs for as long as a worker serves them, and closes what has expired."""

import asyncio
import random
import time

import asyncpg

from atlas.db.notifications import Listener
from atlas.db.pool import UNREACHABLE, Connection, Pool, borrow
from atlas.engine.jobs.lease import new_worker_id
from atlas.engine.workflows.approvals import expire_approvals
from atlas.engine.workflows.intents import BATCH, PollResult, take_intents
from atlas.engine.workflows.registry import registered_workflows
from atlas.engine.workflows.workflow_catalog import publish_workflows
from atlas.logs import RepeatedWarning, get_logger
from atlas.workers.claims.resume_places import LATE_COMMIT_SECONDS, rest_after_look

POLL_SECONDS = 1.0
EXPIRE_SECONDS = 5.0
# Workers without the code of a workflow go by when it was last published.
PUBLISH_SECONDS = 600.0
# A poll that takes longer waits for a connection that went silent.
POLL_TIMEOUT = 120.0

log = get_logger("engine")


async def run_engine_loop(
    pool: Pool, stop: asyncio.Event, *, url: str | None = None, poll: float = POLL_SECONDS
) -> None:
    """Poll for intents until `stop` is set. With the database's address a notification wakes it earlier."""
    engine = f"engine:{new_worker_id()}"
    wake = asyncio.Event()
    listener = None
    if url is not None:
        listener = Listener(url, ("intents", "gate"), lambda _channel, _payload: wake.set())
        listener.start()
    tasks = _EngineTasks(pool, engine)
    failed = RepeatedWarning(log, "the engine could not poll for intents")
    try:
        while not stop.is_set():
            wake.clear()
            try:
                more = await tasks.poll() >= BATCH
            except (*UNREACHABLE, asyncpg.PostgresError) as error:
                failed.log(reason=str(error) or type(error).__name__)
                more = False
            if not more:
                await _wait(stop, wake, poll * (0.9 + 0.2 * random.random()))
    finally:
        if listener is not None:
            await listener.stop()


async def settle_intents(pool: Pool) -> int:
    """Turn the intents there are into runs, once: a worker that only drains begins with it. Returns how many."""
    tasks = _EngineTasks(pool, f"engine:{new_worker_id()}")
    taken = last = await tasks.poll()
    while last >= BATCH:
        last = await tasks.poll()
        taken += last
    return taken


class _EngineTasks:
    """What the loop does at each poll."""

    def __init__(self, pool: Pool, engine: str) -> None:
        self._pool = pool
        self._engine = engine
        self._published_at: float | None = None
        self._expired_at = 0.0
        # While polls from the head are slow, others look at the intents since the last one that took all.
        self._since: float | None = None
        self._from_head_at = 0.0

    async def poll(self) -> int:
        """Poll once. Returns how many intents it took; more wait if it was a whole batch."""
        async with borrow(self._pool, within=POLL_TIMEOUT) as conn:
            if self._published_at is None or time.monotonic() - self._published_at > PUBLISH_SECONDS:
                await publish_workflows(conn, registered_workflows().values(), by=self._engine)
                self._published_at = time.monotonic()
            taken = await self._take_intents(conn)
            if time.monotonic() - self._expired_at > EXPIRE_SECONDS:
                await expire_approvals(conn)
                self._expired_at = time.monotonic()
        return taken.claimed

    async def _take_intents(self, conn: Connection) -> PollResult:
        """Look from the head, or only for a fiftieth of the time where that walks over many dead index entries."""
        began = time.monotonic()
        since = self._since if began < self._from_head_at else None
        taken = await take_intents(conn, self._engine, since=since)
        if taken.closed or taken.claimed >= BATCH:
            self._since = None
        else:
            self._since = taken.asked_at - LATE_COMMIT_SECONDS
        if since is None and taken.is_slow:
            now = time.monotonic()
            self._from_head_at = now + rest_after_look(now - began)
        return taken


async def _wait(stop: asyncio.Event, wake: asyncio.Event, seconds: float) -> None:
    """Wait until woken or stopped, at most this long."""
    waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(wake.wait())]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
