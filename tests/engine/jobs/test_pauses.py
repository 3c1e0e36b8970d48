"""Pauses: once pausing something has returned, nothing of it is claimed until it is resumed; enqueueing goes on."""

import asyncio
from datetime import timedelta

import pytest

from atlas.actors import Actor
from atlas.engine.hosts.leased_jobs import claim_for_host, claim_for_worker
from atlas.engine.jobs.claim import Claimant, claim, claim_for_slots
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.switches.pauses import end_pauses, list_pauses, pause, resume
from atlas.errors import InvalidInput, NotFound, Refused
from atlas.ids import new_id
from atlas.models.explain import Remedy
from tests.engine.jobs.given import given_host, given_job, given_worker, success
from tests.engine.jobs.test_plans import cost_of_a_claim
from tests.support import DANA, PROOF, given_tenant

TOGGLES = 300 if PROOF else 40
CROWD = 1_000_000 if PROOF else 5_000


@pytest.fixture(autouse=True)
async def types(conn):
    for key in ("mine", "other"):
        await conn.execute("insert into atlas.job_types (key) values ($1)", key)


async def over(conn, made):
    """Time passes: the pause's end has come."""
    await conn.execute("update atlas.pauses set until = clock_timestamp() - interval '1 second' where id = $1", made.id)


async def types_of(claimed):
    return sorted(job.job_type for job in claimed)


@pytest.mark.parametrize("serves", [["mine", "other"], None])
@pytest.mark.parametrize("fair", [True, False])
async def test_a_paused_type_is_not_claimed_and_comes_back_in_its_order(conn, serves, fair):
    worker = await given_worker(conn, *(serves or ()))
    worker = Claimant(worker.id, serves, is_fair=fair)
    made = await pause(conn, "type", "mine", actor=DANA, reason="provider outage")
    mine = [await given_job(conn, "mine") for _ in range(3)]
    await given_job(conn, "other")
    assert await types_of(await claim(conn, worker, limit=10)) == ["other"]
    assert await claim(conn, worker, limit=10) == []
    await resume(conn, made.id, actor=DANA)
    assert [job.id for job in await claim(conn, worker, limit=10)] == mine
    assert await list_pauses(conn) == []


@pytest.mark.parametrize("fair", [True, False])
async def test_a_paused_tenant_is_passed_over_with_all_its_jobs(conn, fair):
    acme, bolt = await given_tenant(conn), await given_tenant(conn, "bolt")
    worker = Claimant((await given_worker(conn, "mine", "other")).id, ["mine", "other"], is_fair=fair)
    made = await pause(conn, "tenant", "acme", actor=DANA)
    for tenant in (acme, bolt):
        await given_job(conn, "mine", tenant_id=tenant)
        await given_job(conn, "other", tenant_id=tenant)
    await conn.execute("update atlas.jobs set careful = true where job_type = 'other'")
    found = [job for _ in range(3) for job in await claim(conn, worker, limit=10)]
    assert {job.tenant_id for job in found} == {bolt}
    assert len(found) == 2
    await resume(conn, made.id, actor=DANA)
    found = [job for _ in range(3) for job in await claim(conn, worker, limit=10)]
    assert [job.tenant_id for job in found] == [acme, acme]


async def test_a_worker_of_one_type_claims_nothing_of_it_either(conn):
    """It is served by the quick way of the claim where nothing is paused."""
    worker = await given_worker(conn, "mine")
    made = await pause(conn, "type", "mine", actor=DANA)
    await given_job(conn, "mine")
    turn = await claim_for_slots(conn, worker, slots=5)
    assert (turn.claimed, turn.pauses) == ([], made.version)
    await resume(conn, made.id, actor=DANA)
    turn = await claim_for_slots(conn, worker, slots=5)
    assert (len(turn.claimed), turn.pauses) == (1, 0)


async def test_runs_of_a_paused_workflow_are_parked_and_come_back_in_their_order(conn):
    acme = await given_tenant(conn)
    for key in ("wf.paused", "wf.other"):
        await conn.execute(
            "insert into atlas.workflows (key, version, kind, created_by) values ($1, 0, 'code', 'test')", key
        )
    runs = [NewJob("ENGINE_RUN", {"workflow": key}, acme) for key in ("wf.paused", "wf.other", "wf.paused")]
    first, other, second = [one.id for one in await enqueue_many(conn, runs, actor=DANA)]
    worker = await given_worker(conn, "ENGINE_RUN")
    for_acme = await pause(conn, "workflow", "wf.paused", actor=DANA, tenant_id=acme)
    for_all = await pause(conn, "workflow", "wf.paused", actor=DANA)
    assert (for_acme.tenant, for_all.tenant) == ("acme", None)

    assert [job.id for job in await claim(conn, worker, limit=1)] == []  # the first is parked
    assert [job.id for job in await claim(conn, worker, limit=5)] == [other]
    assert await claim(conn, worker, limit=5) == []
    why = await explain(conn, first)
    assert (why.reason, why.command) == ("paused", "atlas resume workflow wf.paused --tenant acme")
    assert why.action == Remedy(verb="resume", target=str(for_acme.id))

    await resume(conn, for_acme.id, actor=DANA)
    assert await claim(conn, worker, limit=5) == []
    await resume(conn, for_all.id, actor=DANA)
    assert [job.id for job in await claim(conn, worker, limit=5)] == [first, second]


async def test_a_paused_host_and_its_paused_tenant_fetch_nothing(conn):
    host = await given_host(conn)
    await given_job(conn, "mine", host_id=host)
    for kind, name in (("host", "rack-1"), ("tenant", "system"), ("type", "mine")):
        made = await pause(conn, kind, name, actor=DANA)
        assert await claim_for_host(conn, host, lease=60) is None
        await resume(conn, made.id, actor=DANA)
    assert await claim_for_host(conn, host, lease=60) is not None


async def test_a_remote_worker_gets_nothing_that_is_paused(conn):
    await given_job(conn, "mine")
    token, ask = new_id(), {"limit": 5, "lease": 60}
    for kind, name in (("tenant", "system"), ("type", "mine")):
        made = await pause(conn, kind, name, actor=DANA)
        assert await claim_for_worker(conn, token, SYSTEM_TENANT, ["mine"], **ask) == []
        await resume(conn, made.id, actor=DANA)
    assert len(await claim_for_worker(conn, token, SYSTEM_TENANT, ["mine"], **ask)) == 1


async def test_a_pause_with_an_end_ends_by_itself_and_is_audited_once(conn):
    worker = await given_worker(conn, "mine")
    made = await pause(conn, "type", "mine", actor=DANA, reason="outage", until=timedelta(hours=2))
    assert made.until - made.since == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=1))
    await given_job(conn, "mine")
    assert await claim(conn, worker, limit=5) == []
    await over(conn, made)
    # Before anyone has noticed.
    assert len(await claim(conn, worker, limit=5)) == 1
    assert await list_pauses(conn) == []
    assert (await end_pauses(conn), await end_pauses(conn)) == (1, 0)
    rows = await conn.fetch(
        "select action, actor_type::text, actor_id, message from atlas.audit_log where entity_id = 'mine' order by id"
    )
    assert [tuple(row) for row in rows] == [
        ("PAUSED", "user", "dana", "outage"),
        ("RESUMED", "system", "watchdog", "its time is over"),
    ]
    assert not await conn.fetchval("select value ? 'pauses' from atlas.system_state where key = 'atlas_online'")


async def test_pausing_again_changes_the_reason_and_the_end_and_keeps_since(conn):
    first = await pause(conn, "type", "mine", actor=DANA, until=timedelta(hours=2))
    again = await pause(conn, "type", "mine", actor=Actor("user", "erin"), reason="longer")
    assert (again.id, again.since, again.by, again.reason, again.until) == (
        first.id,
        first.since,
        "erin",
        "longer",
        None,
    )
    assert again.version > first.version
    assert await list_pauses(conn) == [again]


async def test_explain_names_the_pause_with_who_since_when_and_the_remedy(conn):
    job_id = await given_job(conn, "mine")
    await pause(conn, "type", "mine", actor=DANA, reason="provider outage", until=timedelta(hours=2))
    why = await explain(conn, job_id)
    assert (why.reason, why.command) == ("paused", "atlas resume type mine")
    assert "The job type mine is paused since" in why.sentence
    assert "by dana: provider outage. It resumes at" in why.sentence


async def test_what_cannot_be_paused_is_refused(conn):
    acme = await given_tenant(conn)
    with pytest.raises(NotFound, match="no job type unheard"):
        await pause(conn, "type", "unheard", actor=DANA)
    with pytest.raises(NotFound, match="no tenant system"):
        await pause(conn, "tenant", "system", actor=DANA, tenant_id=acme)
    with pytest.raises(InvalidInput, match="paused for all tenants"):
        await pause(conn, "type", "mine", actor=DANA, tenant_id=acme)
    with pytest.raises(InvalidInput, match="is longer than"):
        await pause(conn, "type", "mine", actor=DANA, reason="x" * 3000)
    made = await pause(conn, "type", "EMAIL_SEND", actor=DANA)
    with pytest.raises(NotFound, match="no pause"):
        await resume(conn, made.id, actor=DANA, tenant_id=acme)
    await conn.execute("delete from atlas.system_state")
    with pytest.raises(Refused, match="never brought online"):
        await pause(conn, "type", "mine", actor=DANA)


async def test_the_gate_and_the_pauses_are_switched_apart(conn):
    worker = await given_worker(conn, "mine")
    await pause(conn, "type", "mine", actor=DANA)
    await switch(conn, online=False, actor=DANA)
    await switch(conn, online=True, actor=DANA)
    await given_job(conn, "mine")
    assert await claim(conn, worker, limit=5) == []


@pytest.mark.long
async def test_no_claim_takes_what_was_paused_when_the_pause_had_returned(pool):
    """Claims and pauses race on many connections: not one claim starts within a pause."""
    async with pool.acquire() as conn:
        await enqueue_many(conn, [NewJob("mine", {"n": n}) for n in range(TOGGLES * 20)], actor=DANA)
        worker = await given_worker(conn, "mine")
    done = asyncio.Event()

    async def serve():
        async with pool.acquire() as conn:
            while not done.is_set():
                jobs = await claim(conn, worker, limit=3)
                await finish(conn, worker, [success(worker, job) for job in jobs])
                await asyncio.sleep(0)

    serving = [asyncio.create_task(serve()) for _ in range(3)]
    late, begun = 0, "select count(*) from atlas.jobs where started_at > $1"
    async with pool.acquire() as conn:
        for _ in range(TOGGLES):
            made = await pause(conn, "type", "mine", actor=DANA)
            returned_at = await conn.fetchval("select clock_timestamp()")
            await asyncio.sleep(0.005)
            late += await conn.fetchval(begun, returned_at)
            await resume(conn, made.id, actor=DANA)
            await asyncio.sleep(0.005)
        done.set()
        await asyncio.gather(*serving)
        started = await conn.fetchval("select count(*) from atlas.jobs where started_at is not null")
    print(f"pauses: {TOGGLES} toggles, {started} starts, {late} of them while paused")
    assert late == 0
    assert started > 0


@pytest.mark.parametrize("kind", ["type", "tenant"])
@pytest.mark.parametrize("fair", ["true", "false"])
async def test_paused_jobs_cost_a_claim_nothing_each(conn, owner, kind, fair):
    await given_job(conn, "other")
    acme = await given_tenant(conn)
    worker = await given_worker(conn, "mine", "other")
    await pause(conn, kind, "mine" if kind == "type" else "acme", actor=DANA)
    call = f"atlas.claim($1, 5, 0, $2, null, false, {fair}, null)"
    empty = await cost_of_a_claim(conn, worker, call)
    await owner.execute(
        "insert into atlas.jobs (id, tenant_id, job_type, input)"
        " select gen_random_uuid(), $1, 'mine', '{}' from generate_series(1, $2)",
        acme,
        CROWD,
    )
    await owner.execute("vacuum analyze atlas.jobs")
    crowded = await cost_of_a_claim(conn, worker, call)
    print(f"claim behind {CROWD:,} jobs of a paused {kind}: {crowded} buffers, {empty} without")
    assert crowded <= empty * 1.5 + 40
