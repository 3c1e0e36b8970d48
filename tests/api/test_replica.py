"""Lists and summaries from a streaming standby: how old they are, who must see what, and when the primary answers."""

import asyncio
from dataclasses import replace

import pytest

from atlas.api.app import create_app
from atlas.api.replica.reads import DATA_AGE
from atlas.api.routing import GuardedRoute, rules_of
from atlas.db.replica import ReplicaUnusable, read_first
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.api.conftest import QUICK, furnish, running
from tests.standby import standby_of
from tests.support import DANA, ROOT, until

# Longer than any of these tests takes on a busy machine.
STALENESS = 600.0
BY_THE_PRIMARY = "0"


@pytest.fixture(scope="module")
def standby(databases):
    with standby_of(databases) as found:
        yield found


@pytest.fixture
def settings(settings, standby, database_url):
    return replace(
        settings,
        atlas_read_database_url=standby.url(database_url),
        atlas_read_staleness_seconds=STALENESS,
    )


@pytest.fixture
async def world(pool, database_url, settings):
    """An API that reads from the standby, once that has the database of this test."""
    app = create_app(settings, pool, database_url, rates=QUICK)
    async with running(app):
        yield await furnish(pool, app)


@pytest.fixture
async def replica(world):
    found = world.app.state.api.replica
    await until(lambda: found.is_usable)
    return found


@pytest.fixture
async def paused(replica, standby, database_url):
    """The standby shows what was so until now, and nothing later."""
    await standby.execute(database_url, "select pg_wal_replay_pause()")
    yield
    await standby.execute(database_url, "select pg_wal_replay_resume()")


@pytest.fixture
def auditor(world):
    """Someone who has written nothing."""
    return world.client("all", "auditor")


async def enqueue_one(pool, world) -> str:
    async with pool.acquire() as conn:
        return str((await enqueue(conn, NewJob("a.work", {}, world.acme.id), actor=DANA)).id)


async def listed(client, path="/jobs"):
    response = await client.get(path)
    assert response.status_code == 200, response.text
    return [item["id"] for item in response.json()["items"]], response.headers[DATA_AGE]


@pytest.mark.long
async def test_a_list_shows_the_state_of_the_replica_and_says_how_old_it_is(pool, world, paused, auditor):
    new = await enqueue_one(pool, world)

    ids, age = await listed(auditor)
    assert ids == []
    assert 0 < float(age) < STALENESS
    one = await auditor.get(f"/jobs/{new}")
    assert (one.status_code, DATA_AGE in one.headers) == (200, False)


@pytest.mark.long
async def test_over_the_bound_the_primary_answers(pool, world, replica, paused, auditor):
    new = await enqueue_one(pool, world)
    assert (await listed(auditor))[0] == []
    replica.staleness = 0.0
    assert await listed(auditor) == ([new], BY_THE_PRIMARY)


@pytest.mark.long
async def test_an_export_that_has_begun_goes_on_from_the_primary(world, replica, paused, operator, monkeypatch):
    real, reads = replica.age, []

    async def only_once(conn, **needed):
        reads.append(needed)
        if len([read for read in reads if read]) > 1:
            raise ReplicaUnusable("it is too old by now")
        return await real(conn, **needed)

    monkeypatch.setattr(replica, "age", only_once)
    response = await operator.get("/insights/export", params={"step": "day"})
    assert (response.status_code, response.headers[DATA_AGE] != BY_THE_PRIMARY) == (200, True)
    assert response.text.startswith("begins_at,")
    assert len([read for read in reads if read]) == 2


async def test_a_caller_sees_what_it_wrote_and_a_page_what_was_committed(pool, world, paused, auditor, admin):
    made = (await admin.post("/jobs", json={"job_type": "a.work"})).json()["id"]
    assert await listed(admin) == ([made], BY_THE_PRIMARY)
    assert (await listed(auditor))[0] == []

    page = world.client("all", "auditor")
    signed_in = await page.post("/session", json={"token": world.tokens["all", "auditor"]}, headers=NO_TOKEN)
    assert signed_in.status_code == 201
    del page.headers["Authorization"]
    assert await listed(page) == ([made], BY_THE_PRIMARY)


NO_TOKEN = {"Authorization": ""}


async def test_both_read_from_the_replica_when_it_has_caught_up(pool, world, replica, admin):
    made = (await admin.post("/jobs", json={"job_type": "a.work"})).json()["id"]

    async def from_replica() -> bool:
        ids, age = await listed(admin)
        assert ids == [made]
        return age != BY_THE_PRIMARY

    await until(from_replica)


async def test_row_level_security_holds_there(pool, world, replica, standby):
    new = await enqueue_one(pool, world)

    async def seen_by(tenant: str):
        return await listed(world.client(tenant, "tenant_admin"))

    await until(lambda: _is(seen_by("acme"), [new]))
    ids, age = await seen_by("other")
    assert (ids, age != BY_THE_PRIMARY) == ([], True)


async def _is(work, ids) -> bool:
    return (await work)[0] == ids


@pytest.mark.long
async def test_every_marked_address_is_read_there_whole(pool, world, paused, operator):
    """None of them writes, locks or needs what only a primary has: it would be repeated there."""
    routes = [one for one in world.app.routes if isinstance(one, GuardedRoute) and rules_of(one.endpoint).replica]
    assert all(one.methods == {"GET", "HEAD"} for one in routes)
    assert len(routes) > 15
    page = (ROOT / "docs/deploy.md").read_text()
    for route in routes:
        assert f"`{route.path.removeprefix('/api/v1')}`" in page
        address = route.path.removeprefix("/api/v1") + ("?month=2026-11" if "/reports/access" in route.path else "")
        response = await operator.get(address)
        assert response.status_code == 200, (route.path, response.text)
        assert response.headers[DATA_AGE] != BY_THE_PRIMARY, route.path
        assert (await operator.head(address)).status_code == 200


@pytest.mark.long
async def test_a_replica_that_is_gone_costs_nobody_an_answer_and_is_used_when_it_is_back(
    pool, world, replica, auditor, standby
):
    new = await enqueue_one(pool, world)
    standby.stop()
    try:
        assert await listed(auditor) == ([new], BY_THE_PRIMARY)
        await until(lambda: not replica.is_usable)
        assert await listed(auditor) == ([new], BY_THE_PRIMARY)
    finally:
        standby.start()
    await until(lambda: replica.is_usable)

    async def from_replica() -> bool:
        return (await listed(auditor))[1] != BY_THE_PRIMARY

    await until(from_replica)


async def test_a_server_that_is_no_standby_is_not_read_from(pool, database_url, settings):
    """Such as a standby that was promoted: no one knows how old it is."""
    app = create_app(replace(settings, atlas_read_database_url=database_url), pool, database_url, rates=QUICK)
    async with running(app):
        world = await furnish(pool, app)
        replica = app.state.api.replica
        await until(lambda: replica.db is not None)
        await asyncio.sleep(0)
        assert (await listed(world.client()))[1] == BY_THE_PRIMARY
        assert not replica.is_usable


async def test_a_read_that_is_in_the_way_of_the_replay_is_repeated_by_the_primary(
    pool, owner, world, replica, standby, settings
):
    """A standby cancels a statement that still sees what vacuum has removed on the primary."""
    standby.configure(max_standby_streaming_delay="0")
    standby.reload()
    await enqueue_one(pool, world)
    servers = []

    async def work(conn):
        is_standby = await conn.fetchval("select pg_is_in_recovery()")
        servers.append(is_standby)
        async with conn.transaction(isolation="repeatable_read"):
            before = await conn.fetchval("select count(*) from atlas.jobs")
            if is_standby:
                await owner.execute("update atlas.jobs set priority = 7")
                await owner.execute("vacuum atlas.jobs")
                for _ in range(1000):
                    await conn.execute("select pg_sleep(0.02)")
            return before

    async with pool.acquire() as conn:
        assert await read_first(settings, conn, work) == 1
    assert servers == [True, False]
    standby.configure(max_standby_streaming_delay="300s")
    standby.reload()
