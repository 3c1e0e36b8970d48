"""Effects over HTTP: what is unknown, why its job waits, and how a person settles it."""

from atlas.engine.triggers.fire_events import fire_due_events
from tests.support import given_doubt


async def test_a_tenant_sees_its_doubt_is_told_why_the_job_waits_and_settles_it(pool, world, admin, operator):
    job = (await admin.post("/jobs", json={"job_type": "x.work"})).json()
    effect_id = await given_doubt(pool, job["id"])

    why = (await admin.get(f"/jobs/{job['id']}/explain")).json()
    assert (why["reason"], why["action"]) == ("effect", {"verb": "settle_effect", "target": effect_id})
    assert why["sentence"] == "Waiting for a person: was stripe.charge k made?"
    [doubt] = (await admin.get("/effects", params={"state": "unknown", "provider": "stripe"})).json()["items"]
    assert (doubt["id"], doubt["question"], doubt["tenant"]) == (effect_id, "Was stripe.charge k made?", "acme")
    for filters in ({"state": "done"}, {"provider": "s3"}, {"job_id": effect_id}):
        assert (await admin.get("/effects", params=filters)).json()["items"] == []
    needs = (await admin.get("/overview")).json()["needs"]
    assert [need["message"] for need in needs if need["kind"] == "effects"] == ["1 effect to settle."]
    assert "atlas_effects_unknown 1.0" in (await operator.get("http://atlas.test/metrics")).text

    stranger = world.client("other", "tenant_admin")
    for response in (
        await stranger.get(f"/effects/{effect_id}"),
        await stranger.post(f"/effects/{effect_id}/settle", json={"outcome": "not_done"}),
    ):
        assert response.status_code == 404
    assert (await stranger.get("/effects")).json()["items"] == []

    wrong = await admin.post(f"/effects/{effect_id}/settle", json={"outcome": "not_done", "reference": "ch_1"})
    assert wrong.status_code == 422
    settled = await admin.post(f"/effects/{effect_id}/settle", json={"outcome": "done", "reference": "ch_1"})
    assert settled.json() == {"id": effect_id, "state": "done", "reference": "ch_1", "woken": True}
    again = await admin.post(f"/effects/{effect_id}/settle", json={"outcome": "not_done"})
    assert again.status_code == 409
    assert (await admin.get(f"/jobs/{job['id']}/explain")).json()["reason"] != "effect"


async def test_where_policy_demands_a_second_person_the_creator_is_refused_and_that_is_recorded(pool, admin, operator):
    job = (await admin.post("/jobs", json={"job_type": "x.work"})).json()
    effect_id = await given_doubt(pool, job["id"])
    rule = {"label": "money", "effect": "review", "workflow": "effect:stripe.*"}
    assert (await operator.post("/policies", json=rule)).status_code == 201

    refused = await admin.post(f"/effects/{effect_id}/settle", json={"outcome": "not_done"})
    assert refused.status_code == 409
    assert "same person" in refused.text
    assert await pool.fetchval("select count(*) from atlas.audit_log where action = 'DECISION_REFUSED'") == 1
    assert (await operator.post(f"/effects/{effect_id}/settle", json={"outcome": "not_done"})).status_code == 200


async def test_who_arranged_the_trigger_of_a_job_is_not_the_second_person(pool, admin, operator):
    trigger = {"label": "t", "trigger_type": "event", "event_name": "charge.me", "job_type": "x.work"}
    assert (await admin.post("/jobs/triggers", json=trigger)).status_code == 201
    await admin.post("/events", json={"name": "charge.me"})
    async with pool.acquire() as conn:
        await fire_due_events(conn)
        job = await conn.fetchrow("select id, created_by from atlas.jobs where source = 'event'")
    assert job["created_by"] == "scheduler"
    effect_id = await given_doubt(pool, str(job["id"]))
    await operator.post("/policies", json={"label": "money", "effect": "review", "workflow": "effect:stripe.*"})

    refused = await admin.post(f"/effects/{effect_id}/settle", json={"outcome": "not_done"})
    assert (refused.status_code, "same person" in refused.text) == (409, True)
    assert (await operator.post(f"/effects/{effect_id}/settle", json={"outcome": "not_done"})).status_code == 200


async def test_only_a_settlement_publishes_the_event_of_one(admin):
    forged = await admin.post("/events", json={"name": "atlas.effect.settled", "context": {"effect": "x"}})
    assert (forged.status_code, forged.json()["errors"][0]["field"]) == (422, "name")
