"""The jobs that are offered, and their handlers."""

import random
from typing import Any
from uuid import UUID

from atlas.engine.jobs.context import JobContext
from atlas.engine.jobs.new_job import NewJob
from atlas.engine.jobs.typed_job import job
from atlas.engine.jobs.verdicts import RetryAfter
from bench.horizon.starts import StartCounts

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


WORKLOADS = {"plain": plain, "priorities": with_priority, "retries": with_retries, "throttled": with_keys}
