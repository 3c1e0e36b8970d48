"""The time between the beginning of a transaction that ends attempts and its commit, whichever library opened it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from atlas.engine.jobs.attempts.attempt_commit import AttemptTransaction, CommitCall
from atlas.engine.jobs.handlers.context import AttemptContext, JobContext
from atlas.engine.jobs.new_jobs.refusals import refusals
from atlas.errors import AtlasError

# What commit_attempt raises: a wrong token, a lost lease.
REFUSED = ("AT403", "AT410")


@contextmanager
def ending(*jobs: JobContext) -> Iterator[Callable[[], CommitCall]]:
    """For a block that opens the transaction, makes the call that is yielded its last statement, and commits.

    When the block is done the attempts have succeeded. When it raises they go on, and nothing of the block may stay.
    """
    contexts = [context for context in jobs if isinstance(context, AttemptContext)]
    if len(contexts) < len(jobs):
        raise AtlasError("It is not the context of an attempt.", remedy="Pass the JobContext that the handler got.")
    for context in contexts:
        _refuse_second(context)
    for context in contexts:
        context.own_transaction = AttemptTransaction()
    try:
        with refusals(*REFUSED):
            yield lambda: contexts[0].transactions.commit_call(*contexts)
    except BaseException:
        for context in contexts:
            context.own_transaction = None
        raise
    for context in contexts:
        if context.own_transaction is not None:
            context.own_transaction.is_committed = True


def refuse_open(is_open: bool) -> None:
    """Refuse a connection whose transaction began before: its end would not be that of the block."""
    if is_open:
        raise AtlasError(
            "The connection has an open transaction.", remedy="Commit or roll back before the block that ends the job."
        )


def _refuse_second(context: AttemptContext) -> None:
    if context.own_transaction is not None:
        raise AtlasError(
            f"Job {context.job_id} has a transaction that ends it already.",
            remedy="Use one for each attempt: ctx.connection is its connection while it is open.",
        )
