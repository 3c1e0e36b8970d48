"""A crowded installation: six tenants, 31 job types, names that are long, right to left or hide characters, work in every state."""

from datetime import timedelta
from typing import Any

import httpx

from atlas.engine.enqueue import enqueue_group
from atlas.engine.hosts.hosts import add_host
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.pauses import pause
from atlas.engine.tenants.tenants import add_tenant
from atlas.engine.webhooks.store import add_webhook
from tests.support import DANA, given_doubt, until
from tests.web.site import Site

HIDING = "Pay EUR \u202e99.1\u202c \u200bnow"
ARABIC = "مقهى الميناء القديم للقهوة المحمصة"
TRIES = 6
LONG = "Ådalens Kaffebränneri och Import Aktiebolag i Norrköping, filial för ekologiska bönor"
TENANTS = {
    "harbour": "Harbour Books",
    "cafe-of-the-old-harbour-with-a-long-slug": ARABIC,
    "adalen": LONG,
    "hiding": "Hiding",
}
TYPES = [f"billing.invoice-{number:02}.render-and-send" for number in range(30)] + [
    "report." + "build-the-quarterly-summary-of-all-subsidiaries-" * 2 + "eu-west"
]
# Jobs that ended, loaded past Atlas and found by a count of the table.
DEAD = """
insert into atlas.jobs (tenant_id, job_type, status, input, error, started_at, finished_at, dead_lettered_at, attempt_count, claimed_by)
select $1, $2, 'failed', '{}', jsonb_build_object('type', $3::text, 'message', replace($4, '#', n::text)),
  clock_timestamp() - interval '1 minute', clock_timestamp(), clock_timestamp(), 4, 'worker-eu-west-1b.internal.example:4711:0a1b2c'
from generate_series(1, $5::int) n"""


def fill(site: Site, *, dead_letters: int = 700) -> dict[str, str]:
    """Make all of it. Returns ids by name, for the addresses of pages."""
    ids = site.run(_fill_database(site, dead_letters))
    headers = site.world.headers("acme", "tenant_admin")
    with httpx.Client(base_url=f"{site.address}/api/v1", headers=headers, timeout=60) as client:
        ids |= _fill_over_http(client)

    async def waits() -> bool:
        return bool(await site.pool.fetchval("select count(*) from atlas.approvals where status = 'pending'"))

    site.run(until(waits, within=60))
    ids["approval"] = str(
        site.run(site.pool.fetchval("select id from atlas.approvals where status = 'pending' limit 1"))
    )
    return ids


async def _fill_database(site: Site, dead_letters: int) -> dict[str, str]:
    acme = site.world.acme.id
    async with site.pool.acquire() as conn:
        tenants = [await add_tenant(conn, slug=slug, name=name, actor=DANA) for slug, name in TENANTS.items()]
        jobs = [
            NewJob(job_type, {"title": HIDING}, tenant.id, allow_unknown=True, correlation_id="order 4711")
            for number, job_type in enumerate(TYPES)
            for tenant in (site.world.acme, *tenants[number % 4 : number % 4 + 1])
        ]
        later = NewJob(TYPES[0], {}, acme, allow_unknown=True, delay=timedelta(hours=5))
        doubtful = NewJob(TYPES[1], {}, acme, allow_unknown=True)
        await enqueue_many(conn, [*jobs, later, doubtful], actor=DANA)
        group = [NewJob(TYPES[2], {"n": n}, acme, allow_unknown=True) for n in range(3)]
        await enqueue_group(conn, group, name=HIDING, tenant_id=acme, actor=DANA)
        await conn.execute(
            DEAD, acme, TYPES[-1], "ConnectionRefusedError", "Port # of db.internal is closed", dead_letters
        )
        await conn.execute(DEAD, tenants[1].id, TYPES[3], "ValueError", f"{ARABIC}: # is not a price", 12)
        await conn.execute(DEAD, tenants[3].id, TYPES[4], "Ошибка", f"{HIDING} #", 3)
        while not await count_jobs(conn):
            pass
        host = await add_host(conn, tenant_id=acme, name=f"box {LONG}"[:60], actor=DANA)
        await add_webhook(conn, acme, f"https://shop.example/{'hook/' * 12}atlas", ["job.failed"], actor=DANA)
        await pause(conn, "type", "report.once", actor=DANA, reason=HIDING, until=timedelta(hours=2))
        dead = await conn.fetchval(
            "select id from atlas.jobs where job_type = $1 and dead_lettered_at is not null", TYPES[4]
        )
    await given_doubt(site.pool, doubtful.id)
    return {"job": str(later.id), "dead": str(dead), "host": str(host.id)}


def _fill_over_http(client: httpx.Client) -> dict[str, str]:
    made: dict[str, Any] = {}
    for to in (HIDING, f"{ARABIC} <guji@roasters.example>", LONG):
        made["run"] = post(client, "/intents", {"workflow": "payout", "input": {"to": to, "amount_cents": 999_900}})
    schedule = {"trigger_type": "schedule", "timezone": "Europe/Berlin", "cron_expr": "*/15 * * * *"}
    event = {"trigger_type": "event", "event_name": "order.paid"}
    for label, kind in ((f"Stock {LONG}"[:100], schedule), ("On an order", event)):
        body = {**kind, "label": label, "job_type": "report.build", "payload_template": {"name": "night"}}
        made["trigger"] = post(client, "/jobs/triggers", body)
    post(client, "/events", {"name": "order.paid", "context": {"order": HIDING}})
    return {name: str(one["id"]) for name, one in made.items()}


def post(client: httpx.Client, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Post it, again while the API is busy, and return what came of it."""
    # A busy machine may need more time for a check than the API gives it.
    for _ in range(TRIES):
        answer = client.post(path, json=body)
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            break
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found
