"""The claim loop: one call records what has ended and claims what is next, over two connections.

While one connection waits for the database, the executor runs what the other one claimed. Outcomes wait in an outbox
only while both connections are busy, so an idle worker records an outcome immediately and a busy one records batches,
without a timer.

A call that fails is repeated. This is safe: it is all or nothing, and fenced by worker, attempt and lease. If it was
committed and only its response was lost, the repeated outcomes are refused as already recorded, and the reconciler
releases the jobs that it claimed.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from operator import attrgetter
from uuid import UUID

import asyncpg

from atlas.db.pool import UNREACHABLE, Connection, Pool
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import Claimant, ClaimedJob, TurnResult, UnknownTurnRow
from atlas.engine.jobs.finish import Finish, finish_and_claim
from atlas.engine.jobs.start_right import boot_seconds
from atlas.engine.jobs.verdicts import JobCanceled, decide, release
from atlas.logs import RepeatedWarning, get_logger
from atlas.waiting import wait_for
from atlas.workers.attempts.executor import Executor
from atlas.workers.claims.demand import NO_JOBS, Demand, Request
from atlas.workers.claims.drain import Drain
from atlas.workers.claims.fast_lane import FastLane
from atlas.workers.claims.gate_follower import GateFollower
from atlas.workers.claims.held_jobs import CONNECTIONS
from atlas.workers.claims.outcomes import NOT_STORABLE, record_one_by_one
from atlas.workers.claims.reconcile import Reconciler
from atlas.workers.claims.resume_places import ResumePlaces
from atlas.workers.claims.tenant_usage import TenantUsage
from atlas.workers.claims.turn_call import TurnCall
from atlas.workers.worker_lease import WorkerLease

PAUSE_SECONDS = 0.5
# After these, a call is repeated over another connection.
FAILURES = (*UNREACHABLE, asyncpg.PostgresError, UnknownTurnRow)

_status = attrgetter("status")

log = get_logger("worker")


class Phase(Enum):
    """What a claim loop does. It only goes forward."""

    CLAIMING = auto()  # records outcomes and claims
    STOPPING = auto()  # records outcomes; what a call still claims is released
    CLOSING = auto()  # records what is left, then ends


class ClaimLoop:
    """Claims for the executor and records what it returns. A call is prepared, sent, read and settled in turn."""

    def __init__(
        self, pool: Pool, lease: WorkerLease, demand: Demand, drain: Drain, gate: GateFollower, executor: Executor
    ) -> None:
        self._pool = pool
        self._failed = RepeatedWarning(log, "claim failed and is repeated")
        self._lease = lease
        self._held = demand.held
        self._outbox = demand.held.outbox
        self._demand = demand
        self._drain = drain
        self._gate = gate
        self._rights = gate.rights
        self._executor = executor
        self._reconciler = Reconciler(lease, self._held, self._stop_lost)
        self._usage = TenantUsage(lambda: executor.running)
        # Where the last claim among many tenants ended.
        self._after: UUID | None = None
        self._phase = Phase.CLAIMING
        self._token_timer: asyncio.TimerHandle | None = None
        self._fast_lane = FastLane(pool, lease, demand, take=self._take_ahead)
        self._places = ResumePlaces(pool, lease, looked=self.hint)
        self._tasks: list[asyncio.Task[None]] = []
        self._beside: list[asyncio.Task[None]] = []
        self.outcomes: Counter[str] = Counter()
        self.before_finish: Callable[[], Awaitable[None]] | None = None

    def start(self) -> None:
        """Begin to claim, and to run what is claimed."""
        self._executor.start(job_ended=self.job_ended, occupy_slots=self.occupy_slots)
        self._tasks = [asyncio.create_task(self._serve(wake), name="claim loop") for wake in self._outbox.wakes]
        self._beside = [
            asyncio.create_task(self._repeat(self._fast_lane.serve), name="fast lane"),
            asyncio.create_task(self._repeat(self._places.serve), name="look for places"),
        ]

    @property
    def is_claiming(self) -> bool:
        """False once it was stopped."""
        return self._phase is Phase.CLAIMING

    def stop_claiming(self) -> None:
        """Claim nothing more; outcomes are still recorded."""
        self._phase = Phase.STOPPING

    async def close(self) -> None:
        """Record what is in the outbox and end."""
        # What the fast lane is claiming is given back with the rest.
        await wait_for(self._fast_lane.idle, within=self._lease.seconds)
        self._phase = Phase.CLOSING
        self._outbox.wake_all()
        await asyncio.wait(self._tasks, timeout=self._lease.seconds)
        if self._token_timer is not None:
            self._token_timer.cancel()
        for task in (tasks := [*self._tasks, *self._beside]):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def job_ended(self, finish: Finish | None, job: ClaimedJob, since: float) -> None:
        """Record how a job ended that began at `since`. None: its handler has recorded or suspended it."""
        if self._usage.is_contested or job.is_charged:
            self._usage.job_ended(job, since)
        self._demand.prefetch.job_ended()
        # By now the same job may be held again, as a later attempt.
        is_held = self._held.get(job.id) is job
        if finish is None or finish.is_recorded:
            if finish is not None:
                self.outcomes[finish.status] += 1
            if is_held:
                self._held.drop(job.id)
            # One claim for many jobs that record themselves.
            if self._executor.needs_jobs:
                self.hint()
        elif is_held:
            self._outbox.add(finish)
            if self._demand.in_flight.calls < CONNECTIONS:
                self._outbox.wake_one()

    def hint(self) -> None:
        """There may be something to claim."""
        self._places.hint()
        self._demand.hint()
        self._outbox.wake_one()

    def new_job(self, payload: str = "") -> None:
        """There are new jobs. The payload names the tenant and the type of one, if there is one."""
        if self._places.are_used:
            self._places.hint(payload)
            self._demand.hint()
            self._outbox.wake_one()
        elif self._may_claim_ahead and self._fast_lane.offer(payload):
            self._demand.hint()
        else:
            self.hint()

    def occupy_slots(self, more: int) -> None:
        """So many slots more, or fewer, are taken by something whose job is not held any more."""
        self._demand.occupied_slots += more
        if more < 0:
            self.hint()

    def reconcile(self) -> None:
        """Compare with the database what is held, before anything more is claimed."""
        self._reconciler.request()
        self._outbox.wake_all()

    def forget_all(self) -> None:
        """The lease was lost: nothing is held any more, and nothing that was done is recorded."""
        self._reconciler.lose_lease(self._lease.worker_id)
        self._held.clear()
        self._demand.solo.is_waiting = False
        self._reconciler.reset()

    async def _serve(self, wake: asyncio.Event) -> None:
        """Make calls over one connection for as long as it works, then over another."""
        while not self._is_over:
            try:
                async with self._pool.acquire() as conn:
                    while not self._is_over:
                        if not await self._call(conn):
                            await wake.wait()
                            wake.clear()
            except FAILURES as error:
                await self._rest_after(error)

    async def _rest_after(self, error: Exception) -> None:
        self._failed.log(worker_id=self._lease.worker_id, reason=repr(error))
        self._reconciler.request()
        await asyncio.sleep(PAUSE_SECONDS * (0.5 + random.random()))

    @property
    def _is_over(self) -> bool:
        return self._phase is Phase.CLOSING and not self._outbox

    @property
    def _may_claim_ahead(self) -> bool:
        is_free = self._phase is Phase.CLAIMING and self._drain.max_jobs is None
        return is_free and not (self._reconciler.is_due or self._reconciler.is_running)

    async def _repeat(self, serve: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await serve()
            except FAILURES as error:
                await self._rest_after(error)
                self._outbox.wake_all()

    def _stop_lost(self, jobs: Sequence[ClaimedJob]) -> None:
        """Stop the handlers of jobs that are not this worker's any more."""
        self._executor.lose(jobs)
        self.hint()

    def _take_ahead(self, turn: TurnResult, claimant: Claimant, asked_at: float) -> None:
        """Run what the fast lane claimed before what waits for a slot."""
        if turn.claimed:
            self._rights.present.grant(asked_at)
            self._demand.prefetch.contested(2)
            self._usage.charge(turn.claimed)
            if claimant is self._lease.claimant:
                self._take(turn, asked_at=asked_at, first=True)
        if self._outbox or not turn.claimed:
            self._outbox.wake_one()

    async def _call(self, conn: Connection) -> bool:
        """Record the outbox and claim. False: there was nothing to do."""
        if self._reconciler.is_due:
            await self._reconciler.run(conn, calls_in_flight=self._demand.in_flight.calls)
        if not self._fast_lane.idle.is_set():
            await self._fast_lane.let_pass()
        call = self._next_call()
        if call is None:
            return False
        turn = await self._send(conn, call)
        self._read(call, turn)
        if call.claimant is self._lease.claimant:
            self._settle(call, turn)
        if turn.claimed:
            # Let the jobs begin: what ends immediately is recorded by the same call that claims the next.
            await asyncio.sleep(0)
        return True

    def _next_call(self) -> TurnCall | None:
        """What to record and to ask for now. None: nothing, or there is no lease."""
        claimant = self._lease.claimant
        if claimant is None:
            return None
        request = self._request()
        if not self._outbox and not request.jobs:
            if self._drain.has_begun_all:
                # The handler of the last job may have recorded it, without a call.
                self._check_drain(request, TurnResult())
            return None
        finishes = self._outbox.take()
        if self._places.are_used:
            for job in filter(None, (self._held.get(row.job_id) for row in finishes if row.is_released)):
                self._places.comes_back(job)
        # A drain ends when nothing is left, and places do not show that.
        resume = None if self._drain.when_empty or not request.jobs else self._places.request()
        usage = self._usage.take(seldom=self._places.are_used)
        return TurnCall(claimant, finishes, request, usage, resume, self._demand.hints, boot_seconds())

    def _request(self) -> Request:
        if self._phase is not Phase.CLAIMING or self._reconciler.is_running:
            return NO_JOBS
        in_flight = self._demand.in_flight
        request = self._demand.request(ended=in_flight.finishes + len(self._outbox))
        return self._drain.limit(request, in_flight=in_flight.jobs)

    async def _send(self, conn: Connection, call: TurnCall) -> TurnResult:
        """Make the call. If it fails, its outcomes wait for the next one."""
        in_flight = self._demand.in_flight
        in_flight.sent(call.request, finishes=len(call.finishes))
        try:
            if call.finishes and self.before_finish is not None:
                await self.before_finish()
            turn = await self._finish_and_claim(conn, call)
            if turn.closed and self._drain.when_empty:
                await self._drain.check_refusal(conn, turn, self._lease)
            elif self._drain.when_empty:
                await self._drain.check_due(conn, call, turn, within=self._lease.seconds)
        except BaseException:
            if call.claimant is self._lease.claimant:
                self._outbox.put_back(call.finishes)
            self._demand.may_find_jobs = True
            raise
        finally:
            in_flight.returned(call.request, finishes=len(call.finishes))
        return turn

    async def _finish_and_claim(self, conn: Connection, call: TurnCall) -> TurnResult:
        try:
            # A connection that does not respond must not outlive the lease.
            turn = await finish_and_claim(
                conn,
                call.claimant,
                call.finishes,
                slots=call.request.slots,
                prefetch=call.request.prefetch,
                alone=call.request.alone,
                after=self._after,
                resume=None if call.resume is None else call.resume.text,
                usage=call.usage,
                within=self._lease.seconds,
            )
        except NOT_STORABLE as error:
            return await record_one_by_one(
                conn, call.claimant, call.finishes, self._held, reason=error, within=self._lease.seconds
            )
        if call.resume is not None:
            self._places.returned(call.resume, turn, asked=call.request.jobs)
        return turn

    def _read(self, call: TurnCall, turn: TurnResult) -> None:
        """Pass on what the response says about tenants, pauses, the gate and what is left."""
        if call.usage is not None and turn.not_charged:
            self._usage.keep(call.usage, turn.not_charged)
        if call.request.jobs and not turn.closed:
            self._usage.claimed(contested=turn.contested)
            self._after = turn.after
            self._fast_lane.serves(turn.claimed)
            if turn.contested:
                self._demand.prefetch.contested(len({job.tenant_id for job in turn.claimed}))
        if turn.pauses:
            self._gate.heard_of_pauses(turn.pauses)
        if turn.claimed:
            self._rights.present.grant(call.asked_at)
        elif turn.closed:
            self._rights.requested.set()

    def _settle(self, call: TurnCall, turn: TurnResult) -> None:
        """Drop what was recorded, run what was claimed, and decide whether to ask again."""
        request = call.request
        if len(turn.claimed) < request.jobs and not turn.again:
            self._demand.found_too_few(hints=call.hints)
        had_solo_job = self._held.has_solo_job
        if call.finishes:
            self._drop_finished(call, turn)
        if request.jobs:
            self._take(turn, asked_at=call.asked_at)
            if turn.next_token is not None:
                self._ask_after(turn.next_token)
            if turn.again or len(turn.claimed) >= request.jobs:
                self.hint()
        if len(self._held) == 0 and (self._demand.solo.is_waiting or had_solo_job):
            # Now a job that must run alone can be claimed, or what waited for the end of one.
            self.hint()
        if self._drain.when_empty:
            if call.finishes and not request.jobs:
                # An outcome may have made a job due: claims that were sent before it do not show that nothing is.
                self._demand.hints += 1
            self._check_drain(request, turn)
        if self._outbox:
            self._outbox.wake_all()

    def _drop_finished(self, call: TurnCall, turn: TurnResult) -> None:
        """Hold no longer what was recorded. A job that was to be requeued and was canceled meanwhile is canceled."""
        recorded = self._held.drop_finished(turn, call.claimant.id, call.finishes)
        self.outcomes.update(map(_status, recorded))
        for job_id, _ in turn.canceled:
            if job := self._held.get(job_id):
                stopped = JobCanceled("Canceled before its retry.")
                self._outbox.add(decide(job, call.claimant.id, stopped, ATLAS))

    def _ask_after(self, seconds: float) -> None:
        """Ask again when a job over a rate gets its token."""
        if self._token_timer is not None:
            self._token_timer.cancel()
        self._token_timer = asyncio.get_running_loop().call_later(seconds, self.hint)

    def _take(self, turn: TurnResult, *, asked_at: float, first: bool = False) -> None:
        """Hold and run what was claimed, behind what waits for a slot or before it."""
        may_start = self._rights.covers(turn.pauses, asked_at)
        if may_start and self._drain.max_jobs is not None:
            self._drain.began(turn.claimed)
        # As from the fast lane: the first job of a tenant does not wait behind what was prefetched for others.
        ahead, rest = self._held.split_newcomers(turn.claimed) if turn.contested and not first else ([], turn.claimed)
        self._demand.taken(turn.claimed, solo_waits=turn.solo_waits)
        if self._phase is Phase.CLAIMING and may_start:
            self._executor.feed(rest, first=first)
            if ahead:
                self._executor.feed(ahead[::-1], first=True)
        else:
            # The worker was stopped, or something was paused meanwhile: the jobs go back unchanged.
            self._outbox.extend(release(job) for job in turn.claimed)

    def _check_drain(self, request: Request, turn: TurnResult) -> None:
        busy = len(self._held) or self._outbox or self._demand.in_flight.calls
        if busy or self._phase is not Phase.CLAIMING:
            return
        # Unless there was a hint after the call was sent.
        found_nothing = request.jobs > 0 and turn.is_empty and not self._demand.may_find_jobs
        if not self._drain.check(turn, found_nothing=found_nothing):
            # A retry without delay may be due by now.
            self.hint()
