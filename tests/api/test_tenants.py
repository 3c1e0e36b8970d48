"""Removing a tenant over HTTP: refused while it has work, carried on by the next call, and its tokens are worth nothing."""

import pytest

from atlas.audit.verification.crosscheck import cross_check
from tests.api.given import furnish_tenant
from tests.engine.given import rows_of


@pytest.fixture
async def full(pool, world):
    return await furnish_tenant(pool, world.acme)


async def test_a_tenant_with_work_is_409_until_it_may_be_canceled(world, operator, full, conn):
    busy = await operator.delete("/tenants/acme")
    assert (busy.status_code, busy.json()["type"]) == (409, "urn:atlas:problem:conflict")
    assert "has work that has not ended: 3 queued jobs, 1 open requests" in busy.json()["detail"]

    done = await operator.delete("/tenants/acme", params={"cancel": True, "reason": "they left"})
    assert done.status_code == 200, done.text
    assert (done.json()["slug"], done.json()["is_removed"], done.json()["rows"]["hosts"]) == ("acme", True, 1)
    assert {table for table, count in (await rows_of(conn, world.acme.id)).items() if count} == {"audit_log"}
    assert (await operator.delete("/tenants/acme")).status_code == 404
    assert await cross_check(conn) == []


async def test_its_tokens_are_refused_and_its_slug_is_another_tenants(world, operator, admin, full):
    assert (await admin.get("/jobs")).status_code == 200
    assert (await operator.get("/jobs", params={"tenant": "acme"})).status_code == 200
    await operator.delete("/tenants/acme", params={"cancel": True})

    assert (await admin.get("/jobs")).status_code == 401
    again = await operator.post("/tenants", json={"slug": "acme", "name": "Acme"})
    assert (again.status_code, again.json()["removing_at"]) == (201, None)
    job = await operator.post("/jobs", params={"tenant": "acme"}, json={"job_type": "x.work"})
    assert (job.status_code, job.json()["tenant_id"]) == (201, again.json()["id"])
    assert (await admin.get("/jobs")).status_code == 401


async def test_what_takes_long_is_carried_on_by_the_next_call(world, operator, admin, full, monkeypatch):
    monkeypatch.setattr("atlas.api.resources.access.tenants.REMOVAL_SECONDS", 0.0)
    begun = (await operator.delete("/tenants/acme", params={"cancel": True})).json()
    assert (begun["is_removed"], begun["last_step"]) == (False, "canceled 3 jobs")
    assert (await operator.get("/tenants/acme")).json()["removing_at"] == begun["removing_at"]
    refused = await admin.post("/jobs", json={"job_type": "x.work"}, headers={"Idempotency-Key": "1"})
    assert (refused.status_code, refused.json()["detail"].startswith("There is no tenant")) == (404, True)

    monkeypatch.undo()
    done = (await operator.delete("/tenants/acme")).json()
    assert (done["is_removed"], done["removing_at"]) == (True, begun["removing_at"])


@pytest.mark.long
async def test_a_removal_that_waits_for_a_lock_too_long_has_begun_all_the_same(world, operator, full, owner):
    await owner.execute("select pg_advisory_lock(atlas.lock_class('metering'), 0)")
    begun = (await operator.delete("/tenants/acme", params={"cancel": True})).json()
    assert (begun["is_removed"], begun["last_step"], begun["rows"]["hosts"]) == (False, "waits for others", 1)
    await owner.execute("select pg_advisory_unlock(atlas.lock_class('metering'), 0)")
    assert (await operator.delete("/tenants/acme")).json()["is_removed"]


async def test_an_older_state_and_a_key_are_refused(operator, full):
    stale = await operator.delete("/tenants/acme", params={"cancel": True}, headers={"If-Match": '"old"'})
    keyed = await operator.delete("/tenants/acme", headers={"Idempotency-Key": "1"})

    assert (stale.status_code, keyed.status_code) == (412, 422)
    assert (await operator.get("/tenants/acme")).json()["removing_at"] is None


async def test_who_writes_to_a_tenant_that_moved_is_told_where_it_is(operator, admin, owner):
    job = {"job_type": "x.work"}
    await owner.execute(
        "update atlas.tenants set moving_at = now(), moving_to = 'https://new.example' where slug = 'acme'"
    )
    refused = [
        await admin.post("/jobs", json=job),
        await admin.post("/jobs", json=job, headers={"Idempotency-Key": "1"}),
        await operator.post("/jobs", json=job, params={"tenant": "acme"}),
        await admin.post("/events", json={"name": "order.paid"}),
        await admin.post("/inbound-hooks", json={"event_name": "order.paid"}),
        await operator.patch("/tenants/acme", json={"name": "Acme Ltd"}),
    ]
    for response in refused:
        assert response.status_code == 409, response.text
        assert "Use https://new.example." in response.text
    shown = (await operator.get("/tenants/acme")).json()
    assert (shown["moving_to"], shown["moving_at"] is not None) == ("https://new.example", True)
    assert (await admin.get("/jobs")).status_code == 200
    assert (await admin.post("/audit/verifications")).status_code == 202
