"""Idempotency keys: a repeated call is done once and gets the same response, whatever failed in between."""

import asyncio
from uuid import uuid4

import pytest

import atlas.api.resources.jobs.jobs
from atlas.api.app import create_app
from atlas.api.enqueue_batcher import ADMISSION_SECONDS
from atlas.engine.idempotency import delete_old_responses
from atlas.engine.jobs.lease import register_worker
from atlas.engine.jobs.switches.gate import confirm_closed, read_gate
from tests.api.conftest import running
from tests.api.given import furnish_tenant
from tests.api.table import TABLE
from tests.api.test_matrix import BODIES, BY_KEY, filled
from tests.cli.conftest import MAKE_GUEST
from tests.support import until

JOB = {"job_type": "x.work"}
UNREPEATABLE = {
    "POST /jobs/tick",
    "POST /jobs/triggers/preview",
    "POST /workflows/check",
    "POST /workflows/dry-run",
    "POST /policies/check",
    "POST /tokens",
    "POST /webhooks",
    "POST /webhooks/{webhook_id}/rotate-secret",
    "POST /inbound-hooks",
    "POST /inbound-hooks/{hook_id}/rotate-secret",
    "POST /session",
    "POST /audit/verifications",
    *(row for row in TABLE if row.startswith(("POST /agent/", "POST /worker/"))),
}
CALLS = {
    "/jobs": (JOB, "jobs"),
    "/intents": ({"workflow": "wf", "allow_unknown": True}, "intents"),
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


async def test_a_switch_and_its_repetition_tell_how_many_workers_confirmed(operator, conn):
    """The worker exists in the database alone: its confirmation comes while the call waits for it."""
    await register_worker(conn, "w-1", job_types=["x.work"], lease=600)

    async def confirm() -> None:
        await until(lambda: is_closed(conn))
        await confirm_closed(conn, "w-1", (await read_gate(conn)).version)

    confirming = asyncio.create_task(confirm())
    switching = {"json": {"online": False}, "headers": {"Idempotency-Key": "k"}}
    first = await operator.put("/system/atlas-online", **switching)
    await confirming
    second = await operator.put("/system/atlas-online", **switching)

    assert first.json() == second.json()
    assert (first.json()["online"], first.json()["confirmed"], first.json()["workers"]) == (False, 1, 1)
    assert second.headers["Idempotency-Replayed"] == "true"


async def is_closed(conn) -> bool:
    return not (await read_gate(conn)).online


async def test_every_post_is_done_once_with_a_key_or_refuses_it(world, conn, pool, owner):
    await owner.execute(MAKE_GUEST)
    await owner.execute("select atlas.grant_enqueue('atlas_guest')")
    ids = await furnish_tenant(pool, world.acme)
    made = (await world.client("acme", "tenant_admin").post("/jobs", json=JOB)).json()["id"]
    things = {**ids, "job_id": made}
    await conn.execute(
        "insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status) values ($1, '', 0, $2, 'wait', 'sleep', 'succeeded')",
        *(ids["run_id"], world.acme.id),
    )
    for row, roles in TABLE.items():
        method, path = row.split(" ")
        if (method != "POST" and not row.startswith("PUT /system/")) or row in BY_KEY:
            continue
        role = "tenant_admin" if "tenant_admin" in roles else roles.split()[0].replace("everyone", "operator")
        client = world.client("all" if role == "operator" else "acme", role)
        given = {"json": BODIES.get(row, {}), "headers": {"Idempotency-Key": row}}
        first = await client.request(method, filled(path, things), **given)
        if row in UNREPEATABLE:
            [error] = first.json()["errors"]
            assert (first.status_code, error["field"]) == (422, "header.Idempotency-Key"), row
            assert error["reason"].startswith("is not supported here: "), row
            continue
        events = await conn.fetchval("select count(*) from atlas.audit_log")
        again = await client.request(method, filled(path, things), **given)

        assert first.is_success, (row, first.text)
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
        assert await conn.fetchval("select count(*) from atlas.audit_log") == events


async def test_a_trigger_that_is_fired_concurrently_with_one_key_fires_once(admin, conn):
    described = {"label": "n", "trigger_type": "event", "event_name": "e", "job_type": "x.work"}
    trigger = (await admin.post("/jobs/triggers", json=described)).json()["id"]
    answers = await asyncio.gather(*(send(admin, f"/jobs/triggers/{trigger}/fire", {"context": {}}) for _ in range(5)))

    assert len({(answer.status_code, answer.text) for answer in answers}) == 1
    assert await conn.fetchval("select count(*) from atlas.jobs") == 1
    assert await conn.fetchval("select count(*) from atlas.trigger_fires") == 1


async def test_a_call_that_was_refused_may_be_repeated_with_its_key(admin):
    assert (await send(admin, "/hosts", {"name": ""})).status_code == 422
    assert (await send(admin, "/hosts", {"name": "box"})).status_code == 201


async def test_other_methods_take_a_key_too(admin, operator, world, conn):
    host, key = f"/hosts/{world.hosts['acme'].id}", {"Idempotency-Key": "k"}
    made = (await admin.post("/jobs", json=JOB)).json()["id"]
    calls = [
        lambda: admin.delete(f"/jobs/{made}", headers=key),
        lambda: admin.patch(host, json={"is_active": False}, headers=key | {"Idempotency-Key": "l"}),
        lambda: operator.patch("/tenants/acme", json={"name": "New"}, headers=key),
        lambda: operator.delete(f"/tokens/{world.ids['acme', 'enqueuer']}", headers=key | {"Idempotency-Key": "l"}),
    ]
    for call in calls:
        first, again = await call(), await call()
        assert (first.is_success, again.headers["idempotency-replayed"]) == (True, "true"), first.text
        assert (again.status_code, again.content) == (first.status_code, first.content)
    # What the process caches is dropped when the change is committed, not before.
    assert (await world.client("acme", "enqueuer").get("/jobs")).status_code == 401
    assert (await admin.get(host, headers=key)).json()["is_active"] is False


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
    real = atlas.api.resources.jobs.jobs.make

    async def breaks(*arguments):
        await real(*arguments)
        raise ConnectionResetError("the line was cut")

    monkeypatch.setattr(atlas.api.resources.jobs.jobs, "make", breaks)
    assert (await send(admin)).status_code == 503
    monkeypatch.setattr(atlas.api.resources.jobs.jobs, "make", real)
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
