"""Series over HTTP: of the caller's tenant, of all for an operator, and honest about what is not metered yet."""

from atlas.engine.metering.usage import meter_usage
from tests.api.test_bad_input import assert_problem


async def metered(conn):
    while await meter_usage(conn):
        pass


async def test_a_tenant_sees_its_own_series_and_an_operator_those_of_all(world, operator, admin, conn):
    for client in (admin, world.client("other", "tenant_admin")):
        await client.post("/jobs", json=[{"job_type": "x.work"}, {"job_type": "y.work"}, {"job_type": "y.work"}])
    await metered(conn)

    async def enqueued(client, **query):
        response = await client.get("/jobs/series", params=query)
        assert response.status_code == 200, response.text
        return {one["job_type"]: one["total"]["enqueued"] for one in response.json()["series"]}

    assert await enqueued(admin) == {None: 3}
    assert await enqueued(admin, by_type=True) == {"y.work": 2, "x.work": 1}
    assert await enqueued(operator) == {None: 6}
    assert await enqueued(operator, tenant="acme", job_type="y.work", step="hour") == {"y.work": 2}


async def test_a_series_has_every_step_and_says_how_far_it_is_metered(admin, conn):
    await admin.post("/jobs", json={"job_type": "x.work"})
    await metered(conn)
    received = (await admin.get("/jobs/series")).json()

    [one] = received["series"]
    assert [point["at"] for point in one["points"]] == sorted({point["at"] for point in one["points"]})
    assert sum(point["enqueued"] for point in one["points"]) == 1
    assert (one["points"][0]["is_complete"], one["points"][-1]["is_complete"]) == (True, False)
    assert received["start"] < received["metered_until"] <= received["end"]


async def test_a_time_that_cannot_be_shown_is_refused_with_the_way_out(admin):
    long = assert_problem(await admin.get("/jobs/series?start=2026-01-01T00:00:00Z"), 422, "query.start")
    assert long["remedy"] == "Choose a shorter time, or step=hour."
    assert_problem(await admin.get("/jobs/series?step=week"), 422, "query.step")
    assert_problem(await admin.get("/jobs/series?start=tomorrow"), 422, "query.start")
