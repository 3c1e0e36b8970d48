"""One worker process: gate → claim up to the free slots → run → finish → heartbeat, until it is told to stop.

`Executor` runs the handlers, `ClaimLoop` speaks with the database, `HeldJobs` knows what is held. The worker keeps its
lease alive, sweeps for what others dropped, passes on cancellations, and shuts down in good order.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial

import asyncpg

from atlas.db.notifications import Listener
from atlas.db.pool import UNREACHABLE, Pool, borrow, open_aside
from atlas.engine.jobs.claim import Claimant, ClaimedJob, solo_waits
from atlas.engine.jobs.finish import Finish, take_turn
from atlas.engine.jobs.lease import (
    heartbeat,
    held,
    new_worker_id,
    register_worker,
    retire_worker,
    serve_types,
)
from atlas.engine.jobs.local_wakeup import told_of_new_jobs
from atlas.engine.jobs.progress import report_progress
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.type_catalog import publish_types
from atlas.engine.jobs.types import registered
from atlas.engine.jobs.verdicts import release
from atlas.logs import get_logger
from atlas.waiting import wait_for
from atlas.workers.claim_loop import ClaimLoop, Demand
from atlas.workers.executor import Executor
from atlas.workers.held_jobs import HeldJobs
from atlas.workers.loop_watchdog import LoopWatchdog
from atlas.workers.served_types import LoadTypes, ServedTypes

TICK_SECONDS = 0.1
# Before the end of a lease that could not be renewed, so that handlers have stopped when it comes.
STOP_AHEAD_SECONDS = 0.25
# A prefetched job that waited this long goes back to the queue: its neighbours turned out to be slow.
HOSTAGE_SECONDS = 1.0
# After the grace time, how long cancelled handlers get to clean up.
LAST_WORDS_SECONDS = 5.0
# A chore that has no answer for so long waits for a line that went silent.
SILENT_SECONDS = 30.0

log = get_logger("worker")


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How one worker process behaves."""

    job_types: Sequence[str]
    concurrency: int = 50
    batch: int = 1000
    poll: float = 1.0
    lease: float = 30.0
    grace: float = 25.0
    drain: bool = False
    most_jobs: int | None = None
    # Types that come and go while it runs, beside those above.
    load_types: LoadTypes | None = None


class Worker:
    """Serves its job types. `run` returns when it was stopped, or when nothing is due and it drains."""

    def __init__(self, pool: Pool, url: str, options: WorkerOptions, *, listen: bool = True) -> None:
        self._pool = pool
        self._url = url
        self._options = options
        self._served = ServedTypes(options.job_types, options.load_types)
        self._listens = listen
        self._hand = HeldJobs(options.concurrency, options.batch)
        self._appetite = Demand(drain=options.drain, most_jobs=options.most_jobs)
        self._pulse = asyncio.Event()
        self._turns = ClaimLoop(
            pool,
            self._hand,
            self._appetite,
            feed=self._feed,
            lose=self._lose,
            check_lease=self._pulse.set,
            lease=options.lease,
        )
        self._slots = Executor(options.concurrency, pool, self._report, self._turns.done, self._turns.lingers)
        channels = ("atlas_jobs", "atlas_gate", "atlas_cancel", "atlas_definitions")
        self._listener = Listener(url, channels, self._heard)
        self._block_watch = LoopWatchdog()
        self._stopping = asyncio.Event()
        self._cancels = asyncio.Event()
        self._alive_until = 0.0
        self._lost = False
        self._left: list[ClaimedJob] = []

    @property
    def id(self) -> str:
        """The name it lives under now; a new one after every lost lease."""
        return self._turns.claimant.id

    @property
    def finished(self) -> int:
        """Outcomes recorded so far."""
        return sum(self._turns.outcomes.values())

    @property
    def outcomes(self) -> dict[str, int]:
        """The same by the status they led to."""
        return self._turns.outcomes

    @property
    def found_gate_closed(self) -> bool:
        """True when a drain ended because Atlas is offline."""
        return self._appetite.found_closed

    @property
    def is_outlasted(self) -> bool:
        """True when it stopped and handlers go on: jobs of theirs may still be its own, until `let_go`."""
        return bool(self._left) or self._slots.are_outlasted

    def before_finish(self, fault: Callable[[], Awaitable[None]]) -> None:
        """Have a test's fault happen before outcomes are recorded."""
        self._turns.before_finish = fault

    def stop(self) -> None:
        """Ask the worker to stop in good order."""
        self._stopping.set()

    async def run(self) -> None:
        """Serve until stopped or drained."""
        async with self._pool.acquire() as conn:
            await publish_types(conn, [registered()[key] for key in self._options.job_types if key in registered()])
        await self._served.refresh(self._pool)
        # Handlers may borrow every connection of the pool; none of them may cost all the others their lease.
        lifeline = await open_aside(self._pool, self._url, size=1)
        await self._be_born(self._pool)
        self._slots.start()
        self._turns.start()
        if self._listens:
            self._listener.start()
        self._block_watch.start(asyncio.get_running_loop())
        lease = self._options.lease
        chores = [
            asyncio.create_task(
                self._again_and_again(partial(self._heartbeat, lifeline), lease / 3, sooner=self._pulse),
                name="heartbeat",
            ),
            asyncio.create_task(self._again_and_again(self._sweep, min(10.0, max(0.25, lease / 3))), name="sweep"),
            asyncio.create_task(self._again_and_again(self._poll, self._options.poll), name="poll"),
            asyncio.create_task(self._tick(), name="tick"),
            asyncio.create_task(self._pass_on_cancels(), name="cancels"),
        ]
        if self._served.may_change:
            chores.append(asyncio.create_task(self._follow_types(), name="types"))
        try:
            with told_of_new_jobs(self._turns.be_hungry) if self._listens else nullcontext():
                await self._until_told()
            await self._wind_down(self._options.grace)
        except asyncio.CancelledError:
            # Whoever cancels does not wait for long; what runs is given back all the same.
            await self._wind_down(0)
            raise
        finally:
            await self._turns.close()
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            with suppress(*UNREACHABLE):
                await asyncio.wait_for(lifeline.close(), 1)
            self._block_watch.stop()
            await self._listener.stop()
            await self._slots.close()
            if not self._left:
                await self._sign_off()

    # Life and death

    async def _be_born(self, pool: Pool) -> None:
        """Register under a name nobody ever had."""
        options = self._options
        worker_id = new_worker_id()
        asked_at = time.monotonic()
        async with borrow(pool, within=options.lease) as conn:
            facts = {"concurrency": options.concurrency, "batch": options.batch}
            await register_worker(conn, worker_id, lease=options.lease, job_types=self._served.keys, metadata=facts)
        self._alive_until = asked_at + options.lease
        self._lost = False
        self._slots.worker_id = worker_id
        self._turns.start_over(Claimant(worker_id, self._served.keys))
        log.debug("a worker is born", worker_id=worker_id, job_types=list(self._served.keys))

    async def _heartbeat(self, lifeline: Pool) -> None:
        """Renew the lease; if it is lost, or nobody can say any more whether it is, begin again under a new name."""
        alive = not self._lost and await self._renewed(lifeline)
        if not alive and not self._lost:
            self._lose_lease()
        if self._lost:
            # Until this succeeds the old name is not renewed: what it held comes back when its lease is over.
            await self._be_born(lifeline)
            self._turns.be_hungry()

    async def _renewed(self, lifeline: Pool) -> bool:
        """Renew the lease. False: it is over, or may be."""
        asked_at = time.monotonic()
        try:
            within = min(self._options.lease / 3, self._alive_until - asked_at)
            async with borrow(lifeline, within=within) as conn:
                alive = await heartbeat(conn, self.id, lease=self._options.lease, running=len(self._hand))
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            log.warning("a heartbeat failed", worker_id=self.id, reason=repr(error))
            self._turns.doubt()
            # Over another line, while the lease stands: an ordinary pause would outlast it.
            asyncio.get_running_loop().call_later(self._options.lease / 30, self._pulse.set)
            return time.monotonic() < self._alive_until
        if alive:
            self._alive_until = asked_at + self._options.lease
        return alive

    def _lose_lease(self) -> None:
        """Nothing that is held is this worker's own any more, and nothing is claimed under this name again."""
        log.error("this worker lost its lease and begins again", worker_id=self.id, jobs=len(self._hand))
        self._lost = True
        self._slots.take_back()
        self._slots.stop_all("lost")
        self._turns.give_up()

    async def _until_told(self) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self._stopping, self._appetite.drained)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _wind_down(self, grace: float) -> None:
        """Give back what has not begun, let what runs end within the grace time, requeue the rest uncounted."""
        self._appetite.stopped = True
        self._turns.put([release(job) for job in self._slots.take_back()])
        await self._hand.wait_until_empty(grace)
        self._slots.stop_all("stop")
        await self._hand.wait_until_empty(LAST_WORDS_SECONDS)
        running = [slot.job for slot in self._slots.running if slot.job is not None]
        self._left = [job for job in running if self._hand.get(job.id) is job]

    async def let_go(self) -> None:
        """Give back what handlers still run. The last act of a process: what they do next must not be seen."""
        log.warning("handlers outlast the worker", worker_id=self.id, jobs=len(self._left))
        if self._left:
            await self._sign_off([release(job) for job in self._left])

    async def _sign_off(self, finishes: Sequence[Finish] = ()) -> None:
        try:
            async with borrow(self._pool, within=5) as conn:
                if finishes:
                    await take_turn(conn, self._turns.claimant, finishes)
                await retire_worker(conn, self.id)
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            log.warning("the worker could not sign off; its lease will lapse", worker_id=self.id, reason=repr(error))

    # Chores

    async def _again_and_again(
        self, chore: Callable[[], Awaitable[None]], every: float, *, sooner: asyncio.Event | None = None
    ) -> None:
        """Do a chore with a little jitter between; a database that is away for a while does not end it."""
        sooner = sooner or asyncio.Event()
        while True:
            await wait_for(sooner, within=every * (0.9 + 0.2 * random.random()))
            sooner.clear()
            try:
                await chore()
            except (*UNREACHABLE, asyncpg.PostgresError) as error:
                log.warning("a chore failed and is repeated", worker_id=self.id, reason=repr(error))

    async def _follow_types(self) -> None:
        """Serve what is to be served now."""
        while True:
            await self._served.wait()
            try:
                async with asyncio.timeout(SILENT_SECONDS):
                    if await self._served.refresh(self._pool):
                        async with self._pool.acquire() as conn:
                            await serve_types(conn, self.id, self._served.keys)
                        self._turns.be_hungry()
            except (*UNREACHABLE, asyncpg.PostgresError) as error:
                log.warning("the job types could not be looked at", worker_id=self.id, reason=repr(error))

    async def _poll(self) -> None:
        """The truth behind the notifications."""
        self._cancels.set()
        if self._hand.solo_waits and len(self._hand):
            async with borrow(self._pool, within=SILENT_SECONDS) as conn:
                # Another worker may have taken it: then there is nothing to hold back for.
                if not await solo_waits(conn, self._served.keys):
                    self._hand.stop_holding_back()
        self._turns.be_hungry()

    async def _sweep(self) -> None:
        async with borrow(self._pool, within=SILENT_SECONDS) as conn:
            await sweep(conn)

    async def _tick(self) -> None:
        """The end of the lease, time limits, the event loop's pulse, and prefetched jobs that wait too long."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._block_watch.beat()
            if time.monotonic() >= self._alive_until - STOP_AHEAD_SECONDS and not self._lost:
                # Then another may run the same: this cannot wait for a heartbeat that waits for an answer.
                self._lose_lease()
            self._slots.stop_overdue()
            if self._slots.waiting and self._hand.waited() > HOSTAGE_SECONDS:
                self._hand.forget_the_rate()
                self._turns.put([release(job) for job in self._slots.take_back()])

    async def _pass_on_cancels(self) -> None:
        """Stop the handlers of jobs that were asked to stop."""
        while True:
            await self._cancels.wait()
            self._cancels.clear()
            if not self._slots.running:
                continue
            try:
                async with borrow(self._pool, within=SILENT_SECONDS) as conn:
                    asked = set(await held(conn, self.id, canceled_only=True))
            except (*UNREACHABLE, asyncpg.PostgresError):
                continue
            for slot in self._slots.running:
                if slot.job is not None and (slot.job.id, slot.job.attempt) in asked:
                    self._slots.stop_one(slot, "cancel")

    # What the parts call

    def _feed(self, jobs: Sequence[ClaimedJob]) -> None:
        self._slots.feed(jobs)

    def _lose(self, jobs: Sequence[ClaimedJob]) -> None:
        self._slots.lose(jobs)

    def _heard(self, channel: str, _payload: str) -> None:
        if channel == "atlas_cancel":
            self._cancels.set()
        elif channel == "atlas_definitions":
            self._served.hint()
        else:
            self._turns.be_hungry()

    async def _report(self, job: ClaimedJob, percent: float | None, message: str | None) -> None:
        async with borrow(self._pool, within=SILENT_SECONDS) as conn:
            await report_progress(conn, self.id, job.id, job.attempt, percent=percent, message=message)
