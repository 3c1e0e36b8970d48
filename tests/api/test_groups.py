"""Groups of jobs over HTTP."""

from uuid import uuid4

BODY = {
    "name": "March",
    "jobs": [{"job_type": "x.work", "payload": {"n": n}, "allow_unknown": True} for n in range(3)],
    "then": {"job_type": "x.total", "payload": {"month": 3}, "allow_unknown": True},
}


async def test_a_group_is_made_shown_canceled_and_retried(world):
    admin = world.client("acme", "tenant_admin")
    made = await admin.post("/groups", json=BODY)
    assert made.status_code == 201
    group = made.json()
    assert (group["total"], group["counts"], group["then_type"]) == (3, {"queued": 3}, "x.total")
    assert (await admin.get(f"/groups/{group['id']}")).json() == group
    assert (await admin.get("/groups")).json()["items"] == [group]
    listed = (await admin.get("/jobs", params={"group_id": group["id"]})).json()["items"]
    assert {job["group_id"] for job in listed} == {group["id"]}
    assert len(listed) == 3
    for verb, verdicts in (("cancel", {"canceled": 3}), ("retry", {"retried": 3})):
        begun = (await admin.post(f"/groups/{group['id']}/{verb}")).json()
        # It acts on a set that was counted, and no job that joins later is swept along.
        assert (begun["total"], begun["arrived"], begun["verdicts"]) == (3, 0, verdicts)
        assert begun["digest"] is not None


async def test_another_tenant_has_no_such_group(world):
    group = (await world.client("acme", "tenant_admin").post("/groups", json=BODY)).json()
    stranger = world.client("other", "tenant_admin")
    assert (await stranger.get("/groups")).json()["items"] == []
    assert (await stranger.get(f"/groups/{group['id']}")).status_code == 404
    assert (await stranger.post(f"/groups/{group['id']}/cancel")).status_code == 404
    assert (await stranger.get("/jobs", params={"group_id": group["id"]})).json()["items"] == []


async def test_an_empty_group_of_a_tenant_ends_at_once_and_bad_ones_are_refused(world):
    admin = world.client("acme", "tenant_admin")
    made = (await admin.post("/groups", json={**BODY, "jobs": []})).json()
    assert made["ended_at"] is not None
    assert (await admin.get(f"/jobs/{made['then_job_id']}")).json()["payload"]["group"]["total"] == 0
    run = {"job_type": "ENGINE_RUN", "payload": {"workflow": "w"}}
    unknown = {"definition_key": "no.such"}
    assert (await admin.post("/groups", json={"jobs": [run]})).status_code == 422
    assert (await admin.post("/groups", json={"jobs": [unknown]})).status_code == 404
    assert (await admin.get(f"/groups/{uuid4()}")).status_code == 404
