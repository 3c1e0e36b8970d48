"""Pauses over HTTP: who may pause what, that it lasts until it is resumed, and what the status and a job's reason say."""

import asyncio

import pytest

from tests.api.test_bad_input import assert_problem


async def test_an_operator_pauses_a_type_and_ends_the_pause(operator):
    asked = {"kind": "type", "target": "x.work", "reason": "provider outage", "for_seconds": 7200}
    made = (await operator.put("/pauses", json=asked)).json()
    assert (made["kind"], made["name"], made["reason"], made["tenant_id"]) == (
        "type",
        "x.work",
        "provider outage",
        None,
    )
    assert made["until"] is not None
    assert made["id"] in [pause["id"] for pause in (await operator.get("/system/status")).json()["pauses"]]
    job = (await operator.post("/jobs", json={"job_type": "x.work", "payload": {}})).json()
    why = (await operator.get(f"/jobs/{job['id']}/explain")).json()
    assert (why["reason"], why["command"]) == ("paused", "atlas resume type x.work")

    assert (await operator.delete(f"/pauses/{made['id']}")).status_code == 204
    assert made["id"] not in [item["id"] for item in (await operator.get("/pauses")).json()["items"]]
    assert (await operator.delete(f"/pauses/{made['id']}")).status_code == 404


async def test_a_tenant_pauses_what_is_its_own_and_nothing_else(admin, operator, world):
    schedule = {"label": "t", "trigger_type": "schedule", "cron_expr": "0 7 * * *", "job_type": "x.work"}
    await admin.post("/jobs/triggers", json=schedule)
    for kind, target in (("tenant", "acme"), ("host", "box-acme"), ("trigger", "t")):
        made = await admin.put("/pauses", json={"kind": kind, "target": target})
        assert made.status_code == 200, made.text
        assert made.json()["tenant"] == "acme"
        assert (await admin.delete(f"/pauses/{made.json()['id']}")).status_code == 204
    refused = await admin.put("/pauses", json={"kind": "type", "target": "x.work"})
    assert refused.status_code == 422
    for kind, target in (("tenant", "other"), ("host", str(world.hosts["other"].id))):
        assert (await admin.put("/pauses", json={"kind": kind, "target": target})).status_code == 404
    # It sees the pauses that hold everyone, and does not end them.
    of_all = (await operator.put("/pauses", json={"kind": "type", "target": "x.work"})).json()
    assert of_all["id"] in [item["id"] for item in (await admin.get("/pauses")).json()["items"]]
    assert (await admin.delete(f"/pauses/{of_all['id']}")).status_code == 404


async def test_a_pause_is_made_changed_and_ended_only_as_its_caller_saw_it(operator):
    asked = {"kind": "type", "target": "x.work", "for_seconds": 7200}
    new = {"If-None-Match": "*"}
    calls = (operator.put("/pauses", json=asked | {"reason": reason}, headers=new) for reason in ("outage", "deploy"))
    made, late = sorted(await asyncio.gather(*calls), key=lambda response: response.status_code)
    assert made.status_code == 200, made.text
    assert assert_problem(late, 412)["detail"] == "The type x.work is paused already."

    first = {"If-Match": made.headers["etag"]}
    assert first == {"If-Match": f'"{made.json()["version"]}"'}
    changed = await operator.put("/pauses", json=asked | {"reason": "longer"}, headers=first)
    assert changed.status_code == 200, changed.text
    pause_address = f"/pauses/{made.json()['id']}"
    for stale in (
        await operator.put("/pauses", json=asked | {"reason": "mine"}, headers=first),
        await operator.delete(pause_address, headers=first),
    ):
        assert assert_problem(stale, 412)["detail"] == "The pause of the type x.work has changed since it was read."
    [held] = (await operator.get("/pauses")).json()["items"]
    assert (held["reason"], held["version"]) == ("longer", changed.json()["version"])

    second = {"If-Match": changed.headers["etag"]}
    assert (await operator.delete(pause_address, headers=second)).status_code == 204
    assert_problem(await operator.put("/pauses", json=asked, headers=second), 412)
    assert (await operator.put("/pauses", json=asked, headers={"If-None-Match": '"7"'})).status_code == 422


@pytest.mark.parametrize(
    "body", [{"kind": "queue", "target": "x"}, {"kind": "type"}, {"kind": "type", "target": "x.work", "for_seconds": 0}]
)
async def test_what_cannot_be_paused_is_refused(operator, body):
    assert (await operator.put("/pauses", json=body)).status_code == 422
