"""Counts jobs by status, quickly however many there are.

Active jobs are counted along the partial indexes, and so are ended ones up to 2,000. Beyond that the counts come from
the planner's statistics.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, fetch_value, statement

COUNT = statement("engine/jobs/sql/summary_count.sql")
OLDEST = statement("engine/jobs/sql/oldest.sql")
OLDEST_OF_TENANT = statement("engine/jobs/sql/oldest_of_tenant.sql")
RATES_OF_TENANT = statement("engine/jobs/sql/summary_rates_tenant.sql")
RATES = statement("engine/jobs/sql/summary_rates.sql")
ESTIMATE = statement("engine/jobs/sql/summary_estimate.sql")

COUNTED = 2_000
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


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts by status as filters know them; those in `estimated` are not exact."""

    counts: dict[str, int]
    estimated: list[str]
    oldest_queued_seconds: float | None
    per_minute: dict[str, float]


async def summarize(conn: Connection, *, tenant_id: UUID | None = None) -> Summary:
    """The summary of one tenant, or of all. Counts that were cut short are filled in by `estimate`."""
    row = await fetch_row(conn, COUNT, tenant_id=tenant_id, most=COUNTED)
    assert row is not None
    counts = {name: row[name] for name in ("queued", "waiting", "running", "dead_letter")}
    estimated = [name for name in counts if row[f"{name}_more"]]
    if row["ended_more"]:
        estimated += ["succeeded", "failed", "canceled"]
        counts |= {"succeeded": -1, "failed": -1, "canceled": -1}
    else:
        counts |= {name: row[name] for name in ("succeeded", "failed", "canceled")}
    return Summary(counts, estimated, await oldest_due(conn, tenant_id=tenant_id), await _rates(conn, tenant_id))


async def oldest_due(conn: Connection, *, tenant_id: UUID | None = None) -> float | None:
    """How long the oldest due job has waited, in seconds: of one tenant, or of all."""
    if tenant_id is None:
        waited: float | None = await fetch_value(conn, OLDEST)
    else:
        waited = await fetch_value(conn, OLDEST_OF_TENANT, tenant_id=tenant_id, most=COUNTED)
    return waited


async def estimate(conn: Connection, summary: Summary, *, tenant_id: UUID | None = None) -> Summary:
    """Fill in what was not counted. Needs a connection without row-level security, which hides the statistics."""
    if not summary.estimated:
        return summary
    wanted = {"queued" if name in ("queued", "waiting") else name for name in summary.estimated}
    rows = await fetch(conn, ESTIMATE, tenant_id=tenant_id, statuses=sorted(wanted))
    guessed: dict[str, int] = {row["status"]: row["estimate"] for row in rows}
    counts = dict(summary.counts)
    for name in summary.estimated:
        if name in ("queued", "waiting"):
            # In the same proportion as among those that were counted.
            seen = max(1, summary.counts["queued"] + summary.counts["waiting"])
            counts[name] = max(counts[name], guessed["queued"] * summary.counts[name] // seen)
        else:
            counts[name] = max(counts[name], guessed[name])
    return Summary(counts, summary.estimated, summary.oldest_queued_seconds, summary.per_minute)


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
