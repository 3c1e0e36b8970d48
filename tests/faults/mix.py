"""The mix: what programs do under faults, one entry for each capability. A new capability adds itself to MIX.

An entry brings its handlers, the work that is given to them, and the laws that hold for it. This module is the
application of the worker too: it is imported there for its handlers.
"""

from collections import Counter
from datetime import timedelta
from typing import Any

import orjson

from atlas.engine.enqueue import enqueue_group
from atlas.engine.jobs.context import JobContext
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.type_catalog import publish_types
from atlas.engine.jobs.typed_job import job
from atlas.engine.jobs.types import registered
from atlas.engine.workflows.intents import request_workflow
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from tests.engine.triggers.given import given_schedule
from tests.faults.capability import Capability, Marked
from tests.faults.deliveries import WEBHOOKS
from tests.faults.effects import note
from tests.faults.judge import Evidence, overlaps
from tests.faults.money import MONEY, MONEY_TYPES
from tests.faults.steering import STEERED_TYPES, STEERING
from tests.support import DANA, given_tenant, publish

# Jobs of several tenants.


@job("fault.effect")
async def effect(input: dict[str, Any], ctx: JobContext) -> None:
    """Does its work at the first attempt."""
    async with Marked(ctx, "fault.effect"):
        pass


async def give_jobs(conn: Any) -> None:
    tenants = [SYSTEM_TENANT, await given_tenant(conn, "acme"), await given_tenant(conn, "globex")]
    jobs = [NewJob("fault.effect", {"n": n}, tenant) for n, tenant in enumerate(tenants * 2)]
    await enqueue_many(conn, jobs, actor=DANA)


async def nothing_is_lost(evidence: Evidence) -> list[str]:
    """Every job has succeeded, and each that has succeeded has had its effect."""
    rows = await evidence.conn.fetch(
        "select id::text, job_type, status::text from atlas.jobs where job_type like 'fault.%'"
    )
    ended = {effect.job_id for effect in evidence.effects if effect.what == "end"}
    broken = [
        f"job {row['id']} ({row['job_type']}) is {row['status']}"
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
    async with Marked(ctx, "fault.flaky"):
        if ctx.attempt == 1:
            raise ValueError("not yet")


async def give_flaky(conn: Any) -> None:
    await enqueue_many(conn, [NewJob("fault.flaky", {"n": n}) for n in range(2)], actor=DANA)


# A limit by key.


@job("fault.keyed", concurrency=1, concurrency_key="{{ input.customer }}")
async def keyed(input: dict[str, Any], ctx: JobContext) -> None:
    """One after the other for each customer."""
    async with Marked(ctx, "fault.keyed", input["customer"]):
        pass


async def give_keyed(conn: Any) -> None:
    # Jobs that were enqueued before their type had a key are not held by it.
    await publish_types(conn, [registered()["fault.keyed"]])
    jobs = [NewJob("fault.keyed", {"customer": customer}) for customer in "abab"]
    await enqueue_many(conn, jobs, actor=DANA)


async def one_at_a_time(evidence: Evidence) -> list[str]:
    rows = await evidence.conn.fetch("select job_id::text, attempt_no from atlas.job_attempts where status = 'lost'")
    most = overlaps(evidence.effects, "fault.keyed", {(row["job_id"], row["attempt_no"]) for row in rows})
    return [f"{count} jobs of customer {key} ran at the same time" for key, count in most.items() if count > 1]


# A group and the job that follows it.


@job("fault.follows")
async def follows(input: dict[str, Any], ctx: JobContext) -> None:
    """Runs once, after all jobs of its group."""
    async with Marked(ctx, "fault.follows", orjson.dumps(input["group"]["counts"]).decode()):
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
    async with Marked(ctx, "fault.expired"):
        pass


async def give_expired(conn: Any) -> None:
    await enqueue_many(conn, [NewJob("fault.expired", {}, expires_in=timedelta(milliseconds=1))], actor=DANA)


async def nothing_starts_late(evidence: Evidence) -> list[str]:
    return [
        f"job {effect.job_id} started after its deadline"
        for effect in evidence.effects
        if effect.what == "start" and effect.kind == "fault.expired"
    ]


# A workflow with a job, a child and steps.


async def take_step(number: int) -> int:
    note("did", key=str(number))
    return number


@workflow("fault.flow")
async def flow(run: Run, input: dict[str, Any]) -> int:
    """Three steps, with a job and a child between them. What has returned was recorded."""
    total = 0
    for number in (1, 2):
        total += await run.step(f"step {number}", take_step, number, retries=5)
        note("recorded", key=str(number))
    await run.job("work", effect, {"of": "a run"})
    total += await run.child("child", "fault.child", {})
    return total


@workflow("fault.child")
async def child_flow(run: Run, input: dict[str, Any]) -> int:
    """The child: one step."""
    result = await run.step("step 3", take_step, 3, retries=5)
    note("recorded", key="3")
    return result


async def give_run(conn: Any) -> None:
    await request_workflow(conn, SYSTEM_TENANT, "fault.flow", {}, DANA, allow_unknown=True)


async def recorded_steps_stay(evidence: Evidence) -> list[str]:
    """A step never runs again once its result was returned, and the run has the sum of all."""
    broken, recorded, did = [], set(), Counter[str]()
    for effect in evidence.effects:
        if effect.what == "recorded":
            recorded.add(effect.key)
        elif effect.what == "did":
            did[effect.key] += 1
            if effect.key in recorded:
                broken.append(f"step {effect.key} ran again after it was recorded")
    rows = await evidence.conn.fetch(
        "select status::text, output::text from atlas.jobs where input::jsonb->>'workflow' in ('fault.flow', 'fault.child')"
    )
    ends = sorted((row["status"], row["output"]) for row in rows)
    if ends != [("succeeded", "3"), ("succeeded", "6")]:
        broken.append(f"the run and its child ended as {ends}")
    return broken + [f"step {number} never ran" for number in "123" if not did[number]]


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
    async with Marked(ctx, "fault.fired"):
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
    Capability("jobs of several tenants", give_jobs, (nothing_is_lost,)),
    Capability("retries", give_flaky),
    Capability("a limit by key", give_keyed, (one_at_a_time,)),
    Capability("a group", give_group, (one_follower,)),
    Capability("a deadline", give_expired, (nothing_starts_late,)),
    Capability("a workflow", give_run, (recorded_steps_stay,)),
    Capability("a mail", give_mail, (one_mail,)),
    *STEERING,
    MONEY,
    Capability("a schedule", give_schedule, (each_due_time_fires_once,), is_scheduled=True),
    WEBHOOKS,
)
# What workers do alone.
WORKER_MIX = tuple(capability for capability in MIX if not capability.is_scheduled)
TYPES = (
    *("fault.effect", "fault.flaky", "fault.keyed", "fault.follows", "fault.expired", "fault.fired"),
    *STEERED_TYPES,
    *MONEY_TYPES,
    *("ENGINE_RUN", "EMAIL_SEND"),
)


async def give_worker_mix(conn: Any) -> None:
    """The work of every capability that workers do alone."""
    for capability in WORKER_MIX:
        await capability.give(conn)
