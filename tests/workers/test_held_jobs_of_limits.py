"""Limits by key and rates with real workers: order, kills, and no more starts in any time than the rate and its burst."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tests.support import PROOF, until
from tests.workers.processes import workers

RATE, BURST = 20, 4
# Five seconds of the rate: as long as a busy machine may keep the workers from it without a token being lost.
STORED = 5 * RATE

STARTS = """
select extract(epoch from started_at)::float8 from atlas.jobs where job_type ~ '^rated' and started_at is not null order by started_at
"""
SPANS = """
select input->>'customer' as customer, started_at, finished_at from atlas.jobs where job_type = 'keyed.sleeps' order by (input->>'n')::int
"""
UNDONE = "select count(*) from atlas.jobs where status in ('queued', 'running')"


def max_over(starts: list[float]) -> float:
    """By how much the fullest window is over the rate: at most the burst, and what the clock's last digit adds."""
    # Of all windows that end with a start, the fullest is found in one pass: the bucket's level, without its bound.
    level, highest = 0.0, 0.0
    for before, now in pairwise([starts[0], *starts]):
        level = max(0.0, level - (now - before) * RATE) + 1
        highest = max(highest, level)
    return highest


@pytest.mark.long
async def test_no_window_holds_more_starts_than_the_rate_and_its_burst(pool, given, serving):
    await given("rated.noop", *({"n": n} for n in range(50)))
    async with serving("rated.noop"), serving("rated.noop"):
        await until(lambda: _none_left(pool))
    starts = [row[0] for row in await pool.fetch(STARTS)]
    assert max_over(starts) <= BURST + 0.01
    # 46 of them wait for tokens: 2.3 seconds, and as much again on a busy machine.
    assert 2.2 < starts[-1] - starts[0] < 4.6


async def test_jobs_of_a_key_run_one_after_the_other_in_order(pool, given, serving):
    await given("keyed.sleeps", *({"n": n, "customer": n % 3} for n in range(45)))
    async with serving("keyed.sleeps"), serving("keyed.sleeps"), serving("keyed.sleeps"):
        await until(lambda: _none_left(pool))
    await _assert_in_order(pool)


@pytest.mark.slow
async def test_a_killed_worker_s_key_goes_on_with_the_same_job(pool, given, database_url):
    await given("keyed.sleeps", *({"n": n, "customer": n % 2} for n in range(60)))
    async with workers(database_url, 2, types="keyed.sleeps", lease=1) as running:
        await until(lambda: _some_done(pool))
        running[0].kill()
        await until(lambda: _none_left(pool))
    await _assert_in_order(pool)


@pytest.mark.slow
async def test_four_processes_use_the_rate_for_a_minute_and_never_exceed_it(pool, given, database_url):
    """The bucket is full at first. What they start later is all that it gained, unless they were away until it was full."""
    seconds = 60 if PROOF else 10
    await given("rated.stored", *({"n": n} for n in range(RATE * (seconds + 10) + STORED)))
    async with workers(database_url, 4, types="rated.stored", lease=5):
        await until(lambda: _some_started(pool), within=180)
        await asyncio.sleep(seconds)
    starts = [row[0] for row in await pool.fetch(STARTS)]
    used = sum(start - starts[0] < seconds for start in starts)
    print(f"{used} starts in {seconds} s at {RATE}/second, at most {max_over(starts):.2f} at once of {STORED}")
    assert max_over(starts) <= STORED + 0.01
    # All but what may be in the bucket at that moment.
    assert used >= RATE * seconds


async def _none_left(pool: Any) -> bool:
    return await pool.fetchval(UNDONE) == 0


async def _some_done(pool: Any) -> bool:
    return bool(await pool.fetchval("select count(*) > 5 from atlas.jobs where status = 'succeeded'"))


async def _some_started(pool: Any) -> bool:
    return bool(await pool.fetchval("select exists (select from atlas.jobs where started_at is not null)"))


async def _assert_in_order(pool: Any) -> None:
    last: dict[str, Any] = {}
    for row in await pool.fetch(SPANS):
        before = last.get(row["customer"])
        assert before is None or row["started_at"] >= before
        last[row["customer"]] = row["finished_at"]
