"""Rate limits: by token, by tenant, and for wrong credentials by address; no tenant slows another one down."""

import asyncio
import re

import httpx
import pytest

import atlas.api.enqueue_batcher
import atlas.api.limits.batches
import atlas.api.resources.jobs.jobs
from atlas.api.app import create_app
from atlas.api.limits.batches import BatchSlots
from atlas.api.limits.rates import Buckets, Rates
from atlas.api.problems import TooManyRequests
from atlas.api.resources.jobs.jobs import _batch_bodies
from tests.api.conftest import furnish, running


@pytest.fixture
def world_at(pool, database_url, settings, opened):
    """An API with these rates. Buckets fill so slowly that a test sees none."""

    async def make(**rates):
        app = await opened(running(create_app(settings, pool, database_url, rates=Rates(**rates))))
        return await furnish(pool, app)

    return make


async def ask(client, times):
    return [await client.get("/jobs") for _ in range(times)]


def statuses(answers):
    return [answer.status_code for answer in answers]


async def test_a_token_beyond_its_rate_gets_retry_after(world_at):
    world = await world_at(token=0.5, burst_seconds=6)
    fast, other = world.client("acme", "tenant_admin"), world.client("acme", "enqueuer")
    answers = await ask(fast, 5)

    assert statuses(answers) == [200, 200, 200, 429, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 2
    assert answers[-1].json()["type"] == "urn:atlas:problem:too-many-requests"
    assert statuses(await ask(other, 1)) == [200]


async def test_signing_in_counts_as_any_other_request(world_at, conn):
    world = await world_at(token=0.001, burst_seconds=3000)
    page, signing_in = world.client("acme", "tenant_admin"), {"token": world.tokens["acme", "tenant_admin"]}
    del page.headers["Authorization"]
    answers = []
    for _ in range(5):
        answers.append(await page.post("/session", json=signing_in))
        page.cookies.clear()

    assert statuses(answers) == [201] * 3 + [429] * 2
    assert await conn.fetchval("select count(*) from atlas.sessions") == 3


async def test_a_tenant_beyond_its_rate_slows_itself_down_and_no_other(world_at):
    world = await world_at(tenant=0.001, burst_seconds=3000)
    first, second = world.client("acme", "tenant_admin"), world.client("acme", "enqueuer")
    other = world.client("other", "tenant_admin")

    assert statuses(await ask(first, 2) + await ask(second, 2)) == [200, 200, 200, 429]
    assert statuses(await ask(first, 20)) == [429] * 20
    assert statuses(await ask(other, 3)) == [200] * 3
    assert statuses(await ask(world.client(), 5)) == [200] * 5  # an operator belongs to no tenant


async def test_a_tenant_has_the_rate_that_its_limits_say(world_at):
    world = await world_at()
    operator = world.client()
    changed = await operator.patch("/tenants/acme", json={"limits": {"requests_per_second": 1}})

    assert changed.status_code == 200, changed.text
    assert statuses(await ask(world.client("acme", "tenant_admin"), 3)) == [200, 200, 429]


async def test_people_do_not_use_up_the_rate_of_their_hosts_and_workers(world_at):
    world = await world_at(tenant=0.001, agents=0.01, burst_seconds=2000)

    assert statuses(await ask(world.client("acme", "tenant_admin"), 4)) == [200, 200, 429, 429]
    claims = await claim(world, 21)
    assert statuses(claims) == [200] * 20 + [429]
    assert claims[-1].json()["detail"].startswith("There are too many requests of this tenant's hosts and workers.")
    assert statuses([await world.client("acme", "host").get("/agent/hosts")]) == [429]  # they share it
    assert statuses([await world.client("other", "worker").get("/session")]) == [200]


async def test_the_limit_of_a_tenant_does_not_slow_its_workers_down(world_at):
    world = await world_at()
    await world.client().patch("/tenants/acme", json={"limits": {"requests_per_second": 1}})

    assert statuses(await ask(world.client("acme", "tenant_admin"), 3)) == [200, 200, 429]
    assert statuses(await claim(world, 20)) == [200] * 20


async def claim(world, times):
    worker = world.client("acme", "worker")
    return [await worker.post("/worker/jobs/claim", json={"job_types": ["x.work"]}) for _ in range(times)]


async def test_guessing_tokens_is_slow_and_does_not_stop_valid_ones(world_at):
    world = await world_at(failures=0.001, max_failures=5)
    known = world.client("acme", "tenant_admin")
    await known.get("/jobs")
    guess = world.client("acme", "tenant_admin")
    tried = []
    for n in range(8):
        guess.headers["Authorization"] = f"Bearer atl_aaaaaaaa_{'x' * 42}{n}"
        tried.append(await guess.get("/jobs"))
    signing_in = await guess.post("/session", json={"token": "guess"}, headers={"Authorization": ""})

    assert statuses(tried) == [401] * 5 + [429] * 3
    assert signing_in.status_code == 429
    assert statuses(await ask(known, 1)) == [200]
    world.app.state.api.callers.forget()
    assert statuses(await ask(known, 1) + await ask(world.client("acme", "enqueuer"), 1)) == [200, 200]
    assert statuses([await guess.get("/jobs")]) == [429]
    elsewhere = httpx.ASGITransport(world.app, client=("10.9.9.9", 1))
    async with httpx.AsyncClient(transport=elsewhere, base_url="http://atlas.test/api/v1") as other:
        assert (await other.get("/jobs", headers=world.headers("acme", "auditor"))).status_code == 200


async def test_each_job_of_a_body_counts_towards_the_rate_of_its_tenant(world_at):
    world = await world_at(tenant=0.01, burst_seconds=3000)
    fast, other = world.client("acme", "enqueuer"), world.client("other", "enqueuer")
    batch = [{"job_type": "x.work", "payload": {}}] * 20
    group = {"jobs": batch[:5], "then": batch[0]}

    # Thirty tokens: the body leaves ten, the group four, and the third body a debt of sixteen.
    answers = [await fast.post("/jobs", json=batch), await fast.post("/groups", json=group)]
    answers += [await fast.post("/jobs", json=batch), await fast.post("/jobs", json=batch[0])]

    assert statuses(answers) == [201, 201, 201, 429]
    left = [re.search(r'"tenant";r=(\d+);t=(\d+)$', answer.headers["ratelimit"]) for answer in answers]
    assert [int(each[1]) for each in left] == [10, 4, 0, 0]
    assert [round(int(each[2]), -2) for each in left] == [2000, 2600, 4600, 4600]
    assert {answer.headers["ratelimit-policy"] for answer in answers} == {
        '"token";q=3000000;w=3000, "tenant";q=30;w=3000'
    }
    assert 1600 < int(answers[-1].headers["retry-after"]) <= 1700
    assert statuses([await other.post("/jobs", json=batch)]) == [201]


async def test_a_tenant_has_one_large_batch_at_work_and_small_ones_pass(monkeypatch):
    slots, order = BatchSlots(), []
    first_is_in, first_may_end = asyncio.Event(), asyncio.Event()

    async def hold(key, jobs, name, *, until=None):
        async with slots.taken(key, jobs):
            order.append(name)
            first_is_in.set()
            if until is not None:
                await until.wait()

    first = asyncio.create_task(hold("a", 1000, "first", until=first_may_end))
    await first_is_in.wait()
    second = asyncio.create_task(hold("a", 1000, "second"))
    await asyncio.gather(hold("a", 10, "small"), hold("b", 1000, "other tenant"))
    monkeypatch.setattr(atlas.api.limits.batches, "WAIT_SECONDS", 0.01)
    with pytest.raises(TooManyRequests):
        await hold("a", 1000, "late")
    first_may_end.set()
    await asyncio.gather(first, second)

    assert sorted(order[1:3]) == ["other tenant", "small"]
    assert (order[0], order[3:]) == ("first", ["second"])
    assert slots._each == {}


async def test_a_large_batch_gives_way_to_single_jobs_before_each_write(world_at, monkeypatch):
    world = await world_at()
    client, slots = world.client("acme", "enqueuer"), world.app.state.api.batch_slots
    written, waits, give_way = [], asyncio.Event(), slots.give_way

    async def make(conn, jobs, actor):
        written.append((len(jobs), slots._singles))
        return await atlas.api.enqueue_batcher.make(conn, jobs, actor)

    async def wait():
        waits.set()
        await give_way()

    monkeypatch.setattr(atlas.api.resources.jobs.jobs, "make", make)
    monkeypatch.setattr(slots, "give_way", wait)
    monkeypatch.setattr(atlas.api.limits.batches, "GIVE_WAY_SECONDS", 60)
    job = {"job_type": "a.work", "allow_unknown": True}
    slots.begin_single()
    batch = asyncio.create_task(client.post("/jobs", json=[job] * 150))
    await waits.wait()
    single = await client.post("/jobs", json=job)
    assert (single.status_code, written) == (201, [])
    slots.end_single()
    assert (await batch).status_code == 201
    assert written == [(25, 0)] * 6  # Another single job may come soon.
    written.clear()
    slots._last_single -= 1.1
    assert (await client.post("/jobs", json=[job] * 150)).status_code == 201
    assert written == [(100, 0), (50, 0)]

    slots.begin_single()
    monkeypatch.setattr(atlas.api.limits.batches, "GIVE_WAY_SECONDS", 0.01)
    assert (await client.post("/jobs", json=[job] * 150)).status_code == 201
    slots.end_single()
    assert slots._singles == 0


async def test_a_large_batch_lets_others_run_between_its_chunks():
    ticks = 0

    async def others():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    bodies = await _batch_bodies([{"job_type": "x.work", "payload": {"n": n}} for n in range(1000)])
    beside.cancel()

    assert len(bodies) == 1000
    assert ticks >= 50


async def test_every_mistake_of_a_large_batch_is_named_by_its_place(world_at):
    world = await world_at()
    batch = [{"job_type": "x.work", "payload": {}} for _ in range(100)]
    batch[3]["payloat"] = batch[77]["payloat"] = {}

    answer = await world.client("acme", "enqueuer").post("/jobs", json=batch)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["3.payloat", "77.payloat"]


def test_a_bucket_fills_at_its_rate_and_not_beyond_its_size():
    now = [0.0]
    buckets = Buckets(lambda: now[0])

    assert [buckets.take("a", 2, 3) for _ in range(3)] == [0, 0, 0]
    assert buckets.take("a", 2, 3) == 0.5
    now[0] += 0.5
    assert [buckets.take("a", 2, 3), buckets.take("a", 2, 3)] == [0, 0.5]
    now[0] += 1000
    assert [buckets.take("a", 2, 3) for _ in range(4)] == [0, 0, 0, 0.5]
    for n in range(30_000):
        buckets.take(n, 2, 3)
    assert len(buckets._levels) <= 20_001
