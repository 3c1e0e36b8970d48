"""The store of what runs record: every recorder of a worker writes here, and what comes together is written together.

A call takes one of two lanes. *Grouped*: steps, suspensions and histories of many runs that are due at the same time
go to the database in one statement. *At once*: what is needed rarely has a statement of its own. A call returns when
what it wrote is durable. While the database is away it waits, and its run fails by nothing but its own values.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from atlas.db.pool import Connection, Pool
from atlas.db.retried_commit import DatabaseBusy, RetriedCommit
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.admission import Admission, admitted, load_admission
from atlas.engine.effects.ledger import EffectLedger, Ledger
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.start_right import StartRight, boot_seconds
from atlas.engine.workflows.approvals import expire_approvals
from atlas.engine.workflows.errors import RunLost
from atlas.engine.workflows.review import ChildVerdict, judge_children
from atlas.engine.workflows.start_runs import ENGINE
from atlas.engine.workflows.steps.history import History, RecordedStep, StepCheckpoint, Suspension
from atlas.engine.workflows.suspend import suspend_runs
from atlas.engine.workflows.workflow_catalog import database_now

RECORD = statement("engine/workflows/sql/record_steps.sql")
LOAD = statement("engine/workflows/sql/load_steps.sql")

# Two statements in flight: while Postgres works on one half of the runs, Python works on the other.
STEP_LANES = 2
MAX_STEPS = 500
MAX_RUNS = 200
# A history has up to 64 MiB; 200 of ten steps are read in the same time by 16 as all at once.
MAX_HISTORIES = 16
# How long what is published about a job type is cached, and for how many types.
ADMISSION_SECONDS = 1.0
MAX_ADMISSIONS = 1000

# The columns of a checkpoint, but for its last: resets have a list of their own.
_COLUMNS = (
    *("runs", "attempts", "branches", "positions", "names", "kinds", "statuses", "tries", "seconds"),
    *("inputs", "outputs", "errors", "known"),
)
# A column that holds nothing but its default is not sent.
_DEFAULTS = {
    "attempts": 1,
    "branches": "",
    "kinds": "step",
    "statuses": "succeeded",
    "tries": 1,
    "inputs": None,
    "outputs": None,
    "errors": None,
    "known": None,
}

R = TypeVar("R")


class StepStore:
    """The store of the runs that one worker drives, under the id by which it holds them."""

    def __init__(self, pool: Pool, worker_id: str, start_right: StartRight | None = None) -> None:
        self.start_right = start_right
        self._worker_id = worker_id
        write = partial(record_steps, worker_id=worker_id, start_right=start_right)
        self._steps = RetriedCommit(pool, write, largest=MAX_STEPS, lanes=STEP_LANES)
        self._suspensions = RetriedCommit(pool, partial(suspend_runs, worker_id=worker_id), largest=MAX_RUNS)
        self._histories = RetriedCommit(pool, load_histories, largest=MAX_HISTORIES)
        self._cancels = RetriedCommit(pool, _cancel, largest=MAX_RUNS)
        self._starts = RetriedCommit(pool, judge_children, largest=MAX_RUNS)
        self._clock = RetriedCommit(pool, _read_clock, largest=MAX_RUNS)
        self._single: RetriedCommit[Callable[[Connection], Awaitable[Any]], Any]
        self._single = RetriedCommit(pool, _do_each, largest=1)
        self._admissions: dict[tuple[str, UUID], tuple[float, Admission]] = {}

    async def record(self, step: StepCheckpoint) -> bool:
        """Write a step's outcome. Returns whether Atlas is online."""
        is_online = await self._steps.submit(step)
        if is_online is None:
            raise RunLost
        return is_online

    async def suspend(self, suspension: Suspension) -> str:
        """Store the waits of a run and suspend it. Returns `held`, or `canceled` if it was asked to stop."""
        verdict = await self._suspensions.submit(suspension)
        if verdict == "lost":
            raise RunLost
        return verdict

    def ledger(self, run_id: UUID, attempt: int, step: str) -> Ledger:
        """Where the effect of a step is recorded."""
        return EffectLedger(self.at_once, self._worker_id, run_id, attempt, step=step)

    async def load(self, run_id: UUID) -> History:
        """What a run has recorded, read once, when it continues."""
        return await self._histories.submit(run_id)

    async def admit(self, job: NewJob) -> NewJob:
        """A job as it may be enqueued; raises the reason why it may not be."""
        key = (job.job_type, job.tenant_id)
        expires_at, admission = self._admissions.get(key, (0.0, None))
        if admission is None or expires_at <= time.monotonic():
            admission = await self.at_once(lambda conn: load_admission(conn, *key))
            if len(self._admissions) >= MAX_ADMISSIONS:
                self._admissions.clear()
            self._admissions[key] = (time.monotonic() + ADMISSION_SECONDS, admission)
        return admitted(job, admission)

    async def judge_child(self, tenant_id: UUID, workflow: str) -> ChildVerdict:
        """The verdict of policy on starting this workflow as a child."""
        return await self._starts.submit((tenant_id, workflow))

    async def cancel(self, child_id: UUID) -> bool:
        """Cancel a child. False: it has already ended."""
        return await self._cancels.submit(child_id)

    async def now(self) -> datetime:
        """The database's clock."""
        return await self._clock.submit(None)

    async def at_once(self, call: Callable[[Connection], Awaitable[R]]) -> R:
        """Do one thing on a connection of its own."""
        result: R = await self._single.submit(call)
        return result


async def record_steps(
    conn: Connection,
    steps: Sequence[StepCheckpoint],
    is_repeated: bool = False,
    *,
    worker_id: str,
    start_right: StartRight | None = None,
) -> list[bool | None]:
    """Make outcomes durable. For each whether Atlas is online, or None if another worker has the run.

    `is_repeated`: some of them may have been written before, by a call whose response was lost. Where Atlas is online
    and nothing is paused, `start_right` is prolonged.
    """
    *columns, resets = zip(*steps, strict=True)
    values: dict[str, Any] = dict(zip(_COLUMNS, columns, strict=True))
    for name, default in _DEFAULTS.items():
        if values[name].count(default) == len(steps):
            values[name] = None
    reset = [step.run_id for step in steps if step.reset] if any(resets) else None
    asked_at = boot_seconds()
    row = await fetch_row(conn, RECORD, worker=worker_id, again=is_repeated, reset=reset, **values)
    assert row is not None
    if row["busy"]:
        raise DatabaseBusy
    is_online = bool(row["is_open"])
    if is_online and start_right is not None and not row["some_are_paused"]:
        # A right is prolonged only by those who would hear of a new pause.
        start_right.grant(asked_at)
    if not row["lost"]:
        return [is_online] * len(steps)
    lost = frozenset(row["lost"])
    return [None if number in lost else is_online for number in range(1, len(steps) + 1)]


async def load_histories(conn: Connection, run_ids: Sequence[UUID], _is_repeated: bool = False) -> list[History]:
    """What each of these runs has recorded."""
    steps = await _load(conn, run_ids)
    late = [
        run_id
        for run_id, recorded in steps.items()
        if any(record.approval_status == "pending" and record.due for record in recorded)
    ]
    if late:
        # They can no longer be decided; recorded before the run acts on it.
        await expire_approvals(conn, run_ids=late)
        steps |= await _load(conn, late)
    return [History(steps.get(run_id, ())) for run_id in run_ids]


async def _load(conn: Connection, run_ids: Sequence[UUID]) -> dict[UUID, list[RecordedStep]]:
    histories: dict[UUID, list[RecordedStep]] = {}
    for run_id, *columns in await fetch(conn, LOAD, runs=list(run_ids)):
        histories.setdefault(run_id, []).append(RecordedStep(*columns))
    return histories


async def _cancel(conn: Connection, job_ids: Sequence[UUID], _is_repeated: bool) -> list[bool]:
    verdicts = await change_many(conn, "cancel", job_ids, actor=ENGINE, tenant_id=None)
    return [verdicts.get(job_id) in ("canceled", "requested") for job_id in job_ids]


async def _read_clock(conn: Connection, asked: Sequence[None], _is_repeated: bool) -> list[datetime]:
    return [await database_now(conn)] * len(asked)


async def _do_each(
    conn: Connection, calls: Sequence[Callable[[Connection], Awaitable[Any]]], _is_repeated: bool
) -> list[Any]:
    return [await call(conn) for call in calls]
