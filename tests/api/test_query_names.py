"""Names in the query that an operation does not take are refused: ignoring one could widen what a call does."""

from collections import defaultdict

import pytest
import websockets

from tests.api.table import TABLE
from tests.api.test_bad_input import assert_problem
from tests.api.test_matrix import UNVERSIONED, filled

SOME_ID = "01a10000-0000-7000-8000-000000000000"


async def test_an_unknown_name_is_refused_by_every_operation(world):
    for row, roles in TABLE.items():
        method, path = row.split(" ")
        role = roles.replace("*", "").split()[0].replace("everyone", "operator")
        client = world.client("all" if role == "operator" else "acme", role)
        address = filled(path, defaultdict(lambda: SOME_ID))
        if path in UNVERSIONED:
            address = f"http://atlas.test{address}"
        received = assert_problem(await client.request(method, f"{address}?unheard=1", json={}), 422, "query.unheard")
        assert "is unknown" in received["detail"], row


async def test_a_name_that_is_nearly_right_is_named_and_nothing_is_done(operator, conn):
    job = {"job_type": "x.work", "payload": {}}
    for call in (
        operator.post("/jobs?Tenant=acme", json=job),
        operator.post("/jobs/bulk/preview?tenant_id=acme", json={}),
        operator.get("/jobs?tennant=acme"),
    ):
        assert "did you mean tenant?" in assert_problem(await call, 422)["detail"]
    several = assert_problem(await operator.get("/jobs?Limit=1&created_befor=x&job_type=a"), 422)

    assert [error["field"] for error in several["errors"]] == ["query.Limit", "query.created_befor"]
    assert several["errors"][1]["reason"].startswith("is unknown; did you mean created_before")
    assert await conn.fetchval("select count(*) from atlas.jobs") == 0


async def test_a_caller_who_is_refused_learns_no_names(world):
    assert_problem(await world.client("acme", "enqueuer").post("/jobs/tick?x=1"), 403)


async def test_the_live_socket_refuses_unknown_names(server):
    address = server.address.replace("http", "ws") + "/api/v1/live?tenat=acme"
    headers = server.world.headers("all", "operator")
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(address, additional_headers=headers):
            pass
    assert refused.value.response.status_code == 422
    assert b"did you mean tenant?" in refused.value.response.body
