"""What a program under faults is: what it is given to do, when that is done, and the laws that it must keep."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.faults.capability import Beside
from tests.faults.judge import Law
from tests.faults.points import normalized

EXPIRE_WORKERS = """
update atlas.job_workers set lease_expires_at = clock_timestamp() - interval '1 second' where dead_at is null"""


@dataclass(frozen=True)
class Program:
    """A program under faults.

    One that ends is repeated while `done` is false, as an operator does who looks first. One that `serves` is started
    again when it was killed, and stopped when `done` is true.
    """

    name: str
    arguments: tuple[str, ...]
    # None: the database has no tables yet.
    give: Callable[[Any], Awaitable[None]] | None
    # True when the program has done what it was given: a query, or a function.
    done: str | Callable[[Any], Awaitable[bool]]
    laws: tuple[Law, ...] = ()
    serves: bool = False
    # Atlas is taken offline while the program is frozen, and is online again some time after it goes on.
    closes_gate: bool = False
    # What passes while it is frozen or after it was killed: its lease is over. No case waits for a clock.
    expire: str | None = None
    # What it writes beside the database, in the folder of the case.
    file: str | None = None
    # The program whose file it reads: that of a run without faults is copied to the folder of the case.
    reads: str | None = None
    # What runs beside it during a case, such as a server that it calls.
    beside: Beside | None = None
    # A query whose value takes the place of {} in the arguments.
    names: str | None = None
    # Files in the folder of the case: their texts by their names.
    files: Mapping[str, str] = field(default_factory=dict)
    # What names a statement: those with the same name are executions of one.
    alike: Callable[[str], str] = normalized
    # How many executions of a statement a seed strikes.
    samples: int = 1
    main: str = "atlas.cli.main:main"
    settings: dict[str, str] = field(default_factory=dict)
