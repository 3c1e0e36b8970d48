"""Dead letters by cause."""

import pytest

from atlas.engine.jobs.dead_letters import group_dead_letters
from atlas.engine.jobs.job_list import JobFilter, list_jobs
from tests.engine.jobs.test_bulk_actions import given_dead
from tests.support import given_tenant


async def test_errors_that_differ_in_numbers_ids_and_addresses_are_one_group(conn):
    made = []
    for n in range(3):
        message = f"Job {n}: ann{n}@example.com is unknown to 0192f0c1-2b3c-7d4e-8f90-{n:012}"
        made += await given_dead(conn, 2, message=message)
    unsure = await given_dead(conn, message="it may have been sent", more={"outcome": "unknown"})

    found = await group_dead_letters(conn)
    assert (found.examined, found.complete) == (7, True)
    first, second = found.items
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


async def test_a_tenant_sees_its_own_and_operators_those_of_all(conn):
    mine, other = await given_tenant(conn), await given_tenant(conn, "other")
    await given_dead(conn, 3, tenant_id=mine)
    await given_dead(conn, 3, tenant_id=other)
    assert [group.count for group in (await group_dead_letters(conn, tenant_id=mine)).items] == [3]
    everything = await group_dead_letters(conn, most_read=4)
    assert ([group.count for group in everything.items], everything.complete) == ([4], False)


@pytest.mark.parametrize("message", [None, "", "no number"])
async def test_an_error_without_anything_to_replace_is_its_own_pattern(conn, message):
    await given_dead(conn, message=message)
    [group] = (await group_dead_letters(conn)).items
    assert (group.message, group.error_pattern) == (message, message)
