"""Tests how `python -m bench.horizon` judges what it measured."""

from collections import Counter

from bench.horizon.measure import LoadWindow, Measured
from bench.horizon.starts import StartCounts, quantile
from bench.horizon.verdict import judge
from bench.soak import KeptTables
from bench.soak import judge as judge_soak
from bench.steady import Minute
from bench.steady import judge as judge_steady


def window(*, done: int = 15_000, bucket: int = 50, cpu: float = 1.5) -> LoadWindow:
    return LoadWindow(15, 15_000, done, Counter({bucket: done}), worker_cpu=cpu, server_cpu=cpu, worker_mb=50)


def failed(held: list[LoadWindow]) -> list[str]:
    measured = Measured([window()] * 4, held, wakeup_before=1.0, wakeup_held=1.1)
    return [criterion.name.split(",")[0] for criterion in judge(measured) if not criterion.passed]


def test_a_row_passes_only_if_every_minute_keeps_up_with_what_was_offered_and_nothing_grows():
    calm = [window()] * 40

    assert failed(calm) == []
    assert failed([*calm, *[window(done=14_800)] * 4]) == ["done / offered"]
    assert failed([*calm, *[window(bucket=80)] * 4]) == ["start p99", "start p99"]
    assert failed([*calm, *[window(cpu=2.5)] * 4]) == ["CPU per job"]
    assert "start p99" in failed([window(done=0)] * 4)


def test_a_soak_fails_if_its_last_part_is_slower_or_its_last_cycle_larger_than_the_first():
    def drifted(last: LoadWindow, *kb_per_job: float) -> list[str]:
        parts = [*[window()] * 5, last]
        kept = [KeptTables(1_000 * number, {"jobs": 1_000 * number * kb}) for number, kb in enumerate(kb_per_job, 1)]
        return [one.name.split(",")[0] for one in judge_soak(parts, kept) if not one.passed]

    assert drifted(window(bucket=60), 1, 3, 1, 3.5) == []
    assert drifted(window(done=14_000), 1, 3, 1, 3) == ["jobs/s"]
    assert drifted(window(bucket=80), 1, 3, 1, 4) == ["start p99", "tables for each kept job"]


def test_a_quantile_is_within_five_percent_of_the_time_that_jobs_waited():
    starts = StartCounts()
    for ms in range(1, 101):
        starts.latencies[starts.bucket(ms)] += 1

    assert 50 <= (quantile(starts.latencies, 0.5) or 0) <= 52.5
    assert 99 <= (quantile(starts.latencies, 0.99) or 0) <= 104
    assert quantile({}, 0.5) is None


def test_a_steady_run_fails_if_its_last_minute_is_slower_or_a_program_has_grown():
    def drifted(rate: float, worker: float, api: float) -> list[str]:
        minutes = [
            Minute(1000, {"worker": 80, "API": 90}),
            Minute(10, {}),
            Minute(rate, {"worker": worker, "API": api}),
        ]
        return [criterion.name for criterion in judge_steady(minutes) if not criterion.passed]

    assert drifted(950, 88, 99) == []
    assert drifted(940, 80, 90) == ["jobs/s, last minute / first"]
    assert drifted(1000, 89, 100) == ["memory of the worker", "memory of the API"]
