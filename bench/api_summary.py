"""How long `GET /jobs/summary` takes over a long history, for one tenant and for an operator who sees all."""

import statistics
import time
from typing import Any

import httpx

from atlas.actors import system
from atlas.api.app import create_app
from atlas.api.limits.rates import Rates
from atlas.db.pool import connect, open_pool
from atlas.engine.access.tokens import add_token
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.tenants.tenants import add_tenant
from atlas.settings import load_settings
from bench.lists import TIMED_ID

ME = system("bench")
ASKED = 30
# Most jobs have ended; some failed for good, some wait, a few run. Every third is the tenant's that asks.
HISTORY = """
insert into atlas.jobs (id, tenant_id, job_type, status, input, created_at, started_at, finished_at, dead_lettered_at,
  claimed_by, next_retry_at, attempt_count, priority)
select pg_temp.timed_id(at, i), case when i % 3 = 0 then $1::uuid else $2::uuid end, 'bench.' || i % 20,
  status::atlas.job_status, '{"n": 1}', at,
  case when status not in ('queued', 'canceled') then at end,
  case when status in ('succeeded', 'failed', 'canceled') then at + interval '1 second' end,
  case when status = 'failed' then at + interval '1 second' end,
  case when status = 'running' then 'bench' end,
  case when status = 'queued' and i % 2 = 0 then now() + interval '1 day' end,
  case when status in ('queued', 'canceled') then 0 else 1 end, i % 5
from (
  select i, now() - ($4::bigint - i) * interval '10 milliseconds' as at,
    case when i % 1000 < 970 then 'succeeded' when i % 1000 < 980 then 'failed' when i % 1000 < 985 then 'canceled'
         when i % 10000 = 9999 then 'running' when i % 1000 < 995 then 'succeeded' else 'queued' end as status
  from generate_series($3::bigint + 1, least($3::bigint + 500000, $4::bigint)) i) x"""


async def measure_summary(url: str, rows: int) -> dict[str, Any]:
    """Make a history of this many jobs and ask for its summary, over HTTP's own path without the network."""
    pool = await open_pool(url, size=4)
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=ME)
        mine = await add_tenant(conn, slug="mine", name="Mine", actor=ME)
        other = await add_tenant(conn, slug="other", name="Other", actor=ME)
        _, operator = await add_token(conn, subject="o", role="operator", actor=ME)
        _, tenant = await add_token(conn, subject="t", role="tenant_admin", tenant=mine, actor=ME)
    began = time.perf_counter()
    owner = await connect(url)
    # The rows are right by their making; checking each would take longer than everything else.
    await owner.execute("set synchronous_commit = off; set session_replication_role = replica")
    await owner.execute(TIMED_ID)
    for done in range(0, rows, 500_000):
        await owner.execute(HISTORY, mine.id, other.id, done, rows)
    await owner.execute("vacuum analyze atlas.jobs")
    await owner.close()
    took = time.perf_counter() - began
    transport = httpx.ASGITransport(create_app(load_settings(), pool, url, rates=Rates(token=1e9, tenant=1e9)))
    figures: dict[str, Any] = {"rows": rows, "made_in_seconds": round(took)}
    async with httpx.AsyncClient(transport=transport, base_url="http://bench/api/v1") as client:
        for who, token in (("operator", operator), ("tenant", tenant)):
            times, summary = [], {}
            for _ in range(ASKED):
                began = time.perf_counter()
                got = await client.get("/jobs/summary", headers={"Authorization": f"Bearer {token}"})
                times.append((time.perf_counter() - began) * 1000)
                summary = got.raise_for_status().json()
            figures[who] = {
                "median_ms": round(statistics.median(times), 1),
                "slowest_ms": round(max(times), 1),
                "counts": summary["counts"],
                "estimated": summary["estimated"],
            }
    await pool.close()
    return figures
