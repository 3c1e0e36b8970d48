"""Insights: every number of them is that of the jobs and attempts, counted one by one."""

import csv
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.backoff import policy_of
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.finish import Notes, finish
from atlas.engine.jobs.lease import reap
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import JobCanceled, JobTimeout, PermanentError, decide, succeed
from atlas.engine.metering.insights import InsightsQuery, read_insights
from atlas.engine.metering.insights_csv import COLUMNS, csv_lines, text
from atlas.engine.metering.usage import meter_usage
from atlas.engine.tenants.tenants import add_tenant
from atlas.errors import InvalidInput
from tests.engine.jobs.given import given_claimed, given_job, lose_lease, make_due, success
from tests.support import DANA

POLICY = policy_of(None)
# Of each tenant and type, by hand: see `given_a_day`.
ACME = {"enqueued": 5, "succeeded": 2, "failed": 1, "dead_lettered": 1, "canceled": 0, "attempts": 6, "retried": 1}
ACME |= {"timed_out": 1, "lost": 1, "cost_cents": 7, "finished": 4}
GLOBEX = {"enqueued": 3, "succeeded": 1, "failed": 0, "dead_lettered": 0, "canceled": 2, "attempts": 2, "retried": 0}
GLOBEX |= {"timed_out": 0, "lost": 0, "cost_cents": 5, "finished": 3}


@pytest.fixture
async def tenants(conn):
    await switch(conn, online=True, actor=DANA)
    return [await add_tenant(conn, slug=slug, name=slug, actor=DANA) for slug in ("acme", "globex")]


@pytest.fixture
async def given_a_day(conn, tenants):
    """Acme's mails: one succeeds, one after a retry, one fails for good, one is a dead letter, one is lost.

    Globex's reports: one succeeds, one is canceled while it runs, one before it.
    """
    acme, globex = (tenant.id for tenant in tenants)
    worker, job = await given_claimed(conn, "mail", tenant_id=acme)
    await finish(conn, worker, [succeed(job, worker.id, None, "JOB_SUCCEEDED", Notes(cost=3))])
    worker, job = await given_claimed(conn, "mail", tenant_id=acme)
    await finish(conn, worker, [decide(job, worker.id, ValueError("no"), POLICY, Notes(cost=4))])
    await make_due(conn, job.id)
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, job)])
    worker, job = await given_claimed(conn, "mail", tenant_id=acme)
    await finish(conn, worker, [decide(job, worker.id, PermanentError("never"), POLICY)])
    worker, job = await given_claimed(conn, "mail", tenant_id=acme, max_retries=0)
    await finish(conn, worker, [decide(job, worker.id, JobTimeout("late"), POLICY)])
    worker, job = await given_claimed(conn, "mail", tenant_id=acme)
    await lose_lease(conn, worker)
    await reap(conn)
    worker, job = await given_claimed(conn, "report", tenant_id=globex)
    await finish(conn, worker, [succeed(job, worker.id, None, "JOB_SUCCEEDED", Notes(cost=5))])
    worker, job = await given_claimed(conn, "report", tenant_id=globex)
    await finish(conn, worker, [decide(job, worker.id, JobCanceled("stop"), POLICY)])
    await cancel(conn, await given_job(conn, "report", tenant_id=globex), actor=DANA)
    while await meter_usage(conn, limit=7):
        pass


def numbers(flow):
    return {name: getattr(flow, name) for name in ACME}


async def csv_of(conn, wanted):
    @asynccontextmanager
    async def transaction():
        yield conn

    written = b"".join([line async for line in csv_lines(transaction, wanted)]).decode()
    header, *rows = csv.reader(written.splitlines())
    assert tuple(header) == COLUMNS
    return [dict(zip(header, row, strict=True)) for row in rows]


async def test_every_number_is_that_of_the_jobs(conn, tenants, given_a_day):
    """Acme's six attempts are of five jobs; the lost one is queued again."""
    acme, globex = (tenant.id for tenant in tenants)
    both = {name: ACME[name] + GLOBEX[name] for name in ACME}
    for step in ("minute", "hour", "day"):
        start = datetime.now(UTC) - timedelta(hours=2)
        found = await read_insights(conn, InsightsQuery(start=start, step=step))
        assert numbers(found.total) == both
        assert {group.job_type: numbers(group) for group in found.groups} == {"mail": ACME, "report": GLOBEX}
        assert sum(point.attempts for point in found.points) == both["attempts"]
    found = await read_insights(conn, InsightsQuery(by="tenant"))
    assert {group.tenant: numbers(group) for group in found.groups} == {"acme": ACME, "globex": GLOBEX}
    assert [group.tenant_id for group in found.groups] == [acme, globex]
    own = await read_insights(conn, InsightsQuery(globex, by="tenant"))
    assert (numbers(own.total), [group.tenant for group in own.groups]) == (GLOBEX, ["globex"])
    assert numbers((await read_insights(conn, InsightsQuery(job_type="mail", by="all"))).total) == ACME
    assert (await read_insights(conn, InsightsQuery(acme, job_type="report"))).groups == []

    attempts = "select count(*) from atlas.job_runs where status <> 'running'"
    assert await conn.fetchval(attempts) == both["attempts"]
    assert await conn.fetchval("select sum(cost_cents) from atlas.jobs") == both["cost_cents"]


async def test_rates_are_shares_of_what_ended(conn, given_a_day):
    acme, globex = (await read_insights(conn, InsightsQuery(by="tenant"))).groups
    assert (acme.success_rate, acme.dead_letter_rate, acme.retry_rate) == (0.5, 0.25, pytest.approx(1 / 6, abs=1e-6))
    # What was canceled is neither.
    assert (globex.success_rate, globex.dead_letter_rate, globex.retry_rate) == (1, 0, 0)
    nothing = (await read_insights(conn, InsightsQuery(job_type="none"))).total
    assert (nothing.success_rate, nothing.dead_letter_rate, nothing.retry_rate, nothing.run_p95) == (None,) * 4


async def test_the_time_before_has_as_many_steps(conn, given_a_day):
    await conn.execute(
        "update atlas.job_series set begins_at = begins_at - interval '8 days' where step = 'hour' and job_type = 'mail'"
    )
    await conn.execute("update atlas.job_series set begins_at = begins_at - interval '390 days' where step = 'day'")
    week = await read_insights(conn, InsightsQuery())
    assert (week.step, len(week.points)) == ("hour", 169)
    assert (numbers(week.total), numbers(week.previous)) == (GLOBEX, ACME)

    now = datetime.now(UTC)
    long_ago = await read_insights(conn, InsightsQuery(start=now - timedelta(days=395), end=now - timedelta(days=380)))
    assert (long_ago.step, long_ago.total.attempts, len(long_ago.points)) == ("day", 8, 16)
    assert long_ago.previous is not None
    oldest = await read_insights(conn, InsightsQuery(start=now - timedelta(days=700)))
    assert (oldest.total.attempts, oldest.previous) == (8, None)
    assert {point.at.hour for point in oldest.points} == {0}


@pytest.mark.parametrize(
    ("hours", "step"), [(1, "minute"), (6, "minute"), (7, "hour"), (24 * 8, "hour"), (24 * 9, "day")]
)
async def test_the_step_follows_from_the_length_of_the_time(conn, hours, step):
    end = datetime.now(UTC)
    assert (await read_insights(conn, InsightsQuery(None, end - timedelta(hours=hours), end))).step == step


async def test_a_time_that_is_too_long_or_empty_is_refused(conn):
    now = datetime.now(UTC)
    for wanted in (
        InsightsQuery(start=now + timedelta(days=1)),
        InsightsQuery(start=now, end=now - timedelta(days=1)),
        InsightsQuery(start=now - timedelta(days=40), step="hour"),
        InsightsQuery(start=now - timedelta(days=2), step="minute"),
    ):
        with pytest.raises(InvalidInput):
            await read_insights(conn, wanted)


async def test_csv_has_the_same_numbers_step_by_step(conn, tenants, given_a_day):
    await conn.execute(
        "update atlas.job_series set begins_at = begins_at - interval '3 days' where step = 'hour' and job_type = 'mail'"
    )
    by_type = await csv_of(conn, InsightsQuery())
    assert {row["job_type"] for row in by_type} == {"mail", "report"}
    assert by_type == sorted(by_type, key=lambda row: row["begins_at"])
    for kind, expected in (("mail", ACME), ("report", GLOBEX)):
        of_kind = [row for row in by_type if row["job_type"] == kind]
        assert {name: sum(int(row[name]) for row in of_kind) for name in expected} == expected
    assert {row["tenant"] for row in await csv_of(conn, InsightsQuery(by="tenant"))} == {"acme", "globex"}
    own = await csv_of(conn, InsightsQuery(tenants[1].id, by="all"))
    assert {(row["tenant"], row["job_type"]) for row in own} == {("globex", "")}
    assert await csv_of(conn, InsightsQuery(job_type="none")) == []


def test_no_cell_is_a_formula():
    for cell in ("=1+1", "+1", "-1", "@sum(a1)", " =1", "\t=1", "\rx", "\uff1d1"):
        assert text(cell) == f"'{cell}"
    for cell in ("mail.send", "a=b", "2-1", ""):
        assert text(cell) == cell
