"""Models of other systems, which users write: their methods are called in turn, and may fail."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from atlas.testing.simulation.points import Killed

R = TypeVar("R")


class ModelCaller(Protocol):
    """Who calls a model: the simulation."""

    is_over: bool

    async def call(self, what: str, call: Callable[[], Awaitable[R]]) -> R: ...

    def call_plain(self, what: str, call: Callable[[], R]) -> R: ...


class ModelCalls:
    """A model whose methods are called in turn. Its attributes can be read as they are."""

    def __init__(self, simulation: ModelCaller, model: Any) -> None:
        self._simulation = simulation
        self._model = model

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._model, name)
        if not inspect.ismethod(value):
            return value
        what = f"calls {type(self._model).__name__}.{name}"
        simulation = self._simulation
        call: Any = simulation.call if inspect.iscoroutinefunction(value) else simulation.call_plain

        def in_turn(*args: Any, **named: Any) -> Any:
            if simulation.is_over:
                raise Killed
            return call(what, lambda: value(*args, **named))

        return in_turn
