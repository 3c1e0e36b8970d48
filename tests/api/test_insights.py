"""Insights over HTTP: of the caller's tenant, of all for an operator, as JSON and as CSV that no spreadsheet runs."""

import csv

import pytest

from atlas.engine.metering.usage import meter_usage
from tests.api.test_bad_input import assert_problem

FORMULA = '=HYPERLINK("http://evil.example")'


@pytest.fixture
async def happened(world, operator, admin, conn):
    """Acme enqueued three jobs of two types, the other tenant one, and two more whose type is a formula."""
    await admin.post("/jobs", json=[{"job_type": "x.work"}, {"job_type": "y.work"}, {"job_type": "y.work"}])
    other = world.client("other", "tenant_admin")
    await other.post("/jobs", json={"job_type": "x.work"})
    await conn.execute("insert into atlas.job_types (key) values ($1)", FORMULA)
    made = await other.post("/jobs", json=[{"job_type": FORMULA}] * 2)
    assert made.status_code == 201, made.text
    while await meter_usage(conn):
        pass


async def read(client, **query):
    response = await client.get("/insights", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def exported(client, **query):
    response = await client.get("/insights/export", params=query)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(response.text.splitlines()))


async def test_a_tenant_sees_itself_and_an_operator_all(world, operator, admin, happened):
    own = await read(admin)
    assert {group["job_type"]: group["enqueued"] for group in own["groups"]} == {"y.work": 2, "x.work": 1}
    assert (own["total"]["enqueued"], own["previous"]["enqueued"], own["step"]) == (3, 0, "hour")
    assert sum(point["enqueued"] for point in own["points"]) == 3
    alone = await read(admin, by="tenant")
    assert [(group["tenant"], group["enqueued"]) for group in alone["groups"]] == [("acme", 3)]

    everyone = await read(operator, by="tenant")
    assert {group["tenant"]: group["enqueued"] for group in everyone["groups"]} == {"acme": 3, "other": 3}
    assert (await read(operator, tenant="acme", job_type="y.work", by="all"))["total"]["enqueued"] == 2
    auditor = world.client("all", "auditor")
    assert (await read(auditor))["total"]["enqueued"] == 6

    assert (await admin.get("/insights?tenant=other")).status_code == 404
    assert (await world.client("acme", "enqueuer").get("/insights")).status_code == 403
    assert (await world.client("acme", "enqueuer").get("/insights/export")).status_code == 403


async def test_csv_has_the_same_filters_and_no_formula(world, operator, admin, happened):
    rows = await exported(operator)
    assert {row["job_type"]: row["enqueued"] for row in rows} == {"x.work": "2", "y.work": "2", f"'{FORMULA}": "2"}
    assert {row["job_type"] for row in await exported(admin)} == {"x.work", "y.work"}
    assert {row["tenant"] for row in await exported(operator, by="tenant", job_type="x.work")} == {"acme", "other"}
    assert [row["enqueued"] for row in await exported(operator, tenant="acme", by="all")] == ["3"]
    assert {row["currency"] for row in rows} == {(await read(operator))["currency"]} == {"EUR"}
    head = await operator.head("/insights/export?start=2026-11-01T00:00:00Z&step=day")
    assert (head.status_code, head.text) == (200, "")
    name = 'attachment; filename="insights_all-tenants_2026-11-01T0000Z_'
    assert head.headers["content-disposition"].startswith(name)
    head = await admin.head("/insights/export")
    assert head.headers["content-disposition"].startswith('attachment; filename="insights_acme_')
    assert_problem(await operator.get("/insights/export?start=2040-01-01T00:00:00Z"), 422, "query.start")


async def test_what_cannot_be_shown_is_refused_with_the_way_out(admin):
    long = assert_problem(await admin.get("/insights?start=2026-01-01T00:00:00Z&step=hour"), 422, "query.start")
    assert long["remedy"] == "Choose a shorter time, or step=day."
    assert_problem(await admin.get("/insights?step=month"), 422, "query.step")
    assert_problem(await admin.get("/insights?by=worker"), 422, "query.by")
