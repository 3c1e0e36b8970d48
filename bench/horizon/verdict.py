"""Pass or fail: every figure beside the same load without a held horizon, measured first in the same run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.horizon.measure import WINDOW_SECONDS, LoadWindow, Measured, joined

MIN_RATE = 0.99
MAX_P99_RATIO = 3.0
# Noise of a machine that does other things too; what grows with the held time exceeds it within minutes.
MAX_CPU_RATIO = 1.3
MAX_MEMORY_RATIO = 1.3
MAX_WAKEUP_RATIO = 2.0
MINUTE = 60 // WINDOW_SECONDS


@dataclass(frozen=True, slots=True)
class Criterion:
    """One figure, its bound, and whether it holds."""

    name: str
    value: float
    bound: str
    passed: bool


def judge(measured: Measured) -> Iterator[Criterion]:
    """All criteria of a row."""
    before, held = joined(measured.before), joined(measured.held)
    last = joined(measured.held[-MINUTE:])
    slowest = min(minute.done / max(minute.offered, 1) for minute in _minutes(measured.held))
    yield Criterion("done / offered, slowest minute", slowest, f">= {MIN_RATE}", slowest >= MIN_RATE)
    for name, window in (("whole time", held), ("last minute", last)):
        ratio = _ratio(window.p99, before.p99)
        yield Criterion(f"start p99, {name} / before", ratio, f"< {MAX_P99_RATIO}", ratio < MAX_P99_RATIO)
    cpu = _ratio(last.cpu_per_job, before.cpu_per_job)
    yield Criterion("CPU per job, last minute / before", cpu, f"<= {MAX_CPU_RATIO}", cpu <= MAX_CPU_RATIO)
    memory = _ratio(last.worker_mb, measured.before[-1].worker_mb)
    yield Criterion("worker's memory, end / before", memory, f"<= {MAX_MEMORY_RATIO}", memory <= MAX_MEMORY_RATIO)
    wakeup = _ratio(measured.wakeup_held, measured.wakeup_before)
    yield Criterion("wake-up p50, held / before", wakeup, f"<= {MAX_WAKEUP_RATIO}", wakeup <= MAX_WAKEUP_RATIO)


def _minutes(windows: Sequence[LoadWindow]) -> list[LoadWindow]:
    """Whole minutes; one window where there is less."""
    whole = max(len(windows) // MINUTE, 1)
    return [joined(windows[n * MINUTE : (n + 1) * MINUTE]) for n in range(whole)]


def _ratio(now: float | None, before: float | None) -> float:
    """Infinite where nothing started."""
    return float("inf") if now is None or not before else now / before
