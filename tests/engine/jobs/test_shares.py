"""Fair shares: tenants that compete for workers get worker time by their weights; priority orders the jobs of one."""

from collections import Counter
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from atlas.engine.jobs.claim import Claimant, TurnResult, claim_of_tenant
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import WorkerTime, finish_and_claim
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.switches.pauses import pause
from tests.engine.jobs.given import DANA, given_job, given_worker, success


async def given_tenant(conn: Any, slug: str, limits: str = "{}") -> UUID:
    return await conn.fetchval(
        "insert into atlas.tenants (slug, name, limits) values ($1, $1, $2::text::jsonb) returning id", slug, limits
    )


async def given_backlog(conn: Any, tenant: UUID, jobs: int, job_type: str = "mine") -> None:
    await enqueue_many(conn, [NewJob(job_type, {"n": n}, tenant) for n in range(jobs)], actor=DANA)


async def serve(
    conn: Any, worker: Claimant, seconds: dict[UUID, float], *, turns: int, slots: int
) -> tuple[Counter[UUID], TurnResult]:
    """Claim and finish; a job of a tenant takes its seconds. What the tenants have used, and the last turn."""
    used: Counter[UUID] = Counter()
    turn = await finish_and_claim(conn, worker, slots=slots)
    for _ in range(turns):
        jobs = Counter(job.tenant_id for job in turn.claimed)
        usage = WorkerTime(list(jobs), [seconds[one] * n for one, n in jobs.items()], list(jobs.values()))
        for tenant, n in jobs.items():
            used[tenant] += round(seconds[tenant] * n * 1000)
        done = [success(worker, job) for job in turn.claimed]
        turn = await finish_and_claim(conn, worker, done, slots=slots, after=turn.after, usage=usage)
    return used, turn


async def test_a_tenant_that_comes_late_does_not_wait_behind_the_backlog_of_another(conn):
    heavy, light = await given_tenant(conn, "heavy"), await given_tenant(conn, "light")
    await given_backlog(conn, heavy, 300)
    worker = await given_worker(conn, "mine")
    await serve(conn, worker, {heavy: 0.01}, turns=10, slots=5)

    wanted = await given_job(conn, "mine", tenant_id=light)
    turn = await finish_and_claim(conn, worker, slots=5)
    assert wanted in [job.id for job in turn.claimed]
    assert turn.contested


async def test_a_job_of_one_tenant_is_claimed_by_itself_beside_the_backlog_of_another(conn):
    heavy, light = await given_tenant(conn, "heavy"), await given_tenant(conn, "light")
    await given_backlog(conn, heavy, 20)
    worker = await given_worker(conn, "mine")
    wanted = await given_job(conn, "mine", tenant_id=light)
    await given_job(conn, "other", tenant_id=light)

    turn = await claim_of_tenant(conn, worker, light, "mine", within=10)
    assert [job.id for job in turn.claimed] == [wanted]
    assert (await claim_of_tenant(conn, worker, light, "mine", within=10)).claimed == []


async def test_a_tenant_over_its_share_gets_nothing_by_itself_until_others_have_caught_up(conn):
    heavy, light = await given_tenant(conn, "heavy"), await given_tenant(conn, "light")
    worker = await given_worker(conn, "mine")
    await given_backlog(conn, heavy, 40)
    await given_backlog(conn, light, 40)
    await finish_and_claim(conn, worker, usage=WorkerTime([heavy, light], [0.1, 5.0], [1, 1]))
    assert (await claim_of_tenant(conn, worker, light, "mine", within=10)).claimed == []
    assert len((await claim_of_tenant(conn, worker, heavy, "mine", within=10)).claimed) == 1

    await serve(conn, worker, {heavy: 1.0, light: 0.001}, turns=8, slots=2)
    assert len((await claim_of_tenant(conn, worker, light, "mine", within=10)).claimed) == 1


@pytest.mark.parametrize("closed", ["gate", "pause", "limit", "lease"])
async def test_a_claim_for_one_tenant_leaves_all_that_needs_a_closer_look(conn, closed):
    tenant = await given_tenant(conn, "light")
    worker = await given_worker(conn, "mine")
    await given_job(conn, "mine", tenant_id=tenant)
    match closed:
        case "gate":
            await switch(conn, online=False, actor=DANA)
        case "pause":
            await pause(conn, "type", "EMAIL_SEND", actor=DANA, reason="repairs")
        case "limit":
            await conn.execute("update atlas.tenants set limits = '{\"in_flight\": 5}' where slug = 'light'")
        case "lease":
            await conn.execute("update atlas.job_workers set lease_expires_at = clock_timestamp()")
    assert (await claim_of_tenant(conn, worker, tenant, "mine", within=10)).claimed == []


async def test_priority_orders_the_jobs_of_one_tenant_and_passes_no_other(conn):
    loud, calm = await given_tenant(conn, "loud"), await given_tenant(conn, "calm")
    await enqueue_many(conn, [NewJob("mine", {"n": n}, loud, priority=9) for n in range(20)], actor=DANA)
    urgent = await given_job(conn, "mine", tenant_id=loud, priority=10)
    await given_backlog(conn, calm, 20)

    turn = await finish_and_claim(conn, await given_worker(conn, "mine"), slots=10)
    assert Counter(job.tenant_id for job in turn.claimed) == {loud: 5, calm: 5}
    assert urgent in [job.id for job in turn.claimed]


@pytest.mark.long
async def test_worker_seconds_follow_the_weights_whatever_the_jobs_take(conn):
    tenants = [await given_tenant(conn, f"w{n}", f'{{"weight": {n}}}') for n in (1, 2, 4)]
    for tenant in tenants:
        await given_backlog(conn, tenant, 3000)
    seconds = dict(zip(tenants, (0.001, 0.02, 0.2), strict=True))

    used, _ = await serve(conn, await given_worker(conn, "mine"), seconds, turns=250, slots=10)
    shares = [used[tenant] / used.total() * 7 for tenant in tenants]
    assert [round(share) for share in shares] == [1, 2, 4], shares


async def test_tenants_with_very_short_jobs_share_by_their_number(conn):
    quick, noisy = await given_tenant(conn, "quick"), await given_tenant(conn, "noisy")
    for tenant in (quick, noisy):
        await given_backlog(conn, tenant, 1000)
    # Measured in the same handler; one was interrupted more often.
    seconds = {quick: 0.00001, noisy: 0.0003}
    worker = await given_worker(conn, "mine")
    claimed: Counter[UUID] = Counter()
    turn = await finish_and_claim(conn, worker, slots=40)
    for _ in range(20):
        jobs = Counter(job.tenant_id for job in turn.claimed)
        claimed.update(jobs)
        usage = WorkerTime(list(jobs), [seconds[tenant] * n for tenant, n in jobs.items()], list(jobs.values()))
        done = [success(worker, job) for job in turn.claimed]
        turn = await finish_and_claim(conn, worker, done, slots=40, after=turn.after, usage=usage)

    assert abs(claimed[quick] - claimed[noisy]) <= 0.03 * claimed.total(), claimed


@pytest.mark.parametrize(
    "tenants",
    [
        pytest.param([(1, 0.05), (2, 0.05), (4, 0.05)], id="weights"),
        pytest.param([(1, 0.5), *[(1, 0.05)] * 5], id="one with long jobs"),
        pytest.param([(1, 0.1)] * 12, id="more tenants than slots"),
    ],
)
async def test_no_tenant_waits_longer_than_twice_what_its_share_explains(conn, tenants):
    ids = [await given_tenant(conn, f"t{n}", f'{{"weight": {weight}}}') for n, (weight, _) in enumerate(tenants)]
    for tenant in ids:
        await given_backlog(conn, tenant, 160)
    seconds = {tenant: each for tenant, (_, each) in zip(ids, tenants, strict=True)}
    total = sum(weight for weight, _ in tenants)
    # So many seconds of all workers earn a tenant one of its own.
    rate = {tenant: total / weight for tenant, (weight, _) in zip(ids, tenants, strict=True)}
    worker = await given_worker(conn, "mine")
    turn = await finish_and_claim(conn, worker, slots=4)
    served = 0.0
    used: Counter[UUID] = Counter()
    begun = dict.fromkeys(ids, 0.0)
    explained = {tenant: seconds[tenant] * rate[tenant] for tenant in ids}
    for nth in range(60):
        jobs = Counter(job.tenant_id for job in turn.claimed)
        times = {tenant: seconds[tenant] * many for tenant, many in jobs.items()}
        used.update(times)
        for tenant in jobs:
            # The first jobs show how long those of each tenant take.
            assert nth < 15 or served - begun[tenant] <= 2 * explained[tenant], (served, begun, explained)
            # It waits for the share of one job, or until its share reaches what it has used; and for the end of the
            # longest job, which nothing interrupts. A claim begins all its jobs together.
            begun[tenant] = served
            level = max(seconds[tenant] * rate[tenant], used[tenant] * rate[tenant] - served, sum(times.values()))
            explained[tenant] = level + max(seconds.values())
        served += sum(times.values())
        usage = WorkerTime(list(jobs), list(times.values()), list(jobs.values()))
        done = [success(worker, job) for job in turn.claimed]
        turn = await finish_and_claim(conn, worker, done, slots=4, after=turn.after, usage=usage)

    for tenant in ids:
        assert served - begun[tenant] <= 2 * explained[tenant], (served, begun, explained)


async def test_what_a_tenant_did_not_use_is_not_saved_up(conn):
    busy, idle = await given_tenant(conn, "busy"), await given_tenant(conn, "idle")
    third = await given_tenant(conn, "third")
    worker = await given_worker(conn, "mine")
    for tenant in (busy, third, idle):
        await given_backlog(conn, tenant, 2)
    await serve(conn, worker, dict.fromkeys((busy, third, idle), 1.0), turns=3, slots=2)
    for tenant in (busy, third):
        await given_backlog(conn, tenant, 200)
    await serve(conn, worker, dict.fromkeys((busy, third), 1.0), turns=100, slots=2)
    await given_backlog(conn, idle, 100)

    used, _ = await serve(conn, worker, dict.fromkeys((busy, third, idle), 1.0), turns=30, slots=2)
    assert min(used[busy], used[third]) > 0, used
    assert used[idle] < used.total() / 2, used


async def test_every_one_of_many_tenants_is_served_in_its_turn(conn):
    tenants = [await given_tenant(conn, f"t{n}") for n in range(150)]
    await enqueue_many(conn, [NewJob("mine", {}, tenant) for tenant in tenants for _ in range(20)], actor=DANA)

    worker = await given_worker(conn, "mine")
    used, turn = await serve(conn, worker, dict.fromkeys(tenants, 0.1), turns=16, slots=50)
    assert set(used) == set(tenants)
    assert turn.again or len(turn.claimed) == 50


async def test_some_of_many_tenants_with_short_jobs_are_served_at_once_and_the_others_next(conn):
    tenants = [await given_tenant(conn, f"t{n}") for n in range(60)]
    await enqueue_many(conn, [NewJob("mine", {}, tenant) for tenant in tenants for _ in range(20)], actor=DANA)

    worker = await given_worker(conn, "mine")
    first = await finish_and_claim(conn, worker, slots=40)
    assert set(Counter(job.tenant_id for job in first.claimed).values()) == {5}
    used, _ = await serve(conn, worker, dict.fromkeys(tenants, 0.001), turns=8, slots=40)
    assert set(used) == set(tenants)


async def test_a_claim_asks_again_for_what_its_look_at_the_tenants_left(conn):
    tenants = [await given_tenant(conn, f"t{n}") for n in range(100)]
    await enqueue_many(conn, [NewJob("mine", {}, tenant) for tenant in tenants], actor=DANA)
    worker = await given_worker(conn, "mine")

    first = await finish_and_claim(conn, worker, slots=100)
    assert (len(first.claimed), first.again) == (64, True)
    second = await finish_and_claim(conn, worker, slots=36, after=first.after)
    assert len(second.claimed) == 36
    assert (await finish_and_claim(conn, worker, slots=5)).is_empty


async def test_tenants_share_several_types_together(conn):
    one, other = await given_tenant(conn, "one"), await given_tenant(conn, "other")
    await given_backlog(conn, one, 50, "mine")
    await given_backlog(conn, one, 50, "second")
    await given_backlog(conn, other, 50, "second")

    for worker in (await given_worker(conn, "mine", "second"), await given_worker(conn)):
        turn = await finish_and_claim(conn, worker, slots=20)
        assert Counter(job.tenant_id for job in turn.claimed) == {one: 10, other: 10}


async def test_limits_hold_within_the_shares(conn):
    few = await given_tenant(conn, "few", '{"in_flight": 2}')
    many = await given_tenant(conn, "many")
    await given_backlog(conn, few, 20)
    await given_backlog(conn, many, 20)
    worker = await given_worker(conn, "mine")

    claimed: Counter[UUID] = Counter()
    for _ in range(6):
        turn = await finish_and_claim(conn, worker, slots=4)
        claimed.update(job.tenant_id for job in turn.claimed)
    assert claimed[few] == 2
    assert claimed[many] >= 10


async def test_without_fairness_priority_and_age_order_the_jobs_of_all(conn):
    first, second = await given_tenant(conn, "first"), await given_tenant(conn, "second")
    await given_backlog(conn, first, 10)
    await given_backlog(conn, second, 10)
    urgent = await given_job(conn, "mine", tenant_id=second, priority=1)
    worker = await given_worker(conn, "mine")

    turn = await finish_and_claim(conn, Claimant(worker.id, worker.job_types, is_fair=False), slots=8)
    assert Counter(job.tenant_id for job in turn.claimed) == {first: 7, second: 1}
    assert urgent in [job.id for job in turn.claimed]
    assert not turn.contested


async def test_a_report_does_not_wait_for_that_of_another_worker(conn, owner):
    one, other = await given_tenant(conn, "one"), await given_tenant(conn, "other")
    worker = await given_worker(conn, "mine")
    await finish_and_claim(conn, worker, usage=WorkerTime([one, other], [1.0, 1.0], [1, 1]))
    async with owner.transaction():
        await owner.execute("select from atlas.tenant_shares where tenant_id = $1 for update", one)
        turn = await finish_and_claim(conn, worker, usage=WorkerTime([one, other], [1.0, 1.0], [1, 1]))
    assert turn.not_charged == [one]
    used = dict(await conn.fetch("select tenant_id, used from atlas.tenant_shares"))
    assert used[other] - used[one] == 1.0


async def test_explain_says_how_the_tenant_stands(conn):
    busy = await given_tenant(conn, "busy")
    others = [await given_tenant(conn, f"other-{n}") for n in range(4)]
    worker = await given_worker(conn, "mine")
    await finish_and_claim(conn, worker, usage=WorkerTime([busy, others[0]], [6.1, 3.9], [1, 1]))
    waiting = await given_job(conn, "mine", tenant_id=busy)
    assert (await explain(conn, waiting)).reason == "next"
    for other in others:
        await given_backlog(conn, other, 2)

    found = await explain(conn, waiting)
    expected = "Tenant busy has used 61 % of the worker time of the last minute, its share is 20 %"
    assert (found.reason, found.sentence) == ("share", f"{expected}; it is next after 4 others.")
    behind = await explain(conn, await given_job(conn, "mine", tenant_id=busy))
    assert behind.sentence.startswith(
        "1 mine jobs of its tenant are ahead of it by priority or age. Tenant busy has used"
    )


async def test_a_tenant_learns_its_own_share_alone(conn):
    one, other = await given_tenant(conn, "one"), await given_tenant(conn, "other")
    await given_worker(conn, "mine")
    await finish_and_claim(conn, await given_worker(conn, "mine"), usage=WorkerTime([one, other], [3.0, 1.0], [1, 1]))
    waiting = await given_job(conn, "mine", tenant_id=one)
    await given_backlog(conn, other, 1)
    async with conn.transaction():
        await conn.execute(f"set local role atlas_tenant; set local atlas.tenant = '{one}'")
        assert "has used 75 %" in (await explain(conn, waiting, tenant_id=one)).sentence
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await conn.fetch("select from atlas.tenant_shares")
