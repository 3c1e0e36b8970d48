"""Compares the tables with the audit log, which cannot show an event that was never written.

A job must have the status that its last event says. The gate, and whatever grants power or decides, must be as its
last event left it. Nothing may be missing without an event that removed it. An event over HTTP must name a token of its
caller that was valid at the time.
"""

from atlas.audit.state import STATE_KINDS
from atlas.audit.verifier.format import Finding
from atlas.db.pool import Connection
from atlas.db.statements import fetch, statement

JOBS = statement("audit/verification/sql/crosscheck_jobs.sql")
GATE = statement("audit/verification/sql/crosscheck_gate.sql")
STATE = statement("audit/verification/sql/crosscheck_state.sql")
CONTENTS = statement("audit/verification/sql/crosscheck_contents.sql")
REQUESTS = statement("audit/verification/sql/crosscheck_requests.sql")
RECURRING = statement("audit/verification/sql/crosscheck_recurring.sql")
CALLERS = statement("audit/verification/sql/crosscheck_callers.sql")
GONE = statement("audit/verification/sql/crosscheck_gone.sql")

# The status of a job after each action; that of an import says which it came with. The success of a handler may have an
# action of its own.
OPEN = ("JOB_CREATED", "JOB_IMPORTED queued", "JOB_RETRY_SCHEDULED", "LEASE_EXPIRED", "JOB_RETRIED")
SUCCEEDED = ("JOB_SUCCEEDED", "EMAIL_SENT", "WORKFLOW_COMPLETE", "JOB_IMPORTED succeeded")
FAILED = (
    *("JOB_FAILED", "JOB_EXHAUSTED_RETRIES", "JOB_POISONED", "JOB_DISCARDED"),
    *("WORKFLOW_FAILED", "WORKFLOW_NOT_FOUND", "JOB_IMPORTED failed"),
)
CANCELED = ("JOB_CANCELED", "JOB_IMPORTED canceled")
KNOWN = (*OPEN, *SUCCEEDED, *FAILED, *CANCELED)

NEWEST_JOBS = 50_000
NEWEST_ROWS = 200_000


async def cross_check(conn: Connection, *, limit: int = NEWEST_JOBS, rows: int = NEWEST_ROWS) -> list[Finding]:
    """What disagrees with its events, among the newest `limit` jobs and `rows` rows of the audit log.

    At most 100 of each sort are listed.
    """
    return [
        *await _jobs(conn, limit),
        *await _gate(conn),
        *await _contents(conn, limit),
        *await _state(conn),
        *await _requests(conn, rows),
        *await _recurring(conn, rows),
        *await _callers(conn, rows),
        *await _gone(conn, rows),
    ]


async def _jobs(conn: Connection, limit: int) -> list[Finding]:
    sets = {
        "known": list(KNOWN),
        "open": list(OPEN),
        "succeeded": list(SUCCEEDED),
        "failed": list(FAILED),
        "canceled": list(CANCELED),
    }
    findings = []
    for row in await fetch(conn, JOBS, limit=limit, **sets):
        last = "has no event that says so" if row["last"] is None else f"its last event is {row['last']}"
        if not row["created"]:
            last = "has no JOB_CREATED event"
        findings.append(Finding("outcome", f"Job {row['id']} is {row['status']}, but {last}."))
    return findings


async def _contents(conn: Connection, limit: int) -> list[Finding]:
    rows = await fetch(conn, CONTENTS, limit=limit)
    return [Finding("outcome", f"Job {row['id']} differs from its events: {', '.join(row['wrong'])}.") for row in rows]


async def _requests(conn: Connection, rows: int) -> list[Finding]:
    findings = []
    for row in await fetch(conn, REQUESTS, limit=rows):
        differs = "is gone without an event" if row["is_gone"] else "names another requester than its event"
        findings.append(Finding("outcome", f"The {row['kind']} {row['id']} {differs}."))
    return findings


async def _recurring(conn: Connection, rows: int) -> list[Finding]:
    reasons = {
        "gone": "is gone without an event",
        "unknown": "has no event",
        "outcome": "differs from its event",
    }
    return [
        Finding("outcome", f"The run {row['id']} of a recurring function {reasons[row['what']]}.")
        for row in await fetch(conn, RECURRING, limit=rows)
    ]


async def _callers(conn: Connection, rows: int) -> list[Finding]:
    reasons = {
        "unknown": "which does not exist",
        "subject": "which has another subject",
        "tenant": "which belongs to another tenant",
        "time": "which was not valid at that time",
    }
    findings = []
    for row in await fetch(conn, CALLERS, limit=rows):
        event = f"Row {row['id']}, {row['action']} by {row['actor_id']!r}"
        findings.append(Finding("caller", f"{event}, names token {row['prefix']}, {reasons[row['what']]}.", row["id"]))
    return findings


async def _gate(conn: Connection) -> list[Finding]:
    states = {"gate": ("Atlas is offline", "Atlas is online"), "engine": ("The engine is off", "The engine is on")}
    findings = []
    for row in await fetch(conn, GATE):
        state, last = states[row["name"]][row["is_on"]], row["action"] or "missing"
        findings.append(Finding("outcome", f"{state}, but the last event of the {row['name']} is {last}."))
    return findings


async def _state(conn: Connection) -> list[Finding]:
    reasons = {
        "unknown": "has no event",
        "gone": "is gone without an event",
        "defined": "differs from its definition",
    }
    findings = []
    for row in await fetch(conn, STATE, kinds=sorted(STATE_KINDS)):
        differs = f"is not as its last event left it ({row['action']}, row {row['row']})"
        name = f"{row['kind'].replace('_', ' ')} {row['id']}"
        findings.append(Finding("outcome", f"The {name} {reasons.get(row['what'], differs)}."))
    return findings


async def _gone(conn: Connection, rows: int) -> list[Finding]:
    findings = []
    for row in await fetch(conn, GONE, limit=rows):
        whose = "" if row["tenant_id"] is None else f" of tenant {row['tenant_id']}"
        if row["day"] is None:
            message = f"{row['gone']} jobs{whose} are gone, of which JOBS_PRUNED events account for {row['removed']}."
        else:
            message = f"{row['gone']} jobs{whose} of {row['day']} are gone without an event."
        findings.append(Finding("outcome", message))
    return findings
