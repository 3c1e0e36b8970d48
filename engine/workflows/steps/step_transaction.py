"""Steps in a transaction, of whichever library: what the function writes and the record of the step are one commit."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, TypeAlias

from atlas.engine.jobs.attempts.attempt_commit import CommitCall
from atlas.engine.jobs.attempts.ending_transaction import REFUSED
from atlas.engine.jobs.new_jobs.refusals import refusals
from atlas.engine.workflows.steps.step_call import InTransaction, LastCall

# A transaction on the application's database, which commits at the end of the block: what the function gets first, and
# what makes a call the last statement before the commit.
Transaction: TypeAlias = AbstractContextManager[tuple[tuple[Any, ...], Callable[[CommitCall], None]]]
AsyncTransaction: TypeAlias = AbstractAsyncContextManager[
    tuple[tuple[Any, ...], Callable[[CommitCall], Awaitable[None]]]
]


def in_transaction(open: Callable[[], Transaction], function: Callable[..., Any]) -> InTransaction:
    """Let a step call this plain function in a thread, in a transaction that `open` begins there."""

    def within(last_call: LastCall) -> Callable[..., Any]:
        def call(*arguments: Any) -> None:
            with refusals(*REFUSED), open() as (given, end):
                end(last_call(function(*given, *arguments)))

        return call

    return within


def in_async_transaction(
    open: Callable[[], AsyncTransaction], function: Callable[..., Awaitable[Any]]
) -> InTransaction:
    """The same for an async function."""

    def within(last_call: LastCall) -> Callable[..., Any]:
        async def call(*arguments: Any) -> None:
            with refusals(*REFUSED):
                async with open() as (given, end):
                    await end(last_call(await function(*given, *arguments)))

        return call

    return within
