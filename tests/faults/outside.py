"""What comes from outside: signed messages, jobs in the transactions of another application, and functions that recur."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import orjson

from atlas.db.pool import connect
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.webhooks.inbound import add_hook
from atlas.engine.webhooks.signature import sign
from atlas.scheduler.recurring import Recurring, at_start
from atlas.scheduler.recurring_run import RecurringContext
from tests.engine.triggers.given import given_event_trigger
from tests.faults.capability import Capability, Marked
from tests.faults.clients import ADDRESS, REST_SECONDS
from tests.faults.deliveries import put_key, using_key
from tests.faults.effects import note
from tests.faults.judge import Evidence
from tests.faults.steering import until_done
from tests.support import DANA, publish

COUNT = 5
MESSAGES = 10


async def give_nothing(conn: Any) -> None:
    """What is given needs the folder of the storm."""


# Messages that become events, of which each starts a job.


@job("fault.posted")
async def posted(input: dict[str, Any], ctx: JobContext) -> None:
    """Started by a message."""
    async with Marked("fault.posted", ctx):
        pass


@asynccontextmanager
async def posting(url: str, folder: Path) -> AsyncIterator[None]:
    """Post messages, each again until there is a response."""
    conn = await connect(url)
    await publish(conn, "fault.posted")
    with using_key(put_key(folder)):
        hook, secret = await add_hook(conn, SYSTEM_TENANT, "fault.message", actor=DANA)
    fields = {"job_type": "fault.posted", "dedupe_window_seconds": 0}
    await given_event_trigger(conn, SYSTEM_TENANT, "fault.message", **fields)
    await conn.close()

    async def post() -> None:
        while not (folder / ADDRESS).exists():
            await asyncio.sleep(REST_SECONDS)
        async with httpx.AsyncClient(base_url=(folder / ADDRESS).read_text(), timeout=20) as client:
            for number in range(MESSAGES):
                await _post(client, hook.path, secret, number)
                await asyncio.sleep(REST_SECONDS)

    task = asyncio.create_task(post())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _post(client: httpx.AsyncClient, path: str, secret: str, number: int) -> None:
    body = orjson.dumps({"n": number})
    while True:
        headers = sign([secret], f"msg_{number}", int(time.time()), body) | {"Content-Type": "application/json"}
        with suppress(httpx.HTTPError):
            if (await client.post(path, content=body, headers=headers)).is_success:
                return
        await asyncio.sleep(REST_SECONDS)


async def each_message_is_one_event(evidence: Evidence) -> list[str]:
    rows = await evidence.conn.fetch("select context::jsonb->>'n' as n from atlas.events where name = 'fault.message'")
    jobs = await evidence.conn.fetchval("select count(*) from atlas.jobs where job_type = 'fault.posted'")
    found = Counter(row["n"] for row in rows)
    right = {str(number): 1 for number in range(MESSAGES)}
    return [] if (found, jobs) == (right, MESSAGES) else [f"messages became the events {found} and {jobs} jobs"]


# Jobs that another application enqueues with its own rows.


@job("fault.ordered")
async def ordered(input: dict[str, Any], ctx: JobContext) -> None:
    """Enqueued with an order."""
    async with Marked("fault.ordered", ctx):
        pass


async def give_orders(conn: Any) -> None:
    await publish(conn, "fault.ordered")
    await conn.execute("create table public.orders (number int, job_id uuid)")


@asynccontextmanager
async def ordering(url: str, folder: Path) -> AsyncIterator[None]:
    """Place orders, each with a job in its transaction, again until there was an answer."""

    async def order() -> None:
        for number in range(COUNT):
            await until_done(url, lambda conn, number=number: _order(conn, number))  # type: ignore[misc]
            await asyncio.sleep(REST_SECONDS)

    task = asyncio.create_task(order())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _order(conn: Any, number: int) -> bool:
    await conn.execute(
        "insert into public.orders select $1, id from atlas.enqueue('system', 'fault.ordered', $2)",
        number,
        orjson.dumps({"number": number}).decode(),
    )
    return True


async def each_order_has_its_job(evidence: Evidence) -> list[str]:
    """An order is there with its job, or neither is. One whose answer was lost was placed again."""
    orders = {row[0] for row in await evidence.conn.fetch("select job_id from public.orders")}
    jobs = {row[0] for row in await evidence.conn.fetch("select id from atlas.jobs where job_type = 'fault.ordered'")}
    return [] if orders == jobs and len(jobs) >= COUNT else [f"{len(orders)} orders, {len(jobs)} jobs of orders"]


# A function that recurs in the scheduler.


async def recur(ctx: RecurringContext) -> None:
    """Does its work under a lease."""
    note("recurs", key=str(ctx.run_id), attempt=ctx.attempt)
    await asyncio.sleep(0.05)


@at_start
async def register(recurring: Recurring) -> None:
    """The scheduler that has this module as its application calls it."""
    await recurring.register("system", "fault recurs", datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=2), recur)


async def runs_recur_one_after_another(evidence: Evidence) -> list[str]:
    """Every attempt at a run begins once, and was recorded."""
    began = Counter((effect.key, effect.attempt) for effect in evidence.effects if effect.what == "recurs")
    recorded = {str(row[0]) for row in await evidence.conn.fetch("select id from atlas.recurring_runs")}
    broken = [] if began else ["the recurring function never ran"]
    broken += [
        f"attempt {attempt} at run {run} began {count} times" for (run, attempt), count in began.items() if count > 1
    ]
    return broken + [f"run {run} was not recorded" for run, _ in began if run not in recorded]


OUTSIDE = (
    Capability(
        "messages to a hook",
        give_nothing,
        (each_message_is_one_event,),
        posting,
        types=("fault.posted",),
        done=f"select count(*) >= {MESSAGES} from atlas.jobs where job_type = 'fault.posted'",
        needs_installation=True,
    ),
    Capability(
        "jobs in transactions of SQL",
        give_orders,
        (each_order_has_its_job,),
        ordering,
        types=("fault.ordered",),
        done=f"select count(*) >= {COUNT} from public.orders",
    ),
    Capability("a recurring function", give_nothing, (runs_recur_one_after_another,), needs_installation=True),
)
