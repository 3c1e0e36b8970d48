"""Fills in the templates of a run without blocking the worker's event loop, which its lease and other jobs depend on.

The templates of one attempt share a budget, so that heavy ones end their own run. One template is filled in at a time,
and other tasks get a turn when the loop has been held for 20 ms: an `each` has up to a thousand items, and all of
them are ready at once.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.templates import (
    MAX_HOLD_SECONDS,
    Budget,
    TemplateError,
    compile_in_turns,
    evaluate,
    render,
)
from atlas.engine.workflows.run_context import Run

# Enough for a thousand items of an `each` that are as large as a payload may be.
MAX_WORK = 256 * 1024 * 1024


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

    def __init__(self, run: Run) -> None:
        self._run = run
        self._budget = None if run.is_undone else Budget(MAX_WORK)
        self._turns = _turns.setdefault(asyncio.get_running_loop(), _Turns())

    async def fill(self, template: Any, scope: Mapping[str, Any], path: str, *, shared: bool = True) -> Any:
        """The template with its expressions filled in. What undoes the run is not `shared`: it has work of its own."""
        budget = self._budget if shared else None
        await compile_in_turns(template)
        return await self._in_turn(lambda: render(template, scope, path=path, budget=budget))

    async def holds(self, condition: str, scope: Mapping[str, Any], path: str) -> bool:
        """Whether a condition is true."""
        await compile_in_turns(condition)
        return bool(await self._in_turn(lambda: evaluate(condition, scope, path=path, budget=self._budget)))

    async def _in_turn(self, work: Callable[[], Any]) -> Any:
        turns = self._turns
        async with turns.lock:
            began = time.monotonic()
            try:
                return work()
            except TemplateError as error:
                self._end_if_spent(error)
                raise
            finally:
                turns.held += time.monotonic() - began
                if turns.held > MAX_HOLD_SECONDS:
                    turns.held = 0.0
                    await asyncio.sleep(0)

    def _end_if_spent(self, error: TemplateError) -> None:
        """The next attempt would have a budget of its own: a run that has spent one does not get there."""
        if self._budget is not None and self._budget.left < 0:
            message = f"The templates of the run take too much work together. {error}"
            self._run.abort(PermanentError(message, remedy="Let children (workflow) do parts of it."))
