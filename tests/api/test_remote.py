"""Remote workers over HTTP: they claim jobs of their tenant and types, each under a lease of their token."""

import asyncio

import pytest

from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.support import DANA

CLAIM = {"job_types": ["x.work"], "limit": 10}


@pytest.fixture
def worker(world):
    return world.client("acme", "worker")


async def give(pool, tenant, count=1, job_type="x.work", **fields):
    async with pool.acquire() as conn:
        jobs = [NewJob(job_type, {"n": n}, tenant.id, **fields) for n in range(count)]
        return [str(one.id) for one in await enqueue_many(conn, jobs, actor=DANA)]


async def claim(client, **fields):
    answer = await client.post("/worker/jobs/claim", json={**CLAIM, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_a_worker_claims_keeps_and_completes(world, worker, pool, admin):
    low, high = await give(pool, world.acme), await give(pool, world.acme, priority=5, correlation_id="c")
    jobs = await claim(worker)

    assert [job["job_id"] for job in jobs] == [*high, *low]
    one = jobs[0]
    assert (one["payload"], one["job_type"], one["correlation_id"]) == ({"n": 0}, "x.work", "c")
    assert one["job_run_id"] == f"{one['job_id']}:{one['attempt']}"
    attempt = {"attempt": one["attempt"]}
    place = f"/worker/jobs/{one['job_id']}"
    assert (await worker.post(f"{place}/heartbeat", json=attempt)).json() == {"cancel_requested": False}
    assert (await worker.post(f"{place}/progress", json={**attempt, "percent": 10})).status_code == 204
    done = await worker.post(f"{place}/complete", json={**attempt, "output": {"sum": 3}})
    assert done.json() == {"job_id": one["job_id"], "status": "succeeded"}
    shown = (await admin.get(f"/jobs/{one['job_id']}")).json()
    assert (shown["status"], shown["output"], shown["progress"]["percent"]) == ("succeeded", {"sum": 3}, 10)
    assert (await worker.post(f"{place}/complete", json=attempt)).status_code == 409


async def test_an_output_is_any_json_value(world, worker, pool, admin):
    outputs = [4, "four", [4, {"n": 4}], True, None]
    await give(pool, world.acme, len(outputs))
    for job, output in zip(await claim(worker, limit=len(outputs)), outputs, strict=True):
        body = {"attempt": job["attempt"], "output": output}
        assert (await worker.post(f"/worker/jobs/{job['job_id']}/complete", json=body)).status_code == 200
        shown = (await admin.get(f"/jobs/{job['job_id']}")).json()["output"]
        assert shown == ({} if output is None else output)
        assert (await admin.get(f"/jobs/{job['job_id']}/attempts")).status_code == 200


async def test_a_report_says_where_the_log_of_its_attempt_is(world, worker, pool, admin):
    ids = await give(pool, world.acme, 2)
    attempts = {one["job_id"]: one["attempt"] for one in await claim(worker)}
    done = {"attempt": attempts[ids[0]], "log_ref": "s3://logs/1", "output": {"sum": 3}}
    failed = {"attempt": attempts[ids[1]], "logRef": "s3://logs/2", "error": "no paper"}
    assert (await worker.post(f"/worker/jobs/{ids[0]}/complete", json=done)).status_code == 200
    assert (await worker.post(f"/worker/jobs/{ids[1]}/fail", json=failed)).status_code == 200

    shown = [(await admin.get(f"/jobs/{id}/attempts")).json()["items"][0] for id in ids]
    assert [(one["status"], one["log_ref"], one["result"]) for one in shown] == [
        ("succeeded", "s3://logs/1", {"sum": 3}),
        ("failed", "s3://logs/2", {}),
    ]


async def test_jobs_that_were_claimed_too_long_ago_for_the_gate_are_not_given_out(world, worker, pool, monkeypatch):
    ids = await give(pool, world.acme, 2)
    monkeypatch.setattr("atlas.engine.hosts.leased_jobs.START_SECONDS", 0.0)
    assert await claim(worker) == []
    monkeypatch.undo()
    assert sorted(one["job_id"] for one in await claim(worker)) == sorted(ids)


async def test_failures_are_retried_wait_as_wished_or_are_final(world, worker, pool, admin):
    ids = await give(pool, world.acme, 4, max_retries=1)
    jobs = {one["job_id"]: one["attempt"] for one in await claim(worker)}
    wishes = [{}, {"retry_after_seconds": 3600}, {"permanent": True}, {}]
    verdicts = []
    for id, wish in zip(ids, wishes, strict=True):
        body = {"attempt": jobs[id], "error": "no paper", **wish}
        verdicts.append((await worker.post(f"/worker/jobs/{id}/fail", json=body)).json()["status"])
    shown = [(await admin.get(f"/jobs/{id}")).json() for id in ids]

    assert verdicts == ["queued", "queued", "failed", "queued"]
    assert [one["status"] for one in shown] == ["waiting", "waiting", "failed", "waiting"]
    assert shown[0]["error"]["message"] == "no paper"
    assert shown[1]["next_retry_at"] > shown[0]["next_retry_at"]
    assert [one["scheduled_for"] for one in shown] == [None] * 4


async def test_the_last_failure_is_a_dead_letter(world, worker, pool, admin):
    [id] = await give(pool, world.acme, max_retries=0)
    [one] = await claim(worker)
    await worker.post(f"/worker/jobs/{id}/fail", json={"attempt": one["attempt"], "error": "boom"})

    assert [job["id"] for job in (await admin.get("/jobs", params={"status": "dead_letter"})).json()["items"]] == [id]


async def test_a_worker_gets_only_jobs_of_its_own_tenant_and_types(world, worker, pool, admin):
    await give(pool, world.other, 3)
    [own] = await give(pool, world.acme)
    await give(pool, world.acme, job_type="y.work")
    body = {"subject": "narrow", "role": "worker", "scopes": {"job_types": ["y.work"]}}
    made = (await admin.post("/tokens", json=body)).json()
    narrow = world.client("acme", "worker")
    narrow.headers["Authorization"] = f"Bearer {made['token']}"

    assert [one["job_id"] for one in await claim(worker)] == [own]
    assert (await narrow.post("/worker/jobs/claim", json=CLAIM)).status_code == 403
    assert len(await claim(narrow, job_types=["y.work"])) == 1
    runs = await worker.post("/worker/jobs/claim", json={"job_types": ["ENGINE_RUN"]})
    assert runs.status_code == 403  # those are driven, not done


async def test_a_lease_belongs_to_the_token_that_claimed(world, worker, pool, admin):
    await give(pool, world.acme)
    [one] = await claim(worker)
    made = (await admin.post("/tokens", json={"subject": "second", "role": "worker"})).json()
    second = world.client("acme", "worker")
    second.headers["Authorization"] = f"Bearer {made['token']}"

    for client in (second, world.client("other", "worker")):
        for verb, more in {"heartbeat": {}, "progress": {}, "complete": {}, "fail": {"error": "e"}}.items():
            body = {"attempt": one["attempt"], **more}
            assert (await client.post(f"/worker/jobs/{one['job_id']}/{verb}", json=body)).status_code == 409


async def test_a_silent_workers_job_goes_to_another_and_its_late_report_is_refused(world, worker, pool, conn):
    await give(pool, world.acme)
    [first] = await claim(worker)
    await conn.execute("update atlas.jobs set lease_expires_at = clock_timestamp() - interval '1 second'")
    late = await worker.post(f"/worker/jobs/{first['job_id']}/complete", json={"attempt": first["attempt"]})

    assert late.status_code == 409
    assert late.json()["type"] == "urn:atlas:problem:lease-lost"


async def test_a_job_that_was_asked_to_stop_is_canceled_when_it_fails(world, worker, pool, admin):
    [id] = await give(pool, world.acme)
    [one] = await claim(worker)
    await admin.post(f"/jobs/{id}/cancel")
    attempt = {"attempt": one["attempt"]}

    assert (await worker.post(f"/worker/jobs/{id}/heartbeat", json=attempt)).json() == {"cancel_requested": True}
    ended = await worker.post(f"/worker/jobs/{id}/fail", json={**attempt, "error": "stopped"})
    assert ended.json()["status"] == "canceled"


async def test_many_workers_at_once_claim_every_job_exactly_once(world, worker, pool):
    ids = await give(pool, world.acme, 200)
    batches = await asyncio.gather(*(claim(worker, limit=7) for _ in range(40)))
    while more := await claim(worker, limit=100):
        batches.append(more)
    claimed = [one["job_id"] for batch in batches for one in batch]

    assert len(claimed) == len(set(claimed)) == 200
    assert set(claimed) == set(ids)


async def test_limits_of_the_tenant_and_the_gate_apply_to_remote_workers(world, worker, pool, operator):
    await give(pool, world.acme, 10)
    await operator.put("/system/atlas-online", json={"online": False})
    assert await claim(worker) == []
    await operator.put("/system/atlas-online", json={"online": True})
    await operator.patch("/tenants/acme", json={"limits": {"in_flight": 3}})

    assert len(await claim(worker)) == 3
    assert await claim(worker) == []


async def test_an_outcome_may_be_large_and_not_larger(world, worker, pool):
    [id] = await give(pool, world.acme)
    [one] = await claim(worker)
    body = {"attempt": one["attempt"], "output": {"text": "x" * 300_000}}

    refused = await worker.post(f"/worker/jobs/{id}/complete", json=body)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "output"


async def test_a_number_that_no_float_holds_stops_neither_lists_nor_claims(world, worker, pool, admin):
    await pool.execute("select * from atlas.enqueue('acme', 'x.work', '{\"n\": 1e400, \"m\": 3, \"r\": 1.0}')")
    await give(pool, world.acme)

    listed = (await admin.get("/jobs")).json()["items"]
    jobs = await claim(worker)

    assert {str(one["payload"]["n"]) for one in listed} == {"0", "1" + "0" * 400}
    assert sorted((str(job["payload"]["n"])[:2], job["payload"].get("m"), job["payload"].get("r")) for job in jobs) == [
        ("0", None, None),
        ("10", 3, 1.0),
    ]
