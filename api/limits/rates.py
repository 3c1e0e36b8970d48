"""How fast a caller may be: token buckets in this process. Several processes each allow the rate."""

import time
from collections.abc import Callable
from dataclasses import dataclass

MOST_BUCKETS = 20_000


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests a second: of one token, of one tenant, and failed sign-ins of one address. Bursts last two seconds."""

    token: float = 1000.0
    tenant: float = 2000.0
    failures: float = 1.0
    burst_seconds: float = 2.0
    most_failures: float = 20.0


class Buckets:
    """Buckets by key; each fills at its rate up to its size, and a request takes one drop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: dict[object, tuple[float, float]] = {}

    def take(self, key: object, rate: float, size: float) -> float:
        """Zero if there was a drop to take; otherwise how many seconds until there is one."""
        now = self._clock()
        level, at = self._levels.get(key, (size, now))
        level = min(size, level + (now - at) * rate)
        if level < 1:
            self._levels[key] = (level, now)
            return (1 - level) / rate
        self._levels[key] = (level - 1, now)
        if len(self._levels) > MOST_BUCKETS:
            self._forget(now)
        return 0.0

    def is_empty(self, key: object, rate: float, size: float) -> float:
        """The same without taking any."""
        level, at = self._levels.get(key, (size, self._clock()))
        level = min(size, level + (self._clock() - at) * rate)
        return 0.0 if level >= 1 else (1 - level) / rate

    def _forget(self, now: float) -> None:
        """Let go of the half that was used longest ago: most of them are full again."""
        oldest_first = sorted(self._levels.items(), key=lambda item: item[1][1])
        self._levels = dict(oldest_first[len(oldest_first) // 2 :])
