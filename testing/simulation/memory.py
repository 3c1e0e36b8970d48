"""Atlas in memory: jobs, runs, steps, events and approvals, and their transitions as the database makes them.

Times are seconds of a virtual clock. The SQL functions decide in an installation; tests compare both, operation by
operation.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from atlas.engine.jobs.finish import Finish
from atlas.engine.workflows.start_runs import ENGINE_RUN
from atlas.engine.workflows.steps.history import History, RecordedStep, StepCheckpoint, Suspension, Wait

NEVER = math.inf
LEASE_SECONDS = 60.0
# How long a job whose worker was lost waits for its next attempt.
LOST_SECONDS = 2.0
POISON_LOSSES = 3
POISON = '{"type": "Poison", "message": "Workers were lost while they ran this job; it is quarantined."}'
OPEN = ("queued", "running")


@dataclass(slots=True)
class SimulatedJob:
    """A row of jobs."""

    id: UUID
    number: int
    job_type: str
    input: str
    due: float
    priority: int = 0
    max_retries: int | None = None
    timeout: float | None = None
    parent: UUID | None = None
    status: str = "queued"
    attempts: int = 0
    retries: int = 0
    losses: int = 0
    claimed_by: str | None = None
    cancel_requested: bool = False
    output: str | None = None
    error: str | None = None
    # Of a run: who asked for it, and the events that it may not see.
    requested_by: str = ""
    events_from: int = 0

    @property
    def has_ended(self) -> bool:
        return self.status not in OPEN


@dataclass(slots=True)
class SimulatedStep:
    """A row of workflow_steps."""

    branch: str
    position: int
    name: str
    kind: str
    status: str
    number: int
    attempts: int = 1
    output: str | None = None
    error: str | None = None
    wake_at: float | None = None
    child: UUID | None = None
    event_name: str | None = None
    event_match: dict[str, Any] = field(default_factory=dict)
    event: int | None = None
    approval: "SimulatedApproval | None" = None


@dataclass(slots=True)
class SimulatedApproval:
    """A question to a person."""

    run_id: UUID
    step: str
    title: str
    detail: dict[str, Any]
    expires_at: float
    status: str = "pending"
    by: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class SimulatedEvent:
    """A row of events; its number is its place in the list."""

    name: str
    context: dict[str, Any]
    run_id: UUID | None


class Memory:
    """All of it, for one schedule."""

    def __init__(self, now: Callable[[], float], start: datetime) -> None:
        self.now = now
        self._start = start
        self._numbers = 0
        self.jobs: dict[UUID, SimulatedJob] = {}
        self.steps: dict[UUID, dict[tuple[str, int], SimulatedStep]] = {}
        self.events: list[SimulatedEvent] = []
        self.approvals: list[SimulatedApproval] = []
        # The end of each worker's lease: never, while it prolongs it.
        self.leases: dict[str, float] = {}

    # What people and programs do.

    def add_job(self, job_type: str, input: str, *, delay: float = 0.0, **facts: Any) -> SimulatedJob:
        """Enqueue a job."""
        number = self._next()
        job = SimulatedJob(UUID(int=number), number, job_type, input, self.now() + delay, **facts)
        self.jobs[job.id] = job
        return job

    def add_run(
        self, workflow: str, input: Mapping[str, Any], requested_by: str, *, parent: UUID | None = None, depth: int = 0
    ) -> SimulatedJob:
        """Start a run: the job that carries it."""
        carried = {"workflow": workflow, "input": dict(input), "requestedBy": requested_by, "depth": depth}
        job = self.add_job(ENGINE_RUN, orjson.dumps(carried).decode(), parent=parent, requested_by=requested_by)
        job.events_from = len(self.events)
        self.steps[job.id] = {}
        return job

    def publish(self, name: str, context: dict[str, Any], run_id: UUID | None = None) -> int:
        """Store an event and wake the runs that wait for it. Returns how many."""
        self.events.append(SimulatedEvent(name, context, run_id))
        number, woken = len(self.events), 0
        for job in self._runs():
            if job.status != "queued" or run_id not in (None, job.id):
                continue
            waits = [step for step in self._event_waits(job.id) if step.event_name == name]
            wait = next((step for step in waits if contains(context, step.event_match)), None)
            if wait is not None:
                wait.event = number
                self._wake(job.id)
                woken += 1
        return woken

    def decide(self, approval: SimulatedApproval, approve: bool, by: str, comment: str | None = None) -> bool:
        """Answer a question. False: it is decided already, or too late."""
        if approval.status != "pending" or approval.expires_at <= self.now():
            return False
        approval.status, approval.by, approval.comment = "approved" if approve else "rejected", by, comment
        self._wake(approval.run_id)
        return True

    def cancel(self, job_id: UUID) -> bool:
        """Cancel a job, or ask it to stop. False: it has ended."""
        job = self.jobs.get(job_id)
        if job is None or job.has_ended:
            return False
        job.cancel_requested = True
        if job.status == "queued":
            self._end(job, "canceled")
        return True

    # What workers do.

    def due_jobs(self) -> list[SimulatedJob]:
        """What can be claimed now, in the order in which it is."""
        now = self.now()
        ready = [job for job in self.jobs.values() if job.status == "queued" and job.due <= now]
        return sorted(ready, key=lambda job: (-job.priority, job.number))

    def claim(self, worker: str, job: SimulatedJob) -> None:
        """queued → running."""
        self.leases.setdefault(worker, NEVER)
        job.status, job.claimed_by, job.attempts = "running", worker, job.attempts + 1

    def holds(self, worker: str, job_id: UUID, attempt: int) -> bool:
        """The fence: the worker's lease holds, and this attempt of the job is its own."""
        job = self.jobs[job_id]
        is_its = job.status == "running" and job.claimed_by == worker and job.attempts == attempt
        return is_its and self.leases[worker] > self.now()

    def finish(self, worker: str, finish: Finish) -> str:
        """running → what the outcome says. Returns `done`, `lost`, or `canceled` where it was asked to stop."""
        job = self.jobs[finish.job_id]
        if not self.holds(worker, job.id, finish.attempt):
            return "lost"
        if finish.status == "queued" and job.cancel_requested:
            return "canceled"
        job.output = finish.output or job.output
        job.error = finish.error or job.error
        job.retries += finish.used or 0
        if finish.status == "queued":
            self._requeue(job, self.now() + (finish.delay or 0.0))
        else:
            self._end(job, finish.status)
        return "done"

    def record(self, worker: str, checkpoint: StepCheckpoint) -> bool:
        """Write the outcome of a step. False: another worker has the run."""
        if not self.holds(worker, checkpoint.run_id, checkpoint.attempt):
            return False
        steps = self.steps[checkpoint.run_id]
        spot = (checkpoint.branch, checkpoint.position)
        step = steps.get(spot)
        if step is None:
            step = steps[spot] = SimulatedStep(*spot, checkpoint.name, checkpoint.kind, "waiting", self._next())
        if step.status in ("waiting", "retrying"):
            step.status, step.output, step.error = checkpoint.status, checkpoint.output, checkpoint.error
            step.attempts, step.wake_at = checkpoint.attempts or max(step.attempts, 1), None
        if checkpoint.reset:
            job = self.jobs[checkpoint.run_id]
            job.retries = job.losses = 0
        return True

    def suspend(self, worker: str, suspension: Suspension) -> str:
        """Store the waits of a run and suspend it: `held`, `lost` or `canceled`."""
        job = self.jobs[suspension.run_id]
        if not self.holds(worker, job.id, suspension.attempt):
            return "lost"
        if job.cancel_requested:
            return "canceled"
        for wait in suspension.waits:
            self._begin_wait(job, suspension, wait)
        if not suspension.stays:
            self._settle(job, at_once=suspension.at_once)
        return "held"

    def load(self, run_id: UUID) -> History:
        """What a run has recorded, and what has come of what it waits for."""
        for approval in self.approvals:
            if approval.run_id == run_id and approval.status == "pending" and approval.expires_at <= self.now():
                approval.status, approval.by = "expired", "engine"
        return History(self._recorded(step) for step in self.steps[run_id].values())

    def reap(self) -> None:
        """running → queued for the jobs of workers whose lease is over; the third loss fails them."""
        now = self.now()
        for job in list(self.jobs.values()):
            if job.status != "running" or job.claimed_by is None or self.leases[job.claimed_by] > now:
                continue
            job.losses += 1
            if job.cancel_requested:
                self._end(job, "canceled")
            elif job.losses >= POISON_LOSSES:
                job.error = POISON
                self._end(job, "failed")
            else:
                self._requeue(job, now + LOST_SECONDS)

    def next_time(self) -> float:
        """When something becomes due by itself; never, where nothing does."""
        now = self.now()
        times = [job.due for job in self.jobs.values() if job.status == "queued" and job.due > now]
        times += [
            self.leases[job.claimed_by]
            for job in self.jobs.values()
            if job.status == "running" and job.claimed_by is not None
        ]
        return min(times, default=NEVER)

    # Within a transition.

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _runs(self) -> Iterator[SimulatedJob]:
        return (self.jobs[run_id] for run_id in self.steps)

    def _event_waits(self, run_id: UUID) -> list[SimulatedStep]:
        """The waits of a run for events that none has ended, the oldest first."""
        waits = [
            step
            for step in self.steps[run_id].values()
            if step.status == "waiting" and step.event_name is not None and step.event is None
        ]
        return sorted(waits, key=lambda step: (step.number, step.branch, step.position))

    def _wake(self, run_id: UUID) -> None:
        job = self.jobs[run_id]
        if job.status == "queued":
            job.due = min(job.due, self.now())

    def _requeue(self, job: SimulatedJob, due: float) -> None:
        job.status, job.claimed_by, job.due = "queued", None, due

    def _end(self, job: SimulatedJob, status: str) -> None:
        job.status = status
        if job.parent is not None:
            self._wake(job.parent)
        if job.id not in self.steps:
            return
        for approval in self.approvals:
            if approval.run_id == job.id and approval.status == "pending":
                approval.status = "canceled"
        if status == "canceled":
            for child in [child for child in self.jobs.values() if child.parent == job.id]:
                self.cancel(child.id)

    def _begin_wait(self, job: SimulatedJob, suspension: Suspension, wait: Wait) -> None:
        spot = (wait.branch, wait.position)
        steps = self.steps[job.id]
        step = steps.get(spot)
        if step is None:
            step = steps[spot] = SimulatedStep(*spot, wait.name, wait.kind, wait.status, self._next())
        step.status, step.attempts, step.error = wait.status, wait.attempts, wait.error
        step.wake_at = self._wake_time(wait)
        if wait.event_name is not None:
            step.event_name, step.event_match = wait.event_name, orjson.loads(wait.event_match or "{}")
        if wait.job is not None:
            seconds = wait.job.timeout_seconds
            child = self.add_job(
                wait.job.job_type,
                orjson.dumps(wait.job.input).decode(),
                priority=wait.job.priority or 0,
                max_retries=wait.job.max_retries,
                timeout=None if seconds is None else float(seconds),
                parent=job.id,
            )
            step.child = child.id
        if wait.child is not None:
            asked = wait.child
            run = self.add_run(
                asked.workflow, asked.input, suspension.requested_by, parent=job.id, depth=suspension.depth + 1
            )
            step.child = run.id
        if wait.approval is not None:
            question = wait.approval
            expires_at, detail = self.now() + question.expires, orjson.loads(question.detail)
            name = f"{wait.branch}{wait.name}"
            step.approval = SimulatedApproval(job.id, name, question.title, detail, expires_at)
            self.approvals.append(step.approval)

    def _wake_time(self, wait: Wait) -> float | None:
        if wait.wake_at is not None:
            return (wait.wake_at - self._start) / timedelta(seconds=1)
        return None if wait.wake_after is None else self.now() + wait.wake_after

    def _settle(self, job: SimulatedJob, *, at_once: bool) -> None:
        """Queue a run that suspends: for now if what it waits for has come, else for the first of its times."""
        taken = {step.event for step in self.steps[job.id].values()}
        for step in self._event_waits(job.id):
            step.event = next((n for n in self._matching(job, step) if n not in taken), None)
            taken.add(step.event)
        waits = [step for step in self.steps[job.id].values() if step.status in ("waiting", "retrying")]
        if at_once or any(self._has_come(step) for step in waits):
            due = self.now()
        else:
            due = min((step.wake_at for step in waits if step.wake_at is not None), default=NEVER)
        self._requeue(job, due)

    def _matching(self, job: SimulatedJob, step: SimulatedStep) -> Iterator[int]:
        for number, event in enumerate(self.events[job.events_from :], job.events_from + 1):
            is_for_it = event.name == step.event_name and event.run_id in (None, job.id)
            if is_for_it and contains(event.context, step.event_match):
                yield number

    def _has_come(self, step: SimulatedStep) -> bool:
        if step.event is not None or (step.child is not None and self.jobs[step.child].has_ended):
            return True
        return step.approval is not None and step.child is None and step.approval.status != "pending"

    def _recorded(self, step: SimulatedStep) -> RecordedStep:
        recorded = RecordedStep(
            step.branch, step.position, step.name, step.kind, step.status, step.attempts, step.output, step.error
        )
        recorded.due = step.wake_at is not None and step.wake_at <= self.now()
        recorded.child_id, recorded.event_name = step.child, step.event_name
        if step.status == "waiting":
            child = None if step.child is None else self.jobs[step.child]
            if child is not None:
                recorded.child_status, recorded.child_output = child.status, child.output or "{}"
                recorded.child_error = child.error
            if step.event is not None:
                recorded.event_context = orjson.dumps(self.events[step.event - 1].context).decode()
            if step.approval is not None:
                asked = step.approval
                recorded.approval_status, recorded.approval_by = asked.status, asked.by
                recorded.approval_comment = asked.comment
        return recorded


def contains(value: Any, part: Any) -> bool:
    """Whether JSON contains other JSON, as `@>` of Postgres means it."""
    if isinstance(part, dict):
        return isinstance(value, dict) and all(key in value and contains(value[key], part[key]) for key in part)
    if isinstance(part, list):
        return isinstance(value, list) and all(any(contains(item, other) for item in value) for other in part)
    if isinstance(part, bool) or isinstance(value, bool):
        return value is part
    return bool(value == part) and not isinstance(value, dict | list)
