"""Flow: what happened to jobs in some time, from the counts and the histograms of times that the meter keeps."""

from collections.abc import Sequence
from typing import Any

from atlas.models.overview import Flow

COUNTS = (
    *("enqueued", "succeeded", "failed", "dead_lettered", "retried", "canceled"),
    *("attempts", "timed_out", "lost", "run_seconds", "cost_cents"),
)
OUTCOMES = ("succeeded", "failed", "dead_lettered", "canceled")


def flow_of(rows: Sequence[Any], bounds: Sequence[float]) -> Flow:
    """All of these together."""
    return Flow(**sums(rows, bounds))


def sums(rows: Sequence[Any], bounds: Sequence[float]) -> dict[str, Any]:
    """The fields of a flow."""
    waits, runs = (
        [sum(row[name][n] or 0 for row in rows) for n in range(len(bounds) + 1)] for name in ("waits", "runs")
    )
    counts = {name: sum(row[name] for row in rows) for name in COUNTS}
    finished = sum(counts[name] for name in OUTCOMES)
    judged = finished - counts["canceled"]
    return {
        **counts,
        "finished": finished,
        "success_rate": _share(counts["succeeded"], judged),
        "dead_letter_rate": _share(counts["dead_lettered"], judged),
        "retry_rate": _share(counts["retried"], counts["attempts"]),
        "wait_p50": quantile(waits, bounds, 0.5),
        "wait_p95": quantile(waits, bounds, 0.95),
        "run_p50": quantile(runs, bounds, 0.5),
        "run_p95": quantile(runs, bounds, 0.95),
    }


def quantile(counts: Sequence[int], bounds: Sequence[float], share: float) -> float | None:
    """The time that so large a share does not exceed, in seconds; within its bucket it is interpolated.

    `counts` has a number for each bound and one for what is above the last; there the quantile is that bound.
    """
    rank = share * sum(counts)
    if not rank:
        return None
    before = 0
    for low, high, count in zip([0.0, *bounds], [*bounds, bounds[-1]], counts, strict=True):
        if count and before + count >= rank:
            return round(low + (high - low) * (rank - before) / count, 6)
        before += count
    return None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
