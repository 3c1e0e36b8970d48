"""Effects of handlers that run in a thread: the same calls, without `await`.

The provider is called and asked in the thread. What is recorded is written on the event loop of the worker.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar
from uuid import UUID

from atlas.engine.effects.effect_call import EffectCall, OpenEffect
from atlas.engine.effects.ledger import BegunEffect, Ledger
from atlas.engine.effects.outcomes import Answer, EffectOptions, Lookup, ThreadEffectOptions
from atlas.engine.jobs.handlers.arguments import require_plain

# For a worker whose event loop has ended under the thread. The ledger has shorter limits of its own.
MAX_SECONDS = 60.0

R = TypeVar("R")


class ThreadLedger:
    """The ledger of an attempt for its thread. Its methods do not suspend, they block."""

    def __init__(self, ledger: Ledger, loop: asyncio.AbstractEventLoop) -> None:
        self._ledger = ledger
        self._loop = loop
        self.job_id, self.attempt, self.step = ledger.job_id, ledger.attempt, ledger.step

    async def begin(self, name: str, key: str, detail: Mapping[str, Any], *, again: bool = False) -> BegunEffect:
        """Record that the effect is intended, or return what is known of it."""
        return self._wait(self._ledger.begin(name, key, detail, again=again))

    async def end(self, id: UUID, state: str, **values: Any) -> str:
        """Record what became of a call."""
        return self._wait(self._ledger.end(id, state, **values))

    async def ask(self, id: UUID, question: str, reason: str) -> str:
        """Let the job wait for a person's answer."""
        return self._wait(self._ledger.ask(id, question, reason))

    def _wait(self, call: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(MAX_SECONDS)


def effect_in_thread(
    ledger: ThreadLedger,
    name: str,
    function: Callable[..., str | None],
    arguments: tuple[Any, ...],
    options: ThreadEffectOptions,
) -> str | None:
    """The provider's reference of an effect, made in this thread unless an earlier attempt has made it."""
    lookup = options.get("lookup")
    require_plain("ctx.effect_from_thread", "function", function)
    if lookup is not None:
        require_plain("ctx.effect_from_thread", "lookup", lookup)
    given: EffectOptions = {**options, "lookup": None if lookup is None else _awaitable(lookup)}

    async def call(effect: OpenEffect) -> str | None:
        return function(effect, *arguments)

    return _ended(EffectCall(ledger, name, given, call).make())


def _awaitable(lookup: Callable[[str], Answer]) -> Lookup:
    async def ask(key: str) -> Answer:
        return lookup(key)

    return ask


def _ended(call: Coroutine[Any, Any, R]) -> R:
    """What a coroutine returns that does not suspend."""
    try:
        call.send(None)
    except StopIteration as ended:
        result: R = ended.value
        return result
    raise AssertionError("a call from a thread has suspended")
