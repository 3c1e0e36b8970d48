"""Effects in a simulation: the ledger in memory, with the transitions that the SQL functions make."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from atlas.engine.effects.ledger import BegunEffect
from atlas.engine.effects.outcomes import SETTLED_EVENT
from atlas.testing.simulation.memory import NEVER, Memory
from atlas.testing.simulation.points import Commit

# Ids of effects are not those of jobs.
FIRST_ID = 1 << 64


@dataclass(slots=True)
class SimulatedEffect:
    """A row of effects."""

    id: UUID
    job_id: UUID
    step: str
    name: str
    key: str
    detail: dict[str, Any]
    attempt: int
    created_at: float
    intended_at: float
    state: str = "intended"
    reference: str | None = None
    other_references: list[str] = field(default_factory=list)
    is_settled: bool = False


class SimulatedEffects:
    """All effects of one schedule."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.rows: list[SimulatedEffect] = []

    def begin(
        self,
        worker: str,
        attempt: tuple[UUID, int],
        named: tuple[str, str, str],
        detail: dict[str, Any],
        *,
        again: bool,
    ) -> BegunEffect:
        """Insert the row, or take over that of an earlier attempt. `named`: step, name and key."""
        job_id, number = attempt
        now = self._memory.now()
        if not self._memory.holds(worker, job_id, number):
            return BegunEffect(UUID(int=0), "lost", None, 0.0, 0.0)
        known = next((row for row in self.rows if (row.job_id, row.step, row.name, row.key) == (job_id, *named)), None)
        if known is None:
            known = SimulatedEffect(UUID(int=FIRST_ID + len(self.rows)), job_id, *named, detail, number, now, now)
            self.rows.append(known)
            return BegunEffect(known.id, "call", None, 0.0, 0.0)
        if known.state == "done":
            verdict = "done"
        elif known.state == "intended" and known.attempt == number:
            verdict = "busy"
        else:
            verdict = "call" if known.state == "refused" or again else "doubt"
        if verdict == "call":
            known.state, known.attempt, known.detail, known.intended_at = "intended", number, detail, now
            known.reference, known.is_settled = None, False
        return BegunEffect(known.id, verdict, known.reference, now - known.created_at, now - known.intended_at)

    def end(
        self, worker: str, attempt: tuple[UUID, int], id: UUID, state: str, reference: str | None, *, found: bool
    ) -> str:
        """Record what became of a call. The row is the fence: `ended`, `late` or `taken`."""
        row = self.find(id)
        is_leased = self._memory.holds(worker, *attempt)
        is_its = row.attempt == attempt[1] or (found and is_leased)
        if (
            is_its
            and not row.is_settled
            and row.state in ("intended", "unknown")
            and (row.state, state) != ("unknown",) * 2
        ):
            row.state, row.reference = state, reference
            if not is_leased and state != "unknown":
                self._wake(row)
            return "ended" if is_leased else "late"
        if state == "done" and (
            reference is None or (reference != row.reference and reference not in row.other_references)
        ):
            row.other_references.append(reference or "")
            row.state = "unknown" if row.state == "refused" else row.state
        return "taken"

    def ask(self, worker: str, attempt: tuple[UUID, int], id: UUID) -> str:
        """running → queued until a person has answered: `asked`, `lost` or `canceled`."""
        job, row = self._memory.jobs[attempt[0]], self.find(id)
        if not self._memory.holds(worker, *attempt):
            return "lost"
        if job.cancel_requested:
            return "canceled"
        is_open = row.state in ("intended", "unknown")
        job.status, job.claimed_by, job.due = "queued", None, NEVER if is_open else self._memory.now()
        if is_open:
            row.state = "unknown"
        return "asked"

    def settle(self, row: SimulatedEffect, *, done: bool, reference: str | None = None) -> bool:
        """Record a person's answer; the job goes on. False: there is no doubt."""
        if not self.is_in_doubt(row):
            return False
        row.state, row.reference, row.is_settled = "done" if done else "refused", reference, True
        self._wake(row)
        if row.job_id in self._memory.steps:
            context = {"effect": str(row.id), "outcome": "done" if done else "not_done"}
            self._memory.publish(SETTLED_EVENT, context)
        return True

    def is_in_doubt(self, row: SimulatedEffect) -> bool:
        """Whether nobody knows what became of it."""
        job = self._memory.jobs[row.job_id]
        is_running = job.status == "running" and job.attempts == row.attempt
        return row.state == "unknown" or (row.state == "intended" and not is_running)

    def find(self, id: UUID) -> SimulatedEffect:
        """The effect with this id."""
        return self.rows[id.int - FIRST_ID]

    def _wake(self, row: SimulatedEffect) -> None:
        """queued for a person's answer → due."""
        job = self._memory.jobs[row.job_id]
        if job.status == "queued" and job.due == NEVER and job.id not in self._memory.steps:
            job.due = self._memory.now()


class SimulatedLedger:
    """What the effects of one attempt are recorded with. Every record is a point where its worker may crash."""

    def __init__(
        self, effects: SimulatedEffects, worker: str, commit: Commit, attempt: tuple[UUID, int], *, step: str = ""
    ) -> None:
        self._effects = effects
        self._worker = worker
        self._commit = commit
        self.job_id, self.attempt = self._attempt = attempt
        self.step = step

    async def begin(self, name: str, key: str, detail: Mapping[str, Any], *, again: bool = False) -> BegunEffect:
        """As `EffectLedger` does."""
        named = (self.step, name, key)
        return await self._commit(
            f"intends {name}",
            lambda: self._effects.begin(self._worker, self._attempt, named, dict(detail), again=again),
        )

    async def end(
        self,
        id: UUID,
        state: str,
        *,
        reference: str | None = None,
        reason: str = "",
        found: bool = False,
        within: float | None = None,
    ) -> str:
        """As `EffectLedger` does."""
        async with asyncio.timeout(within):
            return await self._commit(
                f"records that {self._effects.find(id).name} is {state}",
                lambda: self._effects.end(self._worker, self._attempt, id, state, reference, found=found),
            )

    async def ask(self, id: UUID, question: str, reason: str) -> str:
        """As `EffectLedger` does."""
        if self.step:
            await self.end(id, "unknown", found=True)
            return "asked"
        return await self._commit(question, lambda: self._effects.ask(self._worker, self._attempt, id))
