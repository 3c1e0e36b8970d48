"""A coffee shop as the pictures show it: its jobs and its workflow, and a morning of its work."""

import asyncio
import math
from bisect import bisect_left
from datetime import timedelta
from random import Random
from typing import Any

import httpx
from pydantic import BaseModel, Field

from atlas import JobContext, PermanentError, Run, job, workflow
from atlas.db.pool import Connection
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from tests.support import DANA, until
from tests.web.crowd import post
from tests.web.site import Site

CUSTOMERS = ("ada@lovelace.example", "grace@hopper.example", "alan@turing.example", "edsger@dijkstra.example")
SUPPLIER = "stock.sync"
MAIL = """<h2 style="font-family:sans-serif">Your coffee is on its way</h2>
<p style="font-family:sans-serif">Hello {name}, we have handed over order <b>#{order}</b> today. It arrives in one or two days.</p>
<table style="font-family:sans-serif;border-collapse:collapse"><tr><td style="padding:4px 16px 4px 0">2 × Guji, washed, 250 g</td><td>€ 27.80</td></tr>
<tr><td style="padding:4px 16px 4px 0">Shipping</td><td>€ 0.00</td></tr></table>
<p style="font-family:sans-serif;color:#667">Northwind Coffee, Harbour Street 12</p>"""
# The jobs of a minute at noon.
BUSY = {"order.confirm": 34, "EMAIL_SEND": 30, "invoice.render": 14, SUPPLIER: 3}


class Invoice(BaseModel):
    """The order that an invoice is for."""

    order: int
    pages: int = Field(default=3, ge=1, le=400)
    seconds: float = 0.1


class Payout(BaseModel):
    """Money that goes to a roaster, once a person has agreed."""

    to: str
    amount_cents: int = Field(gt=0)


@job("order.confirm", max_retries=3)
async def confirm_order(input: dict[str, Any], ctx: JobContext) -> dict[str, Any]:
    """Reserve the stock of an order."""
    ctx.log.info("reserved", order=input["order"], items=2)
    return {"order": input["order"], "reserved": True}


@job("invoice.render", max_retries=2)
async def render_invoice(input: Invoice, ctx: JobContext) -> dict[str, str]:
    """Render an invoice as a PDF, page by page."""
    for page in range(input.pages):
        await ctx.progress(100 * page / input.pages, f"page {page + 1} of {input.pages}")
        await asyncio.sleep(input.seconds / input.pages)
    return {"file": f"invoice-{input.order}.pdf"}


@job(SUPPLIER, max_retries=0)
async def sync_stock(input: dict[str, Any], ctx: JobContext) -> dict[str, int]:
    """Ask a supplier for its stock."""
    ctx.log.info("asking the supplier", supplier=input["supplier"])
    if input["supplier"] == "kaffa":
        raise TimeoutError("kaffa-imports.example did not answer within 10 s")
    if input["supplier"] == "andes":
        raise PermanentError("andes.example refused the API key (401)")
    return {"articles": 218}


@workflow("payout")
async def payout(run: Run, input: Payout) -> dict[str, bool]:
    """Pay a roaster once a person has approved it."""
    await run.step("check-balance", check_balance, input.amount_cents)
    await run.step("check-limits", check_limits, input.to)
    title = f"Pay {input.to} € {input.amount_cents / 100:,.2f}?"
    decision = await run.approval("approve", title=title, expires=timedelta(hours=8))
    if decision:
        subject = "Your payout is on its way"
        await run.job("mail", "EMAIL_SEND", {"to": input.to, "subject": subject, "text": "It arrives tomorrow."})
    return {"paid": bool(decision)}


async def check_balance(cents: int) -> dict[str, int]:
    """Refuse what the account does not have."""
    return {"balance_cents": 4_182_050, "after_cents": 4_182_050 - cents}


async def check_limits(to: str) -> dict[str, Any]:
    """Whether a person must agree."""
    return {"to": to, "limit_cents": 100_000, "needs_approval": True}


def open_shop(site: Site) -> None:
    """A morning: jobs in every state, payouts, schedules, a verification, and the minutes before."""
    site.run(_make_jobs(site))
    with httpx.Client(
        base_url=f"{site.address}/api/v1", headers=site.world.headers("acme", "tenant_admin"), timeout=60
    ) as client:
        _set_up(client)
    with httpx.Client(
        base_url=f"{site.address}/api/v1", headers=site.world.headers("all", "operator"), timeout=60
    ) as client:
        _decide(site, client)
    site.run(until(lambda: _has_settled(site)))
    site.run(_make_history(site))


async def _make_jobs(site: Site) -> None:
    random = Random(7)
    acme, other = site.world.acme.id, site.world.other.id
    jobs = []
    for order in range(10_431, 10_471):
        to = random.choice(CUSTOMERS)
        name = to.partition("@")[0].title()
        mail = {"to": to, "subject": f"Order #{order} is on its way", "html": MAIL.format(name=name, order=order)}
        about: dict[str, Any] = {"correlation_id": f"order-{order}"}
        jobs += [NewJob("order.confirm", {"order": order}, acme, **about), NewJob("EMAIL_SEND", mail, acme, **about)]
        jobs.append(NewJob("invoice.render", {"order": order}, acme, **about))
    suppliers = ("guji", "kaffa", "guji", "kaffa", "andes")
    jobs += [NewJob(SUPPLIER, {"supplier": supplier}, acme) for supplier in suppliers]
    jobs += [NewJob("order.confirm", {"order": number}, other) for number in range(12)]
    long = [("invoice.render", {"order": 10_471 + n, "pages": 60, "seconds": 280 + 60 * n}) for n in range(3)]
    jobs += [NewJob(job_type, input, acme) for job_type, input in long]
    reminder = {"to": CUSTOMERS[0], "subject": "How was your coffee?", "text": "Tell us."}
    jobs += [NewJob("EMAIL_SEND", reminder, acme, delay=timedelta(days=3)) for _ in range(4)]
    async with site.pool.acquire() as conn:
        await conn.execute("update atlas.tenants set name = 'Northwind Coffee' where id = $1", acme)
        await conn.execute("update atlas.tenants set name = 'Harbour Books' where id = $1", other)
        await enqueue_many(conn, jobs, actor=DANA)


def _set_up(client: httpx.Client) -> None:
    """Payouts, schedules and events, as the shop's own people make them."""
    for to, cents in (
        ("guji@roasters.example", 184_000),
        ("yirga@roasters.example", 96_500),
        ("huila@roasters.example", 23_900),
    ):
        post(client, "/intents", {"workflow": "payout", "input": {"to": to, "amount_cents": cents}})
    berlin = {"trigger_type": "schedule", "timezone": "Europe/Berlin"}
    triggers: tuple[dict[str, Any], ...] = (
        {**berlin, "label": "Stock of all suppliers", "cron_expr": "*/15 * * * *", "job_type": SUPPLIER},
        {**berlin, "label": "Invoices of the day", "cron_expr": "30 2 * * *", "job_type": "invoice.render"},
        {**berlin, "label": "Payouts on Fridays", "cron_expr": "0 9 * * 5", "workflow": "payout"},
        {
            "trigger_type": "event",
            "event_name": "order.paid",
            "label": "Invoice of a paid order",
            "job_type": "invoice.render",
        },
    )
    templates = (
        {"supplier": "guji"},
        {"order": 10_500},
        {"to": "guji@roasters.example", "amount_cents": 50_000},
        {"order": "{{ event.order }}"},
    )
    for trigger, template in zip(triggers, templates, strict=True):
        post(client, "/jobs/triggers", {**trigger, "payload_template": template})
    for order in (10_468, 10_469, 10_470):
        post(client, "/events", {"name": "order.paid", "context": {"order": order, "total_cents": 2780}})


def _decide(site: Site, client: httpx.Client) -> None:
    """One payout is approved by another person; the log is verified."""

    async def asks() -> bool:
        return await site.pool.fetchval("select count(*) from atlas.approvals where status = 'pending'") == 3

    site.run(until(asks))
    pending = client.get("/approvals", params={"status": "pending"}).json()["items"]
    [small] = [one for one in pending if "huila" in one["title"]]
    decision = {"approve": True, "input_hash": small["input_hash"], "comment": "Checked against the invoice."}
    answer = client.post(f"/approvals/{small['id']}/decision", params={"tenant": "acme"}, json=decision)
    assert answer.is_success, answer.text
    post(client, "/audit/verifications")


async def _has_settled(site: Site) -> bool:
    left = "select count(*) from atlas.jobs where status in ('queued', 'running') and next_retry_at is null"
    return await site.pool.fetchval(left) <= 3


async def _make_history(site: Site) -> None:
    """The three hours before: what the meter would have kept, with a wave at every full hour."""
    random = Random(11)
    async with site.pool.acquire() as conn:
        # Also those in which the pictures are taken.
        for minute in range(-4, 180):
            wave = 1 + 0.35 * math.sin(minute / 9) + 0.15 * random.random()
            for job_type, busy in BUSY.items():
                await _add_minute(conn, site.world.acme.id, minute, job_type, round(busy * wave), random)


async def _add_minute(conn: Connection, tenant: Any, ago: int, job_type: str, jobs: int, random: Random) -> None:
    """A minute of one tenant, and of all together; some jobs end a minute later than they came."""
    slow = 6 if ago in range(38, 47) else 1
    waits = [random.expovariate(1 / (0.03 * slow)) for _ in range(jobs)]
    runs = [random.expovariate(1 / 0.4) for _ in range(jobs)]
    failed = int(job_type == SUPPLIER and ago % 15 == 0)
    ended = max(0, round(jobs * (0.82 if slow > 1 else 1.02))) - failed
    await conn.execute(
        """
        insert into atlas.job_series (tenant_id, step, begins_at, job_type, enqueued, succeeded, failed, dead_lettered, retried, canceled,
          attempts, timed_out, lost, run_seconds, cost_cents, waits, runs)
        select t, 'minute', date_trunc('minute', now()) - make_interval(mins => $2), $3, $4, $5, 0, $6, 0, 0, $4, 0, 0, $7, 0,
          $8, $9
        from unnest(array[$1, '00000000-0000-0000-0000-000000000000']::uuid[]) t
        on conflict (tenant_id, step, begins_at, job_type) do update
          set enqueued = excluded.enqueued, succeeded = excluded.succeeded, waits = excluded.waits, runs = excluded.runs
        """,
        *(
            tenant,
            ago,
            job_type,
            jobs,
            ended,
            failed,
            sum(runs),
            await _histogram(conn, waits),
            await _histogram(conn, runs),
        ),
    )


async def _histogram(conn: Connection, seconds: list[float]) -> list[int]:
    """How many of these times fall into each bucket, a bound included, and above the last."""
    bounds = await conn.fetchval("select atlas.duration_bounds()")
    counts = [0] * (len(bounds) + 1)
    for time in seconds:
        counts[bisect_left(bounds, time)] += 1
    return counts
