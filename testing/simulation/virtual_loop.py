"""An event loop whose time is virtual: it waits for nothing, and asks what happens next when nothing is ready."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

from atlas.errors import AtlasError


class _NoSelector(selectors.BaseSelector):
    """Watches no file: when the loop would wait for one, it asks `idle`."""

    def __init__(self, idle: Callable[[float | None], None]) -> None:
        self._idle = idle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._idle(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise AtlasError(
            "A simulation opens no connection.", remedy="Let the code call a model of the other system: `sim.model(…)`."
        )

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}


class VirtualLoop(asyncio.SelectorEventLoop):
    """Seconds pass when `time_passes` says so. `idle` is called with the seconds until the next timer, or None."""

    def __init__(self, idle: Callable[[float | None], None]) -> None:
        self._now = 0.0
        super().__init__(_NoSelector(idle))
        # The trace shows what became of a worker that was killed.
        self.set_exception_handler(lambda _loop, _context: None)

    def time(self) -> float:
        return self._now

    def time_passes(self, until: float) -> None:
        """Let it be `until`, if that is later than now."""
        self._now = max(self._now, until)

    # Nothing wakes the loop from another thread: there is none.

    def _make_self_pipe(self) -> None: ...

    def _close_self_pipe(self) -> None: ...

    def _write_to_self(self) -> None: ...
