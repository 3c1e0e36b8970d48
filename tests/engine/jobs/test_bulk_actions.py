"""Actions on many jobs: in steps that any process goes on with, each change audited with the reason."""

import asyncio
from dataclasses import replace
from uuid import uuid4

import orjson
import pytest

import atlas.engine.jobs.actions.bulk_actions
from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.jobs.actions.bulk_actions import (
    begin_bulk_action,
    cancel_bulk_action,
    due_bulk_actions,
    find_bulk_action,
    forget_bulk_actions,
    list_bulk_actions,
    take_step,
)
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.lists.find import get_job
from atlas.engine.jobs.lists.job_list import JobFilter, list_ids
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.metering.usage import meter_usage
from atlas.errors import Conflict, InvalidInput, NotFound, Refused
from atlas.scheduler.maintenance import Maintenance
from tests.engine.jobs.given import actions, given_claimed, given_job, load
from tests.support import DANA, given_tenant

DEAD = JobFilter(statuses=("dead_letter",))
# As an exhausted job is left: the row and its event.
BURY = """
with dead as (
  update atlas.jobs set status = 'failed', finished_at = clock_timestamp(), dead_lettered_at = clock_timestamp(),
    error = jsonb_build_object('message', $2::text, 'type', 'ValueError') || $3::text::jsonb
  where id = any ($1) returning id, tenant_id)
insert into atlas.audit_log (tenant_id, actor_type, actor_id, action, entity_type, entity_id, body)
select tenant_id, 'agent', 'w', 'JOB_EXHAUSTED_RETRIES', 'job', id,
  atlas.audit_body(tenant_id, 'agent', 'w', 'info', 'JOB_EXHAUSTED_RETRIES', 'job', id::text, '', '{}')
from dead
"""


async def given_dead(conn, count=1, *, message="x", more=None, **options):
    jobs = [NewJob("report.build", {"n": n}, **options) for n in range(count)]
    await enqueue_many(conn, jobs, actor=DANA)
    ids = [job.id for job in jobs]
    await conn.execute(BURY, ids, message, orjson.dumps(more or {}).decode())
    return ids


def set_step(monkeypatch, jobs):
    """Steps of so many jobs."""
    for name in ("FIRST_STEP_JOBS", "STEP_JOBS"):
        monkeypatch.setattr(atlas.engine.jobs.actions.bulk_actions, name, jobs)


async def test_jobs_are_retried_by_their_ids_with_the_reason_in_the_audit_log(conn):
    dead, active, gone = (await given_dead(conn))[0], await given_job(conn), uuid4()
    done = await begin_bulk_action(conn, "retry", actor=DANA, ids=[dead, active, gone, dead], reason="fixed")

    assert (done.status, done.total, done.changed, done.passed_over) == ("done", 3, 1, 2)
    assert done.verdicts == {"retried": 1, "queued": 1, "missing": 1}
    assert (await load(conn, dead))["status"] == "queued"
    meta = await conn.fetchval("select meta from atlas.audit_log where action = 'JOB_RETRIED'")
    assert orjson.loads(meta) | {"reason": "fixed", "bulk_action": str(done.id)} == orjson.loads(meta)
    assert await actions(conn, done.id) == ["BULK_ACTION_BEGAN", "BULK_ACTION_ENDED"]


async def test_each_verb_changes_what_it_applies_to(conn):
    queued, dead = await given_job(conn), (await given_dead(conn))[0]
    _, running = await given_claimed(conn, "other")
    all_of_them = [queued, dead, running.id]

    canceled = await begin_bulk_action(conn, "cancel", actor=DANA, ids=all_of_them)
    assert canceled.verdicts == {"canceled": 1, "ended": 1, "requested": 1}
    discarded = await begin_bulk_action(conn, "discard", actor=DANA, ids=all_of_them, reason="known")
    assert discarded.verdicts == {"discarded": 1, "canceled": 1, "running": 1}
    job = await get_job(conn, dead)
    assert job is not None
    assert (job.shown_status, job.error["message"]) == ("failed", "x")
    deleted = await begin_bulk_action(conn, "delete", actor=DANA, ids=all_of_them)
    assert deleted.verdicts == {"deleted": 2, "running": 1}
    assert await actions(conn, dead) == ["JOB_CREATED", "JOB_EXHAUSTED_RETRIES", "JOB_DISCARDED", "JOB_DELETED"]


async def test_counts_and_the_audit_log_agree_with_what_was_discarded(conn, pool):
    await count_jobs(conn)
    dead, _ = await given_dead(conn, 2)
    await begin_bulk_action(conn, "discard", actor=DANA, ids=[dead], reason="known")
    while await meter_usage(conn):
        pass

    row = await conn.fetchrow("select failed, dead_letters from atlas.job_counts")
    assert tuple(row) == (2, 1)
    assert await cross_check(conn) == []


async def test_a_filter_is_followed_in_steps_and_past_each_job_once(conn, monkeypatch):
    set_step(monkeypatch, 3)
    dead, unsure = await given_dead(conn, 7), (await given_dead(conn, more={"outcome": "unknown"}))[0]
    begun = await begin_bulk_action(conn, "retry", actor=DANA, job_filter=DEAD)
    assert (begun.status, begun.changed, begun.passed_over) == ("running", 2, 1)
    # What ended again since it began, and what fails from now on, is left to another action.
    await conn.execute(BURY, dead[4:], "again", "{}")
    later = await given_dead(conn)

    while await take_step(conn, begun.id):
        pass
    done = await find_bulk_action(conn, begun.id)
    assert (done.status, done.verdicts) == ("done", {"retried": 6, "unknown_outcome": 1})
    states = {row["id"]: row["status"] for row in await conn.fetch("select id, status::text from atlas.jobs")}
    assert states == {**dict.fromkeys(dead[:4], "queued"), **dict.fromkeys([*dead[4:], unsure, *later], "failed")}


async def test_schedulers_go_on_with_an_action_whose_process_died_and_none_does_a_step_twice(conn, pool, monkeypatch):
    set_step(monkeypatch, 5)
    await given_dead(conn, 23)
    begun = await begin_bulk_action(conn, "delete", actor=DANA, job_filter=DEAD, reason="tidy")
    assert begun.changed == 5

    await asyncio.gather(*(Maintenance(pool, asyncio.Event()).go_on_with_bulk_actions() for _ in range(3)))
    done = await find_bulk_action(conn, begun.id)
    assert (done.status, done.changed, done.verdicts) == ("done", 23, {"deleted": 23})
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'JOB_DELETED'") == 23


async def test_a_process_that_stalls_between_choosing_a_step_and_taking_it_holds_up_nobody(conn, pool, monkeypatch):
    set_step(monkeypatch, 5)
    await given_dead(conn, 23)
    begun = await begin_bulk_action(conn, "delete", actor=DANA, job_filter=DEAD)
    chosen, go_on = asyncio.Event(), asyncio.Event()

    async def stall(conn, *given, **options):
        found = await list_ids(conn, *given, **options)
        if not chosen.is_set():
            chosen.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(atlas.engine.jobs.actions.bulk_actions, "list_ids", stall)
    async with pool.acquire() as own:
        stalled = asyncio.create_task(take_step(own, begun.id))
        await chosen.wait()
        while await take_step(conn, begun.id):
            pass
        go_on.set()
        assert not await stalled

    done = await find_bulk_action(conn, begun.id)
    assert (done.status, done.verdicts) == ("done", {"deleted": 23})
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'JOB_DELETED'") == 23


async def test_a_job_that_left_the_filter_since_the_step_was_chosen_is_passed_over(conn, monkeypatch):
    dead = await given_dead(conn, 3)

    async def retry_then_list(conn, *given, **options):
        found = await list_ids(conn, *given, **options)
        await conn.execute("update atlas.jobs set status = 'queued', dead_lettered_at = null where id = $1", dead[0])
        return found

    monkeypatch.setattr(atlas.engine.jobs.actions.bulk_actions, "list_ids", retry_then_list)
    done = await begin_bulk_action(conn, "delete", actor=DANA, job_filter=DEAD)

    assert (done.status, done.verdicts) == ("done", {"deleted": 2})
    assert [row["id"] for row in await conn.fetch("select id from atlas.jobs")] == dead[:1]


async def test_a_rate_says_when_the_next_step_is_due(conn):
    await given_dead(conn, 10)
    begun = await begin_bulk_action(conn, "retry", actor=DANA, job_filter=DEAD, rate_per_second=2)
    assert (begun.changed, await due_bulk_actions(conn)) == (2, [])
    assert not await take_step(conn, begun.id)
    rest = "select extract(epoch from next_step_at - updated_at)::float8 from atlas.bulk_actions"
    assert await conn.fetchval(rest) == pytest.approx(1.0, abs=0.01)

    await conn.execute("update atlas.bulk_actions set next_step_at = clock_timestamp() - interval '1 second'")
    assert await due_bulk_actions(conn) == [begun.id]
    assert await take_step(conn, begun.id)
    assert (await find_bulk_action(conn, begun.id)).changed == 4


async def test_an_action_is_stopped_where_it_is(conn):
    await given_dead(conn, 10)
    begun = await begin_bulk_action(conn, "retry", actor=DANA, job_filter=DEAD, rate_per_second=1)
    stopped = await cancel_bulk_action(conn, begun.id, actor=DANA)
    assert (stopped.status, stopped.canceled_by, stopped.changed) == ("canceled", "dana", 1)
    await conn.execute("update atlas.bulk_actions set next_step_at = now() - interval '1 second'")
    assert not await take_step(conn, begun.id)
    with pytest.raises(Conflict, match="is canceled"):
        await cancel_bulk_action(conn, begun.id, actor=DANA)
    assert await actions(conn, begun.id) == ["BULK_ACTION_BEGAN", "BULK_ACTION_CANCELED"]


async def test_a_tenants_action_touches_its_own_jobs_alone(conn):
    mine, other = await given_tenant(conn), await given_tenant(conn, "other")
    own, foreign = await given_dead(conn, 2, tenant_id=mine), await given_dead(conn, 2, tenant_id=other)
    by_ids = await begin_bulk_action(conn, "delete", actor=DANA, ids=foreign, tenant_id=mine)
    assert by_ids.verdicts == {"missing": 2}
    by_filter = await begin_bulk_action(
        conn, "delete", actor=DANA, job_filter=replace(DEAD, tenant_id=mine), tenant_id=mine
    )
    assert by_filter.verdicts == {"deleted": 2}
    assert {row["id"] for row in await conn.fetch("select id from atlas.jobs")} == set(foreign)
    assert own
    assert [action.id for action in await list_bulk_actions(conn, tenant_id=mine)] == [by_filter.id, by_ids.id]
    with pytest.raises(NotFound):
        await find_bulk_action(conn, by_ids.id, tenant_id=other)
    with pytest.raises(NotFound):
        await cancel_bulk_action(conn, by_ids.id, actor=DANA, tenant_id=other)


async def test_what_would_change_nothing_or_everything_is_refused(conn, monkeypatch):
    with pytest.raises(Refused, match="every job would match"):
        await begin_bulk_action(conn, "delete", actor=DANA, job_filter=JobFilter())
    with pytest.raises(Refused, match="can be changed by retry"):
        await begin_bulk_action(conn, "retry", actor=DANA, job_filter=JobFilter(statuses=("succeeded",)))
    with pytest.raises(InvalidInput, match="1 to 1,000 ids"):
        await begin_bulk_action(conn, "retry", actor=DANA, ids=[])
    monkeypatch.setattr(atlas.engine.jobs.actions.bulk_actions, "MAX_RUNNING", 1)
    await given_dead(conn, 3)
    await begin_bulk_action(conn, "retry", actor=DANA, job_filter=DEAD, rate_per_second=1)
    with pytest.raises(Conflict, match="bulk actions are running"):
        await begin_bulk_action(conn, "retry", actor=DANA, job_filter=DEAD)


async def test_records_are_forgotten_after_ninety_days(conn):
    done = await begin_bulk_action(conn, "retry", actor=DANA, ids=[uuid4()])
    await forget_bulk_actions(conn)
    assert await list_bulk_actions(conn) == [done]
    await conn.execute("update atlas.bulk_actions set finished_at = finished_at - interval '91 days'")
    await forget_bulk_actions(conn)
    assert await list_bulk_actions(conn) == []
