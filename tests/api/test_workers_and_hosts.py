"""Workers and hosts over HTTP: what runs there, draining, renaming and removing."""

from atlas.engine.jobs.lease import register_worker, retire_worker


async def test_a_worker_shows_its_jobs_and_is_drained_once(world, operator, admin, conn):
    await register_worker(conn, "box:1:x", lease=60, job_types=["x.work"])
    job = (await admin.post("/jobs", json={"job_type": "x.work"})).json()
    await conn.execute(
        "update atlas.jobs set status = 'running', claimed_by = 'box:1:x', attempt_count = 1, started_at = now()"
    )
    drained = await operator.post("/workers/box:1:x/drain")
    again = await operator.post("/workers/box:1:x/drain")
    shown = (await operator.get("/workers/box:1:x")).json()

    assert drained.status_code == again.status_code == 200, drained.text
    assert shown == drained.json() == again.json()
    assert [one["id"] for one in shown["jobs"]] == [job["id"]]
    assert shown["drain_requested_by"] == "operator@all"
    assert (await operator.get("/workers")).json()["items"][0]["drain_requested_at"] == shown["drain_requested_at"]
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'WORKER_DRAIN_REQUESTED'") == 1
    assert (await operator.post("/workers/none/drain")).status_code == 404
    await retire_worker(conn, "box:1:x")
    assert (await operator.post("/workers/box:1:x/drain")).status_code == 409


async def test_a_host_shows_its_work_and_its_agent(world, admin, conn):
    host, agent = world.hosts["acme"], world.client("acme", "host")
    agent.headers["User-Agent"] = "agent 1.2.3"
    jobs = [(await admin.post("/jobs", json={"job_type": "x.work", "host_id": str(host.id)})).json() for _ in range(3)]
    taken = (await agent.get(f"/agent/hosts/{host.id}/jobs", params={"wait": 0})).json()
    [shown] = (await admin.get("/hosts")).json()["items"]

    assert taken["job_id"] in {job["id"] for job in jobs}
    assert (shown["running_job_id"], shown["waiting_count"]) == (taken["job_id"], 2)
    assert shown["agent_version"] == "agent 1.2.3"
    assert (await admin.get(f"/hosts/{host.id}")).json() == shown


async def test_a_host_is_renamed(world, admin, conn):
    host = world.hosts["acme"]
    await admin.post("/hosts", json={"name": "taken"})
    renamed = await admin.patch(f"/hosts/{host.id}", json={"name": "rack-7"})

    assert (renamed.json()["name"], renamed.json()["is_active"]) == ("rack-7", True)
    assert (await admin.patch(f"/hosts/{host.id}", json={"name": "taken"})).status_code == 409
    assert (await admin.patch(f"/hosts/{host.id}", json={"name": ""})).status_code == 422
    assert (await admin.get(f"/hosts/{host.id}")).json()["name"] == "rack-7"
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'HOST_RENAMED'") == 1


async def test_a_host_is_removed_when_nothing_is_left_on_it(world, admin, conn):
    host, agent = world.hosts["acme"], world.client("acme", "host")
    place = f"/hosts/{host.id}"
    server = (await admin.post(f"{place}/instances", json={"name": "web"})).json()
    job = (await admin.post("/jobs", json={"job_type": "x.work", "host_id": str(host.id)})).json()
    refused = await admin.delete(place)

    assert refused.status_code == 409
    assert "1 servers and 1 queued jobs" in refused.json()["detail"]
    await admin.delete(f"{place}/instances/{server['id']}")
    await admin.post(f"/jobs/{job['id']}/cancel")
    assert (await world.client("other", "tenant_admin").delete(place)).status_code == 404
    assert (await admin.delete(place)).status_code == 204
    assert (await admin.get(place)).status_code == 404
    assert (await agent.get("/agent/hosts")).status_code == 401  # its token is revoked
    assert (await admin.post(f"/jobs/{job['id']}/retry")).status_code == 409
    assert (await admin.post("/jobs", json={"job_type": "x.work", "host_id": str(host.id)})).status_code == 422
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'HOST_REMOVED'") == 1
