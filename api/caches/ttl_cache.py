"""A cache whose entries expire after some seconds."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values by key, valid for some seconds. Concurrent requests for one key share one lookup.

    `until` says of a value when it expires sooner, on the monotonic clock.
    """

    def __init__(
        self, seconds: float, most: int = 10_000, until: Callable[[V], float] = lambda value: math.inf
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._until = until
        self._entries: dict[K, tuple[float, V]] = {}
        self._looking: dict[K, asyncio.Task[V]] = {}

    def peek(self, key: K) -> V | None:
        """The value, if it is cached and has not expired."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[0] > time.monotonic() else None

    async def get(self, key: K, look_up: Callable[[], Awaitable[V]]) -> V:
        """The value, looked up if it is not cached; an error of `look_up` is not cached."""
        entry = self.peek(key)
        if entry is not None:
            return entry
        task = self._looking.get(key)
        if task is None:
            task = self._looking[key] = asyncio.create_task(self._look(key, look_up))
        # A caller that is cancelled must not cancel the lookup of the others.
        return await asyncio.shield(task)

    def forget(self) -> None:
        """Empty the cache; lookups in progress are not stored either."""
        self._entries.clear()
        self._looking.clear()

    async def _look(self, key: K, look_up: Callable[[], Awaitable[V]]) -> V:
        me = asyncio.current_task()
        try:
            value = await look_up()
            if self._looking.get(key) is me:
                if len(self._entries) >= self._most:
                    self._entries.clear()
                self._entries[key] = (min(time.monotonic() + self._seconds, self._until(value)), value)
            return value
        finally:
            if self._looking.get(key) is me:
                del self._looking[key]
