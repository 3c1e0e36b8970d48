"""What every comparable queue is asked to do, so that one run measures them side by side.

- `drain`: N no-op jobs lie in the store, their table analysed; one worker process starts. The clock runs
  from the first handler's start until the store holds no unfinished job.
- `enqueue_singly`: N jobs, each call awaited before the next, on one connection.
- `enqueue_bulk`: N jobs in pieces of `BULK`, by whatever the peer offers for many jobs at once.
- `work` and `produce`: an idle worker, and a producer that enqueues one job every 50 ms, each in a process of its own.
  Both read the machine's monotonic clock: the producer before and after its call, the worker when a handler starts.
  The first `WARM_UP` jobs are left out.
- `workflows`: N workflows of no-op steps lie in the store; the clock runs as for `drain`. Every step is
  recorded before the next begins. `work` and `produce` of a workflow engine time one workflow every 50 ms, from the
  producer's call to the end of the last step.

Every job carries `{"n": number}`. A measurement whose end state is not what it should be is no measurement.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from atlas.errors import AtlasError

BULK = 1000
WARM_UP = 10
INTERVAL = 0.05
STEPS = 5

# When a producer called, and when the call returned.
Call: TypeAlias = tuple[float, float]
# What a worker calls with the number of a job that begins, and what enqueues a number of jobs with the same number.
Started: TypeAlias = Callable[[int], None]
Enqueue: TypeAlias = Callable[[int, int], Awaitable[object]]


class NotMeasured(AtlasError):
    """This peer has no figure here, and why."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each measurement; 0 leaves it out. `batch` replaces a peer's own batch size."""

    drain: int = 100_000
    singly: int = 2_000
    bulk: int = 50_000
    latency: int = 80
    workflows: int = 500
    workflow_latency: int = 80
    rounds: int = 3
    batch: int | None = None


class Peer(Protocol):
    """A comparable queue. What it cannot do raises `NotMeasured`."""

    name: str

    @property
    def version(self) -> str:
        """The release that is installed here."""

    @property
    def settings(self) -> str:
        """The settings it is measured with, for the reader of the figures."""

    async def prepare(self, database_url: str) -> None:
        """Make its tables in an empty database."""

    async def drain(self, database_url: str, jobs: int) -> float: ...

    async def enqueue_singly(self, database_url: str, jobs: int) -> float: ...

    async def enqueue_bulk(self, database_url: str, jobs: int) -> float: ...

    async def workflows(self, database_url: str, runs: int) -> float: ...

    async def work(self, database_url: str, jobs: int, ready: Callable[[], None]) -> list[float]:
        """Run that many jobs; the moment of each, by number. Calls `ready` once the worker is idle."""

    async def produce(self, database_url: str, jobs: int) -> list[Call]:
        """Enqueue that many jobs in a steady rhythm."""


class JobQueue:
    """A peer without durable steps."""

    async def workflows(self, database_url: str, runs: int) -> float:
        raise NotMeasured("It has no durable steps.")


class WorkflowEngine:
    """A peer that is measured for its durable steps alone."""

    async def drain(self, database_url: str, jobs: int) -> float:
        raise NotMeasured("Only its workflows are compared.")

    async def enqueue_singly(self, database_url: str, jobs: int) -> float:
        raise NotMeasured("Only its workflows are compared.")

    async def enqueue_bulk(self, database_url: str, jobs: int) -> float:
        raise NotMeasured("Only its workflows are compared.")


def expect(what: str, actual: int, expected: int) -> None:
    """Refuse a measurement whose end state is wrong."""
    if actual != expected:
        raise NotMeasured(f"The end state is wrong: {actual:,} {what}, expected {expected:,}.")
