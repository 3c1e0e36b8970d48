"""Room for what keeps something for long: a few at once in this process, and of those only some for one caller."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from atlas.api.errors import TooManyRequests

AGAIN_SECONDS = 5.0


class ConcurrencyLimit:
    """Places that are taken for a while, in all and by key; who finds none free is told to come back."""

    def __init__(self, whose: str, *, most: int, most_each: int) -> None:
        self._whose = whose
        self._most = most
        self._most_each = most_each
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def taken(self, key: Hashable) -> Iterator[None]:
        """A place for as long as the block lasts."""
        if self._taken.total() >= self._most or self._taken[key] >= self._most_each:
            raise TooManyRequests(self._whose, AGAIN_SECONDS)
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]
