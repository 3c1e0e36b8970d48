"""Triggers over HTTP: the next times of a schedule are the database's, and are found beside other requests."""

import time
from datetime import UTC, datetime

from atlas.engine.triggers.cron import read_cron
from atlas.engine.triggers.preview import preview
from tests.engine.triggers.given import set_clock


async def test_the_next_times_are_those_after_the_databases_clock(admin, owner):
    await set_clock(owner, datetime(2031, 6, 1, 12, tzinfo=UTC))
    described = {"label": "n", "trigger_type": "schedule", "cron_expr": "0 7 * * *", "job_type": "x.work"}
    trigger = (await admin.post("/jobs/triggers", json=described)).json()
    kept = await admin.get(f"/jobs/triggers/{trigger['id']}/preview?count=1")
    planned = await admin.post("/jobs/triggers/preview", json={"cron_expr": "0 7 * * *", "count": 1})

    assert kept.json()["items"] == planned.json()["items"]
    assert [item["utc"] for item in kept.json()["items"]] == [trigger["next_fire_at"]] == ["2031-06-02T07:00:00Z"]


async def test_next_times_that_take_long_to_find_hold_up_no_other_request(admin):
    rare = {"cron_expr": "30 2 29 2 *", "timezone": "Europe/Berlin", "count": 100}
    began = time.thread_time()
    preview(read_cron(rare["cron_expr"], rare["timezone"]), datetime.now(UTC), count=100)
    here = time.thread_time() - began
    began = time.thread_time()
    found = await admin.post("/jobs/triggers/preview", json=rare)

    assert len(found.json()["items"]) == 100
    assert time.thread_time() - began < here / 2


async def test_next_times_begin_at_a_date_that_is_named(admin):
    described = {"label": "n", "trigger_type": "schedule", "cron_expr": "30 2 * * *", "timezone": "Europe/Berlin"}
    trigger = (await admin.post("/jobs/triggers", json={**described, "job_type": "x.work"})).json()
    start = "2027-03-28T00:30:00Z"  # the night without a half past two
    kept = await admin.get(f"/jobs/triggers/{trigger['id']}/preview", params={"count": 2, "start": start})
    body = {"cron_expr": "30 2 * * *", "timezone": "Europe/Berlin", "count": 2, "start": start}
    planned = (await admin.post("/jobs/triggers/preview", json=body)).json()["items"]
    exact = {"cron_expr": "0 7 * * *", "count": 1, "start": "2030-01-01T07:00:00Z"}

    assert kept.json()["items"] == planned
    assert planned[0]["utc"] == "2027-03-28T01:00:00Z"
    assert "does not exist" in planned[0]["note"]
    [first] = (await admin.post("/jobs/triggers/preview", json=exact)).json()["items"]
    assert first["utc"] == exact["start"]
    for odd in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        assert (await admin.post("/jobs/triggers/preview", json={**body, "start": odd})).status_code == 200


async def test_a_trigger_shows_what_became_of_its_last_firing(admin):
    described = {"label": "n", "trigger_type": "schedule", "cron_expr": "0 7 * * *", "job_type": "x.work"}
    trigger = (await admin.post("/jobs/triggers", json=described)).json()
    fired = (await admin.post(f"/jobs/triggers/{trigger['id']}/fire")).json()
    [listed] = (await admin.get("/jobs/triggers")).json()["items"]

    assert (trigger["last_result"], trigger["last_job_id"]) == (None, None)
    assert (listed["last_result"], listed["last_job_id"]) == ("fired", fired["job_id"])
