"""Requests to the API under faults: each that writes is sent again, with its Idempotency-Key, until there is a response."""

from typing import Any

import orjson

from atlas.engine.access.tokens import ensure_operator_token
from atlas.engine.workflows.declared.store import save_workflow
from tests.engine.jobs.test_bulk_actions import given_dead
from tests.faults.audit_commands import give_sealed
from tests.faults.callers import RESPONSE, TOKEN
from tests.faults.commands import JOB, give_canceled, give_job, give_little, give_pause, once
from tests.faults.judge import Law
from tests.faults.maintenance import equals
from tests.faults.program import Program
from tests.faults.record_commands import give_grant, give_login
from tests.support import DANA

JOBS = "select count(*) from atlas.jobs"
PAUSES = "select count(*) from atlas.pauses"
RETRIED = "select count(*) from atlas.audit_log where action = 'JOB_RETRIED'"


def request(
    name: str, route: str, body: dict[str, Any], give: Any, *laws: Law, key: str = "once", **options: Any
) -> Program:
    """A request that does its work once, however often it is sent."""

    async def give_token(conn: Any) -> None:
        await give(conn)
        await ensure_operator_token(conn, TOKEN, actor=DANA)

    method, path = route.split()
    return Program(
        f"request-{name}",
        (method, path, orjson.dumps(body).decode() if body else "", key),
        give_token,
        "select true",
        laws,
        file=RESPONSE,
        **{"main": "tests.faults.callers:send", **options},
    )


async def give_workflow(conn: Any) -> None:
    await give_little(conn)
    await save_workflow(conn, {"key": "w", "steps": [{"id": "wait", "sleep": "10m"}]}, actor=DANA)


async def give_few_dead(conn: Any) -> None:
    await give_little(conn)
    await given_dead(conn, 3)


async def give_caller(conn: Any) -> None:
    """A login that an administrator lets call `atlas.enqueue`."""
    await give_login(conn)
    await conn.execute("select atlas.grant_enqueue('atlas_guest')")


WORK = {"job_type": "a.work", "payload": {"n": 1}}
GRANT = {"login": "atlas_guest", "tenants": ["acme"], "job_types": ["a.work"]}
SCHEDULE = {"label": "daily", "trigger_type": "schedule", "cron_expr": "@daily", "job_type": "a.work"}
BULK = {"action": "retry", "filter": {"status": ["dead_letter"]}}

REQUESTS = (
    request("enqueue", "POST /jobs", WORK, give_little, once("JOB_CREATED")),
    request("group", "POST /groups", {"jobs": [WORK], "then": WORK}, give_little, once("GROUP_CREATED")),
    request("cancel", f"POST /jobs/{JOB}/cancel", {}, give_job, once("JOB_CANCELED")),
    request("retry", f"POST /jobs/{JOB}/retry", {}, give_canceled, once("JOB_RETRIED")),
    request("again", f"POST /jobs/{JOB}/enqueue-again", {}, give_canceled, equals(JOBS, 2, "jobs")),
    request("bulk", "POST /jobs/bulk", BULK, give_few_dead, equals(RETRIED, 3, "retried jobs")),
    request("event", "POST /events", {"name": "paid"}, give_little, once("EVENT_PUBLISHED")),
    request("intent", "POST /intents", {"workflow": "w"}, give_workflow, once("INTENT_REQUESTED")),
    request("pause", "PUT /pauses", {"kind": "tenant", "target": "acme"}, give_little, equals(PAUSES, 1, "pauses")),
    request("offline", "PUT /system/atlas-online", {"online": False}, give_little, once("ATLAS_OFFLINE")),
    request("trigger", "POST /jobs/triggers", SCHEDULE, give_little, once("TRIGGER_ADDED")),
    request("alone", "POST /jobs", {**WORK, "dedupe_key": "k"}, give_little, once("JOB_CREATED"), key=""),
    request("export", "GET /audit/export", {}, give_sealed, key=""),
    request("delete", f"DELETE /jobs/{JOB}", {}, give_canceled, once("JOB_DELETED")),
    request("engine", "PUT /system/engine-enabled", {"enabled": False}, give_little, once("ENGINE_DISABLED")),
    request(
        "resume",
        "DELETE /pauses/{}",
        {},
        give_pause,
        equals(PAUSES, 0, "pauses"),
        names="select id from atlas.pauses",
    ),
    request("grant", "POST /grants", GRANT, give_caller, once("ENQUEUE_GRANTED")),
    request(
        "grant-revoke",
        "DELETE /grants/{}",
        {},
        give_grant,
        once("ENQUEUE_REVOKED"),
        names="select id from atlas.enqueue_grants",
    ),
)
