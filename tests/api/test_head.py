"""HEAD is GET without the body, at every address."""

import httpx
import pytest

from atlas.audit.sealing.sealer import seal_and_sign
from atlas.engine.hosts.hosts import find_host
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.api.table import TABLE
from tests.api.test_matrix import filled, things
from tests.support import DANA

__all__ = ["things"]

FETCH = "GET /agent/hosts/{host_id}/jobs"


@pytest.mark.long
async def test_head_works_wherever_get_does(world, things, pool, settings, spec):
    world.app.openapi_schema = spec
    await seal_and_sign(pool, settings)
    mine = dict(things["acme"], verification_id=things["nobody"]["run_id"])
    for row in [row for row in TABLE if row.startswith("GET ") and row != FETCH]:
        path = filled(row.removeprefix("GET "), dict(mine, key="echo.it") if "definitions" in row else mine)
        base = "http://atlas.test" if path in ("/healthz", "/readyz", "/metrics") else "http://atlas.test/api/v1"
        tenant, role = ("acme", "host") if "/agent/" in path else ("all", "operator")
        async with world.client(tenant, role) as client:
            got = await client.get(f"{base}{path}")
            head = await client.head(f"{base}{path}")
        assert (head.status_code, head.content) == (got.status_code, b""), row
        assert head.headers["content-type"] == got.headers["content-type"], row
    for page in ("/", "/docs", "/assets/docs.js", "/openapi.json"):
        assert (await world.client().head(f"http://atlas.test{page}")).status_code == 200


async def test_head_of_a_hosts_next_job_takes_none(world, conn):
    host = world.client("acme", "host")
    box = await find_host(conn, "box-acme", tenant_id=world.acme.id)
    await enqueue(conn, NewJob("x.work", {}, world.acme.id, host_id=box.id), actor=DANA)
    refused = await host.head(f"/agent/hosts/{box.id}/jobs", params={"wait": 0})

    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
    assert (await host.get(f"/agent/hosts/{box.id}/jobs", params={"wait": 0})).status_code == 200


async def test_head_of_an_export_exports_nothing(world, operator, pool, conn, settings):
    await seal_and_sign(pool, settings)
    assert (await operator.head("/audit/export")).status_code == 200
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'AUDIT_EXPORTED'") == 0
    assert (await operator.get("/audit/export")).status_code == 200
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'AUDIT_EXPORTED'") == 1


async def test_no_body_follows_a_head_on_the_connection(server):
    async with httpx.AsyncClient(base_url=server.address, headers=server.world.headers("all", "operator")) as client:
        for _ in range(3):
            head = await client.head("/api/v1/tenants")
            got = await client.get("/api/v1/tenants")
            assert (head.status_code, head.headers["content-length"]) == (200, str(len(got.content)))
