"""Filling in the templates of a run on the worker's event loop, which its lease and all other jobs live on.

The templates of one attempt share a budget, so that heavy ones fail their own run. One template is filled in at a time,
and the loop gets a turn when it has been held for a moment: an `each` has up to a thousand items, and all of them are
ready at once.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from engine.templates import Budget, evaluate, render

LONGEST_HOLD_SECONDS = 0.02


class _Turns:
    """Whose turn it is on one event loop, and for how long the loop has been held."""

    __slots__ = ("held", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.held = 0.0


_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns]" = WeakKeyDictionary()


class Filling:
    """The templates of one attempt.

    A run that is being undone has no shared budget: what it registered before must be registered again.
    """

    def __init__(self, *, is_undone: bool) -> None:
        self._budget = None if is_undone else Budget()
        self._turns = _turns.setdefault(asyncio.get_running_loop(), _Turns())

    async def fill(self, template: Any, scope: Mapping[str, Any], path: str) -> Any:
        """The template with its expressions filled in."""
        return await self._in_turn(lambda: render(template, scope, path=path, budget=self._budget))

    async def holds(self, condition: str, scope: Mapping[str, Any], path: str) -> bool:
        """Whether a condition is true."""
        return bool(await self._in_turn(lambda: evaluate(condition, scope, path=path, budget=self._budget)))

    async def _in_turn(self, work: Callable[[], Any]) -> Any:
        turns = self._turns
        async with turns.lock:
            began = time.monotonic()
            try:
                return work()
            finally:
                turns.held += time.monotonic() - began
                if turns.held > LONGEST_HOLD_SECONDS:
                    turns.held = 0.0
                    await asyncio.sleep(0)
