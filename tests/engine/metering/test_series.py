"""Series: what happened to jobs is in the minute and the hour in which it happened, once, for tenants and for all."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from atlas.engine.jobs.backoff import policy_of
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import decide
from atlas.engine.metering.flow import quantile
from atlas.engine.metering.series import SeriesQuery, prune_series, read_series
from atlas.engine.metering.usage import meter_usage
from atlas.engine.tenants.tenants import add_tenant
from atlas.errors import InvalidInput
from atlas.scheduler.maintenance import Maintenance
from tests.engine.jobs.given import given_claimed, given_job, success
from tests.support import DANA

NOW = datetime.now(UTC)


pytestmark = pytest.mark.usefixtures("online")


async def metered(conn) -> None:
    while await meter_usage(conn, limit=7):
        pass


async def totals(conn, **wanted) -> dict[str | None, tuple[int, ...]]:
    found = await read_series(conn, SeriesQuery(**wanted))
    return {
        one.job_type: (one.total.enqueued, one.total.succeeded, one.total.failed, one.total.dead_lettered)
        for one in found.series
    }


async def do_something(conn) -> None:
    worker, job = await given_claimed(conn)
    await finish(conn, worker, [success(worker, job)])
    for error in (ValueError("no"), None):
        worker, job = await given_claimed(conn, "other.work", max_retries=0)
        if error is not None:
            await finish(conn, worker, [decide(job, worker.id, error, policy_of(None))])


async def test_what_happened_is_in_its_minute_and_hour_by_type_and_for_all(conn):
    await do_something(conn)
    await metered(conn)
    await metered(conn)

    for step in ("minute", "hour", "day"):
        by_type = {"other.work": (2, 0, 0, 1), "report.build": (1, 1, 0, 0)}
        assert await totals(conn, step=step, by_type=True) == by_type
        assert await totals(conn, step=step) == {None: (3, 1, 0, 1)}
        assert await totals(conn, step=step, job_type="report.build") == {"report.build": (1, 1, 0, 0)}
        assert await totals(conn, step=step, job_type="none") == {"none": (0, 0, 0, 0)}
    [one] = (await read_series(conn, SeriesQuery())).series
    assert len(one.points) in (60, 61)
    assert sum(point.enqueued for point in one.points) == 3
    assert sum(point.finished for point in one.points) == 2
    assert sum(point.enqueued for point in one.points[-3:]) == 3


async def test_a_tenant_has_its_own_series_and_all_have_a_sum(conn):
    acme = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    await enqueue(conn, NewJob("a", {}, acme.id), actor=DANA)
    await given_job(conn, "b")
    await metered(conn)

    assert await totals(conn, tenant_id=acme.id, by_type=True) == {"a": (1, 0, 0, 0)}
    assert await totals(conn, by_type=True) == {"a": (1, 0, 0, 0), "b": (1, 0, 0, 0)}


async def test_meters_that_die_count_nothing_twice(pool, conn):
    for _ in range(20):
        await given_job(conn)

    async def meter() -> None:
        async with pool.acquire() as own:
            for _ in range(15):
                died = own.transaction()
                await died.start()
                await meter_usage(own, limit=3)
                await died.rollback()
                await meter_usage(own, limit=3)

    await asyncio.gather(meter(), meter())
    await metered(conn)

    assert await totals(conn) == {None: (20, 0, 0, 0)}


async def test_the_newest_minute_is_incomplete_until_the_meter_has_passed_it(conn):
    await given_job(conn)
    before = await read_series(conn, SeriesQuery())
    assert before.metered_until is None
    assert not any(point.is_complete for point in before.series[0].points)

    await metered(conn)
    after = await read_series(conn, SeriesQuery())
    *past, newest = after.series[0].points
    assert all(point.is_complete for point in past[:-1])
    assert not newest.is_complete
    assert newest.at <= after.metered_until <= after.end


async def test_times_are_added_up_over_types_and_minutes(conn):
    for job_type, seconds in (("a", 0.2), ("b", 0.2), ("b", 4.0)):
        worker, job = await given_claimed(conn, job_type)
        await finish(conn, worker, [success(worker, job)])
        await conn.execute(
            "update atlas.jobs set created_at = finished_at - interval '20 s', started_at = finished_at - $1 * interval '1 s'"
            " where id = $2",
            seconds,
            job.id,
        )
    await metered(conn)

    [one] = (await read_series(conn, SeriesQuery())).series
    assert 0.1 < one.total.run_p50 <= 0.25
    assert 2.5 < one.total.run_p95 <= 5
    assert 10 < one.total.wait_p50 <= 30
    filled = [point for point in one.points if point.run_p50 is not None]
    assert 1 <= len(filled) <= 3


def test_a_quantile_lies_within_its_bucket():
    bounds = [1.0, 2.0, 10.0]
    assert quantile([0, 0, 0, 0], bounds, 0.5) is None
    assert quantile([4, 0, 0, 0], bounds, 0.5) == 0.5
    assert quantile([1, 2, 1, 0], bounds, 0.5) == 1.5
    assert quantile([50, 0, 50, 0], bounds, 0.95) == pytest.approx(9.2)
    assert quantile([0, 0, 0, 3], bounds, 0.5) == 10.0


@pytest.mark.parametrize(
    "wanted",
    [
        {"start": NOW, "end": NOW - timedelta(hours=1)},
        {"start": NOW + timedelta(days=1)},
        {"start": NOW - timedelta(days=2)},
        {"start": NOW - timedelta(days=60), "step": "hour"},
        {"start": NOW - timedelta(days=900), "step": "day"},
    ],
)
async def test_a_time_that_is_too_long_or_empty_is_refused(conn, wanted):
    with pytest.raises(InvalidInput):
        await read_series(conn, SeriesQuery(**wanted))


async def test_old_steps_are_removed_and_young_ones_stay(pool, conn):
    await do_something(conn)
    await metered(conn)
    await conn.execute(
        "insert into atlas.job_series"
        " select tenant_id, step, begins_at - age, job_type, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, waits, runs from atlas.job_series,"
        " unnest(array[interval '2 days', interval '4 days', interval '401 days', interval '1101 days']) age"
    )
    await Maintenance(pool, asyncio.Event()).prune()

    ages = "select step::text, count(distinct begins_at::date) as days from atlas.job_series group by 1"
    assert {row["step"]: row["days"] for row in await conn.fetch(ages)} == {"minute": 2, "hour": 3, "day": 4}
    assert [removed async for removed in prune_series(pool)] == [0]
