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
    assert [one["utc"] for one in kept.json()["items"]] == [trigger["next_fire_at"]] == ["2031-06-02T07:00:00Z"]


async def test_next_times_that_take_long_to_find_hold_up_no_other_request(admin):
    rare = {"cron_expr": "30 2 29 2 *", "timezone": "Europe/Berlin", "count": 100}
    began = time.thread_time()
    preview(read_cron(rare["cron_expr"], rare["timezone"]), datetime.now(UTC), count=100)
    here = time.thread_time() - began
    began = time.thread_time()
    found = await admin.post("/jobs/triggers/preview", json=rare)

    assert len(found.json()["items"]) == 100
    assert time.thread_time() - began < here / 2
