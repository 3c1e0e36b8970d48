"""The cross-check: no log can show an event that was never written, so the tables themselves are asked.

What became of a job must be what its last event tells; the gate must stand as it was last turned.
"""

from atlas.pool import Connection
from atlas.statements import fetch, fetch_row, statement
from audit.verifier.account import Finding

JOBS = statement("audit/sql/crosscheck_jobs.sql")
GATE = statement("audit/sql/crosscheck_gate.sql")

# What each action leaves a job as. A handler that succeeded may have told so with an action of its own.
OPEN = ("JOB_CREATED", "JOB_RETRY_SCHEDULED", "LEASE_EXPIRED", "JOB_RETRIED")
SUCCEEDED = ("JOB_SUCCEEDED", "EMAIL_SENT", "WORKFLOW_COMPLETE")
FAILED = ("JOB_FAILED", "JOB_EXHAUSTED_RETRIES", "JOB_POISONED", "WORKFLOW_FAILED", "WORKFLOW_NOT_FOUND")
KNOWN = (*OPEN, *SUCCEEDED, *FAILED, "JOB_CANCELED")

NEWEST_JOBS = 50_000


async def cross_check(conn: Connection, *, limit: int = NEWEST_JOBS) -> list[Finding]:
    """Jobs and switches that disagree with their events, among the newest `limit` jobs; at most 100 are listed."""
    sets = {"known": list(KNOWN), "open": list(OPEN), "succeeded": list(SUCCEEDED), "failed": list(FAILED)}
    findings = []
    for row in await fetch(conn, JOBS, limit=limit, **sets):
        told = "has no event that tells so" if row["last"] is None else f"was last told as {row['last']}"
        if not row["created"]:
            told = "has no JOB_CREATED event"
        findings.append(Finding("outcome", f"Job {row['id']} is {row['status']}, but {told}."))
    return findings + await _gate(conn)


async def _gate(conn: Connection) -> list[Finding]:
    row = await fetch_row(conn, GATE)
    if row is None or row["online"] == (row["action"] == "ATLAS_ONLINE"):
        return []
    stands = "online" if row["online"] else "offline"
    return [Finding("outcome", f"Atlas is {stands}, but was last told as {row['action'] or 'nothing at all'}.")]
