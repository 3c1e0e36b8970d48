"""The database goes away: requests get 503 with Retry-After, the process keeps running and recovers by itself."""

import asyncio
import os
import signal
from contextlib import suppress

import httpx
import pytest
import websockets

import atlas.api.db
from atlas.api.app import create_app
from atlas.api.db import Database
from atlas.db.migrations import migrate
from atlas.db.pool import connect, open_pool
from atlas.errors import NotFound
from atlas.postgres.cluster import start_embedded
from atlas.test_databases import TEST_SETTINGS
from tests.api.conftest import QUICK, furnish, running
from tests.api.serving import Served
from tests.proxy import FaultyProxy
from tests.support import PROOF, kept_down, until

READS = ("/jobs", "/jobs/summary", "/audit", "/workers", "/tenants", "/session", "/system/atlas-online")


@pytest.fixture
async def own_server(tmp_path_factory):
    """A server that a test may kill: its folder, and the address of a database on it."""
    home = tmp_path_factory.mktemp("server")
    server = await start_embedded(home, settings=TEST_SETTINGS)
    admin = await connect(server.url("postgres"))
    await admin.execute("create database atlas")
    await admin.close()
    await migrate(server.url("atlas"))
    yield home, server.url("atlas")
    server.release()


@pytest.mark.long
async def test_a_killed_database_is_503_with_retry_after_and_recovers(own_server, settings):
    home, url = own_server
    pool = await open_pool(url, size=4)
    async with running(create_app(settings, pool, url, rates=QUICK)) as app:
        world = await furnish(pool, app)
        client = world.client()
        made = await client.post("/jobs", json={"job_type": "x.work"})
        assert made.status_code == 201

        with kept_down(home):
            os.kill(int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
            # Until the last process of the server has noticed, some requests are still served.
            await until(lambda: _is(client, "/jobs", 503))
            world.app.state.api.callers.forget()
            requests = [client.get(path) for path in READS]
            requests += [client.post("/jobs", json={"job_type": "x.work"}) for _ in range(10)]
            requests += [
                client.post("/events", json={"name": "e"}),
                client.get("http://atlas.test/readyz"),
                client.get("http://atlas.test/metrics"),
            ]
            answers = await asyncio.gather(*requests)
            assert {answer.status_code for answer in answers} == {503}
            assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
            assert {answer.json()["type"] for answer in answers} == {"urn:atlas:problem:unavailable"}
            assert (await client.get("http://atlas.test/healthz")).status_code == 200  # the process itself is well

        await until(lambda: _is(client, "http://atlas.test/readyz", 200))
        assert (await client.get(f"/jobs/{made.json()['id']}")).json()["id"] == made.json()["id"]
        answers = [await client.get(path) for path in READS]
        assert {answer.status_code for answer in answers} == {200}
        assert (await client.post("/jobs", json={"job_type": "x.work"})).status_code == 201
        signals = app.state.signals
        await until(lambda: _true(signals.hears))
    with suppress(OSError):
        await pool.close()


async def test_a_lost_connection_fails_one_request_and_never_the_next(database_url, settings, pool):
    async with FaultyProxy(database_url) as proxy:
        behind = await open_pool(proxy.url, size=4)
        async with running(create_app(settings, behind, proxy.url, rates=QUICK)) as app:
            world = await furnish(pool, app)
            client = world.client("acme", "tenant_admin")
            seen = set()
            for n in range(30 if PROOF else 10):
                requests = [client.post("/jobs", json={"job_type": "x.work"}) for _ in range(4)]
                sent = asyncio.gather(*requests, *(client.get("/jobs") for _ in range(4)))
                await asyncio.sleep(0.002 * (n % 5))
                proxy.cut()
                seen |= {answer.status_code for answer in await sent}
            assert seen <= {200, 201, 503}
            await until(lambda: _is(client, "/jobs", 200))
        await behind.close()


@pytest.mark.long
async def test_a_silent_database_does_not_block_requests_for_ever(database_url, settings, pool, monkeypatch):
    monkeypatch.setattr(atlas.api.db, "HUNG_SECONDS", 0.5)
    monkeypatch.setattr(atlas.api.db, "ACQUIRE_SECONDS", 1)
    async with FaultyProxy(database_url) as proxy:
        behind = await open_pool(proxy.url, size=4)
        async with running(create_app(settings, behind, proxy.url, rates=QUICK)) as app:
            client = (await furnish(pool, app)).client("acme", "tenant_admin")
            assert (await client.get("/jobs")).status_code == 200
            proxy.silent = True
            async with asyncio.timeout(10):
                requests = [client.post("/jobs", json={"job_type": "x.work"}) for _ in range(4)]
                answers = await asyncio.gather(*requests, *(client.get("/jobs") for _ in range(8)))
            assert {answer.status_code for answer in answers} == {503}
            proxy.silent = False
            await until(lambda: _is(client, "/jobs", 200))
            assert (await client.post("/jobs", json={"job_type": "x.work"})).status_code == 201
        await behind.close()


@pytest.mark.parametrize("setting", ["temp_file_limit = 0", "default_transaction_read_only = on"])
async def test_a_database_that_cannot_be_written_is_not_ready(database_url, settings, owner, setting):
    name = await owner.fetchval("select current_database()")
    await owner.execute(f'alter database "{name}" set {setting}')
    pool = await open_pool(database_url, size=2)
    async with (
        running(create_app(settings, pool, database_url, rates=QUICK)) as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://atlas.test") as client,
    ):
        assert [(await client.get(path)).status_code for path in ("/readyz", "/healthz")] == [503, 200]
    await pool.close()


async def test_a_frozen_database_ends_reads_in_time_and_blames_no_caller(database_url, settings, pool, monkeypatch):
    monkeypatch.setattr(atlas.api.db, "READ_SECONDS", 0.5)
    monkeypatch.setattr("atlas.api.limits.connections.SHARE_SECONDS", 1)
    monkeypatch.setattr("atlas.api.limits.connections.STALLED_SECONDS", 0.3)
    monkeypatch.setattr("atlas.api.resources.system.pages.READY_SECONDS", 0.3)
    async with FaultyProxy(database_url) as proxy:
        behind = await open_pool(proxy.url, size=4)
        async with running(create_app(settings, behind, proxy.url, rates=QUICK)) as app:
            world = await furnish(pool, app)
            clients = [world.client("acme", "tenant_admin"), world.client("other", "tenant_admin"), world.client()]
            # The credentials are cached from then on.
            await until(lambda: _true(app.state.signals.hears))
            assert [(await client.get("/jobs")).status_code for client in clients] == [200] * 3
            proxy.silent = True
            # Far below the 25 s of a write, which holds its connection, which no reader should notice.
            writing = asyncio.create_task(clients[0].post("/intents", json={"workflow": "x", "allow_unknown": True}))
            async with asyncio.timeout(10):
                reads = [client.get(path) for client in clients for path in ("/jobs", "/audit", "/runs") * 3]
                answers = await asyncio.gather(*reads, clients[2].get("http://atlas.test/readyz"))
            assert {answer.status_code for answer in answers} == {503}
            assert not writing.done()
            proxy.silent = False
            await until(lambda: _is(clients[0], "/jobs", 200))
            await writing
        await behind.close()


async def test_a_read_that_is_late_between_two_statements_is_a_timeout(pool, monkeypatch):
    monkeypatch.setattr(atlas.api.db, "READ_SECONDS", 1.0)
    database = Database(pool)
    with pytest.raises(TimeoutError):
        async with database.transaction(None, read_only=True) as conn:
            await asyncio.sleep(1.1)
            await conn.execute("select 1")

    async with database.transaction(None) as conn:
        assert await conn.fetchval("select 1") == 1


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_late_request_that_ends_with_an_error_of_its_own_ends_with_that_error(pool, monkeypatch, read_only):
    """The rollback on the terminated connection does not replace it."""
    monkeypatch.setattr(atlas.api.db, "READ_SECONDS", 0.5)
    monkeypatch.setattr(atlas.api.db, "HUNG_SECONDS", 0.5)
    with pytest.raises(NotFound, match="There is no job 7"):
        async with Database(pool).transaction(None, read_only=read_only):
            await asyncio.sleep(0.6)
            raise NotFound("job", 7)


@pytest.mark.long
async def test_it_is_ready_again_over_new_connections_when_the_old_ones_went_silent(
    database_url, settings, pool, monkeypatch
):
    monkeypatch.setattr("atlas.api.resources.system.pages.READY_SECONDS", 0.5)
    monkeypatch.setattr("atlas.db.pool.RELEASE_SECONDS", 0.5)
    async with FaultyProxy(database_url) as proxy:
        behind = await open_pool(proxy.url, size=1)
        async with running(create_app(settings, behind, proxy.url, rates=QUICK)) as app:
            client = (await furnish(pool, app)).client()
            assert (await client.get("http://atlas.test/readyz")).status_code == 200
            proxy.sink()
            await until(lambda: _is(client, "http://atlas.test/readyz", 503))
            await until(lambda: _is(client, "http://atlas.test/readyz", 200))
        await behind.close()


async def test_watchers_stay_and_are_sent_what_happened_meanwhile(database_url, settings, pool):
    async with FaultyProxy(database_url) as proxy:
        server = Served(proxy.url, settings, QUICK)
        await asyncio.to_thread(server.start)  # its lines lead through this very loop
        try:
            world = await furnish(pool, create_app(settings, pool, database_url))
            address = server.address.replace("http", "ws") + "/api/v1/live"
            async with websockets.connect(
                address, additional_headers=world.headers("acme", "tenant_admin")
            ) as watching:
                assert '"hello"' in await watching.recv()
                for _ in range(3):
                    proxy.cut()
                    await asyncio.sleep(0.1)
                made = await world.client("acme", "tenant_admin").post("/jobs", json={"job_type": "x.work"})
                async with asyncio.timeout(15):
                    frame = await watching.recv()
        finally:
            await asyncio.to_thread(server.stop)
    assert made.json()["id"] in frame


async def _is(client, path, status):
    return (await client.get(path)).status_code == status


async def _true(value):
    return value
