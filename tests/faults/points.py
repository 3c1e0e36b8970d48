"""Where a fault strikes and what it does: a list of both is a case, which its text alone repeats.

    worker:kill_after@3fa1c2.2+drop@90be11.1

is the program `worker`, killed after the server has done the second execution of one statement, and then a lost
response to another.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

# What can happen at a statement. `before`: it has not reached the server; `after`: the server has done it, and its response
# has not reached the program.
FAULTS = {
    "kill_before": "kill -9 before the statement",
    "kill_after": "kill -9 after the statement, before its response",
    "stop_before": "SIGSTOP before the statement, and SIGCONT later than a lease",
    "stop_after": "SIGSTOP after the statement, and SIGCONT later than a lease",
    "drop": "the response is lost and the connection reset",
    "raise": "the server reports a deadlock in place of the statement",
    "delay": "the statement arrives later than a lease",
    "half_open": "the statement is done, and nothing passes over the connection any more in either direction",
}
# Faults that let time pass: these cases take seconds, and hardly any processor time.
SLOW_FAULTS = ("stop_before", "stop_after", "delay", "half_open")

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_VARYING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|test_[0-9a-f_]+|\d+")
_CASE = re.compile(r"(?P<fault>[a-z_]+)@(?P<statement>[0-9a-f]{6})\.(?P<occurrence>\d+)")


@dataclass(frozen=True, order=True)
class Point:
    """The n-th execution of a statement by a program, over all of its connections."""

    statement: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.statement}.{self.occurrence}"


@dataclass(frozen=True)
class Strike:
    """A fault at a point."""

    fault: str
    point: Point

    def __str__(self) -> str:
        return f"{self.fault}@{self.point}"


@dataclass(frozen=True)
class Case:
    """A program, and the faults that it meets."""

    program: str
    strikes: tuple[Strike, ...] = ()

    def __str__(self) -> str:
        return f"{self.program}:{'+'.join(map(str, self.strikes))}"


def read_case(text: str) -> Case:
    """The case of a text that was printed; ValueError if there is none like it."""
    program, _, rest = text.partition(":")
    strikes = []
    for part in rest.split("+") if rest else []:
        match = _CASE.fullmatch(part)
        if match is None or match["fault"] not in FAULTS:
            raise ValueError(f"{part!r} is not a fault at a statement, such as kill_after@3fa1c2.2")
        strikes.append(Strike(match["fault"], Point(match["statement"], int(match["occurrence"]))))
    return Case(program, tuple(strikes))


def normalized(sql: str) -> str:
    """A statement without comments, ids and numbers."""
    return " ".join(_VARYING.sub("#", _COMMENT.sub(" ", sql)).split())


def statement_key(sql: str, alike: Callable[[str], str] = normalized) -> str:
    """What names a statement in a case."""
    return sha256(alike(sql).encode()).hexdigest()[:6]
