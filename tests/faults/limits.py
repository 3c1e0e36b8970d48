"""Limits on how many jobs run at the same time: by a key, of a tenant and of a type."""

from typing import Any

from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import edit_tenant, find_tenant
from tests.faults.capability import Capability, Marked
from tests.faults.judge import Evidence, Law, overlaps
from tests.support import DANA, given_tenant

PAIR = 2


@job("fault.keyed", concurrency=1, concurrency_key="{{ input.customer }}")
async def keyed(input: dict[str, Any], ctx: JobContext) -> None:
    """One after the other for each customer."""
    async with Marked("fault.keyed", ctx, key=input["customer"]):
        pass


@job("fault.paired", concurrency=PAIR)
async def paired(input: dict[str, Any], ctx: JobContext) -> None:
    """Two at a time."""
    async with Marked("fault.paired", ctx):
        pass


@job("fault.bounded")
async def bounded(input: dict[str, Any], ctx: JobContext) -> None:
    """One at a time in its tenant."""
    async with Marked("fault.bounded", ctx):
        pass


async def give_keyed(conn: Any) -> None:
    # Jobs that were enqueued before their type had a limit are not held by it.
    await publish_types(conn, [registered()["fault.keyed"]])
    jobs = [NewJob("fault.keyed", {"customer": customer}) for customer in "abab"]
    await enqueue_many(conn, jobs, actor=DANA)


async def give_paired(conn: Any) -> None:
    await publish_types(conn, [registered()["fault.paired"]])
    await enqueue_many(conn, [NewJob("fault.paired", {"n": n}) for n in range(5)], actor=DANA)


async def give_bounded(conn: Any) -> None:
    tenant_id = await given_tenant(conn, "bounded")
    await edit_tenant(conn, await find_tenant(conn, "bounded"), {"limits": {"in_flight": 1}}, actor=DANA)
    await enqueue_many(conn, [NewJob("fault.bounded", {"n": n}, tenant_id) for n in range(3)], actor=DANA)


def at_a_time(kind: str, limit: int) -> Law:
    """At most so many jobs of a type run at the same time, for each key."""

    async def law(evidence: Evidence) -> list[str]:
        rows = await evidence.conn.fetch(
            "select job_id::text, attempt_no from atlas.job_attempts where status = 'lost'"
        )
        found = overlaps(evidence.effects, kind, {(row["job_id"], row["attempt_no"]) for row in rows})
        return [
            f"{count} {kind} jobs{f' of {key}' if key else ''} ran at the same time instead of {limit}"
            for key, count in found.items()
            if count > limit
        ]

    return law


LIMITS = (
    Capability("a limit by key", give_keyed, (at_a_time("fault.keyed", 1),), types=("fault.keyed",)),
    Capability("a limit of a type", give_paired, (at_a_time("fault.paired", PAIR),), types=("fault.paired",)),
    Capability("a limit of a tenant", give_bounded, (at_a_time("fault.bounded", 1),), types=("fault.bounded",)),
)
