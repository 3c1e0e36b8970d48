"""The store of a simulated worker: what a run writes goes to memory, and every write is a point where it may crash."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from atlas.db.pool import Connection
from atlas.engine.effects.ledger import Ledger
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.policy.judge import Verdict
from atlas.engine.workflows.errors import RunLost
from atlas.engine.workflows.review import ChildVerdict
from atlas.engine.workflows.steps.history import History, StepCheckpoint, Suspension
from atlas.engine.workflows.steps.step_store import StepStore
from atlas.errors import AtlasError
from atlas.testing.simulation.effects import SimulatedEffects, SimulatedLedger
from atlas.testing.simulation.memory import Memory
from atlas.testing.simulation.points import Commit

ALLOWED = ChildVerdict(Verdict("allow", "no rule applies in a simulation"), is_counted=False)


class SimulatedStore(StepStore):
    """What a recorder of the engine writes to."""

    def __init__(
        self, memory: Memory, effects: SimulatedEffects, worker: str, commit: Commit, now: Callable[[], datetime]
    ) -> None:
        self.start_right = None
        self._memory = memory
        self._effects = effects
        self._worker = worker
        self._commit = commit
        self._now = now

    async def record(self, step: StepCheckpoint) -> bool:
        written = await self._commit(
            f"records {step.kind} {step.branch}{step.name!r}", lambda: self._memory.record(self._worker, step)
        )
        if not written:
            raise RunLost
        return True

    async def suspend(self, suspension: Suspension) -> str:
        verdict = await self._commit("suspends the run", lambda: self._memory.suspend(self._worker, suspension))
        if verdict == "lost":
            raise RunLost
        return verdict

    def ledger(self, run_id: UUID, attempt: int, step: str) -> Ledger:
        return SimulatedLedger(self._effects, self._worker, self._commit, (run_id, attempt), step=step)

    async def load(self, run_id: UUID) -> History:
        return self._memory.load(run_id)

    async def admit(self, job: NewJob) -> NewJob:
        job_type = registered().get(job.job_type)
        if job_type is not None:
            job_type.check(orjson.dumps(job.input).decode())
        return job

    async def judge_child(self, tenant_id: UUID, workflow: str) -> ChildVerdict:
        return ALLOWED

    async def cancel(self, child_id: UUID) -> bool:
        return await self._commit("cancels a child", lambda: self._memory.cancel(child_id))

    async def now(self) -> datetime:
        return self._now()

    async def at_once(self, call: Callable[[Connection], Awaitable[Any]]) -> Any:
        raise AtlasError("A simulation has no database.", remedy="Test what needs one with the fixture `atlas_kit`.")
