"""Flow: what happened to jobs in some time, from the counts and the histograms of times that the meter keeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COUNTS = (
    *("enqueued", "succeeded", "failed", "dead_lettered", "retried", "canceled"),
    *("attempts", "timed_out", "lost", "run_seconds", "cost_cents"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What happened to jobs in some time. Times are in seconds, None where there was none.

    They are those of jobs and attempts that ended in it: how long a job waited from when it was due to the start of its
    first attempt, and how long an attempt ran.
    """

    enqueued: int = 0
    succeeded: int = 0
    failed: int = 0
    dead_lettered: int = 0
    retried: int = 0
    canceled: int = 0
    # Attempts that ended, with those whose worker was lost, which are neither failed nor retried.
    attempts: int = 0
    timed_out: int = 0
    lost: int = 0
    run_seconds: float = 0.0
    cost_cents: int = 0
    wait_p50: float | None = None
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None

    @property
    def finished(self) -> int:
        """Jobs that ended, however they did."""
        return self.succeeded + self.failed + self.dead_lettered + self.canceled

    @property
    def success_rate(self) -> float | None:
        """Of the jobs that were not canceled, the share that succeeded."""
        return _share(self.succeeded, self.finished - self.canceled)

    @property
    def dead_letter_rate(self) -> float | None:
        """Of the jobs that were not canceled, the share that failed after its last retry."""
        return _share(self.dead_lettered, self.finished - self.canceled)

    @property
    def retry_rate(self) -> float | None:
        """Of the attempts, the share that failed and is tried again."""
        return _share(self.retried, self.attempts)


def flow_of(rows: Sequence[Any], bounds: Sequence[float]) -> Flow:
    """All of these together."""
    return Flow(**sums(rows, bounds)) if rows else Flow()


def sums(rows: Sequence[Any], bounds: Sequence[float]) -> dict[str, Any]:
    """The fields of a flow."""
    waits, runs = (
        [sum(row[name][n] or 0 for row in rows) for n in range(len(bounds) + 1)] for name in ("waits", "runs")
    )
    return {
        **{name: sum(row[name] for row in rows) for name in COUNTS},
        "wait_p50": quantile(waits, bounds, 0.5),
        "wait_p95": quantile(waits, bounds, 0.95),
        "run_p50": quantile(runs, bounds, 0.5),
        "run_p95": quantile(runs, bounds, 0.95),
    }


def quantile(counts: Sequence[int], bounds: Sequence[float], share: float) -> float | None:
    """The time that so large a share does not exceed, in seconds; within its bucket it is interpolated.

    `counts` has a number for each bound and one for what is above the last; there the quantile is that bound.
    """
    wanted = share * sum(counts)
    before = 0
    for low, high, count in zip([0.0, *bounds], [*bounds, bounds[-1]], counts, strict=True):
        if count and before + count >= wanted:
            return round(low + (high - low) * (wanted - before) / count, 6)
        before += count
    return None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
