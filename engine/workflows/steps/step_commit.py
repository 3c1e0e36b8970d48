"""The commit of a step: what its function wrote and the record of its outcome, in one transaction."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import orjson

from atlas.db.pool import Connection, commit_with
from atlas.engine.jobs.attempts.attempt_commit import CommitCall, attempt_token, call_json
from atlas.engine.jobs.handlers.context import Transactions
from atlas.engine.workflows.steps.history import StepCheckpoint


class StepCommit:
    """The transactions of one run's steps, under the id by which a worker holds it."""

    def __init__(self, transactions: Transactions, worker_id: str) -> None:
        self._transactions = transactions
        self._worker_id = worker_id

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[tuple[Connection], Callable[[CommitCall], Awaitable[None]]]]:
        """Open a transaction on the application's database. The call that is passed goes with its commit."""
        async with self._transactions.open() as conn:

            async def end(call: CommitCall) -> None:
                commit_with(conn, call.text())

            yield (conn,), end

    def call(self, step: StepCheckpoint) -> CommitCall:
        """The call that records an outcome, as the last statement of its transaction."""
        key = self._transactions.key_of(self._worker_id, step.run_id, step.attempt)
        run = {"id": step.run_id, "attempt": step.attempt, "token": attempt_token(key, step.run_id, step.attempt)}
        recorded = {
            **{name: getattr(step, name) for name in ("branch", "position", "name", "attempts", "seconds", "output")},
            "input": None if step.input is None else orjson.Fragment(step.input),
            "known": bool(step.known),
            "reset": step.reset,
        }
        return CommitCall(self._worker_id, call_json([run]), call_json(recorded))
