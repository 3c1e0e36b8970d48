"""One worker process: claims jobs, runs their handlers and records the outcomes until it is stopped.

`ClaimLoop` calls the database, `Executor` runs the handlers, `HeldJobs` has what is claimed, `GateFollower` keeps the
right to start it. The worker keeps its lease alive, sweeps for jobs of lost workers, passes on cancellations, and shuts
down in good order.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial

import asyncpg

from atlas.db.failures import public_url
from atlas.db.notifications import Listener
from atlas.db.pool import TRANSACTION_SECONDS, UNREACHABLE, Pool, borrow, open_aside
from atlas.engine.jobs.attempts.progress import report_progress
from atlas.engine.jobs.claim import ClaimedJob, solo_waits
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.lease import canceled, serve_types
from atlas.engine.jobs.local_wakeup import on_new_jobs
from atlas.engine.jobs.start_right import StartRights
from atlas.engine.jobs.sweep import sweep
from atlas.engine.jobs.verdicts import release
from atlas.engine.workflows.registry import registered_workflows
from atlas.engine.workflows.start_runs import ENGINE_RUN
from atlas.logs import RepeatedWarning, get_logger
from atlas.waiting import wait_for
from atlas.workers.application_pool import ApplicationPool
from atlas.workers.attempts.executor import Executor
from atlas.workers.attempts.forked_child import guard_forks, stop_guarding
from atlas.workers.attempts.running_attempt import keeping_logs
from atlas.workers.claims.claim_loop import ClaimLoop
from atlas.workers.claims.demand import Demand
from atlas.workers.claims.drain import Drain
from atlas.workers.claims.gate_follower import GateFollower
from atlas.workers.claims.held_jobs import HeldJobs
from atlas.workers.lifespan import Resources
from atlas.workers.served_types import LOOK_SECONDS, LoadTypes, ServedTypes
from atlas.workers.watchdog.loop_watchdog import LoopWatchdog, WorkerWatchdog
from atlas.workers.worker_lease import WorkerLease

CHANNELS = ("jobs", "gate", "cancel", "definitions", "workers")
# How often deadlines are checked: of the lease, of handlers, of prefetched jobs.
CHECK_SECONDS = 0.1
# After the grace time, how long cancelled handlers get to clean up.
CLEANUP_SECONDS = 5.0
# A background task that gets no response for so long waits for a dead connection.
RESPONSE_SECONDS = 30.0

# How many transactions of handlers are open at a time; others wait.
MAX_TRANSACTIONS = 20

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
    max_jobs: int | None = None
    # Whether tenants share it. If not, priority and age order the jobs of all.
    is_fair: bool = True
    # Types that come and go while it runs, beside those above.
    load_types: LoadTypes | None = None
    # Whether its process is its own: it is then ended from outside when a handler keeps the event loop for good.
    owns_process: bool = False
    # The application's database with the application's login, for transactions of handlers. None: that of the worker.
    application_url: str | None = None


class Worker:
    """Serves its job types. `run` returns when it was stopped, or when nothing is due and it drains."""

    def __init__(self, pool: Pool, url: str, options: WorkerOptions, *, listen: bool = True) -> None:
        self._pool = pool
        self._url = url
        self._options = options
        self._served = ServedTypes(options.job_types, options.load_types)
        self._listens = listen
        # Runs of these workflows are left to this worker by those that lack the code.
        workflows = sorted(registered_workflows()) if ENGINE_RUN in options.job_types else []
        metadata = {"concurrency": options.concurrency, "batch": options.batch, "workflows": workflows}
        self._lease = WorkerLease(options.lease, self._served.keys, metadata, is_fair=options.is_fair)
        self._held = HeldJobs()
        self._demand = Demand(options.concurrency, options.batch, self._held)
        self._drain = Drain(when_empty=options.drain, max_jobs=options.max_jobs)
        self._rights = StartRights()
        self._heartbeat_failed = RepeatedWarning(log, "heartbeat failed")
        application = ApplicationPool(options.application_url or url, min(options.concurrency, MAX_TRANSACTIONS))
        self._resources = Resources(application)
        self._executor = Executor(options.concurrency, pool, self._lease, self._report, self._rights, self._resources)
        self._gate = GateFollower(self._lease, self._rights, self._held, self._executor)
        self._claim_loop = ClaimLoop(pool, self._lease, self._demand, self._drain, self._gate, self._executor)
        self._listener = Listener(url, CHANNELS, self._notified)
        watchdog = WorkerWatchdog(url, self._lease) if options.owns_process else None
        self._watchdog = LoopWatchdog(self._executor.attempt_of, watchdog)
        self._cancel_now = asyncio.Event()
        self._unfinished: list[ClaimedJob] = []

    @property
    def id(self) -> str:
        """Its present id; a new one after every lost lease."""
        return self._lease.worker_id

    @property
    def finished(self) -> int:
        """Outcomes recorded so far."""
        return sum(self.outcomes.values())

    @property
    def outcomes(self) -> dict[str, int]:
        """The same by the status they led to."""
        return self._claim_loop.outcomes

    @property
    def found_gate_closed(self) -> bool:
        """True when a drain ended because Atlas is offline."""
        return self._drain.found_gate_closed

    @property
    def begun_types(self) -> Mapping[str, int]:
        """What a worker with a limit has begun, by job type."""
        return self._drain.begun_types

    @property
    def has_running_handlers(self) -> bool:
        """True when it stopped and handlers go on. Their jobs may still be its own, until `let_go`."""
        return bool(self._unfinished) or self._executor.has_running_handlers

    def before_finish(self, fault: Callable[[], Awaitable[None]]) -> None:
        """Have a test's fault happen before outcomes are recorded."""
        self._claim_loop.before_finish = fault

    def override_lifespans(self, values: Mapping[type, object]) -> None:
        """Have a test's values, by type, given to handlers in place of what lifespans yield."""
        self._resources.overrides = values

    def stop(self) -> None:
        """Ask the worker to stop in good order."""
        self._drain.ended.set()

    async def run(self) -> None:
        """Serve until stopped or drained."""
        job_types = [registered()[key] for key in self._options.job_types if key in registered()]
        # A connection that goes silent here would keep the worker from beginning, and from being stopped.
        async with asyncio.timeout(TRANSACTION_SECONDS):
            async with self._pool.acquire() as conn:
                await publish_types(conn, job_types)
            await self._served.refresh(self._pool)
        with keeping_logs():
            async with self._resources.opened(job_types):
                await self._serve()

    async def _serve(self) -> None:
        # Handlers may borrow every connection of the pool. The heartbeat and the gate have their own, so that the lease
        # stays alive and neither waits for the other on a dead connection. Most of the time they share one.
        own_pool = await open_aside(self._pool, self._url, size=2)
        await self._register(self._pool)
        log.info(
            "worker started",
            worker_id=self.id,
            job_types=self._served.keys,
            concurrency=self._options.concurrency,
            database=public_url(self._url),
        )
        self._claim_loop.start()
        if self._listens:
            self._listener.start()
        self._watchdog.start(asyncio.get_running_loop())
        guard_forks(asyncio.get_running_loop())
        tasks = self._start_background_tasks(own_pool)
        try:
            with on_new_jobs(self._claim_loop.new_job) if self._listens else nullcontext():
                await self._drain.ended.wait()
            await self._wind_down(self._options.grace)
        except asyncio.CancelledError:
            # A caller that cancels does not wait for long; what runs is given back all the same.
            _forget_cancellation()
            await self._wind_down(0)
            raise
        finally:
            await self._claim_loop.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(*UNREACHABLE):
                await asyncio.wait_for(own_pool.close(), 1)
            self._watchdog.stop()
            stop_guarding(asyncio.get_running_loop())
            await self._listener.stop()
            await self._executor.close()
            if not self._unfinished:
                await self._lease.retire(self._pool)

    def _start_background_tasks(self, own_pool: Pool) -> list[asyncio.Task[None]]:
        options = self._options
        tasks = [
            self._repeat("heartbeat", partial(self._heartbeat, own_pool), options.lease / 3, self._lease.heartbeat_now),
            self._repeat("gate", partial(self._gate.follow, own_pool), options.lease / 3, self._rights.requested),
            self._repeat("sweep", self._sweep, min(10.0, max(0.25, options.lease / 3))),
            self._repeat("poll", self._poll, options.poll),
            self._repeat("cancellation", self._pass_on_cancels, options.poll, self._cancel_now),
            self._repeat("deadlines", self._check_deadlines, CHECK_SECONDS),
        ]
        if self._served.may_change:
            tasks.append(self._repeat("job types", self._follow_types, LOOK_SECONDS, self._served.changed))
        return [asyncio.create_task(task) for task in tasks]

    async def _repeat(
        self, name: str, task: Callable[[], Awaitable[None]], every: float, now: asyncio.Event | None = None
    ) -> None:
        """Repeat a task with some jitter, or immediately when `now` is set. It goes on after a database error."""
        now = now or asyncio.Event()
        failed = RepeatedWarning(log, "background task failed")
        while True:
            await wait_for(now, within=every * (0.9 + 0.2 * random.random()))
            now.clear()
            try:
                await task()
            except (*UNREACHABLE, asyncpg.PostgresError) as error:
                failed.log(task=name, worker_id=self.id, reason=repr(error))

    # The lease

    async def _register(self, pool: Pool) -> None:
        await self._lease.register(pool)
        self._claim_loop.forget_all()

    async def _heartbeat(self, pool: Pool) -> None:
        """Renew the lease. If it is over, or may be, register again under a new id."""
        if self._lease.claimant is not None and not await self._renew_lease(pool) and self._lease.claimant is not None:
            self._lose_lease()
        if self._lease.claimant is None:
            # The old id is not renewed any more: what it held returns to the queue when its lease ends.
            await self._register(pool)
            self._claim_loop.hint()
        if self._lease.is_asked_to_drain:
            self._finish_and_end()

    async def _renew_lease(self, pool: Pool) -> bool:
        try:
            return await self._lease.renew(pool, running=len(self._held))
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            self._heartbeat_failed.log(worker_id=self.id, reason=repr(error))
            self._claim_loop.reconcile()
            # Again soon, over another connection: the lease would end before the next regular heartbeat.
            asyncio.get_running_loop().call_later(self._lease.seconds / 30, self._lease.heartbeat_now.set)
            return not self._lease.is_over

    def _lose_lease(self) -> None:
        """Stop everything: what is held is not this worker's any more."""
        log.error("lease lost; the worker registers again", worker_id=self.id, jobs=len(self._held))
        for job in self._held.jobs:
            log.warning("job lost with the lease", **job.log_facts(self.id))
        self._lease.lose()
        self._executor.take_back()
        self._executor.stop_all("lost")
        self._claim_loop.forget_all()

    # The end

    def _finish_and_end(self) -> None:
        """An operator asked for it: take nothing new, give back what has not begun, and end when nothing runs."""
        if self._claim_loop.is_claiming:
            log.info("worker drains and ends", worker_id=self.id, jobs=len(self._held))
            self._claim_loop.stop_claiming()
            self._gate.give_back()
        if not len(self._held):
            self._drain.ended.set()

    async def _wind_down(self, grace: float) -> None:
        """Give back what has not begun, let what runs end within the grace time, requeue the rest uncounted."""
        self._claim_loop.stop_claiming()
        self._gate.give_back()
        await self._held.wait_until_empty(grace)
        self._executor.stop_all("stop")
        await self._held.wait_until_empty(CLEANUP_SECONDS)
        running = [slot.job for slot in self._executor.running if slot.job is not None]
        self._unfinished = [job for job in running if self._held.get(job.id) is job]

    async def let_go(self) -> None:
        """Give back what handlers still run. Call it last in a process: nothing they do after it is recorded."""
        for job in self._unfinished:
            log.warning("handler did not stop", **job.log_facts(self.id))
        if self._unfinished:
            await self._lease.retire(self._pool, [release(job) for job in self._unfinished])

    # Background tasks

    async def _follow_types(self) -> None:
        """Serve the job types that are defined now."""
        async with asyncio.timeout(RESPONSE_SECONDS):
            if await self._served.refresh(self._pool):
                async with self._pool.acquire() as conn:
                    await serve_types(conn, self.id, self._served.keys)
                self._claim_loop.hint()

    async def _poll(self) -> None:
        """Ask for jobs whose notification was lost."""
        if self._demand.solo.is_waiting and len(self._held):
            async with borrow(self._pool, within=RESPONSE_SECONDS) as conn:
                # Another worker may have taken it.
                if not await solo_waits(conn, self._served.keys):
                    self._demand.solo.none_waits()
        self._claim_loop.hint()

    async def _sweep(self) -> None:
        async with borrow(self._pool, within=RESPONSE_SECONDS) as conn:
            await sweep(conn)

    async def _check_deadlines(self) -> None:
        """Stop what runs longer than the lease or its own limit; give back prefetched jobs that wait for slow ones."""
        self._watchdog.beat()
        if self._lease.is_ending:
            # Another worker may soon run the same jobs: this cannot wait for the response to a heartbeat.
            self._lose_lease()
        self._executor.stop_overdue()
        if self._lease.is_asked_to_drain:
            self._finish_and_end()
        if self._executor.waiting and self._demand.prefetch.is_stalled:
            self._demand.prefetch.reset()
            self._gate.give_back()

    async def _pass_on_cancels(self) -> None:
        """Stop the handlers of jobs that were canceled."""
        if not self._executor.running:
            return
        async with borrow(self._pool, within=RESPONSE_SECONDS) as conn:
            ids = [slot.job.id for slot in self._executor.running if slot.job is not None]
            asked = set(await canceled(conn, self.id, ids))
        for slot in self._executor.running:
            if slot.job is not None and (slot.job.id, slot.job.attempt) in asked:
                self._executor.stop_one(slot, "cancel")

    # What the parts call

    def _notified(self, channel: str, payload: str) -> None:
        if channel == "cancel":
            self._cancel_now.set()
        elif channel == "definitions":
            self._served.changed.set()
        elif channel == "workers":
            if payload == self.id:
                self._lease.heartbeat_now.set()
        else:
            if channel == "gate":
                self._rights.requested.set()
            self._claim_loop.new_job(payload if channel == "jobs" else "")

    async def _report(self, job: ClaimedJob, percent: float | None, message: str | None) -> None:
        async with self._pool.acquire() as conn, asyncio.timeout(RESPONSE_SECONDS):
            await report_progress(conn, self.id, job.id, job.attempt, percent=percent, message=message)


def _forget_cancellation() -> None:
    """Let this task wait once more: before Python 3.11.4, every timeout in a cancelled task ends as a cancellation."""
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
