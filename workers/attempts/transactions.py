"""The transactions that end attempts: what a handler wrote, the job's success and its audit row are one commit.

The last message of such a transaction holds two statements: the call of `commit_attempt`, which is fenced by worker,
attempt and lease, and the commit. So the row of the job is not locked while a process that froze, or a network that
was cut, keeps the transaction open. Whatever happens before the server commits, nothing stays. If its response is lost,
the attempt ends in an error like any other: recording that is fenced too, and refused where the commit has succeeded.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

from atlas.db.pool import Connection, borrow, commit_with
from atlas.engine.effects.ledger import EffectLedger
from atlas.engine.jobs.attempts.attempt_commit import AttemptTransaction, CommitCall, finishing
from atlas.engine.jobs.attempts.ending_transaction import REFUSED, ending
from atlas.engine.jobs.finish import Finish
from atlas.engine.jobs.handlers.context import AttemptContext
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.refusals import refusals
from atlas.errors import AtlasError, LeaseLost
from atlas.workers.application_pool import ApplicationPool
from atlas.workers.attempts.attempt_report import success
from atlas.workers.worker_lease import WorkerLease

# How long recording an effect may take.
LEDGER_SECONDS = 10.0

R = TypeVar("R")


class WorkerTransactions:
    """Those of the attempts of one worker."""

    def __init__(self, pool: ApplicationPool, lease: WorkerLease) -> None:
        self._pool = pool
        self._lease = lease

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        """Open a transaction on the application's database."""
        async with await self._pool.acquire() as conn:
            with refusals(*REFUSED):
                async with conn.transaction():
                    yield conn
                    _require_open(conn)

    @asynccontextmanager
    async def begin(self, *contexts: AttemptContext) -> AsyncIterator[Connection]:
        """Open a transaction whose commit ends these attempts. If the block raises, it is rolled back."""
        with ending(*contexts) as last_call:
            async with self.open() as conn:
                for context in contexts:
                    context.own_transaction = AttemptTransaction(conn)
                yield conn
                commit_with(conn, last_call().text())

    def commit_call(self, *contexts: AttemptContext) -> CommitCall:
        """The call that ends these attempts, as the last statement of their transaction."""
        first = contexts[0]
        key = self.key_of(first.worker_id, first.job_id, first.attempt)
        return finishing(first.worker_id, key, [_finish(context) for context in contexts])

    def ledger(self, context: AttemptContext) -> EffectLedger:
        """Where the effects of an attempt are recorded: in the database of Atlas."""

        async def work(call: Callable[[Connection], Awaitable[R]]) -> R:
            async with borrow(context.pool, within=LEDGER_SECONDS) as conn:
                return await call(conn)

        return EffectLedger(work, context.worker_id, context.job_id, context.attempt, redactor=context.redactor)

    def key_of(self, worker_id: str, job_id: UUID, attempt: int) -> bytes:
        """The key of the worker that has claimed a job under this id; LeaseLost if it goes under another now."""
        if worker_id != self._lease.worker_id:
            raise LeaseLost(job_id, attempt)
        return self._lease.key


def _finish(context: AttemptContext) -> Finish:
    """The success of an attempt, with the output that its handler has set."""
    opened = context.own_transaction
    assert opened is not None
    finish = opened.finish = success(context, registered()[context.job.job_type], opened.output)
    finish.is_recorded = True
    return finish


def _require_open(conn: Connection) -> None:
    if not conn.is_in_transaction():
        raise AtlasError(
            "The handler has ended its transaction by a statement of its own.",
            remedy="Leave the commit to the end of the block; raise to roll back.",
        )
