"""The cross-check: no log can show an event that was never written, so the tables themselves are asked.

What became of a job must be what its last event tells; the gate must stand as it was last turned; tenants, tokens,
hosts, triggers, definitions and policies must be as they were last told; and nothing may be gone whose end nobody told.
"""

from atlas.audit.verifier.format import Finding
from atlas.db.pool import Connection
from atlas.db.statements import fetch, fetch_row, statement

JOBS = statement("audit/sql/crosscheck_jobs.sql")
GATE = statement("audit/sql/crosscheck_gate.sql")
THINGS = statement("audit/sql/crosscheck_things.sql")
GONE = statement("audit/sql/crosscheck_gone.sql")

# What each action leaves a job as. A handler that succeeded may have told so with an action of its own.
OPEN = ("JOB_CREATED", "JOB_RETRY_SCHEDULED", "LEASE_EXPIRED", "JOB_RETRIED")
SUCCEEDED = ("JOB_SUCCEEDED", "EMAIL_SENT", "WORKFLOW_COMPLETE")
FAILED = ("JOB_FAILED", "JOB_EXHAUSTED_RETRIES", "JOB_POISONED", "WORKFLOW_FAILED", "WORKFLOW_NOT_FOUND")
KNOWN = (*OPEN, *SUCCEEDED, *FAILED, "JOB_CANCELED")

NEWEST_JOBS = 50_000
NEWEST_ROWS = 200_000


async def cross_check(conn: Connection, *, limit: int = NEWEST_JOBS, rows: int = NEWEST_ROWS) -> list[Finding]:
    """What disagrees with its events, among the newest `limit` things of a kind and `rows` rows of the account.

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
        told = "has no event that tells so" if row["last"] is None else f"was last told as {row['last']}"
        if not row["created"]:
            told = "has no JOB_CREATED event"
        findings.append(Finding("outcome", f"Job {row['id']} is {row['status']}, but {told}."))
    return findings


async def _gate(conn: Connection) -> list[Finding]:
    row = await fetch_row(conn, GATE)
    if row is None or row["online"] == (row["action"] == "ATLAS_ONLINE"):
        return []
    stands = "online" if row["online"] else "offline"
    return [Finding("outcome", f"Atlas is {stands}, but was last told as {row['action'] or 'nothing at all'}.")]


async def _things(conn: Connection, limit: int) -> list[Finding]:
    findings = []
    for row in await fetch(conn, THINGS, limit=limit):
        name = f"{row['kind'].replace('_', ' ')} {row['id']}"
        words = "has no event" if row["untold"] else f"differs from its last event: {', '.join(row['wrong'])}"
        findings.append(Finding("outcome", f"The {name} {words}."))
    return findings


async def _gone(conn: Connection, rows: int) -> list[Finding]:
    findings = []
    for row in await fetch(conn, GONE, limit=rows):
        whose = "" if row["tenant_id"] is None else f" of tenant {row['tenant_id']}"
        if row["day"] is None:
            words = f"{row['gone']} jobs{whose} are gone, of which JOBS_PRUNED tells {row['removed']}."
        else:
            words = f"{row['gone']} things{whose} told as {row['action']} on {row['day']} are gone without an event."
        findings.append(Finding("outcome", words))
    return findings
