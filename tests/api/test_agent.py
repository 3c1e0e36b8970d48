"""Hosts over HTTP: they wait for their job, renew its lease and report; a late report is refused."""

import asyncio
import time
from datetime import timedelta
from uuid import UUID

import httpx
import pytest

import atlas.api.app_state
import atlas.api.host_polling
import atlas.api.resources.workers.host_agent
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.support import DANA, until


@pytest.fixture
def host(world):
    return world.client("acme", "host")


@pytest.fixture
def place(world):
    return f"/agent/hosts/{world.hosts['acme'].id}/jobs"


async def give(pool, world, tenant="acme", **fields):
    """A job for the tenant's host."""
    owner = world.acme if tenant == "acme" else world.other
    async with pool.acquire() as conn:
        job = NewJob("disk.check", {"disk": "sda"}, owner.id, host_id=world.hosts[tenant].id, **fields)
        return str((await enqueue(conn, job, actor=DANA)).id)


async def test_a_host_fetches_its_job_and_reports_it(world, host, place, pool, admin):
    id = await give(pool, world, correlation_id="c-1", timeout_seconds=30)
    job = (await host.get(place, params={"wait": 0})).json()

    assert job["job_id"] == id
    assert job["job_run_id"] == f"{id}:{job['lease']}"
    assert job["host_id"] == str(world.hosts["acme"].id)
    assert (job["type"], job["payload"], job["correlation_id"]) == ("disk.check", {"disk": "sda"}, "c-1")
    assert (job["server_instance_id"], job["timeout_seconds"], job["lease_seconds"]) == (None, 30, 30)

    lease = {"lease": job["lease"]}
    assert (await host.post(f"{place}/{id}/heartbeat", json=lease)).json() == {"cancel_requested": False}
    received = await host.post(f"{place}/{id}/progress", json={**lease, "percent": 40, "message": "reading"})
    assert received.status_code == 204
    progress = (await admin.get(f"/jobs/{id}")).json()["progress"]
    assert (progress["percent"], progress["message"]) == (40, "reading")
    result = {**lease, "status": "success", "duration_ms": 12, "output": {"ok": True}}
    assert (await host.post(f"{place}/{id}/result", json=result)).json() == {"job_id": id, "status": "succeeded"}
    shown = (await admin.get(f"/jobs/{id}")).json()
    assert (shown["status"], shown["output"]) == ("succeeded", {"ok": True})
    [attempt] = (await admin.get(f"/jobs/{id}/attempts")).json()["items"]
    assert attempt["status"] == "succeeded"


async def test_a_waiting_host_gets_204_when_the_process_shuts_down(world, host, place):
    waiting = asyncio.create_task(host.get(place, params={"wait": 20}))
    await asyncio.sleep(0.3)
    began = time.monotonic()
    world.app.state.signals.close()
    assert (await waiting).status_code == 204
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_a_waiting_host_gets_no_job_once_its_token_is_revoked(world, host, place, pool, owner, operator, how):
    waiting = asyncio.create_task(host.get(place, params={"wait": 20}))
    await asyncio.sleep(0.5)
    if how == "revoked":
        assert (await operator.delete(f"/tokens/{world.ids['acme', 'host']}")).status_code == 200
    else:
        await owner.execute("update atlas.api_tokens set expires_at = now() where id = $1", world.ids["acme", "host"])
        world.app.state.api.callers.forget()  # as when some seconds have passed
    id = await give(pool, world)

    assert (await waiting).status_code == 401
    assert await owner.fetchval("select status from atlas.jobs where id = $1", UUID(id)) == "queued"


async def test_a_result_may_be_reported_in_the_names_that_the_first_agents_used(world, host, place, pool, admin):
    id = await give(pool, world, max_retries=0)
    job = (await host.get(place, params={"wait": 0})).json()
    result = {
        "lease": job["lease"],
        "type": "failed",
        "errorMessage": "no such disk",
        "durationMs": 7,
        "logRef": "s3://l/1",
    }
    assert (await host.post(f"{place}/{id}/result", json=result)).json()["status"] == "failed"

    [attempt] = (await admin.get(f"/jobs/{id}/attempts")).json()["items"]
    assert (attempt["log_ref"], attempt["result"]) == ("s3://l/1", {"duration_ms": 7})
    assert "no such disk" in attempt["error_text"]
    both = {**result, "error": "twice"}
    assert (await host.post(f"{place}/{id}/result", json=both)).status_code in (409, 422)


async def test_the_event_of_a_new_job_names_its_server(world, admin, pool):
    made = await admin.post(f"/hosts/{world.hosts['acme'].id}/instances", json={"name": "web"})
    instance = made.json()["id"]
    asked = {"job_type": "SERVER_RESTART", "payload": {"serverInstanceId": instance}}
    job = (await admin.post("/jobs", json=asked)).json()

    meta = await pool.fetchval(
        "select meta->>'server_instance_id' from atlas.audit_log where entity_id = $1", job["id"]
    )
    assert meta == instance


async def test_a_tenant_moves_its_server_and_removes_it_when_its_jobs_have_ended(world, admin):
    old = f"/hosts/{world.hosts['acme'].id}/instances"
    instance = (await admin.post(old, json={"name": "web"})).json()["id"]
    host_id = (await admin.post("/hosts", json={"name": "box-2"})).json()["id"]
    asked = {"job_type": "SERVER_RESTART", "payload": {"serverInstanceId": instance}}
    job = (await admin.post("/jobs", json=asked)).json()["id"]
    foreign = await admin.patch(f"{old}/{instance}", json={"host_id": str(world.hosts["other"].id)})
    moved = await admin.patch(f"{old}/{instance}", json={"host_id": host_id})

    assert (foreign.status_code, foreign.json()["errors"][0]["field"]) == (422, "host_id")
    assert (moved.status_code, moved.json()["host_id"]) == (200, host_id)
    assert (await admin.get(f"/jobs/{job}")).json()["host_id"] == host_id
    assert (await admin.get(f"{old}/{instance}")).status_code == 404
    address = f"/hosts/{host_id}/instances/{instance}"
    refused = await admin.delete(address)
    problem = refused.json()
    assert (refused.status_code, problem["detail"]) == (409, "The server instance web has jobs: 1 queued.")
    assert problem["remedy"] == "Wait until they have ended, or cancel them."
    await admin.post(f"/jobs/{job}/cancel")
    assert [(await admin.delete(address)).status_code for _ in range(2)] == [204, 404]


async def test_a_failure_is_retried_and_a_repeated_result_changes_nothing(world, host, place, pool):
    id = await give(pool, world, max_retries=1)
    job = (await host.get(place, params={"wait": 0})).json()
    failed = {"lease": job["lease"], "status": "failed", "error": "no such disk"}

    assert (await host.post(f"{place}/{id}/result", json=failed)).json()["status"] == "queued"
    again = await host.post(f"{place}/{id}/result", json=failed)
    assert again.status_code == 409
    assert again.json()["type"] == "urn:atlas:problem:lease-lost"


async def test_a_host_that_fell_silent_finds_its_job_taken_back(world, host, place, pool, conn):
    id = await give(pool, world)
    first = (await host.get(place, params={"wait": 0})).json()
    await conn.execute("update atlas.jobs set lease_expires_at = clock_timestamp() - interval '1 second'")
    await host.get(place, params={"wait": 0})  # gives back what ran out
    await conn.execute("update atlas.jobs set next_retry_at = null where status = 'queued'")
    second = (await host.get(place, params={"wait": 0})).json()

    assert second["lease"] > first["lease"]
    for verb, more in {"heartbeat": {}, "progress": {"percent": 1}, "result": {"status": "succeeded"}}.items():
        late = await host.post(f"{place}/{id}/{verb}", json={"lease": first["lease"], **more})
        assert late.status_code == 409, verb
    assert (await host.post(f"{place}/{id}/heartbeat", json={"lease": second["lease"]})).status_code == 200


async def test_a_heartbeat_says_that_the_job_was_asked_to_stop(world, host, place, pool, admin):
    id = await give(pool, world)
    job = (await host.get(place, params={"wait": 0})).json()
    assert (await admin.post(f"/jobs/{id}/cancel")).json()["verdict"] == "requested"

    assert (await host.post(f"{place}/{id}/heartbeat", json={"lease": job["lease"]})).json() == {
        "cancel_requested": True
    }
    ended = await host.post(
        f"{place}/{id}/result", json={"lease": job["lease"], "status": "failed", "error": "stopped"}
    )
    assert ended.json()["status"] == "canceled"


async def test_a_waiting_host_gets_its_job_at_once(server, pool):
    world = server.world
    address = f"{server.address}/api/v1/agent/hosts/{world.hosts['acme'].id}/jobs"
    async with httpx.AsyncClient(headers=world.headers("acme", "host"), timeout=30) as host:
        began = time.monotonic()
        empty = await host.get(address, params={"wait": 0.2})
        assert empty.status_code == 204
        assert 0.2 <= time.monotonic() - began < 2
        waiting = asyncio.create_task(host.get(address, params={"wait": 20}))
        await asyncio.sleep(0.3)
        began = time.monotonic()
        id = await give(pool, world)
        answer = await waiting
        print(f"handed over {1000 * (time.monotonic() - began):.0f} ms after it was made")

    assert answer.json()["job_id"] == id
    assert time.monotonic() - began < 1.5


@pytest.mark.long
async def test_a_retry_reaches_its_waiting_host_when_it_is_due(server, pool, conn, monkeypatch):
    """Not at the next poll: that comes after the request has ended."""
    monkeypatch.setattr(atlas.api.host_polling, "POLL_SECONDS", 60.0)
    monkeypatch.setattr(atlas.api.resources.workers.host_agent, "RECHECK_SECONDS", 60.0)
    world = server.world
    places = {name: f"{server.address}/api/v1/agent/hosts/{world.hosts[name].id}/jobs" for name in ("acme", "other")}
    id = await give(pool, world)
    async with (
        httpx.AsyncClient(headers=world.headers("acme", "host"), timeout=30) as host,
        httpx.AsyncClient(headers=world.headers("other", "host"), timeout=30) as neighbour,
    ):
        # The poll was made for the neighbour, before there was a retry.
        waiting = asyncio.create_task(neighbour.get(places["other"], params={"wait": 3}))
        job = (await host.get(places["acme"], params={"wait": 5})).json()
        failed = {"lease": job["lease"], "status": "failed", "error": "no such disk"}
        assert (await host.post(f"{places['acme']}/{id}/result", json=failed)).json()["status"] == "queued"
        answer = await host.get(places["acme"], params={"wait": 25})
        due_at = await conn.fetchval("select due_at from atlas.jobs")
        started_at = await conn.fetchval("select started_at from atlas.jobs")
        assert (await waiting).status_code == 204

    late = (started_at - due_at).total_seconds()
    print(f"started {1000 * late:.0f} ms after it was due")
    assert (answer.status_code, answer.json()["job_id"]) == (200, id)
    assert late < 10


@pytest.fixture
def looks(monkeypatch):
    """Every query for a host's job."""
    found = []
    real = atlas.api.resources.workers.host_agent.claim_for_host

    async def counted(*arguments, **options):
        found.append(arguments)
        return await real(*arguments, **options)

    monkeypatch.setattr(atlas.api.resources.workers.host_agent, "claim_for_host", counted)
    return found


async def test_one_host_has_a_bounded_number_of_requests_that_wait(world, host, place, looks):
    most = atlas.api.app_state.MAX_POLLS_EACH
    polls = [asyncio.create_task(host.get(place, params={"wait": 20})) for _ in range(most)]
    await until(lambda: len(looks) == most)
    beyond = await host.get(place, params={"wait": 20})
    other = await world.client("other", "host").get(f"/agent/hosts/{world.hosts['other'].id}/jobs", params={"wait": 0})
    for poll in polls:
        poll.cancel()

    assert (beyond.status_code, beyond.headers["retry-after"]) == (429, "5")
    assert other.status_code == 204


@pytest.mark.long
async def test_waiting_hosts_query_for_their_own_jobs_and_not_at_every_enqueue(world, host, place, pool, admin, looks):
    polls = [asyncio.create_task(host.get(place, params={"wait": 6})) for _ in range(20)]
    await asyncio.sleep(1.0)
    for _ in range(15):
        await admin.post("/jobs", json={"job_type": "x.work"})
        await asyncio.sleep(0.05)
    assert len(looks) == 20

    delayed = await give(pool, world, delay=timedelta(seconds=0.5))
    done, _ = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
    assert [poll.result().json()["job_id"] for poll in done if poll.result().status_code == 200] == [delayed]
    assert len(looks) == 21
    # It works now, and what else there is for it has to wait: no poll is needed.
    await give(pool, world)
    await asyncio.sleep(1.0)
    assert len(looks) == 21
    for poll in polls:
        poll.cancel()


async def test_no_host_queries_while_nothing_may_start(world, host, place, pool, operator, looks):
    await operator.put("/system/atlas-online", json={"online": False})
    id = await give(pool, world)
    poll = asyncio.create_task(host.get(place, params={"wait": 10}))
    await asyncio.sleep(1.5)
    assert len(looks) == 1

    await operator.put("/system/atlas-online", json={"online": True})
    assert (await poll).json()["job_id"] == id


async def test_a_job_for_a_host_that_disconnected_returns_to_the_queue_unchanged(server, pool, conn):
    world = server.world
    address = f"{server.address}/api/v1/agent/hosts/{world.hosts['acme'].id}/jobs"
    async with httpx.AsyncClient(headers=world.headers("acme", "host"), timeout=0.3) as impatient:
        with pytest.raises(httpx.ReadTimeout):
            await impatient.get(address, params={"wait": 20})
    id = await give(pool, world)
    async with httpx.AsyncClient(headers=world.headers("acme", "host"), timeout=30) as host:
        job = (await host.get(address, params={"wait": 10})).json()

    assert job["job_id"] == id
    row = await conn.fetchrow("select retry_count, lost_count from atlas.jobs where id = $1", UUID(id))
    assert tuple(row) == (0, 0)


async def test_a_host_gets_nothing_while_atlas_is_offline_or_it_is_not_active(
    world, host, place, pool, operator, admin
):
    await give(pool, world)
    await operator.put("/system/atlas-online", json={"online": False})
    assert (await host.get(place, params={"wait": 0})).status_code == 204
    await operator.put("/system/atlas-online", json={"online": True})
    await admin.patch(f"/hosts/{world.hosts['acme'].id}", json={"is_active": False})
    assert (await host.get(place, params={"wait": 0})).status_code == 409


async def test_a_job_that_was_claimed_too_long_ago_for_the_gate_is_not_given_to_its_host(
    world, host, place, pool, monkeypatch
):
    """The gate may have closed since the claim, and the switch does not wait any longer: the job goes back."""
    id = await give(pool, world)
    monkeypatch.setattr("atlas.engine.hosts.leased_jobs.START_SECONDS", 0.0)
    assert (await host.get(place, params={"wait": 0})).status_code == 204
    monkeypatch.undo()
    assert (await host.get(place, params={"wait": 0})).json()["job_id"] == id


async def test_a_token_is_valid_only_for_the_host_of_its_scope(world, host, pool, admin):
    second = (await admin.post("/hosts", json={"name": "box-2"})).json()
    foreign = world.hosts["other"].id

    assert [item["name"] for item in (await host.get("/agent/hosts")).json()["items"]] == ["box-acme"]
    for id in (second["id"], foreign):
        assert (await host.get(f"/agent/hosts/{id}/jobs", params={"wait": 0})).status_code == 404
    for scopes in ({}, {"host_id": str(foreign)}, {"host_id": "box-2"}, {"host_id": None}, {"host_id": [second["id"]]}):
        refused = await admin.post("/tokens", json={"subject": "box-2", "role": "host", "scopes": scopes})
        assert refused.status_code == 422, scopes
        assert refused.json()["errors"][0]["field"] == "scopes.host_id"
    made = await admin.post(
        "/tokens", json={"subject": "box-2", "role": "host", "scopes": {"host_id": second["id"].upper()}}
    )
    assert made.status_code == 201
    host.headers["Authorization"] = f"Bearer {made.json()['token']}"
    assert (await host.get(f"/agent/hosts/{second['id']}/jobs", params={"wait": 0})).status_code == 204


async def test_a_lease_belongs_to_its_own_host(world, place, host, pool):
    id = await give(pool, world)
    job = (await host.get(place, params={"wait": 0})).json()
    thief = world.client("other", "host")
    own_place = f"/agent/hosts/{world.hosts['other'].id}/jobs"

    assert (await thief.post(f"{place}/{id}/heartbeat", json={"lease": job["lease"]})).status_code == 404
    assert (await thief.post(f"{own_place}/{id}/heartbeat", json={"lease": job["lease"]})).status_code == 409
    worker = world.client("acme", "worker")
    assert (await worker.post(f"/worker/jobs/{id}/complete", json={"attempt": job["lease"]})).status_code == 409


async def test_a_report_may_be_large_and_not_larger(world, host, place, pool):
    id = await give(pool, world)
    lease = (await host.get(place, params={"wait": 0})).json()["lease"]
    report = {"lease": lease, "status": "succeeded", "output": {"text": "x" * 300_000}}

    refused = await host.post(f"{place}/{id}/result", json=report)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "output"
    assert (await host.post(f"{place}/{id}/heartbeat", json={"lease": lease})).status_code == 200
