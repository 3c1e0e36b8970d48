"""Forks: a run that begins with what another had recorded when one of its steps began.

Between the request and its acceptance lie a gate that may be closed and a review of days, in which the other run may be
retried, undo what it did, or be deleted. So what is checked at the request is checked again when the fork begins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement
from atlas.engine.workflows.registry import near
from atlas.errors import Conflict, NotFound

STEPS = statement("engine/workflows/sql/fork_steps.sql")
HOLD = statement("engine/workflows/sql/hold_sources.sql")
COPY = statement("engine/workflows/sql/copy_steps.sql")

# The steps that do something outside the run.
_ACTS = ("step", "job", "child")


@dataclass(frozen=True, slots=True)
class Source:
    """A run, and the step at whose beginning a fork leaves it."""

    run_id: UUID
    step: str


@dataclass(frozen=True, slots=True)
class _Step:
    key: str
    kind: str
    started_at: datetime
    finished_at: datetime | None


async def check_fork(conn: Connection, source: Source) -> None:
    """Refuse a fork from a step that is not there (NotFound), or that would reuse what it may not (Conflict)."""
    steps = [_Step(**row) for row in await fetch(conn, STEPS, run_id=source.run_id)]
    keys = [step.key for step in steps]
    if source.step not in keys:
        named = ", ".join(near(source.step, keys) or keys[:5])
        raise NotFound("step", source.step, remedy=f"It has {named}." if named else "It has recorded none.")
    _check_reuse(source.run_id, steps, steps[keys.index(source.step)])


async def hold_sources(conn: Connection, sources: Iterable[Source]) -> None:
    """Hold what these forks reuse until the transaction ends; Conflict if one of them may not reuse it any more."""
    ids = set(sources)
    held = {row["id"] for row in await fetch(conn, HOLD, ids=sorted({run_id.run_id for run_id in ids}))}
    for source in ids:
        if source.run_id not in held:
            raise Conflict(f"Run {source.run_id}, which it is forked from, is gone.", remedy="Request a new run.")
        try:
            await check_fork(conn, source)
        except NotFound as error:
            # A run that is retried begins its failed steps anew. Without the step the fork would do everything again.
            raise Conflict(
                f"Run {source.run_id} has begun anew and has not come to {source.step!r} again.",
                remedy="Fork it again once it has.",
            ) from error


async def copy_steps(conn: Connection, source: Source, fork_id: UUID) -> None:
    """Give a fork what it reuses. The caller holds the source."""
    await fetch(conn, COPY, source=source.run_id, target=fork_id, step=source.step)


def _check_reuse(run_id: UUID, steps: Sequence[_Step], cut: _Step) -> None:
    """Refuse to reuse what the new run may not take for done."""
    before = [step for step in steps if step.finished_at is not None and step.finished_at <= cut.started_at]
    acts = [step for step in before if step.kind in _ACTS]
    if acts and any(step.kind == "failure" for step in steps):
        raise Conflict(
            f"Run {run_id} has undone what it did.", remedy="Fork it from its first step, or request a new run."
        )
    # Each approval is for what one run did: a second run asks again, before it does anything that rests on it.
    for asked in before:
        if asked.kind == "approval" and any(_is_after(act, asked) for act in acts):
            raise Conflict(
                f"Run {run_id} went on to {cut.key!r} by the approval {asked.key!r}, which is for that run alone.",
                remedy=f"Fork it from {asked.key!r}, or retry the run.",
            )


def _is_after(step: _Step, other: _Step) -> bool:
    return other.finished_at is not None and step.started_at >= other.finished_at
