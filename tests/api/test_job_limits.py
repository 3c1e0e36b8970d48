"""Limits by key over HTTP: a tenant's requests make, cancel and retry held jobs under row-level security."""

import pytest

from atlas.engine.jobs.claim import claim
from tests.api.test_bad_input import assert_problem
from tests.engine.jobs.given import given_worker


@pytest.fixture
async def limited(conn, world):
    await conn.execute(
        "insert into atlas.job_types (key, concurrency, concurrency_key) values ('keyed', 1, '{{ input.customer }}')"
    )
    return world.client("acme", "tenant_admin")


async def enqueue(client, payload):
    return await client.post("/jobs", json={"job_type": "keyed", "payload": payload})


async def test_a_tenant_s_held_jobs_are_made_explained_canceled_and_retried(conn, limited):
    first, second, third = [(await enqueue(limited, {"customer": 7})).json()["id"] for _ in range(3)]
    worker = await given_worker(conn, "keyed")
    assert [str(job.id) for job in await claim(conn, worker, limit=5)] == [first]

    explained = (await limited.get(f"/jobs/{third}/explain")).json()
    assert explained["sentence"] == "1 of at most 1 keyed jobs of 7 run; 1 of them is ahead of it."
    for job in (second, third):
        assert (await limited.post(f"/jobs/{job}/cancel")).is_success
    assert (await limited.post(f"/jobs/{third}/retry")).is_success
    assert await claim(conn, worker, limit=5) == []
    await conn.execute("update atlas.jobs set status = 'succeeded', finished_at = now() where id = $1", first)
    assert [str(job.id) for job in await claim(conn, worker, limit=5)] == [third]


async def test_a_payload_without_its_key_is_refused_with_the_field(limited):
    problem = assert_problem(await enqueue(limited, {}), 422)
    assert "input.customer" in str(problem)


async def test_limits_of_a_definition_are_edited_and_removed(world):
    client = world.client()
    limits = {"concurrency": 2, "concurrency_key": "{{ input.n }}", "rate": "100/minute", "burst": 5}
    made = await client.post("/admin/jobs/definitions", json={"key": "echo.limited", "argv": ["/bin/echo"], **limits})
    assert made.status_code == 201, made.text
    assert made.json().items() >= limits.items()
    wrong = await client.patch("/admin/jobs/definitions/echo.limited", json={"rate": "often"})
    assert "rate" in str(assert_problem(wrong, 422))
    removed = await client.patch("/admin/jobs/definitions/echo.limited", json=dict.fromkeys(limits))
    assert removed.json().items() >= dict.fromkeys(limits).items()
