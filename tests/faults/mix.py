"""The mix: what programs do under faults, one entry for each capability. A new capability adds itself to MIX.

An entry brings its handlers, the work that is given to them, and the laws that hold for it. This module is the
application of the worker too: it is imported there for its handlers.
"""

from datetime import timedelta
from typing import Any

import orjson

from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from tests.engine.triggers.given import given_schedule
from tests.faults.capability import Capability, Marked
from tests.faults.clients import CLIENTS
from tests.faults.deliveries import WEBHOOKS
from tests.faults.flows import FLOWS
from tests.faults.guarded import GUARDED
from tests.faults.judge import Evidence
from tests.faults.leases import LEASES
from tests.faults.limits import LIMITS
from tests.faults.money import MONEY
from tests.faults.operations import OPERATIONS
from tests.faults.outside import OUTSIDE
from tests.faults.steering import STEERING
from tests.support import DANA, given_tenant, publish

# Jobs of several tenants.


@job("fault.effect")
async def effect(input: dict[str, Any], ctx: JobContext) -> None:
    """Does its work at the first attempt."""
    async with Marked("fault.effect", ctx):
        pass


async def give_jobs(conn: Any) -> None:
    await publish(conn, "fault.effect")
    tenants = [SYSTEM_TENANT, await given_tenant(conn, "acme"), await given_tenant(conn, "globex")]
    jobs = [NewJob("fault.effect", {"n": n}, tenant) for n, tenant in enumerate(tenants * 2)]
    await enqueue_many(conn, jobs, actor=DANA)


async def nothing_is_lost(evidence: Evidence) -> list[str]:
    """Every job has succeeded, and each that has succeeded has had its effect."""
    rows = await evidence.conn.fetch(
        "select id::text, job_type, status::text, attempt_count, error::text from atlas.jobs where job_type like 'fault.%'"
    )
    ended = {effect.job_id for effect in evidence.effects if effect.what == "end"}
    broken = [
        f"job {row['id']} ({row['job_type']}) is {row['status']} at attempt {row['attempt_count']}: {row['error']}"
        for row in rows
        if row["status"] != "succeeded" and row["job_type"] != "fault.expired"
    ]
    return broken + [
        f"job {row['id']} ({row['job_type']}) succeeded without its effect"
        for row in rows
        if row["status"] == "succeeded" and row["id"] not in ended
    ]


# A failed attempt and its retry.


@job("fault.flaky", max_retries=3, retry={"base": 0, "factor": 1, "jitter": 0})
async def flaky(input: dict[str, Any], ctx: JobContext) -> None:
    """Fails at its first attempt."""
    async with Marked("fault.flaky", ctx):
        if ctx.attempt == 1:
            raise ValueError("not yet")


async def give_flaky(conn: Any) -> None:
    await enqueue_many(conn, [NewJob("fault.flaky", {"n": n}) for n in range(2)], actor=DANA)


# Several jobs in one call.


@job("fault.batched", batch_size=3, max_retries=5, retry={"base": 0, "factor": 1, "jitter": 0})
async def batched(inputs: list[dict[str, Any]], contexts: list[JobContext]) -> None:
    """Takes up to three jobs together."""
    async with Marked("fault.batched", *contexts):
        pass


async def give_batched(conn: Any) -> None:
    await enqueue_many(conn, [NewJob("fault.batched", {"n": n}) for n in range(4)], actor=DANA)


# A group and the job that follows it.


@job("fault.follows")
async def follows(input: dict[str, Any], ctx: JobContext) -> None:
    """Runs once, after all jobs of its group."""
    async with Marked("fault.follows", ctx, key=orjson.dumps(input["group"]["counts"]).decode()):
        pass


async def give_group(conn: Any) -> None:
    members = [NewJob("fault.effect", {"member": n}) for n in range(2)]
    await enqueue_group(conn, members, then=NewJob("fault.follows", {}), actor=DANA)


async def one_follower(evidence: Evidence) -> list[str]:
    rows = await evidence.conn.fetch("select input::text from atlas.jobs where job_type = 'fault.follows'")
    counts = [orjson.loads(row["input"])["group"]["counts"] for row in rows]
    right = {"succeeded": 2, "failed": 0, "canceled": 0, "deleted": 0}
    return [] if counts == [right] else [f"the group was followed by {counts}"]


# A job that may no longer start.


@job("fault.expired")
async def expired(input: dict[str, Any], ctx: JobContext) -> None:
    """Never starts: its deadline is over when it is enqueued."""
    async with Marked("fault.expired", ctx):
        pass


async def give_expired(conn: Any) -> None:
    await enqueue_many(conn, [NewJob("fault.expired", {}, expires_in=timedelta(milliseconds=1))], actor=DANA)


async def nothing_starts_late(evidence: Evidence) -> list[str]:
    return [
        f"job {effect.job_id} started after its deadline"
        for effect in evidence.effects
        if effect.what == "start" and effect.kind == "fault.expired"
    ]


# Mails.

MAIL = {"to": "ada@example.com", "subject": "Hello", "text": "Good to have you."}


async def give_mail(conn: Any) -> None:
    await enqueue_many(conn, [NewJob("EMAIL_SEND", MAIL, allow_unknown=True)], actor=DANA)


async def one_mail(evidence: Evidence) -> list[str]:
    mails = len(list(evidence.home.glob("outbox/**/*.eml")))
    status = await evidence.conn.fetchval("select status::text from atlas.jobs where job_type = 'EMAIL_SEND'")
    return [] if (mails, status) == (1, "succeeded") else [f"{mails} mails were written, and the job is {status}"]


# A schedule that catches up with the last two hours.


@job("fault.fired")
async def fired(input: dict[str, Any], ctx: JobContext) -> None:
    """Started by a schedule."""
    async with Marked("fault.fired", ctx):
        pass


async def give_schedule(conn: Any) -> None:
    await publish(conn, "fault.fired")
    await given_schedule(conn, SYSTEM_TENANT, job_type="fault.fired", misfire="all")
    due = "date_trunc('hour', clock_timestamp()) - interval '2 hours'"
    await conn.execute(f"update atlas.job_triggers set next_fire_at = {due}")


async def each_due_time_fires_once(evidence: Evidence) -> list[str]:
    jobs = await evidence.conn.fetchval("select count(*) from atlas.jobs where job_type = 'fault.fired'")
    times = await evidence.conn.fetchval("select count(distinct due_at) from atlas.trigger_fires")
    return [] if jobs == times >= 3 else [f"{jobs} jobs were fired for {times} due times"]


MIX = (
    Capability("jobs of several tenants", give_jobs, (nothing_is_lost,), types=("fault.effect",)),
    Capability("retries", give_flaky, types=("fault.flaky",)),
    Capability("batches", give_batched, types=("fault.batched",)),
    *LIMITS,
    Capability(
        "a group",
        give_group,
        (one_follower,),
        types=("fault.follows",),
        done="select exists (select from atlas.jobs where job_type = 'fault.follows')",
    ),
    Capability("a deadline", give_expired, (nothing_starts_late,), types=("fault.expired",)),
    *FLOWS,
    Capability("a mail", give_mail, (one_mail,), types=("EMAIL_SEND",)),
    *STEERING,
    MONEY,
    *GUARDED,
    Capability(
        "a schedule",
        give_schedule,
        (each_due_time_fires_once,),
        types=("fault.fired",),
        done="select count(*) >= 3 from atlas.jobs where job_type = 'fault.fired'",
        needs_installation=True,
    ),
    WEBHOOKS,
    *OPERATIONS,
    CLIENTS,
    *LEASES,
    *OUTSIDE,
)
# What workers do alone.
WORKER_MIX = tuple(capability for capability in MIX if not capability.needs_installation)


async def give_worker_mix(conn: Any) -> None:
    """The work of every capability that workers do alone."""
    for capability in WORKER_MIX:
        await capability.give(conn)
