"""The claimed jobs of one worker that have no recorded outcome yet, and the outcomes that wait to be recorded."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from uuid import UUID

from atlas.engine.jobs.claim import ClaimedJob, TurnResult
from atlas.engine.jobs.finish import Finish
from atlas.logs import get_logger
from atlas.waiting import wait_for

CONNECTIONS = 2
# Characters of the outputs that are recorded together. More would take longer than a lease on a slow connection, and
# Postgres takes no statement of a gigabyte.
MAX_CALL_CHARACTERS = 16 * 2**20

_output = attrgetter("output")

log = get_logger("worker")


class FinishOutbox:
    """Outcomes in the order of their calls. `wakes` has an event for each connection."""

    def __init__(self) -> None:
        self._finishes: list[Finish] = []
        self.wakes = [asyncio.Event() for _ in range(CONNECTIONS)]

    def __len__(self) -> int:
        return len(self._finishes)

    def add(self, finish: Finish) -> None:
        """Record this one with the next call."""
        self._finishes.append(finish)

    def extend(self, finishes: Iterable[Finish]) -> None:
        """Record these with the next call."""
        self._finishes.extend(finishes)

    def put_back(self, finishes: list[Finish]) -> None:
        """Record these before all others: their call failed."""
        self._finishes[:0] = finishes

    def take(self) -> list[Finish]:
        """The outcomes to record next: all, unless their outputs are too large for one statement."""
        taken, self._finishes = self._finishes, []
        size = 0
        for count, output in enumerate(map(_output, taken)):
            if output is not None:
                size += len(output)
                if size > MAX_CALL_CHARACTERS and count:
                    self._finishes = taken[count:]
                    return taken[:count]
        return taken

    def clear(self) -> None:
        """Record nothing of this."""
        self._finishes.clear()

    def wake_one(self) -> None:
        """Let a connection that waits make a call."""
        for wake in self.wakes:
            if not wake.is_set():
                wake.set()
                return

    def wake_all(self) -> None:
        """Let every connection make a call."""
        for wake in self.wakes:
            wake.set()


class HeldJobs:
    """What a worker holds, by job id. `outbox` has the outcomes of those that ended and are not recorded yet."""

    def __init__(self) -> None:
        self.outbox = FinishOutbox()
        self._jobs: dict[UUID, ClaimedJob] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        # Set at every job that is dropped, while someone waits for that.
        self._dropped: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def jobs(self) -> list[ClaimedJob]:
        return list(self._jobs.values())

    @property
    def has_solo_job(self) -> bool:
        """True while a job that must run alone is held. It is then the only one."""
        return len(self._jobs) == 1 and next(iter(self._jobs.values())).must_run_alone

    def get(self, job_id: UUID) -> ClaimedJob | None:
        return self._jobs.get(job_id)

    def split_newcomers(self, jobs: Sequence[ClaimedJob]) -> tuple[list[ClaimedJob], list[ClaimedJob]]:
        """The first of these jobs of each tenant of which none is held, and the rest."""
        tenants = {job.tenant_id for job in self._jobs.values()}
        first, rest = list[ClaimedJob](), list[ClaimedJob]()
        for job in jobs:
            (rest if job.tenant_id in tenants else first).append(job)
            tenants.add(job.tenant_id)
        return first, rest

    def add(self, jobs: Sequence[ClaimedJob]) -> None:
        """Hold these jobs, too."""
        for job in jobs:
            self._jobs[job.id] = job
        if jobs:
            self._empty.clear()

    def drop(self, job_id: UUID) -> None:
        """Hold this job no longer: its outcome is recorded, or it belongs to another worker."""
        self._jobs.pop(job_id, None)
        self._were_dropped()

    def drop_finished(self, turn: TurnResult, worker: str, finishes: Sequence[Finish]) -> Sequence[Finish]:
        """Drop the jobs whose outcome was recorded or refused by this call, and return what was recorded."""
        recorded = finishes
        if turn.canceled or turn.lost:
            for job_id, attempt in turn.lost:
                job = self._jobs.get(job_id)
                log_facts = {} if job is None else job.log_facts(worker)
                facts = {**log_facts, "job_id": str(job_id), "attempt_no": attempt, "worker_id": worker}
                log.warning("outcome refused: already recorded, or lease lost", **facts)
            lost = {job_id for job_id, _ in turn.lost}
            self._drop_attempts(finish for finish in finishes if finish.job_id in lost)
            kept = lost | {job_id for job_id, _ in turn.canceled}
            recorded = [finish for finish in finishes if finish.job_id not in kept]
        self._drop_attempts(recorded)
        self._were_dropped()
        return recorded

    def _drop_attempts(self, finishes: Iterable[Finish]) -> None:
        """Drop these, unless they are held as a later attempt: the worker's other connection may have claimed it."""
        jobs = self._jobs
        for finish in finishes:
            job = jobs.get(finish.job_id)
            if job is not None and job.attempt == finish.attempt:
                del jobs[finish.job_id]

    def clear(self) -> None:
        """Hold nothing any more, and record nothing of what was held."""
        self.outbox.clear()
        self._jobs.clear()
        self._were_dropped()

    async def wait_until_dropped(self, jobs: Sequence[ClaimedJob], seconds: float) -> None:
        """Wait until none of these jobs is held, at most this long."""
        self._dropped = dropped = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for job in jobs:
                    while self._jobs.get(job.id) is job:
                        await dropped.wait()
                        dropped.clear()
        self._dropped = None

    async def wait_until_empty(self, seconds: float) -> None:
        """Wait until nothing is held, at most this long."""
        await wait_for(self._empty, within=seconds)

    def _were_dropped(self) -> None:
        if not self._jobs:
            self._empty.set()
        if self._dropped is not None:
            self._dropped.set()
