"""Idempotency keys: a repeated call is done once and gets the same response, whatever failed in between."""

import asyncio
from uuid import UUID, uuid4

import pytest

import atlas.api.resources.jobs
from atlas.api.app import create_app
from atlas.api.enqueue_batcher import ADMISSION_SECONDS
from atlas.engine.idempotency import delete_old_responses
from tests.api.conftest import running
from tests.api.given import furnish_tenant

JOB = {"job_type": "x.work"}
CALLS = {
    "/jobs": (JOB, "jobs"),
    "/intents": ({"workflow": "wf"}, "intents"),
    "/events": ({"name": "e"}, "events"),
}


async def send(client, path="/jobs", body=None, key="k", **query):
    return await client.post(path, json=body or CALLS[path][0], headers={"Idempotency-Key": key}, params=query)


@pytest.mark.parametrize("path", CALLS)
async def test_each_call_that_creates_something_can_be_repeated(admin, conn, path):
    table = CALLS[path][1]
    before = await conn.fetchval("select count(*) from atlas.audit_log")
    first = await send(admin, path)
    answers = [first, *await asyncio.gather(*(send(admin, path) for _ in range(5)))]

    assert {(answer.status_code, answer.text) for answer in answers} == {(201, first.text)}
    assert await conn.fetchval(f"select count(*) from atlas.{table}") == 1
    assert await conn.fetchval("select count(*) from atlas.audit_log") == before + 1


async def test_each_action_can_be_repeated(admin, operator, conn, world, pool):
    ids = await furnish_tenant(pool, world.acme)
    made = [(await admin.post("/jobs", json=JOB)).json()["id"] for _ in range(2)]
    dead = "update atlas.jobs set status = 'failed', dead_lettered_at = now(), finished_at = now() where id = $1"
    for id in (made[1], str(ids["run_id"])):
        await conn.execute(dead, UUID(id))
    calls = [
        (admin.post, f"/jobs/{made[0]}/cancel", None),
        (admin.post, f"/jobs/{made[0]}/retry", None),
        (admin.post, "/jobs/dead-letters/retry", {"job_type": "x.work"}),
        (admin.post, f"/runs/{ids['run_id']}/retry", None),
        (admin.post, f"/runs/{ids['run_id']}/signal", {"name": "go"}),
        (admin.post, f"/runs/{ids['run_id']}/cancel", None),
        (operator.put, "/system/atlas-online", {"online": True}),
    ]
    for send_it, path, body in calls:
        given = {"headers": {"Idempotency-Key": path}} | ({} if body is None else {"json": body})
        first = await send_it(path, **given)
        events = await conn.fetchval("select count(*) from atlas.audit_log")
        again = await send_it(path, **given)

        assert first.is_success, (path, first.text)
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again.headers["idempotency-replayed"] == "true"
        assert await conn.fetchval("select count(*) from atlas.audit_log") == events


async def test_a_repeated_call_gets_its_first_response_though_it_would_be_refused_now(admin, operator, conn):
    await operator.post("/admin/jobs/definitions", json={"key": "echo.it", "argv": ["/bin/echo"]})
    first = await send(admin, body={"job_type": "echo.it"})
    await operator.delete("/admin/jobs/definitions/echo.it")
    await asyncio.sleep(ADMISSION_SECONDS + 0.1)
    again = await send(admin, body={"job_type": "echo.it"})

    assert (await send(admin, body={"job_type": "echo.it"}, key="new")).status_code == 409
    assert (again.status_code, again.text) == (201, first.text)


async def test_a_key_with_other_work_is_a_conflict_and_does_nothing(admin, operator, conn):
    await send(admin)
    other = [
        await send(admin, body={**JOB, "priority": 1}),
        await send(admin, body=[JOB]),
        await send(admin, "/events"),
    ]

    assert [answer.status_code for answer in other] == [409] * 3
    assert "another request" in other[0].json()["detail"]
    assert await conn.fetchval("select count(*) from atlas.jobs") == 1


async def test_a_key_belongs_to_its_tenant_and_subject(world, conn):
    clients = [
        world.client("acme", "tenant_admin"),
        world.client("acme", "enqueuer"),
        world.client("other", "enqueuer"),
    ]
    ids = {(await send(client)).json()["id"] for client in clients}
    operator = world.client()
    ids |= {(await send(operator, tenant=slug)).json()["id"] for slug in ("acme", "other")}

    assert len(ids) == 5


async def test_a_call_that_failed_before_its_commit_left_nothing_and_may_be_repeated(admin, conn, monkeypatch):
    real = atlas.api.resources.jobs.make

    async def breaks(*arguments):
        await real(*arguments)
        raise ConnectionResetError("the line was cut")

    monkeypatch.setattr(atlas.api.resources.jobs, "make", breaks)
    assert (await send(admin)).status_code == 503
    monkeypatch.setattr(atlas.api.resources.jobs, "make", real)
    second = await send(admin)

    assert second.status_code == 201
    assert "idempotency-replayed" not in second.headers
    assert await conn.fetchval("select count(*) from atlas.jobs") == 1


async def test_a_key_is_kept_for_a_day(admin, conn, owner):
    first = await send(admin)
    await owner.execute("update atlas.idempotency_keys set created_at = created_at - interval '23 hours'")
    assert (await send(admin)).json() == first.json()
    await owner.execute("update atlas.idempotency_keys set created_at = created_at - interval '2 hours'")
    later = await send(admin, body={**JOB, "priority": 1})

    assert later.status_code == 201
    assert later.json()["id"] != first.json()["id"]
    await owner.execute("update atlas.idempotency_keys set created_at = created_at - interval '25 hours'")
    await delete_old_responses(conn)
    assert await conn.fetchval("select count(*) from atlas.idempotency_keys") == 0


async def test_the_api_deletes_all_expired_rows_when_it_starts(pool, database_url, settings, conn):
    """One round a long while must keep up with every key of that while."""
    await conn.execute(
        """insert into atlas.idempotency_keys (tenant_id, subject, key, request_hash, created_at)
        select gen_random_uuid(), 's', n::text, sha256('x'), now() - case when n > 5 then interval '25 hours' else '1 hour' end
        from generate_series(1, 3500) n"""
    )
    async with running(create_app(settings, pool, database_url)), asyncio.timeout(20):
        while await conn.fetchval("select count(*) from atlas.idempotency_keys") > 5:
            await asyncio.sleep(0.05)

    assert await conn.fetchval("select count(*) from atlas.idempotency_keys") == 5


async def test_a_job_that_was_deleted_since_is_still_the_response(admin):
    first = await send(admin)
    await admin.delete(f"/jobs/{first.json()['id']}")

    assert (await send(admin)).text == first.text


async def test_a_key_consists_of_printable_characters(admin):
    for key in ("", "x" * 201, "ü".encode(), b"\x01"):
        for path in CALLS:
            answer = await admin.post(path, json=CALLS[path][0], headers={"Idempotency-Key": key})
            assert answer.status_code == 422, (path, key)
    assert (await send(admin, key="order 4711/" + uuid4().hex)).status_code == 201
