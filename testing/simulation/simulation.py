"""One schedule of a simulation: workers, people and time take turns, and the schedule chooses whose it is.

A worker stops at each commit and at each call of a model. There it goes on, or it is killed before or after, or frozen
until its lease is over; a call may also fail, with or without its effect. What is killed is never resumed: no `finally`
of it runs, as after `kill -9`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast
from uuid import UUID

import orjson

from atlas.engine.jobs.handlers.types import registered
from atlas.engine.workflows.registry import registered_workflows
from atlas.errors import NotFound
from atlas.testing.simulation.effects import SimulatedEffects
from atlas.testing.simulation.memory import LEASE_SECONDS, NEVER, Memory, SimulatedApproval, SimulatedJob
from atlas.testing.simulation.models import ModelCalls
from atlas.testing.simulation.people import People
from atlas.testing.simulation.points import (
    CALL_FAULTS,
    COMMIT_FAULTS,
    HANDLER_COMMIT_FAULTS,
    KILLED_AFTER,
    KILLED_BEFORE,
    LOST_COMMIT,
    NO_ANSWER,
    NO_CALL,
    Invariant,
    Killed,
    LostAnswer,
    OutsideAction,
    SimulatedWorker,
    Turn,
    current_worker,
)
from atlas.testing.simulation.schedule import Schedule
from atlas.testing.simulation.tables import SimulatedTables
from atlas.testing.simulation.virtual_loop import VirtualLoop

R = TypeVar("R")
M = TypeVar("M")

# A job whose workers are lost three times is quarantined, which is not what a simulation looks for.
MAX_LOSSES = 2
MAX_FAULTS = 3
# The jobs that an idle worker may claim next.
MAX_CLAIMS = 2
MAX_TURNS = 20_000
TESTER = "tester"


class InvariantBroken(AssertionError):
    """Something that must always hold did not."""


@dataclass(slots=True)
class Simulation(People):
    """What a test says and asks. Nothing runs before `await sim.run()`."""

    schedule: Schedule
    loop: VirtualLoop
    start: datetime
    run_attempt: "Callable[[Simulation, SimulatedWorker, SimulatedJob], Coroutine[Any, Any, None]]"
    workers: int = 2
    trace: list[str] = field(default_factory=list)
    is_traced: bool = False
    memory: Memory = field(init=False)
    effects: SimulatedEffects = field(init=False)
    transacted: SimulatedTables = field(default_factory=SimulatedTables)
    provided: dict[Any, Any] = field(default_factory=dict)
    _turns: list[Turn] = field(default_factory=list)
    _frozen: list[tuple[float, Turn]] = field(default_factory=list)
    _processes: list[SimulatedWorker] = field(default_factory=list)
    # Kept until the end: a task that is collected is closed, and runs its `finally` blocks.
    _dead: list[asyncio.Task[None]] = field(default_factory=list)
    _outside: list[OutsideAction] = field(default_factory=list)
    _invariants: list[Invariant] = field(default_factory=list)
    _done: asyncio.Future[None] | None = None
    _until: float = NEVER
    _count: int = 0
    _faults: int = 0
    _last: SimulatedWorker | None = None
    on_time: Callable[[datetime], None] | None = None
    # Set at the end: what is left of killed workers does nothing any more.
    is_over: bool = False

    def __post_init__(self) -> None:
        self.memory = Memory(self.loop.time, self.start)
        self.effects = SimulatedEffects(self.memory)

    # What a test says.

    def enqueue(
        self, job_type: str, input: Mapping[str, Any] | None = None, *, delay: float = 0.0, **options: Any
    ) -> UUID:
        """Enqueue a job; `priority` and `max_retries` as those of `NewJob`. Returns its id."""
        if job_type not in registered():
            raise NotFound("handler", job_type, remedy="Import the module that registers it with @job.")
        text = orjson.dumps(dict(input or {})).decode()
        registered()[job_type].check(text)
        return self.memory.add_job(job_type, text, delay=delay, **options).id

    def start_workflow(self, workflow: str, input: Mapping[str, Any] | None = None) -> UUID:
        """Start a run, as the user `tester`. Returns its id."""
        if workflow not in registered_workflows():
            raise NotFound("workflow", workflow, remedy="Import the module that registers it with @workflow.")
        return self.memory.add_run(workflow, input or {}, TESTER).id

    def publish_event(self, name: str, context: Mapping[str, Any] | None = None, *, run_id: UUID | None = None) -> int:
        """Publish an event now, or signal one run. Returns how many runs it woke."""
        self._say(f"event {name!r} is published")
        return self.memory.publish(name, dict(context or {}), run_id)

    def at_any_time(
        self, name: str, act: Callable[[], Any], *, can: Callable[[], bool] = lambda: True, repeats: int = 0
    ) -> None:
        """Let something happen once, at any time from when it can, and up to `repeats` times more.

        What is delivered at least once, such as a webhook, may come twice: `repeats=1`.
        """
        self._outside.append(OutsideAction(name, act, can, repeats))

    def cancel(self, job_id: UUID) -> bool:
        """Cancel a job or a run. False: it has ended."""
        self._say(f"{self._named(job_id)} is canceled")
        return self.memory.cancel(job_id)

    def model(self, model: M) -> M:
        """The model of another system. A call of its methods may fail, lose its answer, or be the last of a worker."""
        return cast(M, ModelCalls(self, model))

    def tables(self, model: M) -> M:
        """The model of the application's tables: handlers and steps get a copy as the connection of a transaction."""
        self.transacted.model = model
        return model

    def provide(self, value: Any, *, as_type: Any = None) -> None:
        """Give handlers this value for parameters of its type, or of `as_type`, in place of what a lifespan yields."""
        self.provided[type(value) if as_type is None else as_type] = value

    def always(self, name: str, check: Callable[[], Any]) -> None:
        """State what must hold at every instant: `check` returns something true, or raises nothing and returns None."""
        self._invariants.append(Invariant(name, check))

    async def run(self, within: timedelta = timedelta(days=365)) -> None:
        """Let everything happen until nothing more does, or until so much time has passed."""
        self._done = self.loop.create_future()
        self._until = self.loop.time() + within.total_seconds()
        await self._done

    # What a test asks.

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return self.start + timedelta(seconds=self.loop.time())

    def job(self, job_id: UUID) -> SimulatedJob:
        """A job, or the job of a run, as it is now: `status`, `attempts`, `error`."""
        return self.memory.jobs[job_id]

    def status(self, job_id: UUID) -> str:
        """The status of a job or a run."""
        return self.memory.jobs[job_id].status

    def output(self, job_id: UUID) -> Any:
        """What a job or a run returned."""
        return orjson.loads(self.memory.jobs[job_id].output or "{}")

    def approvals(self, run_id: UUID) -> list[SimulatedApproval]:
        """The questions of a run."""
        return [approval for approval in self.memory.approvals if approval.run_id == run_id]

    # The loop asks what happens next.

    def idle(self, seconds: float | None) -> None:
        """Nothing is ready: let the next thing happen."""
        if self._done is None or self._done.done():
            if seconds is None:
                raise RuntimeError("The test waits for something that never comes. Await `sim.run()` first.")
            self._pass_time(self.loop.time() + seconds)
            return
        try:
            self._check_invariants()
            self._count += 1
            if self._count > MAX_TURNS:
                raise InvariantBroken(f"The simulation did not end within {MAX_TURNS:,} turns.")
            self._take_turn(seconds)
        except Exception as error:
            self._done.set_exception(error)

    def _check_invariants(self) -> None:
        for invariant in self._invariants:
            try:
                holds = invariant.check()
            except AssertionError as error:
                raise InvariantBroken(f"{invariant.name}: {error}") from error
            if holds is not None and not holds:
                raise InvariantBroken(invariant.name)

    def _take_turn(self, seconds: float | None) -> None:
        turns = self._usual_first()
        due = self.memory.due_jobs()[:MAX_CLAIMS]
        idle = self._idle_worker() if due else None
        claims = [] if idle is None else due
        outside = [action for action in self._outside if action.can()]
        next_time = self._next_time(seconds)
        options = len(turns) + len(claims) + len(outside) + (next_time <= self._until)
        if not options:
            assert self._done is not None
            self._done.set_result(None)
            return
        choice = self.schedule.choose(options)
        if choice < len(turns):
            self._resume(turns[choice])
            return
        choice -= len(turns)
        if idle is not None and choice < len(claims):
            self._claim(idle, claims[choice])
            return
        choice -= len(claims)
        if choice < len(outside):
            self._act(outside[choice])
        else:
            self._pass_time(next_time)

    def _usual_first(self) -> list[Turn]:
        if len(self._turns) < 2:
            return self._turns
        return sorted(self._turns, key=lambda turn: turn.worker is not self._last)

    def _idle_worker(self) -> SimulatedWorker | None:
        for worker in self._processes:
            if not worker.is_dead and worker.job is None:
                return worker
        if sum(not worker.is_dead for worker in self._processes) >= self.workers:
            return None
        worker = SimulatedWorker(f"worker-{len(self._processes) + 1}")
        self._processes.append(worker)
        return worker

    def _next_time(self, seconds: float | None) -> float:
        times = [self.memory.next_time(), *(until for until, _ in self._frozen)]
        if seconds is not None:
            times.append(self.loop.time() + seconds)
        return min(times)

    def _pass_time(self, until: float) -> None:
        self.loop.time_passes(until)
        if self.on_time is not None:
            self.on_time(self.now)
        self.memory.reap()
        for frozen in [freeze for freeze in self._frozen if freeze[0] <= self.loop.time()]:
            self._frozen.remove(frozen)
            self._say(f"{frozen[1].worker.name} thaws: its lease is over")
            self._turns.append(frozen[1])

    def _act(self, action: OutsideAction) -> None:
        action.repeats -= 1
        if action.repeats < 0:
            self._outside.remove(action)
        self._say(action.name)
        action.act()

    def _resume(self, turn: Turn) -> None:
        self._turns.remove(turn)
        self._last = turn.worker
        fault = self.schedule.choose_fault(len(turn.faults)) if self._may_fail(turn) else 0
        self._faults += fault > 0
        name = turn.faults[fault] if fault else ""
        self._say(f"{turn.worker.name} {turn.what}" + (f": {name}" if name else ""))
        if name.startswith("freezes"):
            until = self.loop.time() + LEASE_SECONDS
            self.memory.leases[turn.worker.name] = until
            # It goes on once, as one that has lost its lease and does not know it.
            self._frozen.append((until + LEASE_SECONDS, Turn(turn.worker, turn.what, (), turn.future)))
        else:
            turn.future.set_result(fault)

    def _may_fail(self, turn: Turn) -> bool:
        if not turn.faults or self._faults >= MAX_FAULTS:
            return False
        return turn.worker.job is not None and turn.worker.job.losses < MAX_LOSSES

    def _claim(self, worker: SimulatedWorker, job: SimulatedJob) -> None:
        self.memory.claim(worker.name, job)
        worker.job = job
        self._last = worker
        self._say(f"{worker.name} claims {self._named(job.id)}, attempt {job.attempts}")
        worker.task = self.loop.create_task(self.run_attempt(self, worker, job))

    # The points at which a worker stops.

    async def commit(self, what: str, work: Callable[[], R], *, may_lose_answer: bool = False) -> R:
        """Do something that commits, in its turn."""
        worker = self._own_worker()
        fault = await self._turn(worker, what, HANDLER_COMMIT_FAULTS if may_lose_answer else COMMIT_FAULTS)
        if fault == KILLED_BEFORE:
            await self._kill(worker)
        result = work()
        if fault == KILLED_AFTER:
            await self._kill(worker)
        if fault == LOST_COMMIT:
            raise LostAnswer("the commit was made, and its answer is lost")
        return result

    async def call(self, what: str, call: Callable[[], Awaitable[R]]) -> R:
        """Call a model, in its turn."""
        worker = current_worker.get()
        if worker is None:
            return await call()
        fault = await self._turn(worker, what, CALL_FAULTS)
        if fault == KILLED_BEFORE:
            await self._kill(worker)
        if fault == NO_CALL:
            raise LostAnswer("the call was not made")
        result = await call()
        if fault == KILLED_AFTER:
            await self._kill(worker)
        if fault == NO_ANSWER:
            raise LostAnswer("the call was made, and its answer is lost")
        return result

    def call_plain(self, what: str, call: Callable[[], R]) -> R:
        """Call a plain method of a model: immediately, for a plain function cannot wait for its turn."""
        worker = current_worker.get()
        if worker is None:
            return call()
        if worker.is_dead:
            raise Killed
        turn = Turn(worker, what, CALL_FAULTS[:5], self.loop.create_future())
        fault = self.schedule.choose_fault(len(turn.faults)) if self._may_fail(turn) else 0
        self._faults += fault > 0
        self._say(f"{worker.name} {what}" + (f": {turn.faults[fault]}" if fault else ""))
        if fault == KILLED_BEFORE:
            self._die(worker)
            raise Killed
        if fault == NO_CALL:
            raise LostAnswer("the call was not made")
        result = call()
        if fault == KILLED_AFTER:
            self._die(worker)
            raise Killed
        if fault == NO_ANSWER:
            raise LostAnswer("the call was made, and its answer is lost")
        return result

    def _own_worker(self) -> SimulatedWorker:
        """The worker whose attempt asks."""
        worker = current_worker.get()
        assert worker is not None
        return worker

    def ended(self, worker: SimulatedWorker) -> None:
        """The attempt of a worker is over. One that lost its lease goes on under another name."""
        worker.job = worker.task = None
        if self.memory.leases[worker.name] != NEVER:
            worker.is_dead = True

    async def _turn(self, worker: SimulatedWorker, what: str, faults: tuple[str, ...]) -> int:
        if worker.is_dead:
            await self.loop.create_future()
        turn = Turn(worker, what, faults, self.loop.create_future())
        self._turns.append(turn)
        return await turn.future

    async def _kill(self, worker: SimulatedWorker) -> None:
        self._die(worker)
        await self.loop.create_future()

    def _die(self, worker: SimulatedWorker) -> None:
        worker.is_dead = True
        if worker.task is not None:
            self._dead.append(worker.task)
        self._turns = [turn for turn in self._turns if turn.worker is not worker]
        self.transacted.free(worker)
        self.memory.leases[worker.name] = self.loop.time() + LEASE_SECONDS

    def _named(self, job_id: UUID) -> str:
        job = self.memory.jobs[job_id]
        if job_id not in self.memory.steps:
            return f"job {job.job_type}"
        return f"run {orjson.loads(job.input)['workflow']}"

    def _say(self, what: str) -> None:
        if self.is_traced:
            self.trace.append(f"{self.now:%H:%M:%S} {what}")
