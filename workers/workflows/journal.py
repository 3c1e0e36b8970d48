"""The journal of the runs that one worker drives: their checkpoints, histories and suspensions, grouped."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from atlas.db.pool import Connection, Pool
from atlas.db.retried_commit import DatabaseBusy, RetriedCommit
from atlas.engine.admission import Admission, admitted, load_admission
from atlas.engine.jobs.cancel import cancel_many
from atlas.engine.jobs.new_job import NewJob
from atlas.engine.workflows.declared.document import Document
from atlas.engine.workflows.declared.store import load_document
from atlas.engine.workflows.history import History, StepCheckpoint, Suspension, Wait
from atlas.engine.workflows.policy import load_disabled
from atlas.engine.workflows.start_runs import ENGINE
from atlas.engine.workflows.step_store import load_histories, write_checkpoints
from atlas.engine.workflows.suspend import suspend_runs
from atlas.engine.workflows.workflow_catalog import database_now

# Two statements in flight: while Postgres works on one half of the runs, Python works on the other.
CHECKPOINT_LANES = 2
MOST_CHECKPOINTS = 500
MOST_RUNS = 200
# A history has up to 64 MiB; 200 of ten steps are read in the same time by 16 as all at once.
MOST_HISTORIES = 16
# How long what is published about a job type is remembered.
TERMS_SECONDS = 1.0
MOST_TERMS = 1000


class RunLost(BaseException):
    """The run belongs to another worker now. Not an Exception: no workflow may catch it and go on."""


class WorkerJournal:
    """What one worker writes, under the id by which it holds its runs."""

    def __init__(self, pool: Pool, worker_id: str) -> None:
        self.pool = pool
        self._worker_id = worker_id
        self._known_terms: dict[tuple[str, UUID], tuple[float, Admission]] = {}
        self.checkpoints = RetriedCommit(pool, self._checkpoint, largest=MOST_CHECKPOINTS, lanes=CHECKPOINT_LANES)
        self.histories = RetriedCommit(pool, self._load, largest=MOST_HISTORIES)
        self.suspensions = RetriedCommit(pool, self._suspend, largest=MOST_RUNS)
        # Asked for rarely; grouped all the same, because what is grouped outlives a database that goes away.
        self.documents = RetriedCommit(pool, self._document, largest=1)
        self.clock = RetriedCommit(pool, self._now, largest=MOST_RUNS)
        self.cancels = RetriedCommit(pool, self._cancel, largest=MOST_RUNS)
        self._terms = RetriedCommit(pool, self._load_terms, largest=1)
        self.starts = RetriedCommit(pool, self._may_start, largest=MOST_RUNS)

    async def terms(self, job_type: str, tenant_id: UUID) -> Admission:
        """What decides about jobs of this type, as it was published a moment ago."""
        known = self._known_terms.get((job_type, tenant_id))
        if known is not None and known[0] > time.monotonic():
            return known[1]
        if len(self._known_terms) >= MOST_TERMS:
            self._known_terms.clear()
        admission = await self._terms.submit((job_type, tenant_id))
        self._known_terms[job_type, tenant_id] = (time.monotonic() + TERMS_SECONDS, admission)
        return admission

    async def _checkpoint(self, conn: Connection, marks: Sequence[StepCheckpoint], again: bool) -> list[bool | None]:
        """For each mark whether Atlas is online, or None where the run is lost."""
        written = await write_checkpoints(conn, self._worker_id, marks, again=again)
        if written.busy:
            raise DatabaseBusy
        if not written.lost:
            return [written.is_open] * len(marks)
        return [None if number in written.lost else written.is_open for number in range(len(marks))]

    async def _load(self, conn: Connection, run_ids: Sequence[UUID], _again: bool) -> list[History]:
        histories = await load_histories(conn, run_ids)
        return [histories[run_id] for run_id in run_ids]

    async def _suspend(self, conn: Connection, suspensions: Sequence[Suspension], again: bool) -> list[str]:
        verdicts = await suspend_runs(conn, self._worker_id, suspensions, again=again)
        if "busy" in verdicts:
            raise DatabaseBusy
        return verdicts

    async def _document(self, conn: Connection, wanted: Sequence[tuple[UUID, UUID]], _again: bool) -> list[Document]:
        return [await load_document(conn, document_id, tenant_id) for document_id, tenant_id in wanted]

    async def _now(self, conn: Connection, asked: Sequence[None], _again: bool) -> list[datetime]:
        return [await database_now(conn)] * len(asked)

    async def _cancel(self, conn: Connection, job_ids: Sequence[UUID], _again: bool) -> list[bool]:
        """For each job whether it was stopped; False: it had ended."""
        verdicts = await cancel_many(conn, job_ids, actor=ENGINE)
        return [verdicts.get(job_id) in ("canceled", "requested") for job_id in job_ids]

    async def _load_terms(self, conn: Connection, wanted: Sequence[tuple[str, UUID]], _again: bool) -> list[Admission]:
        return [await load_admission(conn, job_type, tenant_id) for job_type, tenant_id in wanted]

    async def _may_start(self, conn: Connection, wanted: Sequence[tuple[UUID, str]], _again: bool) -> list[bool]:
        disabled = await load_disabled(conn, wanted)
        return [one not in disabled for one in wanted]


class RunJournal:
    """The journal of one run."""

    __slots__ = ("_suspension", "_worker")

    def __init__(self, worker: WorkerJournal, suspension: Suspension) -> None:
        self._worker = worker
        self._suspension = suspension

    async def checkpoint(self, mark: StepCheckpoint) -> bool:
        """Write a step's outcome. Answers whether Atlas is online."""
        is_open = await self._worker.checkpoints.submit(mark)
        if is_open is None:
            raise RunLost
        return is_open

    async def begin(self, wait: Wait) -> None:
        """Store a wait while the run goes on in other branches."""
        run = self._suspension
        begun = Suspension(run.run_id, run.attempt, run.tenant_id, run.requested_by, run.correlation_id, [wait])
        begun.stays, begun.depth = True, run.depth
        if await self._worker.suspensions.submit(begun) == "lost":
            raise RunLost

    async def admit(self, job: NewJob) -> NewJob:
        """A job as it may be enqueued; raises the reason why it may not be."""
        return admitted(job, await self._worker.terms(job.job_type, job.tenant_id))

    async def may_start(self, workflow: str) -> bool:
        """Whether a child of this workflow may be started: False where it is disabled."""
        return await self._worker.starts.submit((self._suspension.tenant_id, workflow))

    async def now(self) -> datetime:
        """The database's clock."""
        return await self._worker.clock.submit(None)

    async def abandon(self, child_id: UUID) -> bool:
        """Cancel a child. False: it has ended already."""
        return await self._worker.cancels.submit(child_id)


# A worker that lost its lease goes on under a new id, with a new journal; the old one is dropped.
_journals: OrderedDict[str, WorkerJournal] = OrderedDict()
_MOST_JOURNALS = 16


def journal_of(pool: Pool, worker_id: str) -> WorkerJournal:
    """The journal of a worker of this process."""
    journal = _journals.get(worker_id)
    if journal is None:
        journal = _journals[worker_id] = WorkerJournal(pool, worker_id)
        while len(_journals) > _MOST_JOURNALS:
            _journals.popitem(last=False)
    return journal
