"""The jobs and workflow runs that are offered, and their handlers."""

import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.verdicts import RetryAfter
from atlas.engine.workflows.intents import NewIntent, request_workflows
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from bench.horizon.starts import StartCounts
from bench.jobs.ground import BENCH

STARTS = StartCounts()
TYPES = ["bench.held", "bench.held.retried", "bench.held.throttled"]
KEYS = 2_000
RETRY_SECONDS = 5
PRIORITIES = (-10, 0, 0, 0, 0, 10, 50)


@job("bench.held")
async def held(input: dict[str, Any]) -> None:
    """Counts its start."""
    STARTS.started(input["at"])
    STARTS.done += 1


@job("bench.held.retried", max_retries=3)
async def retried(input: dict[str, Any], ctx: JobContext) -> None:
    """Fails once, and is retried after a delay."""
    if ctx.attempt == 1:
        STARTS.started(input["at"])
        raise RetryAfter(RETRY_SECONDS)
    STARTS.done += 1


@job("bench.held.throttled", concurrency=1, concurrency_key="{{ input.key }}")
async def throttled(input: dict[str, Any]) -> None:
    """Runs alone among the jobs of its key."""
    await held(input)


def plain(number: int, at: float, tenant: UUID) -> NewJob:
    """A job that does nothing."""
    return NewJob("bench.held", {"at": at}, tenant)


def with_priority(number: int, at: float, tenant: UUID) -> NewJob:
    """One of several priorities."""
    return NewJob("bench.held", {"at": at}, tenant, priority=random.choice(PRIORITIES))


def with_retries(number: int, at: float, tenant: UUID) -> NewJob:
    """Every tenth job fails once and is retried after a delay."""
    return NewJob("bench.held.retried" if number % 10 == 0 else "bench.held", {"at": at}, tenant)


def with_keys(number: int, at: float, tenant: UUID) -> NewJob:
    """Every tenth job is throttled by a key."""
    if number % 10:
        return plain(number, at, tenant)
    return NewJob("bench.held.throttled", {"at": at, "key": random.randrange(KEYS)}, tenant)


def mixed(number: int, at: float, tenant: UUID) -> NewJob:
    """All of them: of 20 jobs one is retried, one throttled, and four have priorities."""
    make = {0: with_retries, 10: with_keys}.get(number % 20, with_priority if number % 5 == 1 else plain)
    return make(number, at, tenant)


JOBS = {"plain": plain, "priorities": with_priority, "retries": with_retries, "throttled": with_keys, "mixed": mixed}
WORKFLOWS = "workflows"


@workflow("bench.held.steps")
async def steps(run: Run, input: dict[str, Any]) -> None:
    """Three steps that do nothing, each recorded before the next."""
    STARTS.started(input["at"])
    for number in range(3):
        await run.step(f"step {number}", _nothing)
    STARTS.done += 1


async def _nothing() -> None:
    pass


async def offer(conn: Connection, workload: str, numbers: range, at: float, tenants: Sequence[UUID]) -> None:
    """Enqueue jobs, or request workflow runs, with these numbers, for the tenants in turn."""
    if workload == WORKFLOWS:
        intents = [NewIntent("bench.held.steps", {"at": at}) for _ in numbers]
        await request_workflows(conn, SYSTEM_TENANT, intents, requested_by=BENCH)
        return
    make = JOBS[workload]
    await enqueue_many(conn, [make(number, at, tenants[number % len(tenants)]) for number in numbers], actor=BENCH)
