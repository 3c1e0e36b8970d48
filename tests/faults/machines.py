"""Requests of machines under faults: remote workers, hosts, senders of messages, browsers, and a tick of the API.

Their routes take no Idempotency-Key: a lease, a signature or the row itself makes a call count once. A report that came
after its attempt had ended is 409, and its machine goes on.
"""

from typing import Any
from uuid import UUID

import orjson

from atlas.engine.access import tokens
from atlas.engine.hosts.hosts import add_host
from atlas.engine.hosts.leased_jobs import claim_for_host, claim_for_worker
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import find_tenant
from tests.faults.callers import RESPONSE, TOKEN
from tests.faults.commands import JOB, exists, give_little, once
from tests.faults.judge import Evidence, Law
from tests.faults.maintenance import equals
from tests.faults.program import EXPIRE_WORKERS, Program
from tests.faults.record_commands import KEYED, give_hook
from tests.faults.requests import request
from tests.support import DANA, publish

# No case takes as long.
LEASE_SECONDS = 600
PROGRESS = {"percent": 40, "message": "halfway"}
FAILURE = {"error": "no", "permanent": True}
HOSTS = "select id from atlas.hosts"
TICKED = "fault.requested"


async def give_machine(conn: Any, role: str, scopes: dict[str, Any]) -> Any:
    """A machine of the tenant, by the token of the suite."""
    acme = await find_tenant(conn, "acme")
    return await tokens._add(conn, TOKEN, tokens._Draft("machine", role, acme.id, None, scopes), DANA)


async def give_remote(conn: Any) -> Any:
    """A remote worker, and a job for it."""
    await give_little(conn)
    token = await give_machine(conn, "worker", {"job_types": ["a.work"]})
    await enqueue(conn, NewJob("a.work", {}, token.tenant_id, id=JOB), actor=DANA)
    return token


async def give_remote_lease(conn: Any) -> None:
    """A job that a remote worker has claimed."""
    token = await give_remote(conn)
    [_] = await claim_for_worker(conn, token.id, token.tenant_id, ["a.work"], limit=1, lease=LEASE_SECONDS)


async def give_hosted(conn: Any) -> UUID:
    """A host, and a job for it."""
    await give_little(conn)
    acme = await find_tenant(conn, "acme")
    host = await add_host(conn, tenant_id=acme.id, name="box", actor=DANA)
    await give_machine(conn, "host", {"host_id": str(host.id)})
    await enqueue(conn, NewJob("a.work", {}, acme.id, id=JOB, host_id=host.id), actor=DANA)
    return host.id


async def give_host_lease(conn: Any) -> None:
    """A job that a host has claimed."""
    assert await claim_for_host(conn, await give_hosted(conn), lease=LEASE_SECONDS) is not None


async def give_ticked(conn: Any) -> None:
    """Jobs for a tick."""
    await give_little(conn)
    await publish(conn, TICKED)
    await enqueue_many(conn, [NewJob(TICKED, {"request": n}) for n in range(2)], actor=DANA)


ATTEMPTS = f"select attempt_count from atlas.jobs where id = '{JOB}'"
CLAIMED = f"""
select status::text, (select count(*) from atlas.job_attempts where job_id = id and outcome = 'released') as given_back
from atlas.jobs where id = '{JOB}'"""
NOTED = equals(exists("jobs", "(progress->>'percent')::numeric = 40"), True, "the progress")


def status_was(status: str) -> Law:
    return equals(f"select status::text from atlas.jobs where id = '{JOB}'", status, "the job")


async def is_claimed_or_given_back(evidence: Evidence) -> list[str]:
    """A claim whose response comes too late for the gate gives the job back, and nothing is counted."""
    found = await evidence.conn.fetchrow(CLAIMED)
    is_right = found["status"] == "running" or (found["status"] == "queued" and found["given_back"] == 1)
    return [] if is_right else [f"the claimed job is {found['status']}, given back {found['given_back']} times"]


def machine(name: str, route: str, body: dict[str, Any], give: Any, *laws: Law, names: str | None = None) -> Program:
    """A request of a machine about its job."""
    method, path = route.split()
    return Program(
        f"request-{name}",
        (method, path, orjson.dumps(body).decode() if body else "", ""),
        give,
        "select true",
        (equals(ATTEMPTS, 1, "attempts"), *laws),
        file=RESPONSE,
        names=names,
        main="tests.faults.callers:report",
    )


REMOTE = f"POST /worker/jobs/{JOB}"
HOSTED = f"/agent/hosts/{{}}/jobs/{JOB}"

BY_TOKENS = (
    machine("claim", "POST /worker/jobs/claim", {"job_types": ["a.work"]}, give_remote, is_claimed_or_given_back),
    machine("renew", f"{REMOTE}/heartbeat", {"attempt": 1}, give_remote_lease, status_was("running")),
    machine("progress", f"{REMOTE}/progress", {"attempt": 1, **PROGRESS}, give_remote_lease, NOTED),
    machine("complete", f"{REMOTE}/complete", {"attempt": 1}, give_remote_lease, once("JOB_SUCCEEDED")),
    machine("fail", f"{REMOTE}/fail", {"attempt": 1, **FAILURE}, give_remote_lease, once("JOB_FAILED")),
    machine("host-claim", "GET /agent/hosts/{}/jobs?wait=0", {}, give_hosted, is_claimed_or_given_back, names=HOSTS),
    machine(
        "host-renew", f"POST {HOSTED}/heartbeat", {"lease": 1}, give_host_lease, status_was("running"), names=HOSTS
    ),
    machine("host-progress", f"POST {HOSTED}/progress", {"lease": 1, **PROGRESS}, give_host_lease, NOTED, names=HOSTS),
    machine(
        "host-result",
        f"POST {HOSTED}/result",
        {"lease": 1, "status": "succeeded"},
        give_host_lease,
        once("JOB_SUCCEEDED"),
        once("HOST_REPORTED"),
        names=HOSTS,
    ),
    Program(
        "request-message",
        ("{}",),
        give_hook,
        "select true",
        (equals("select count(*) from atlas.events", 1, "events"),),
        file=RESPONSE,
        names="select key from atlas.inbound_hooks",
        main="tests.faults.callers:send_message",
        **KEYED,
    ),
)
BY_OPERATORS = (
    request(
        "sign-out",
        "DELETE /session",
        {},
        give_little,
        equals(exists("sessions", "ended_at is not null"), True, "a session that has ended"),
        main="tests.faults.callers:sign_out",
    ),
    request(
        "verification",
        "POST /audit/verifications",
        {},
        give_little,
        equals(exists("audit_log", "action = 'AUDIT_VERIFIED'"), True, "a verdict"),
        main="tests.faults.callers:verify",
    ),
    request(
        "tick",
        "POST /jobs/tick",
        {},
        give_ticked,
        key="",
        main="tests.faults.callers:tick",
        expire=EXPIRE_WORKERS,
    ),
)
MACHINES = (*BY_TOKENS, *BY_OPERATORS)
