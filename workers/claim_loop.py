"""Turns at the database: what is done goes in, what is next comes out, over two connections.

While one pipeline finishes a batch and claims the next, the slots work on what the other brought. Outcomes wait in
an outbox only while both are busy, so an idle worker flushes at once and a busy one in groups, without a timer.

A turn that fails is repeated: it is fenced and all or nothing. If its commit succeeded and only the answer was lost,
the repeated finishes are refused as recorded before, and the claims nobody heard of are found and given back. If it was
the server that failed, it may have forgotten claims we did hear of: those are recorded, and their handlers stopped.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import asyncpg

from atlas.db.pool import UNREACHABLE, Connection, Pool
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.claim import Claimant, ClaimedJob, TurnResult
from atlas.engine.jobs.finish import Finish, take_turn
from atlas.engine.jobs.gate import read_gate
from atlas.engine.jobs.lease import held, record_undone
from atlas.engine.jobs.verdicts import JobCanceled, PermanentError, cancel_attempt, decide, release, release_attempt
from atlas.logs import get_logger
from atlas.workers.held_jobs import HeldJobs

PIPELINES = 2
PAUSE_SECONDS = 0.5
# A drain that is refused although the gate is open asks again after this long.
REFUSED_SECONDS = 0.1

TakeJobs = Callable[[Sequence[ClaimedJob]], None]

log = get_logger("worker")


@dataclass(slots=True)
class Demand:
    """Whether a worker asks for jobs, and when it has had enough."""

    drain: bool = False
    most_jobs: int | None = None
    hungry: bool = True
    # How often someone said that there may be something to claim: an answer is only as young as its question.
    hints: int = 0
    stopped: bool = False
    started: int = 0
    drained: asyncio.Event = field(default_factory=asyncio.Event)
    found_closed: bool = False

    @property
    def has_had_enough(self) -> bool:
        return self.most_jobs is not None and self.started >= self.most_jobs


@dataclass(frozen=True, slots=True)
class Ask:
    """How many jobs a turn asks for: into free slots and ahead of them, and whether nothing is held beside them."""

    slots: int
    prefetch: int
    with_empty_hands: bool


class ClaimLoop:
    """The pipelines of one worker. `feed` receives what was claimed, `lose` what turned out not to be ours.

    `check_lease` is called when a claim was refused and nothing but a lost lease may be the reason.
    """

    def __init__(
        self,
        pool: Pool,
        hand: HeldJobs,
        appetite: Demand,
        *,
        feed: TakeJobs,
        lose: TakeJobs,
        check_lease: Callable[[], None],
        lease: float,
    ) -> None:
        self._pool = pool
        self._hand = hand
        self._appetite = appetite
        self._feed = feed
        self._lose = lose
        self._check_lease = check_lease
        self._lease = lease
        self.claimant = Claimant("", [])
        self.outcomes: dict[str, int] = {}
        self.before_finish: Callable[[], Awaitable[None]] | None = None
        self._outbox: list[Finish] = []
        self._wakes = [asyncio.Event() for _ in range(PIPELINES)]
        self._in_turn = 0
        self._leaving = 0
        self._asks_alone = False
        self._uncertain = False
        self._reconciling = False
        self._lost = False
        self._closing = False
        self._pipelines: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to take turns."""
        self._pipelines = [asyncio.create_task(self._pipeline(wake), name="pipeline") for wake in self._wakes]

    async def close(self) -> None:
        """Flush what is in the outbox and end."""
        self._closing = True
        self._wake_all()
        await asyncio.wait(self._pipelines, timeout=self._lease)
        for pipeline in self._pipelines:
            pipeline.cancel()
        await asyncio.gather(*self._pipelines, return_exceptions=True)

    def done(self, finish: Finish | None, job: ClaimedJob) -> None:
        """A slot ended a job; without a finish there is nothing to record."""
        self._hand.ended()
        if finish is None:
            # Its handler settled it. By now the same job may be in hand again, as a later attempt.
            if self._hand.get(job.id) is job:
                self._hand.drop(job.id)
            self.be_hungry()
        elif self._hand.get(job.id) is job:
            self._outbox.append(finish)
            if self._in_turn < PIPELINES:
                self._wake_one()

    def lingers(self, more: int) -> None:
        """So many slots more, or fewer, are kept by what goes on when its job is no longer ours."""
        self._hand.lingering += more
        if more < 0:
            self.be_hungry()

    def put(self, finishes: Sequence[Finish]) -> None:
        """Record these with the next turn."""
        self._outbox.extend(finishes)
        self._wake_all()

    def be_hungry(self) -> None:
        """There may be something to claim."""
        self._appetite.hungry = True
        self._appetite.hints += 1
        self._wake_one()

    def doubt(self) -> None:
        """The line broke: look what the database holds for us before asking for more."""
        self._uncertain = True
        self._wake_all()

    def give_up(self) -> None:
        """Forget everything in hand, and what turns on their way may bring; take none until a new claimant starts."""
        self._outbox.clear()
        self._hand.clear()
        self._uncertain = False
        self._lost = True
        self.claimant = replace(self.claimant)

    def start_over(self, claimant: Claimant) -> None:
        """Forget everything in hand and go on as another claimant."""
        self.give_up()
        self._lost = False
        self.claimant = claimant

    async def _pipeline(self, wake: asyncio.Event) -> None:
        """Take turns over one connection for as long as it lasts, then over another."""
        while not self._is_over():
            try:
                async with self._pool.acquire() as conn:
                    while not self._is_over():
                        if not await self._turn(conn):
                            await wake.wait()
                            wake.clear()
            except (*UNREACHABLE, asyncpg.PostgresError) as error:
                log.warning("a turn failed and is repeated", worker_id=self.claimant.id, reason=repr(error))
                self._uncertain = True
                await asyncio.sleep(PAUSE_SECONDS * (0.5 + random.random()))

    def _is_over(self) -> bool:
        return self._closing and not self._outbox

    async def _turn(self, conn: Connection) -> bool:
        """One turn. False: there was nothing to do."""
        if self._lost:
            return False
        if self._uncertain and not self._reconciling:
            async with asyncio.timeout(self._lease):
                await self._reconcile(conn)
        slots, prefetch = self._ask()
        asked = slots + prefetch
        alone = asked > 0 and len(self._hand) == 0 and self._hand.asked == 0
        if not self._outbox and asked == 0:
            if self._appetite.has_had_enough:
                # The last job may have been settled by its handler, which takes no turn.
                self._look_whether_drained(TurnResult(), 0)
            return False
        claimant = self.claimant
        finishes, self._outbox = self._outbox, []
        hints = self._appetite.hints
        self._asks_alone = self._asks_alone or alone
        self._hand.asked += asked
        self._leaving += len(finishes)
        self._in_turn += 1
        try:
            turn = await self._take(conn, claimant, finishes, Ask(slots, prefetch, alone))
            if turn.closed and self._appetite.drain:
                await self._look_at_the_gate(conn, turn)
        except BaseException:
            if claimant is self.claimant:
                self._outbox[:0] = finishes
            self._appetite.hungry = True
            raise
        finally:
            self._hand.asked -= asked
            self._asks_alone = self._asks_alone and not alone
            self._leaving -= len(finishes)
            self._in_turn -= 1
        if claimant is self.claimant:
            if len(turn.claimed) < asked and not turn.again and hints == self._appetite.hints:
                self._appetite.hungry = False
            self._settle(turn, finishes, asked)
        if turn.claimed:
            # Let the slots begin: what ends at once is finished by the same turn that claims the next.
            await asyncio.sleep(0)
        return True

    def _ask(self) -> tuple[int, int]:
        appetite = self._appetite
        if not appetite.hungry or appetite.stopped or self._asks_alone or self._reconciling or self._lost:
            return 0, 0
        slots, prefetch = self._hand.room(leaving=self._leaving + len(self._outbox))
        if appetite.most_jobs is not None:
            left = appetite.most_jobs - appetite.started - self._hand.asked
            return max(0, min(slots, left)), 0
        return slots, prefetch

    async def _take(self, conn: Connection, claimant: Claimant, finishes: list[Finish], ask: Ask) -> TurnResult:
        if finishes and self.before_finish is not None:
            await self.before_finish()
        try:
            # A connection that went silent must not outlive the lease it is meant to serve.
            return await take_turn(
                conn,
                claimant,
                finishes,
                slots=ask.slots,
                prefetch=ask.prefetch,
                alone=ask.with_empty_hands,
                within=self._lease,
            )
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
            # One outcome cannot be stored as it is. Record them one by one, and that one as a failure.
            log.error("an outcome could not be stored", worker_id=claimant.id, reason=str(error))
            together = TurnResult(again=True)
            for one in finishes:
                turn = await self._take_alone(conn, claimant, one)
                together.lost += turn.lost
                together.canceled += turn.canceled
            return together

    async def _take_alone(self, conn: Connection, claimant: Claimant, finish: Finish) -> TurnResult:
        try:
            return await take_turn(conn, claimant, [finish], within=self._lease)
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
            job = self._hand.get(finish.job_id)
            if job is None:
                return TurnResult()
            refusal = PermanentError(f"The outcome could not be stored: {error}.")
            return await take_turn(conn, claimant, [decide(job, claimant.id, refusal, ATLAS)], within=self._lease)

    async def _look_at_the_gate(self, conn: Connection, turn: TurnResult) -> None:
        """A claim is also refused while the gate is being turned, and when our lease is over: no reason to leave."""
        async with asyncio.timeout(self._lease):
            gate = await read_gate(conn)
        if gate.online:
            turn.closed, turn.again = False, True
            self._check_lease()
            await asyncio.sleep(REFUSED_SECONDS)

    def _settle(self, turn: TurnResult, finishes: list[Finish], asked: int) -> None:
        """Take in what a turn brought."""
        ran_alone = self._hand.runs_alone
        asked_to_stop = [job for job_id, _ in turn.canceled if (job := self._hand.get(job_id)) is not None]
        for job_id, attempt in turn.lost:
            log.warning("a finish was refused: recorded before, or lease lost", job_id=str(job_id), attempt_no=attempt)
        refused = {job_id for job_id, _ in (*turn.lost, *turn.canceled)}
        for one in finishes:
            # A requeued job may be in hand again by the other pipeline, whose answer came first.
            held_now = self._hand.get(one.job_id)
            if held_now is not None and held_now.attempt == one.attempt:
                self._hand.drop(one.job_id)
            if not refused or one.job_id not in refused:
                self.outcomes[one.status] = self.outcomes.get(one.status, 0) + 1
        if asked_to_stop:
            self._hand.hold(asked_to_stop)
            stopped = JobCanceled("Canceled before its retry.")
            self._outbox += [decide(job, self.claimant.id, stopped, ATLAS) for job in asked_to_stop]
        self._appetite.started += len(turn.claimed)
        if asked:
            self._hand.tell_of_solo(waits=turn.solo_waits)
        self._hand.hold(turn.claimed)
        if self._appetite.stopped:
            # Asked for before the stop, and not begun: it goes back untouched.
            self._outbox += [release(job) for job in turn.claimed]
        else:
            self._feed(turn.claimed)
        if asked and (turn.again or len(turn.claimed) >= asked):
            self.be_hungry()
        if len(self._hand) == 0 and (self._hand.solo_waits or ran_alone):
            # What must run alone can be asked for now; beside what ran alone, nothing was asked for.
            self.be_hungry()
        if self._appetite.drain:
            if finishes and not asked:
                # What ended may have woken a run: an answer to a question from before this is too old to leave by.
                self._appetite.hints += 1
            self._look_whether_drained(turn, asked)
        if self._outbox:
            self._wake_all()

    def _look_whether_drained(self, turn: TurnResult, asked: int) -> None:
        appetite = self._appetite
        if len(self._hand) or self._outbox or self._in_turn or appetite.stopped:
            return
        # Hungry still: someone told of a job after this turn had asked.
        found_nothing = asked > 0 and turn.is_empty and not appetite.hungry
        if turn.closed or appetite.has_had_enough or found_nothing:
            appetite.found_closed = turn.closed
            appetite.drained.set()
        else:
            # A retry without delay may be ready by now: look once more before leaving.
            self.be_hungry()

    async def _reconcile(self, conn: Connection) -> None:
        """Agree with the database on what runs under our name. Nothing is asked for meanwhile."""
        self._reconciling = True
        try:
            claimant = self.claimant
            heard_all = self._in_turn == 0
            # What breaks from here on is a new doubt.
            self._uncertain = not heard_all
            in_hand = self._hand.jobs
            mine = await held(conn, claimant.id)
            known = set(mine)
            missing = [job for job in in_hand if (job.id, job.attempt) not in known]
            if missing:
                self._lose_undone(
                    missing, await record_undone(conn, claimant.id, [(one.id, one.attempt) for one in missing])
                )
            if heard_all and claimant is self.claimant:
                # By attempt: what one turn requeued and claimed again is in hand as the attempt before.
                in_hand_now = {(job.id, job.attempt) for job in self._hand.jobs}
                await self._give_back(conn, [one for one in mine if one not in in_hand_now])
        finally:
            self._reconciling = False

    def _lose_undone(self, missing: list[ClaimedJob], undone: set[UUID]) -> None:
        """Stop what the database gave us and forgot in a crash: it is due again, as if nobody had begun it."""
        lost = [job for job in missing if job.id in undone and self._hand.get(job.id) is job]
        if lost:
            log.error("the database forgot claims; their handlers stop", worker_id=self.claimant.id, jobs=len(lost))
            for job in lost:
                self._hand.drop(job.id)
            self._lose(lost)
            self.be_hungry()

    async def _give_back(self, conn: Connection, unknown: list[tuple[UUID, int]]) -> None:
        """Release the jobs whose claim never reached us."""
        if unknown:
            log.warning("claims whose answer was lost go back", worker_id=self.claimant.id, jobs=len(unknown))
            turn = await take_turn(conn, self.claimant, [release_attempt(*one) for one in unknown])
            if turn.canceled:
                # What was asked to stop does not go back.
                await take_turn(conn, self.claimant, [cancel_attempt(*one) for one in turn.canceled])

    def _wake_one(self) -> None:
        for wake in self._wakes:
            if not wake.is_set():
                wake.set()
                return

    def _wake_all(self) -> None:
        for wake in self._wakes:
            wake.set()
