"""Writing and reading a run's record: many runs at once, fenced by the worker that drives them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement
from atlas.engine.workflows.approvals import expire_approvals
from atlas.engine.workflows.history import History, RecordedStep, StepCheckpoint

CHECKPOINT = statement("engine/workflows/sql/checkpoint.sql")
LOAD = statement("engine/workflows/sql/load_steps.sql")

_COLUMNS = (
    "runs",
    "attempts",
    "branches",
    "positions",
    "names",
    "kinds",
    "statuses",
    "tries",
    "seconds",
    "inputs",
    "outputs",
    "errors",
    "known",
)

# A column that says the usual throughout is not sent.
_USUAL = {
    "branches": "",
    "kinds": "step",
    "statuses": "succeeded",
    "tries": 1,
    "inputs": None,
    "outputs": None,
    "errors": None,
    "known": None,
}


@dataclass(frozen=True, slots=True)
class StoredSteps:
    """What became of checkpoints: `lost` numbers those whose run another worker has; `busy` means ask again."""

    is_open: bool
    busy: bool
    lost: frozenset[int]


async def write_checkpoints(
    conn: Connection, worker_id: str, marks: Sequence[StepCheckpoint], *, again: bool = False
) -> StoredSteps:
    """Make the outcomes of steps durable. `again`: the answer to these very marks was lost before."""
    *columns, resets = zip(*marks, strict=True)
    values: dict[str, Any] = dict(zip(_COLUMNS, columns, strict=True))
    for name, usual in _USUAL.items():
        if values[name].count(usual) == len(marks):
            values[name] = None
    reset = [mark.run_id for mark in marks if mark.reset] if any(resets) else None
    row = await fetch_row(conn, CHECKPOINT, worker=worker_id, again=again, reset=reset, **values)
    assert row is not None
    return StoredSteps(bool(row["is_open"]), row["busy"], frozenset(number - 1 for number in row["lost"] or ()))


async def load_histories(conn: Connection, run_ids: Sequence[UUID]) -> dict[UUID, History]:
    """What each of these runs has recorded, once, when it is taken up."""
    steps = await _load(conn, run_ids)
    late = [
        run_id
        for run_id, recorded in steps.items()
        if any(one.approval_status == "pending" and one.due for one in recorded)
    ]
    if late:
        # Nobody can decide them any more; written down before the run acts on it.
        await expire_approvals(conn, run_ids=late)
        steps |= await _load(conn, late)
    return {run_id: History(steps.get(run_id, ())) for run_id in run_ids}


async def _load(conn: Connection, run_ids: Sequence[UUID]) -> dict[UUID, list[RecordedStep]]:
    found: dict[UUID, list[RecordedStep]] = {}
    for run_id, *columns in await fetch(conn, LOAD, runs=list(run_ids)):
        found.setdefault(run_id, []).append(RecordedStep(*columns))
    return found
