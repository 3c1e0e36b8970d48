"""Dead letters by cause: all of them are counted, those of the newest come first."""

from contextlib import asynccontextmanager

import pytest

from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.lists.dead_letters import group_dead_letters
from atlas.engine.jobs.lists.job_list import JobFilter, list_jobs
from atlas.engine.tenants.removal import begin_removal, continue_removal
from atlas.engine.tenants.tenants import find_tenant
from tests.engine.jobs.test_bulk_actions import BURY, given_dead
from tests.support import DANA, given_tenant

# Loaded past Atlas, and found by a count of the table.
MANY = """
insert into atlas.jobs (tenant_id, job_type, status, input, error, finished_at, dead_lettered_at)
select $1, 'report.build', 'failed', '{}', jsonb_build_object('type', 'ValueError', 'message', 'Port ' || n || ' is closed'),
  clock_timestamp(), clock_timestamp()
from generate_series(1, $2::int) n"""


async def groups(conn, **options):
    @asynccontextmanager
    async def transaction():
        async with conn.transaction():
            yield conn

    return await group_dead_letters(transaction, transaction, **options)


async def test_errors_that_differ_in_numbers_ids_and_addresses_are_one_group(conn):
    made = []
    for n in range(3):
        message = f"Job {n}: ann{n}@example.com is unknown to 0192f0c1-2b3c-7d4e-8f90-{n:012}"
        made += await given_dead(conn, 2, message=message)
    unsure = await given_dead(conn, message="it may have been sent", more={"outcome": "unknown"})

    found = await groups(conn)
    assert (found.count, found.complete) == (7, True)
    second, first = found.items
    assert (first.job_type, first.error_type, first.error_pattern, first.count) == (
        "report.build",
        "ValueError",
        "Job #: # is unknown to #",
        6,
    )
    assert (first.first_at < first.last_at, first.sample_id in made[4:], first.message) == (True, True, message)
    assert (second.count, second.unknown_outcomes, second.sample_id) == (1, 1, unsure[0])
    wanted = JobFilter(statuses=("dead_letter",), error_type="ValueError", error_pattern=first.error_pattern)
    assert {job.id for job in await list_jobs(conn, wanted)} == set(made)


async def test_all_dead_letters_are_counted_and_the_cause_of_the_newest_of_any_tenant_comes_first(conn):
    old, other = await given_tenant(conn), await given_tenant(conn, "other")
    await conn.execute(MANY, old, 6_000)
    assert await count_jobs(conn)
    await given_dead(conn, message="The disk is full", tenant_id=other)

    found = await groups(conn)
    assert [(group.message, group.count) for group in found.items] == [
        ("The disk is full", 1),
        (found.items[1].message, 6_000),
    ]
    assert (found.count, found.complete) == (6_001, True)
    assert [group.count for group in (await groups(conn, tenant_id=old)).items] == [6_000]
    everywhere = {tenant.tenant_id: tenant.count for group in (await groups(conn)).items for tenant in group.tenants}
    assert everywhere == {old: 6_000, other: 1}
    assert [group.count for group in (await groups(conn, tenant_id=other)).items] == [1]


async def test_a_cause_counts_what_is_left_after_jobs_were_retried_discarded_deleted_and_failed_otherwise(conn):
    dead = await given_dead(conn, 7, message="x")
    assert [group.count for group in (await groups(conn)).items] == [7]
    for action, id in zip(("retry", "discard", "delete"), dead, strict=False):
        await begin_bulk_action(conn, action, actor=DANA, ids=[id], reason="known")
    [left] = (await groups(conn)).items
    assert (left.count, left.sample_id) == (4, dead[6])

    # Retried, and failed for another reason, before the meter has read either.
    await begin_bulk_action(conn, "retry", actor=DANA, ids=[dead[6]])
    await conn.execute(BURY, [dead[6]], "y", "{}")
    newest, oldest = (await groups(conn)).items
    assert (newest.message, newest.count, newest.sample_id) == ("y", 1, dead[6])
    assert (oldest.message, oldest.count, oldest.sample_id) == ("x", 3, None)

    await begin_bulk_action(
        conn, "discard", actor=DANA, job_filter=JobFilter(statuses=("dead_letter",)), reason="known"
    )
    assert (await groups(conn)).items == []
    assert await conn.fetchval("select count(*) from atlas.dead_letter_causes") == 0
    # A count of the table finds the same.
    assert await count_jobs(conn)
    assert (await groups(conn)).count == 0


async def test_a_removed_tenant_leaves_the_counts_of_all(conn, pool):
    staying, leaving = await given_tenant(conn), await given_tenant(conn, "other")
    await given_dead(conn, 2, tenant_id=staying)
    await given_dead(conn, 3, tenant_id=leaving)
    assert (await groups(conn)).count == 5

    @asynccontextmanager
    async def transaction():
        async with pool.acquire() as own, own.transaction():
            yield own

    await begin_removal(conn, await find_tenant(conn, leaving), actor=DANA)
    async for _ in continue_removal(transaction, leaving, actor=DANA):
        pass
    assert [group.count for group in (await groups(conn)).items] == [2]
    assert await conn.fetchval("select count(*) from atlas.dead_letters") == 2


@pytest.mark.parametrize("message", [None, "", "no number"])
async def test_an_error_without_anything_to_replace_is_its_own_pattern(conn, message):
    [id] = await given_dead(conn, message=message)
    await given_dead(conn, message="another")
    _, group = (await groups(conn)).items
    assert (group.message, group.error_pattern) == (message, message)
    wanted = JobFilter(statuses=("dead_letter",), job_type="report.build", error_pattern=message or "")
    assert [job.id for job in await list_jobs(conn, wanted)] == [id]
