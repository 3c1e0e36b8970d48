"""Requests to the API under faults: each that writes is sent again, with its Idempotency-Key, until there is a response.

The process is an API with all of its middleware, and its one caller.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx
import orjson

from atlas.api.app import create_app
from atlas.db.pool import open_pool
from atlas.engine.access.tokens import ensure_operator_token
from atlas.engine.workflows.declared.store import save_workflow
from atlas.settings import load_settings
from tests.engine.jobs.test_bulk_actions import given_dead
from tests.faults.commands import JOB, give_canceled, give_job, give_little, once
from tests.faults.judge import Law
from tests.faults.maintenance import equals
from tests.faults.program import Program
from tests.support import DANA

TOKEN = "the operator of the fault suite"
RESPONSE = "response.json"
JOBS = "select count(*) from atlas.jobs"
PAUSES = "select count(*) from atlas.pauses"
RETRIED = "select count(*) from atlas.audit_log where action = 'JOB_RETRIED'"


def main() -> None:
    """Send the request of the arguments: method, path, body."""
    asyncio.run(_send(*sys.argv[1:]))


async def _send(method: str, path: str, body: str) -> None:
    settings = load_settings()
    assert settings.database_url is not None
    pool = await open_pool(settings.database_url, size=4)
    try:
        transport = httpx.ASGITransport(create_app(settings, pool, settings.database_url))
        headers = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": "once"}
        async with httpx.AsyncClient(transport=transport, base_url="http://atlas.test/api/v1", timeout=300) as client:
            response = await client.request(method, path, json=orjson.loads(body), headers=headers)
        # What a client sends again: no response, or one that says so.
        if response.is_error:
            raise RuntimeError(f"{response.status_code} {response.text}")
        Path(RESPONSE).write_bytes(response.content or b"{}")
    finally:
        await pool.close()


def request(name: str, route: str, body: dict[str, Any], give: Any, *laws: Law) -> Program:
    """A request that does its work once, however often it is sent."""

    async def give_token(conn: Any) -> None:
        await give(conn)
        await ensure_operator_token(conn, TOKEN, actor=DANA)

    method, path = route.split()
    return Program(
        f"request-{name}",
        (method, path, orjson.dumps(body).decode()),
        give_token,
        "select true",
        laws,
        file=RESPONSE,
        main="tests.faults.requests:main",
    )


async def give_workflow(conn: Any) -> None:
    await give_little(conn)
    await save_workflow(conn, {"key": "w", "steps": [{"id": "wait", "sleep": "10m"}]}, actor=DANA)


async def give_few_dead(conn: Any) -> None:
    await give_little(conn)
    await given_dead(conn, 3)


WORK = {"job_type": "a.work", "payload": {"n": 1}}
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
)
