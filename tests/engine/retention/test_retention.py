"""Retention: what is past its age is removed in small batches, and nothing else is."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import orjson
import pytest

from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.backoff import policy_of
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.groups import settle_groups
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.engine.metering.usage import meter_usage, read_usage
from atlas.engine.retention.retention import Pruned, forget_limits, forget_workers, id_at, prune, read_ages
from atlas.engine.schedules.recurring import list_recurring, remove_recurring, save_recurring
from atlas.engine.schedules.recurring_runs import claim_runs, finish_run, sweep_runs
from atlas.engine.workflows.events import publish_event
from tests.engine.jobs.given import given_claimed, given_job, given_worker, success
from tests.support import DANA, given_tenant

pytestmark = pytest.mark.usefixtures("online")


async def age(conn, days: int = 40) -> None:
    """Time passes for every finished job and attempt."""
    await meter_usage(conn)
    past = timedelta(days=days)
    await conn.execute(
        "update atlas.jobs set finished_at = finished_at - $1::interval, created_at = created_at - $1::interval", past
    )
    await conn.execute("update atlas.job_attempts set finished_at = finished_at - $1::interval", past)
    await conn.execute("update atlas.jobs set dead_lettered_at = dead_lettered_at - $1::interval", past)
    # The hour that is kept for transactions in flight has passed as well.
    await conn.execute(
        "update atlas.system_state set value = jsonb_set(value, '{read_until}', to_jsonb(clock_timestamp() + interval '2 hours'))"
        " where key = 'usage_meter'"
    )


async def keep(conn, tenant: UUID, **days: int | None) -> None:
    """The tenant keeps each of these for so many days."""
    await conn.execute(
        "update atlas.tenants set retention = $2::text::jsonb where id = $1", tenant, orjson.dumps(days).decode()
    )


async def sweep(pool, batch: int = 500) -> Pruned:
    total = Pruned()
    for ages in await read_ages(pool):
        async for one in prune(pool, ages, batch=batch):
            for kind, count in asdict(one).items():
                setattr(total, kind, getattr(total, kind) + count)
    return total


def old(days: int = 40) -> UUID:
    """An id made so many days ago."""
    return UUID(int=id_at(datetime.now(UTC) - timedelta(days=days)).int | uuid4().int >> 50)


async def given_ended(conn, count: int = 1, **options) -> None:
    worker = await given_worker(conn)
    for _ in range(count):
        await given_job(conn, **{"id": old(), **options})
    for job in await claim(conn, worker, limit=count):
        await finish(conn, worker, [success(worker, job)])


async def test_finished_jobs_past_their_age_go_in_batches_with_one_event_each(pool, conn):
    await given_ended(conn, 25)
    queued = await given_job(conn)
    await age(conn)

    removed = await sweep(pool, batch=10)

    assert removed.jobs == 25
    assert [row["id"] for row in await conn.fetch("select id from atlas.jobs")] == [queued]
    counts = await conn.fetch(
        "select (meta->>'jobs')::int as n from atlas.audit_log where action = 'JOBS_PRUNED' order by id"
    )
    assert [row["n"] for row in counts] == [10, 10, 5]
    assert (await sweep(pool)).total == 0


async def test_young_jobs_stay(pool, conn):
    await given_ended(conn, 3)
    await age(conn, days=29)
    assert (await sweep(pool)).total == 0


async def test_jobs_of_a_group_that_has_not_ended_stay(pool, conn):
    jobs = [NewJob("report.build", {}, id=old(), allow_unknown=True), NewJob("other", {}, allow_unknown=True)]
    await enqueue_group(conn, jobs, actor=DANA)
    worker = await given_worker(conn, "report.build")
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, job)])
    await age(conn)
    assert (await sweep(pool)).total == 0
    await cancel(conn, jobs[1].id, actor=DANA)
    assert await settle_groups(conn) == 1
    assert (await sweep(pool)).jobs == 1


async def test_jobs_whose_ids_carry_no_time_are_removed_too(pool, conn):
    await conn.execute("select atlas.enqueue('system', 'report.build', allow_unknown => true)")
    worker = await given_worker(conn)
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [success(worker, job)])
    await conn.execute("update atlas.jobs set id = 'ffffffff-0000-4000-8000-000000000000'")
    await age(conn)

    assert (await sweep(pool)).jobs == 1


async def test_dead_letters_are_kept_until_an_operator_decides(pool, conn):
    worker, dead = await given_claimed(conn, max_retries=0, id=old())
    await finish(conn, worker, [decide(dead, worker.id, ValueError("no"), policy_of(None))])
    worker, failed = await given_claimed(conn, id=old())
    await finish(conn, worker, [decide(failed, worker.id, PermanentError("never"), policy_of(None))])
    await age(conn)

    removed = await sweep(pool)

    assert (removed.jobs, [row["id"] for row in await conn.fetch("select id from atlas.jobs")]) == (1, [dead.id])
    assert await conn.fetchval("select count(*) from atlas.job_attempts") == 1
    await delete(conn, dead.id, actor=DANA)


async def test_nothing_is_removed_before_it_is_metered(pool, conn):
    await given_ended(conn, 4)
    await conn.execute("update atlas.jobs set finished_at = finished_at - interval '40 days'")
    assert (await sweep(pool)).jobs == 0

    await age(conn, days=0)
    assert (await sweep(pool)).jobs == 4
    assert sum(one.runs for one in await read_usage(conn)) == 4


async def test_a_tenants_own_ages_hold_for_it_alone(pool, conn):
    keeps, forgets = await given_tenant(conn, "keeps"), await given_tenant(conn, "forgets")
    old_friend = await given_tenant(conn, "old-friend")
    await keep(conn, keeps, jobs=None)
    await keep(conn, old_friend, jobs=1_000_000)
    await keep(conn, forgets, jobs=2)
    for tenant in (keeps, forgets, old_friend):
        await given_ended(conn, 2, tenant_id=tenant)
    await age(conn, days=3)

    assert (await sweep(pool)).jobs == 2
    assert {row["tenant_id"] for row in await conn.fetch("select tenant_id from atlas.jobs")} == {keeps, old_friend}


@pytest.mark.parametrize("ages", ['{"jobs": 0}', '{"jobs": "few"}', '{"jobs": true}', '{"cats": 1}', "[]"])
async def test_ages_that_mean_nothing_leave_the_usual_ones(pool, conn, ages):
    await conn.execute("update atlas.tenants set retention = $1::text::jsonb", ages)
    await given_ended(conn, 2)
    await age(conn, days=29)
    assert (await sweep(pool)).jobs == 0
    await age(conn, days=2)
    assert (await sweep(pool)).jobs == 2


async def test_an_age_that_reaches_back_before_any_id_keeps_what_there_is(pool, conn):
    await given_ended(conn, 3)
    for days in (36_500, 99_999):
        await keep(
            conn, await conn.fetchval("select tenant_id from atlas.jobs limit 1"), jobs=days, attempts=1, events=days
        )
        assert (await sweep(pool)).jobs == 0
    assert await conn.fetchval("select count(*) from atlas.jobs") == 3


async def test_attempts_may_go_before_their_jobs(pool, conn):
    tenant = await given_tenant(conn)
    await keep(conn, tenant, jobs=90, attempts=7)
    worker, job = await given_claimed(conn, tenant_id=tenant, id=old())
    await finish(conn, worker, [decide(job, worker.id, PermanentError("never"), policy_of(None))])
    await age(conn)

    removed = await sweep(pool)

    assert (removed.jobs, removed.attempts) == (0, 1)
    assert await conn.fetchval("select count(*) from atlas.jobs") == 1


async def test_steps_of_runs_that_succeeded_go_and_those_that_may_be_taken_up_again_stay(pool, conn):
    tenant = await given_tenant(conn)
    await keep(conn, tenant, jobs=90, steps=7)
    worker, done = await given_claimed(conn, "ENGINE_RUN", tenant_id=tenant, id=old())
    await finish(conn, worker, [success(worker, done)])
    worker, failed = await given_claimed(conn, "ENGINE_RUN", tenant_id=tenant, id=old())
    await finish(conn, worker, [decide(failed, worker.id, PermanentError("never"), policy_of(None))])
    for run in (done, failed):
        await conn.execute(
            "insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status)"
            " values ($1, '', 0, $2, 'a', 'step', 'succeeded')",
            run.id,
            tenant,
        )
    await age(conn)

    assert (await sweep(pool)).steps == 1
    assert await conn.fetchval("select run_id from atlas.workflow_steps") == failed.id


async def test_a_child_of_a_run_that_goes_on_stays(pool, conn):
    run = await given_job(conn, "ENGINE_RUN")
    await conn.execute("update atlas.jobs set next_retry_at = '9999-01-01'")
    await given_ended(conn, parent_run_id=run)
    await conn.execute("update atlas.jobs set next_retry_at = '9999-01-01' where id = $1", run)
    await age(conn)

    assert (await sweep(pool)).jobs == 0


async def test_a_child_of_a_run_that_is_a_dead_letter_stays(pool, conn):
    worker, run = await given_claimed(conn, max_retries=0, id=old())
    await finish(conn, worker, [decide(run, worker.id, ValueError("no"), policy_of(None))])
    await given_ended(conn, parent_run_id=run.id)
    await age(conn)

    assert (await sweep(pool)).jobs == 0


async def given_intent(conn, tenant, status, *, days=40, **options) -> UUID:
    """An intent that nothing happened to for so many days."""
    intent_id = options.get("id") or old()
    await conn.execute(
        "insert into atlas.intents (id, tenant_id, workflow, input_hash, status, requested_by, updated_at)"
        " values ($1, $2, 'wf', 'x', $3::text::atlas.intent_status, 'dana', clock_timestamp() - $4 * interval '1 day')",
        intent_id,
        tenant,
        status,
        float(days),
    )
    return intent_id


async def given_approval(conn, tenant, run_id, status) -> UUID:
    """An approval of forty days ago."""
    return await conn.fetchval(
        "insert into atlas.approvals (id, tenant_id, run_id, kind, title, input_hash, requested_by, status, expires_at, decided_at)"
        " values ($1, $2, $3, 'step', 'Pay?', 'x', 'dana', $4::text::atlas.approval_status, now(),"
        " case when $4 <> 'pending' then now() - interval '40 days' end) returning id",
        old(),
        tenant,
        run_id,
        status,
    )


async def test_intents_and_approvals_go_after_the_runs_they_became(pool, conn):
    tenant = await given_tenant(conn)
    gone = [await given_intent(conn, tenant, status) for status in ("executed", "failed", "blocked", "rejected")]
    kept = [await given_intent(conn, tenant, status) for status in ("draft", "queued", "awaiting_human")]
    kept.append(await given_intent(conn, tenant, "executed", days=3))  # too young
    has_a_run = await given_job(conn, "ENGINE_RUN", tenant_id=tenant, id=old())
    kept.append(await given_intent(conn, tenant, "failed", id=has_a_run))
    orphan = uuid4()  # a child run, whose job is gone
    for run_id in (gone[0], orphan):
        await given_approval(conn, tenant, run_id, "approved")
    stays = [
        await given_approval(conn, tenant, kept[2], "pending"),
        await given_approval(conn, tenant, has_a_run, "approved"),
        await given_approval(conn, tenant, kept[3], "rejected"),
    ]
    swept = await sweep(pool, batch=3)

    assert (swept.intents, swept.approvals) == (4, 2)
    assert {row["id"] for row in await conn.fetch("select id from atlas.intents")} == set(kept)
    assert {row["id"] for row in await conn.fetch("select id from atlas.approvals")} == set(stays)
    pruned = await conn.fetch("select meta from atlas.audit_log where action = 'INTENTS_PRUNED'")
    assert sum(orjson.loads(row["meta"])["intents"] for row in pruned) == 4
    assert (await sweep(pool)).total == 0


async def test_intents_that_policy_counts_today_stay_whatever_the_ages(pool, conn):
    tenant = await given_tenant(conn)
    await keep(conn, tenant, jobs=1)
    await given_intent(conn, tenant, "executed", days=1.5)
    await given_intent(conn, tenant, "executed", days=2.5)

    assert (await sweep(pool)).intents == 1


async def test_handled_events_are_removed_and_waiting_ones_stay(pool, conn):
    tenant = await given_tenant(conn)
    for _ in range(3):
        await publish_event(conn, tenant, "invoice.paid", actor=DANA)
    await conn.execute("update atlas.events set created_at = created_at - interval '40 days'")
    await conn.execute("update atlas.events set handled_at = clock_timestamp() where seq < 3")

    assert (await sweep(pool, batch=1)).events == 2
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'EVENTS_PRUNED'") == 2


async def test_a_firing_stays_while_it_can_swallow_another(pool, conn):
    tenant = await given_tenant(conn)
    await keep(conn, tenant, events=1)
    for window, label in ((0, "none"), (7 * 86_400, "week")):
        await conn.execute(
            """with t as (
                 insert into atlas.job_triggers (tenant_id, label, trigger_type, event_name, job_type, dedupe_window_seconds, created_by)
                 values ($1, $3, 'event', 'a', 'b', $2, 'dana') returning id)
               insert into atlas.trigger_fires (trigger_id, tenant_id, fired_at, created_by)
               select id, $1, clock_timestamp() - interval '2 days', 'scheduler' from t""",
            tenant,
            window,
            label,
        )

    assert (await sweep(pool)).fires == 1
    assert (
        await conn.fetchval("select label from atlas.trigger_fires f join atlas.job_triggers t on t.id = f.trigger_id")
        == "week"
    )


async def test_a_locked_job_is_skipped_not_waited_for(pool, conn):
    await given_ended(conn, 3)
    await age(conn)
    async with pool.acquire() as other:
        held = other.transaction()
        await held.start()
        await other.fetch("select from atlas.jobs order by id limit 1 for update")
        assert (await sweep(pool)).jobs == 2
        await held.rollback()
    assert (await sweep(pool)).jobs == 1


async def test_workers_that_ended_long_ago_are_forgotten_unless_they_hold_something(conn):
    idle = await given_worker(conn)
    holder, _ = await given_claimed(conn)
    alive = await given_worker(conn)
    await conn.execute(
        "update atlas.job_workers set dead_at = clock_timestamp() - interval '2 days' where worker_id = any($1)",
        [idle.id, holder.id],
    )

    assert await forget_workers(conn) == 1
    left = {row["worker_id"] for row in await conn.fetch("select worker_id from atlas.job_workers")}
    assert left == {holder.id, alive.id}


async def test_buckets_of_rates_go_when_they_are_full_and_unused(conn):
    await conn.execute(
        """insert into atlas.job_limits (id, per_second, burst, tokens, refilled_at, release_at)
        select gen_random_uuid(), rate, 10, 0, now() - age, waits
        from (values (1.0, interval '2 hours', null), (1.0, interval '1 minute', null), (0.0001, interval '2 hours', null),
                     (1.0, interval '2 hours', now())) v(rate, age, waits)"""
    )
    assert await forget_limits(conn) == 1


async def test_runs_of_recurring_functions_go_at_their_age_but_for_the_last_of_each(pool, conn):
    tenant = await given_tenant(conn, "acme")
    keys = [(tenant, "tidy"), (tenant, "gone")]
    for key in keys:
        await save_recurring(conn, key, start_at=datetime(2026, 1, 1, tzinfo=UTC), repeat_every=timedelta(hours=1))
        for _ in range(3):
            [run] = await claim_runs(conn, "w", [key], lease=60)
            await finish_run(conn, run, outcome="succeeded")
            await conn.execute("update atlas.recurring_jobs set next_run_at = clock_timestamp()")
    await claim_runs(conn, "w", keys[:1], lease=60)
    await remove_recurring(conn, keys[1])
    await conn.execute("update atlas.recurring_runs set finished_at = finished_at - interval '10 days'")

    assert (await sweep(pool)).recurring == 0
    await keep(conn, tenant, recurring=9)
    # A run in progress stays, whenever it began; and then it is the last one.
    assert (await sweep(pool, batch=2)).recurring == 6
    assert await conn.fetchval("select count(*) from atlas.recurring_runs where finished_at is null") == 1
    counts = await conn.fetch("select meta->>'runs' as n from atlas.audit_log where action = 'RECURRING_PRUNED'")
    assert [row["n"] for row in counts] == ["2", "2", "2"]

    await conn.execute("update atlas.recurring_runs set lease_expires_at = clock_timestamp() - interval '10 days'")
    await sweep_runs(conn)
    assert (await sweep(pool)).recurring == 0
    assert [one.last_outcome for one in await list_recurring(conn)] == ["lost"]
