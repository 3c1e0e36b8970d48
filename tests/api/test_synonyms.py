"""Callers that come from another job system may keep its names: in bodies, in queries and for statuses."""

import re
from datetime import UTC, datetime, timedelta

from atlas.engine.jobs.lists.job_list import STATUSES as OWN
from atlas.engine.jobs.lists.job_list import JobFilter
from atlas.engine.synonyms import FIELDS, STATUSES
from tests.api.test_bad_input import assert_problem
from tests.support import ROOT

JOB = {"job_type": "x.work", "allow_unknown": True}
LATER = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0).isoformat()


async def made(client, body):
    answer = await client.post("/jobs", json={"allow_unknown": True, **body})
    assert answer.status_code == 201, answer.text
    return (await client.get(f"/jobs/{answer.json()['id']}")).json()


async def test_a_job_may_be_sent_in_the_names_of_other_systems(admin, operator):
    by_type = await made(admin, {"type": "x.work", "payload": {"n": 1}, "runAt": LATER, "max_attempts": 5})
    by_prisma = await made(admin, {"jobType": "x.work", "input": {"n": 1}, "maxRetries": 4, "scheduledFor": LATER})
    plain = await made(admin, {**JOB, "payload": {"n": 1}, "scheduled_for": LATER, "max_retries": 4})

    names = ("job_type", "payload", "scheduled_for", "max_retries", "status")
    assert [by_type[name] for name in names] == [plain[name] for name in names]
    assert [by_prisma[name] for name in names] == [plain[name] for name in names]
    await operator.post("/admin/jobs/definitions", json={"key": "echo.it", "argv": ["/bin/echo", "hi"]})
    command = await made(admin, {"definitionKey": "echo.it", "dedupeKey": "k", "runAt": LATER})
    assert (command["definition_key"], command["dedupe_key"]) == ("echo.it", "k")
    several = await admin.post("/jobs", json=[{"type": "x.work", "allow_unknown": True}, JOB])
    assert [job["job_type"] for job in several.json()] == ["x.work"] * 2


async def test_two_names_of_a_field_may_agree_and_must_not_differ(admin):
    assert (await made(admin, {**JOB, "type": "x.work", "max_attempts": 3, "max_retries": 2}))["max_retries"] == 2
    for fields, name in (
        ({"type": "y.work"}, "type"),
        ({"runAt": LATER, "run_at": "2040-01-01T00:00:00Z"}, "run_at"),
        ({"max_attempts": 3, "max_retries": 3}, "max_attempts"),
        ({"payload": {}, "input": {"n": 1}}, "input"),
    ):
        refused = assert_problem(await admin.post("/jobs", json={**JOB, **fields}), 422)
        assert f"{name} is a synonym of" in refused["detail"]


async def test_a_wrong_value_is_reported_under_the_name_that_was_sent(admin):
    for fields, name in (
        ({"runAt": "tomorrow"}, "runAt"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": "3"}, "max_attempts"),
        ({"maxRetries": 1001}, "maxRetries"),
    ):
        assert_problem(await admin.post("/jobs", json={**JOB, **fields}), 422, name)
        assert_problem(await admin.post("/jobs", json=[JOB, {**JOB, **fields}]), 422, f"1.{name}")


async def test_an_unknown_field_of_a_body_comes_with_the_names_like_it(admin, operator):
    for call, field, near in (
        (admin.post("/jobs", json={**JOB, "max_retrys": 3}), "max_retrys", "max_retries"),
        (admin.post("/jobs", json=[{**JOB, "prioritty": 3}]), "0.prioritty", "priority"),
        (
            admin.post("/jobs/bulk", json={"action": "cancel", "filter": {"jobb_type": "x"}}),
            "filter.jobb_type",
            "job_type",
        ),
        (admin.post("/events", json={"nam": "paid", "name": "paid"}), "nam", "name"),
        (operator.patch("/tenants/acme", json={"timezon": "UTC"}), "timezon", "timezone"),
    ):
        refused = assert_problem(await call, 422, field)
        assert f"did you mean {near}" in refused["errors"][0]["reason"]
    strange = assert_problem(await admin.post("/jobs", json={**JOB, "zzz": 3}), 422, "zzz")
    assert "known names are allow_unknown, correlation_id" in strange["errors"][0]["reason"]


async def test_lists_take_the_names_of_other_systems(admin, conn):
    due, later = await made(admin, JOB), await made(admin, {**JOB, "runAt": LATER})
    ended = [await made(admin, JOB) for _ in range(2)]
    for job, status in zip(ended, ("succeeded", "canceled"), strict=True):
        await conn.execute(
            "update atlas.jobs set status = $2::text::atlas.job_status, finished_at = clock_timestamp() where id = $1",
            job["id"],
            status,
        )
    await made(admin, {"type": "y.work"})

    async def ids(address="/jobs", **params):
        answer = await admin.get(address, params={"type": "x.work", **params})
        assert answer.status_code == 200, answer.text
        return {job["id"] for job in answer.json()["items"]}

    assert await ids(status="success") == {ended[0]["id"]}
    assert await ids(status="cancelled") == {ended[1]["id"]}
    assert await ids(status="scheduled") == {later["id"]}
    assert await ids(status="pending") == {due["id"], later["id"]}
    assert await ids(status="queued") == {due["id"]}
    assert await ids(status="queued", include_scheduled="true") == {due["id"], later["id"]}
    assert await ids("/jobs/brief", status=["success", "queued"]) == {ended[0]["id"], due["id"]}
    assert len((await admin.get("/jobs", params={"jobType": "x.work"})).json()["items"]) == 4
    both = await admin.get("/jobs", params={"jobType": "x.work", "job_type": "y.work"})
    assert "jobType is a synonym of job_type" in assert_problem(both, 422, "query.jobType")["detail"]
    assert_problem(await admin.get("/jobs", params={"status": "lost"}), 422, "query.status.0")


async def test_a_bulk_action_takes_them_too_and_shows_its_filter_in_atlas_own_names(admin):
    await made(admin, {**JOB, "runAt": LATER})
    described = {"action": "cancel", "filter": {"status": ["queued"], "include_scheduled": True, "jobType": "x.work"}}
    begun = (await admin.post("/jobs/bulk", json=described)).json()
    assert (begun["filter"]["status"], begun["filter"]["job_type"]) == (["queued", "waiting"], "x.work")


def test_a_filter_in_python_takes_them_too():
    assert JobFilter(statuses=("success", "pending", "queued")).statuses == ("succeeded", "queued", "waiting")


def test_every_synonym_stands_for_names_that_there_are():
    assert {own for meant in STATUSES.values() for own in meant} <= set(OWN)
    assert not STATUSES.keys() & set(OWN)
    assert not {name for names in FIELDS.values() for name in names} & FIELDS.keys()


def test_the_page_about_other_systems_has_every_synonym():
    page = (ROOT / "docs" / "coming-from.md").read_text().partition("## Field names from other systems")[2]
    table = page.partition("\n## ")[0]
    names = {name for field, names in FIELDS.items() if "." not in field for name in names}

    assert {name for name in (*names, *FIELDS, *STATUSES) if "." not in name} - set(
        re.findall(r"`(\w+)`", table)
    ) == set()


def test_the_description_shows_synonyms_as_deprecated(spec):
    properties = spec["components"]["schemas"]["NewJobBody"]["properties"]
    for field in ("job_type", "payload", "scheduled_for", "max_retries", "dedupe_key"):
        for name in FIELDS[field]:
            assert properties[name]["deprecated"], name
            assert f"`{field}`" in properties[name]["description"]
    [listed] = [
        parameter for parameter in spec["paths"]["/api/v1/jobs"]["get"]["parameters"] if parameter["name"] == "jobType"
    ]
    assert (listed["deprecated"], listed["description"]) == (True, "A synonym of `job_type`.")
