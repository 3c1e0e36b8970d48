"""Ids by their beginning: the server finds them, for each kind and within the rights of the caller."""

from uuid import UUID

import pytest

from tests.api.test_jobs import make


async def test_the_beginning_of_an_id_finds_every_one_that_begins_so(admin, conn):
    first, second = [(await make(admin))["id"] for _ in range(2)]
    # Two jobs that were made in one second differ towards their end.
    alike = first[:-1] + ("0" if first[-1] != "0" else "1")
    await conn.execute("update atlas.jobs set id = $1 where id = $2", UUID(alike), UUID(second))

    both = await admin.get("/ids", params={"kind": "job", "prefix": first[:35]})
    one = await admin.get("/ids", params={"kind": "job", "prefix": first.replace("-", "").upper()})
    any_kind = await admin.get("/ids", params={"kind": "any", "prefix": first[:35]})
    none = await admin.get("/ids", params={"kind": "trigger", "prefix": first[:35]})

    assert both.json() == {"ids": sorted([first, alike])} == any_kind.json()
    assert one.json() == {"ids": [first]}
    assert none.json() == {"ids": []}


async def test_more_than_a_few_are_not_listed(admin):
    ids = [(await make(admin))["id"] for _ in range(12)]

    found = (await admin.get("/ids", params={"kind": "job", "prefix": ids[0][:4]})).json()["ids"]

    assert found == sorted(ids)[:9]


async def test_each_kind_is_for_those_who_may_list_it_and_for_their_tenant(world, admin):
    trigger = (
        await admin.post(
            "/jobs/triggers",
            json={"label": "n", "trigger_type": "schedule", "cron_expr": "@daily", "job_type": "x.work"},
        )
    ).json()["id"]
    job = (await make(admin))["id"]
    token = str(world.ids["acme", "enqueuer"])

    async def found(of: str, role: str, kind: str, id: str, **params: str) -> tuple[int, list[str] | None]:
        async with world.client(of, role) as client:
            answer = await client.get("/ids", params={"kind": kind, "prefix": id[:35], **params})
        return answer.status_code, answer.json().get("ids")

    assert await found("acme", "auditor", "trigger", trigger) == (200, [trigger])
    assert await found("acme", "enqueuer", "trigger", trigger) == (200, [])
    assert await found("acme", "enqueuer", "any", trigger) == (200, [])
    assert await found("acme", "enqueuer", "any", job) == (200, [job])
    assert await found("acme", "enqueuer", "job", job) == (200, [job])
    assert await found("acme", "auditor", "token", token) == (200, [])
    assert await found("acme", "auditor", "any", token) == (200, [])
    assert await found("acme", "tenant_admin", "token", token) == (200, [token])
    assert await found("other", "tenant_admin", "any", trigger) == (200, [])
    assert await found("all", "operator", "any", trigger) == (200, [trigger])
    assert await found("all", "operator", "any", trigger, tenant="acme") == (200, [trigger])
    assert await found("all", "operator", "any", trigger, tenant="other") == (200, [])


@pytest.mark.parametrize(
    "params",
    [
        {"kind": "job"},
        {"kind": "job", "prefix": "01a"},
        {"kind": "job", "prefix": "x"},
        {"kind": "y", "prefix": "01a1"},
    ],
)
async def test_what_is_no_beginning_of_an_id_is_refused(admin, params):
    assert (await admin.get("/ids", params=params)).status_code == 422
