"""Counts jobs by status, quickly however many there are.

Up to 20,000 active jobs, and as many ended ones, are counted along the partial indexes. Beyond that the counts come
from those that are kept from the audit log, brought up to now first. So they do while something holds the xmin horizon.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement
from atlas.engine.jobs.lists.counts import Transaction, update_counts
from atlas.engine.jobs.lists.newest_active import find_newest_active, is_slowed, read_newest_active
from atlas.models.jobs import JobSummary

KEPT = statement("engine/jobs/lists/sql/summary_kept.sql")
COUNT = statement("engine/jobs/lists/sql/summary_count.sql")
WAITING = statement("engine/jobs/lists/sql/summary_waiting.sql")
OLDEST = statement("engine/jobs/lists/sql/oldest.sql")
OLDEST_OF_TENANT = statement("engine/jobs/lists/sql/oldest_of_tenant.sql")
RATES_OF_TENANT = statement("engine/jobs/lists/sql/summary_rates_tenant.sql")
RATES = statement("engine/jobs/lists/sql/summary_rates.sql")

COUNTED = 20_000
# With this bound only the counts that are kept are read.
NOTHING = -1
OLDEST_AMONG = 2_000
RATE_MINUTES = 5
# Of these, the last minutes of a busy installation are a fair sample.
RATE_EVENTS = 2_000

# The rate that an event counts for, by its action.
KINDS = {
    "JOB_CREATED": "enqueued",
    "JOB_SUCCEEDED": "succeeded",
    "EMAIL_SENT": "succeeded",
    "WORKFLOW_COMPLETE": "succeeded",
    "JOB_RETRY_SCHEDULED": "retried",
    "JOB_FAILED": "failed",
    "JOB_EXHAUSTED_RETRIES": "dead_lettered",
    "JOB_POISONED": "dead_lettered",
    "JOB_CANCELED": "canceled",
}


ENDED = ("succeeded", "failed", "canceled", "dead_letter")


async def summarize(
    read: Transaction, read_all: Transaction, write: Transaction | None, *, tenant_id: UUID | None = None
) -> JobSummary:
    """The summary of one tenant, or of all.

    `read` opens a transaction under the caller's row-level security, `read_all` one without it, and `write` one for the
    counts that are kept for all tenants. Without that, on a standby, large counts are as old as the meter's last poll.
    """
    async with read_all() as conn:
        slowed = await is_slowed(conn)
    if slowed:
        return await _summarize_newest(read_all, write, tenant_id)
    async with read() as conn:
        is_large = await fetch_value(conn, KEPT, tenant_id=tenant_id, most=COUNTED)
    is_current = await _update(write) if is_large else True
    async with read() as conn:
        row = await _count(conn, tenant_id, most=COUNTED)
        oldest, rates = await oldest_due(conn, tenant_id=tenant_id), await _rates(conn, tenant_id)
    if not is_large and (row["has_many_active"] or row["has_many_ended"]):
        is_current = await _update(write)
        async with read() as conn:
            row = await _count(conn, tenant_id, most=COUNTED)
    counts, estimated = _ended(row, is_current=is_current)
    counts |= {"queued": row["queued"] - row["waiting"], "waiting": row["waiting"], "running": row["running"]}
    if row["has_many_active"]:
        async with read_all() as conn:
            queued, is_exact = await _queued(conn, row, tenant_id)
        counts |= queued
        estimated += [] if is_exact and is_current else queued
    if row["running"] > COUNTED:
        estimated.append("running")
    return _summary(counts, estimated, oldest, rates)


async def _summarize_newest(read_all: Transaction, write: Transaction | None, tenant_id: UUID | None) -> JobSummary:
    """The summary while the horizon is held: from the counts that are kept, and from the newest jobs."""
    is_current = await _update(write)
    async with read_all() as conn:
        kept = await _count(conn, tenant_id, most=NOTHING)
        newest = (await read_newest_active(conn)).of_tenant(tenant_id)
        rates = await _rates(conn, tenant_id)
    active = newest.counts
    missing = kept["kept_active"] - sum(active.values())
    counts, estimated = _ended(kept, is_current=is_current)
    estimated += [] if is_current and missing == 0 else active
    # What is not among the newest has waited longest.
    counts |= {**active, "queued": active["queued"] + max(0, missing)}
    return _summary(counts, estimated, newest.oldest.seconds if newest.oldest else None, rates)


def _summary(counts: dict[str, int], estimated: list[str], oldest: float | None, rates: dict[str, float]) -> JobSummary:
    return JobSummary(
        counts=counts, estimated=estimated, running=counts["running"], oldest_queued_seconds=oldest, per_minute=rates
    )


async def oldest_due(conn: Connection, *, tenant_id: UUID | None = None) -> float | None:
    """How long the oldest due job has waited, in seconds: of one tenant, or of all.

    While the horizon is held, of all: among the newest jobs.
    """
    newest = await find_newest_active(conn) if tenant_id is None else None
    if newest is not None:
        return newest.oldest.seconds if newest.oldest else None
    if tenant_id is None:
        waited: float | None = await fetch_value(conn, OLDEST)
    else:
        waited = await fetch_value(conn, OLDEST_OF_TENANT, tenant_id=tenant_id, most=OLDEST_AMONG)
    return waited


async def _update(write: Transaction | None) -> bool:
    return write is not None and await update_counts(write)


async def _count(conn: Connection, tenant_id: UUID | None, *, most: int) -> Mapping[str, Any]:
    row: Mapping[str, Any] | None = await fetch_row(conn, COUNT, tenant_id=tenant_id, most=most)
    assert row is not None
    return row


def _ended(row: Mapping[str, Any], *, is_current: bool) -> tuple[dict[str, int], list[str]]:
    """Counts of what has ended, and which of them are estimates."""
    if not row["has_many_ended"]:
        return {name: row[name] for name in ENDED}, []
    return {name: max(row[name], row[f"kept_{name}"]) for name in ENDED}, [] if is_current else list(ENDED)


async def _queued(conn: Connection, row: Mapping[str, Any], tenant_id: UUID | None) -> tuple[dict[str, int], bool]:
    """How many of many queued jobs are due, and whether that is exact; their sum is."""
    queued = max(row["queued"], row["kept_active"] - row["running"])
    found = await fetch_row(conn, WAITING, tenant_id=tenant_id, most=COUNTED)
    assert found is not None
    is_exact = found["waiting"] is not None
    waiting = min(queued, found["waiting"] if is_exact else round(queued * found["share"]))
    return {"queued": queued - waiting, "waiting": waiting}, is_exact


async def _rates(conn: Connection, tenant_id: UUID | None) -> dict[str, float]:
    limits: dict[str, Any] = {"minutes": RATE_MINUTES, "most": RATE_EVENTS}
    if tenant_id is None:
        rows = await fetch(conn, RATES, **limits)
    else:
        rows = await fetch(conn, RATES_OF_TENANT, tenant_id=tenant_id, **limits)
    rates = dict.fromkeys(dict.fromkeys(KINDS.values()), 0.0)
    for row in rows:
        kind = KINDS.get(row["action"])
        if kind is not None:
            rates[kind] += row["count"] / row["minutes"]
    return {kind: round(rate, 2) for kind, rate in rates.items()}
