"""Previews of bulk actions: the number shown is the number changed, whatever arrives or leaves in between."""

from dataclasses import replace
from uuid import uuid4

import pytest

import atlas.engine.jobs.actions.bulk_previews
from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action, find_bulk_action, take_step
from atlas.engine.jobs.actions.bulk_previews import bulk_filter, forget_bulk_previews, preview_bulk_action
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.errors import Conflict, InvalidInput, NotFound
from tests.engine.jobs.given import actions, given_claimed, given_job
from tests.engine.jobs.test_bulk_actions import BURY, DEAD, given_dead, set_step
from tests.support import DANA, given_tenant


async def test_an_action_changes_the_jobs_of_its_preview_and_tells_apart_those_that_left_and_arrived(conn, monkeypatch):
    set_step(monkeypatch, 3)
    dead = await given_dead(conn, 10)
    preview = await preview_bulk_action(conn, "retry", DEAD, actor=DANA)
    assert (preview.count, preview.complete, preview.left_out) == (10, True, {})

    await begin_bulk_action(conn, "discard", actor=DANA, ids=[dead[0]], reason="known")
    await begin_bulk_action(conn, "delete", actor=DANA, ids=[dead[1]])
    await begin_bulk_action(conn, "retry", actor=DANA, ids=[dead[2], dead[3]])
    await conn.execute(BURY, [dead[3]], "again", "{}")
    later = await given_dead(conn, 2)
    begun = await begin_bulk_action(conn, "retry", actor=DANA, digest=preview.digest)
    # dead[3] ended again: it matches as the two that are new do, and is one of the set.
    assert (begun.total, begun.arrived, begun.status, begun.filter) == (10, 2, "running", bulk_filter(DEAD))
    while await take_step(conn, begun.id):
        pass

    done = await find_bulk_action(conn, begun.id)
    assert (done.status, done.changed, done.verdicts) == ("done", 6, {"retried": 6, "already_changed": 4})
    states = {row["id"]: row["status"] for row in await conn.fetch("select id, status::text from atlas.jobs")}
    assert states == {
        **dict.fromkeys([*dead[4:], dead[2]], "queued"),
        **dict.fromkeys([dead[0], dead[3], *later], "failed"),
    }
    # A second click changes nothing more.
    again = await begin_bulk_action(conn, "retry", actor=DANA, digest=preview.digest)
    while await take_step(conn, again.id):
        pass
    assert (await find_bulk_action(conn, again.id)).verdicts == {"already_changed": 10}


async def test_a_preview_counts_what_a_retry_would_change_and_says_what_it_leaves(conn):
    await given_dead(conn, 2)
    await given_dead(conn, more={"outcome": "unknown"})
    for key in ("held", "twice", "twice"):
        job = NewJob("report.build", {}, dedupe_key=key)
        await enqueue(conn, job, actor=DANA)
        await conn.execute(BURY, [job.id], "x", "{}")
    await enqueue(conn, NewJob("report.build", {}, dedupe_key="held"), actor=DANA)

    preview = await preview_bulk_action(conn, "retry", DEAD, actor=DANA)
    assert (preview.count, preview.left_out) == (3, {"unknown_outcome": 1, "conflict": 2})
    # What is left out does not hide the others from a small set.
    few = await preview_bulk_action(conn, "retry", DEAD, actor=DANA, limit=2)
    assert (few.count, few.complete, preview.complete) == (2, False, True)
    done = await begin_bulk_action(conn, "retry", actor=DANA, digest=preview.digest)
    assert (done.changed, done.verdicts) == (3, {"retried": 3})


async def given_one_of_each(conn):
    """A job in every state in which an action may find one, by its name."""
    dead, left = await given_dead(conn, 2)
    [unsure] = await given_dead(conn, more={"outcome": "unknown"})
    twins = [NewJob("report.build", {}, dedupe_key="twin") for _ in range(2)]
    for twin in twins:
        await enqueue(conn, twin, actor=DANA)
        await conn.execute(BURY, [twin.id], "x", "{}")
    _, running = await given_claimed(conn, "other")
    canceled = await given_job(conn)
    await begin_bulk_action(conn, "cancel", actor=DANA, ids=[canceled])
    queued = await given_job(conn)
    jobs = {"dead": dead, "left": left, "unsure": unsure, "twin": twins[0].id, "newer_twin": twins[1].id}
    return jobs | {"running": running.id, "canceled": canceled, "queued": queued, "gone": uuid4()}


REFUSED = {
    "retry": {"twin": "conflict", "running": "running", "queued": "queued", "gone": "missing"},
    "cancel": {
        **dict.fromkeys(("dead", "left", "unsure", "twin", "newer_twin", "canceled"), "ended"),
        "gone": "missing",
    },
    "delete": {"running": "running", "gone": "missing"},
    "discard": {"running": "running", "canceled": "canceled", "queued": "queued", "gone": "missing"},
}


@pytest.mark.parametrize("action", REFUSED)
async def test_a_preview_of_chosen_jobs_names_those_that_the_action_leaves_and_why(conn, action):
    jobs = await given_one_of_each(conn)
    preview = await preview_bulk_action(conn, action, [*jobs.values(), jobs["dead"]], actor=DANA)
    names = {id: name for name, id in jobs.items()}
    assert {names[id]: verdict for id, verdict in preview.refused.items()} == REFUSED[action]
    assert (preview.count, preview.filter) == (len(jobs) - len(REFUSED[action]), None)
    assert sum(preview.left_out.values()) == len(REFUSED[action])

    # What is alike and is not chosen stays.
    [other] = await given_dead(conn)
    done = await begin_bulk_action(conn, action, actor=DANA, digest=preview.digest, reason="known")
    assert (done.status, done.total, done.changed) == ("done", preview.count, preview.count)
    assert (done.filter, done.arrived) == (None, None)
    assert await actions(conn, other) == ["JOB_CREATED", "JOB_EXHAUSTED_RETRIES"]


async def test_chosen_jobs_that_change_before_the_action_are_left(conn):
    dead = await given_dead(conn, 3)
    preview = await preview_bulk_action(conn, "retry", dead, actor=DANA)
    await begin_bulk_action(conn, "retry", actor=DANA, ids=dead[:2])
    await conn.execute(BURY, dead[:1], "again", "{}")
    done = await begin_bulk_action(conn, "retry", actor=DANA, digest=preview.digest)
    assert (preview.count, done.verdicts) == (3, {"already_changed": 2, "retried": 1})


async def test_a_tenant_previews_its_own_jobs_alone_and_up_to_a_thousand(conn):
    mine, other = await given_tenant(conn), await given_tenant(conn, "other")
    [own], [foreign] = await given_dead(conn, tenant_id=mine), await given_dead(conn, tenant_id=other)
    preview = await preview_bulk_action(conn, "retry", [own, foreign], actor=DANA, tenant_id=mine)
    assert (preview.count, preview.refused) == (1, {foreign: "missing"})
    for ids in ([], [uuid4() for _ in range(1001)]):
        with pytest.raises(InvalidInput, match="1 to 1,000 ids"):
            await preview_bulk_action(conn, "retry", ids, actor=DANA)


async def test_active_jobs_are_previewed_too_and_new_ones_are_left(conn):
    queued = [await given_job(conn) for _ in range(3)]
    preview = await preview_bulk_action(conn, "cancel", JobFilter(statuses=("queued", "failed")), actor=DANA)
    await given_job(conn)
    done = await begin_bulk_action(conn, "cancel", actor=DANA, digest=preview.digest)
    assert (preview.count, done.changed, done.arrived) == (3, 3, 1)
    canceled = await conn.fetch("select id from atlas.jobs where status = 'canceled' order by id")
    assert [row["id"] for row in canceled] == queued


async def test_a_preview_that_is_too_large_says_so(conn, monkeypatch):
    monkeypatch.setattr(atlas.engine.jobs.actions.bulk_previews, "MAX_PREVIEWED", 4)
    dead = await given_dead(conn, 6)
    preview = await preview_bulk_action(conn, "delete", DEAD, actor=DANA)
    assert (preview.count, preview.complete) == (4, False)
    await begin_bulk_action(conn, "delete", actor=DANA, digest=preview.digest)
    assert [row["id"] for row in await conn.fetch("select id from atlas.jobs order by id")] == dead[:2]


async def test_a_preview_is_of_one_action_and_one_tenant_and_is_forgotten_after_a_day(conn):
    tenant = await given_tenant(conn)
    await given_dead(conn, 2, tenant_id=tenant)
    mine = replace(DEAD, tenant_id=tenant)
    preview = await preview_bulk_action(conn, "retry", mine, actor=DANA, tenant_id=tenant)
    options = {"actor": DANA, "digest": preview.digest, "reason": "known"}
    with pytest.raises(Conflict, match="of the action retry, not of discard"):
        await begin_bulk_action(conn, "discard", tenant_id=tenant, **options)
    with pytest.raises(NotFound):
        await begin_bulk_action(conn, "retry", **options)

    running = await begin_bulk_action(conn, "retry", tenant_id=tenant, rate_per_second=1, **options)
    await conn.execute("update atlas.bulk_previews set as_of = as_of - interval '25 hours'")
    await forget_bulk_previews(conn)
    assert await conn.fetchval("select count(*) from atlas.bulk_previews") == 1
    await conn.execute("update atlas.bulk_actions set next_step_at = clock_timestamp()")
    assert await take_step(conn, running.id)
    assert (await find_bulk_action(conn, running.id)).changed == 2
    await forget_bulk_previews(conn)
    assert await conn.fetchval("select count(*) from atlas.bulk_previews") == 0
    with pytest.raises(NotFound, match="Preview the action again"):
        await begin_bulk_action(conn, "retry", tenant_id=tenant, **options)


async def test_a_tenant_keeps_its_newest_previews_and_those_that_are_at_work(conn, monkeypatch):
    monkeypatch.setattr(atlas.engine.jobs.actions.bulk_previews, "MAX_KEPT", 3)
    set_step(monkeypatch, 1)
    acme = await given_tenant(conn)
    await given_dead(conn, 3)
    first, *_ = [await preview_bulk_action(conn, "retry", DEAD, actor=DANA) for _ in range(2)]
    await preview_bulk_action(conn, "retry", DEAD, actor=DANA, tenant_id=acme)
    await begin_bulk_action(conn, "retry", actor=DANA, digest=first.digest)
    digests = [(await preview_bulk_action(conn, "retry", DEAD, actor=DANA)).digest for _ in range(5)]
    kept = await conn.fetch("select digest from atlas.bulk_previews where tenant_id is null")
    assert {row["digest"] for row in kept} == {first.digest, *digests[-3:]}
    assert await conn.fetchval("select count(*) from atlas.bulk_previews where tenant_id = $1", acme) == 1


async def test_a_preview_of_a_cause_finds_all_of_it_however_many_others_there_are(conn, monkeypatch):
    # No page of all dead letters is read.
    monkeypatch.setattr(atlas.engine.jobs.actions.bulk_previews, "MAX_PAGES", 0)
    dead = await given_dead(conn, 3, message="Port 17 is closed")
    await given_dead(conn, 2, message="The disk is full")
    assert await count_jobs(conn)
    await begin_bulk_action(conn, "delete", actor=DANA, ids=dead[:1])
    cause = replace(DEAD, job_type="report.build", error_type="ValueError", error_pattern="Port # is closed")

    preview = await preview_bulk_action(conn, "discard", cause, actor=DANA)
    assert (preview.count, preview.complete) == (2, True)
