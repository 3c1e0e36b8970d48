"""Concurrency limits: how many long requests run at once in this process, in all and for one caller."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from atlas.api.problems import TooManyRequests

AGAIN_SECONDS = 5.0


class ConcurrencyLimit:
    """Slots for long requests, in all and by key. A request that finds none free is refused."""

    def __init__(self, whose: str, *, most: int, max_each: int) -> None:
        self._whose = whose
        self._most = most
        self._max_each = max_each
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def taken(self, key: Hashable) -> Iterator[None]:
        """Hold a slot for as long as the block lasts."""
        if self._taken.total() >= self._most or self._taken[key] >= self._max_each:
            raise TooManyRequests(self._whose, AGAIN_SECONDS)
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
