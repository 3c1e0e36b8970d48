"""A schedule: what is chosen at each point where more than one thing can happen. 0 is always the usual one."""

from collections.abc import Mapping
from random import Random


class Schedule:
    """Choices by the number of the point, or drawn from a seed. The same choices make the same schedule."""

    def __init__(
        self, choices: Mapping[int, int] | None = None, *, seed: int | None = None, share: float = 0.0
    ) -> None:
        self._choices = choices or {}
        self._random = None if seed is None else Random(seed)
        # How often another thing than the usual is drawn.
        self._share = share
        # How many options each point had, and what was chosen other than the usual.
        self.options: list[int] = []
        self.taken: dict[int, int] = {}
        # The points at which something can go wrong; at the others only the order is chosen.
        self.faults: list[int] = []

    def choose_fault(self, options: int) -> int:
        """The choice at a point at which something can go wrong."""
        self.faults.append(len(self.options))
        return self.choose(options)

    def choose(self, options: int) -> int:
        """The choice at the next point: a number below `options`."""
        point = len(self.options)
        self.options.append(options)
        if options < 2:
            return 0
        if self._random is None:
            choice = min(self._choices.get(point, 0), options - 1)
        elif self._random.random() < self._share:
            choice = self._random.randrange(1, options)
        else:
            choice = 0
        if choice:
            self.taken[point] = choice
        return choice
