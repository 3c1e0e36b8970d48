"""Compares the tables with the audit log, which cannot show an event that was never written.

A job must have the status that its last event says. The gate, and tenants, tokens, hosts, triggers, definitions and
policies, must be as their last event left them. Nothing may be missing without an event that removed it.
"""

from atlas.audit.verifier.format import Finding
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement

JOBS = statement("audit/sql/crosscheck_jobs.sql")
GATE = statement("audit/sql/crosscheck_gate.sql")
THINGS = statement("audit/sql/crosscheck_things.sql")
GONE = statement("audit/sql/crosscheck_gone.sql")

# The status of a job after each action. The success of a handler may have an action of its own.
OPEN = ("JOB_CREATED", "JOB_RETRY_SCHEDULED", "LEASE_EXPIRED", "JOB_RETRIED")
SUCCEEDED = ("JOB_SUCCEEDED", "EMAIL_SENT", "WORKFLOW_COMPLETE")
FAILED = ("JOB_FAILED", "JOB_EXHAUSTED_RETRIES", "JOB_POISONED", "WORKFLOW_FAILED", "WORKFLOW_NOT_FOUND")
KNOWN = (*OPEN, *SUCCEEDED, *FAILED, "JOB_CANCELED")

NEWEST_JOBS = 50_000
NEWEST_ROWS = 200_000


async def cross_check(conn: Connection, *, limit: int = NEWEST_JOBS, rows: int = NEWEST_ROWS) -> list[Finding]:
    """What disagrees with its events, among the newest `limit` entities of a kind and `rows` rows of the audit log.

    At most 100 of each sort are listed.
    """
    return [
        *await _jobs(conn, limit),
        *await _gate(conn),
        *await _things(conn, limit),
        *await _gone(conn, rows),
    ]


async def _jobs(conn: Connection, limit: int) -> list[Finding]:
    sets = {"known": list(KNOWN), "open": list(OPEN), "succeeded": list(SUCCEEDED), "failed": list(FAILED)}
    findings = []
    for row in await fetch(conn, JOBS, limit=limit, **sets):
        last = "has no event that says so" if row["last"] is None else f"its last event is {row['last']}"
        if not row["created"]:
            last = "has no JOB_CREATED event"
        findings.append(Finding("outcome", f"Job {row['id']} is {row['status']}, but {last}."))
    return findings


async def _gate(conn: Connection) -> list[Finding]:
    row = await fetch_row(conn, GATE)
    if row is None or row["online"] == (row["action"] == "ATLAS_ONLINE"):
        return []
    state = "online" if row["online"] else "offline"
    return [Finding("outcome", f"Atlas is {state}, but the last event of the gate is {row['action'] or 'missing'}.")]


async def _things(conn: Connection, limit: int) -> list[Finding]:
    findings = []
    for row in await fetch(conn, THINGS, limit=limit):
        name = f"{row['kind'].replace('_', ' ')} {row['id']}"
        reason = "has no event" if row["has_no_event"] else f"differs from its last event: {', '.join(row['wrong'])}"
        findings.append(Finding("outcome", f"The {name} {reason}."))
    return findings


async def _gone(conn: Connection, rows: int) -> list[Finding]:
    findings = []
    for row in await fetch(conn, GONE, limit=rows):
        whose = "" if row["tenant_id"] is None else f" of tenant {row['tenant_id']}"
        if row["day"] is None:
            message = f"{row['gone']} jobs{whose} are gone, of which JOBS_PRUNED events account for {row['removed']}."
        else:
            what = f"{row['gone']} entities{whose} with {row['action']} on {row['day']}"
            message = f"{what} are gone without an event."
        findings.append(Finding("outcome", message))
    return findings
