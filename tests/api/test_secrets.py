"""Secrets that pass through the API are seen by the attempt that needs them, and nowhere else."""

import asyncio
import base64
import io
import json
import logging
from urllib.parse import quote

import httpx
import orjson
import pytest
import websockets

import atlas.api.http.middleware
import atlas.api.problems
from atlas.audit.sealing.sealer import seal_and_sign
from atlas.logs import configure_logs, get_logger
from tests.api.table import TABLE
from tests.api.test_matrix import filled, may

CANARIES = [f"canary-{n:02d}-{'z' * n}-{n * 7919}" for n in range(20)]
SCHEMA = {
    "type": "object",
    "properties": {
        "token": {"type": "string", "x-secret": True, "maxLength": 60},
        "login": {"type": "object", "properties": {"password": {"type": "string", "x-secret": True}}},
        "n": {"type": "integer"},
    },
}


def payload(n):
    """Two secrets, side by side and nested."""
    return {"n": n, "token": CANARIES[n], "login": {"user": "ann", "password": CANARIES[n + 1]}}


@pytest.fixture
def written(monkeypatch):
    """Everything that is logged at the level debug."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    configure_logs("debug", json=True)
    stream = io.StringIO()
    root.handlers[0].setStream(stream)
    for module in (atlas.api.http.middleware, atlas.api.problems):
        monkeypatch.setattr(module, "log", get_logger("api"))
    yield stream
    configure_logs("error")
    root.handlers[:], root.level = before, level


def shapes(canary):
    return (canary, quote(canary), base64.b64encode(canary.encode()).decode().rstrip("=")[:-2])


def seen(text):
    return sorted({canary for canary in CANARIES for shape in shapes(canary) if shape in text})


async def everything(owner):
    """All that the database holds, except the box for secrets itself."""
    tables = await owner.fetch(
        "select c.relname from pg_class c where c.relnamespace = 'atlas'::regnamespace and c.relkind in ('r', 'p')"
    )
    found = []
    for table in tables:
        rows = await owner.fetch(f'select t::text as shown from atlas."{table["relname"]}" t')
        found += [row["shown"] for row in rows]
        if table["relname"] == "audit_log":
            found += [row["body"].decode() for row in await owner.fetch("select body from atlas.audit_log")]
        if table["relname"] == "idempotency_keys":
            found += [row["body"].decode() for row in await owner.fetch("select body from atlas.idempotency_keys")]
    return "\n".join(found)


async def test_planted_secrets_are_seen_by_their_worker_and_nowhere_else(server, owner, pool, settings, written):
    """Through payloads, errors, outputs, progress, the audit log, its export, live frames, logs and refusals."""
    world = server.world
    await owner.execute(
        "insert into atlas.job_types (key, input_schema) values ('secret.work', $1)", json.dumps(SCHEMA)
    )
    async with (
        httpx.AsyncClient(base_url=f"{server.address}/api/v1", headers=world.headers("acme", "tenant_admin")) as admin,
        httpx.AsyncClient(base_url=f"{server.address}/api/v1", headers=world.headers("acme", "worker")) as worker,
        websockets.connect(
            server.address.replace("http", "ws") + "/api/v1/live",
            additional_headers=world.headers("acme", "tenant_admin"),
        ) as live,
    ):
        received = []
        # Single, gathered, listed, with a key of two kinds, and refused in several ways.
        for n in range(0, 10, 2):
            body = {
                "job_type": "secret.work",
                "payload": payload(n),
                "dedupe_key": f"of {CANARIES[n]}",
                "max_retries": 0,
            }
            received.append(
                await admin.post("/jobs", json=body, headers={"Idempotency-Key": f"key-{n}"} if n % 4 else {})
            )
        listed = [{"job_type": "secret.work", "payload": payload(n)} for n in range(10, 18, 2)]
        received.append(await admin.post("/jobs", json=listed))
        assert {answer.status_code for answer in received} == {201}
        for wrong in (
            {**payload(18), "token": CANARIES[18] * 9},
            {**payload(18), "n": CANARIES[19]},
            {"token": [CANARIES[19]]},
        ):
            received.append(await admin.post("/jobs", json={"job_type": "secret.work", "payload": wrong}))
        received.append(
            await admin.post(
                "/jobs", json={"job_type": "secret.work", "payload": payload(18), "priority": CANARIES[19]}
            )
        )
        assert [answer.status_code for answer in received[-4:]] == [422] * 4

        claimed = (await worker.post("/worker/jobs/claim", json={"job_types": ["secret.work"], "limit": 20})).json()[
            "items"
        ]
        assert len(claimed) == 9
        for one in claimed:
            n = one["payload"]["n"]
            assert one["payload"] == payload(n)  # the attempt sees them
            place, attempt = f"/worker/jobs/{one['job_id']}", {"attempt": one["attempt"]}
            words = f"signed in with {CANARIES[n]} and {quote(CANARIES[n + 1])}"
            received.append(await worker.post(f"{place}/progress", json={**attempt, "percent": 5, "message": words}))
            if n % 4:
                output = {"echo": one["payload"], CANARIES[n]: [words]}
                received.append(await worker.post(f"{place}/complete", json={**attempt, "output": output}))
            else:
                received.append(await worker.post(f"{place}/fail", json={**attempt, "error": words}))

        await seal_and_sign(pool, settings)
        things = {"job_id": claimed[0]["job_id"]}
        for row in TABLE:
            method, path = row.split(" ")
            if method == "GET" and may(row, "acme", "tenant_admin") and path.count("{") == path.count("{job_id}"):
                base = server.address if path in ("/healthz", "/readyz", "/metrics") else ""
                received.append(await admin.get(base + filled(path, things)))
        frames = []
        while not any("job_run.failed" in frame for frame in frames):
            async with asyncio.timeout(10):
                frames.append(await live.recv())

    answers = "\n".join(answer.text for answer in received)
    shown = orjson.loads(next(answer.text for answer in received if '"payload":{"n":0' in answer.text))
    assert "x-secret" in json.dumps(shown)
    stored = await everything(owner)
    assert len(answers) > 10_000
    assert "JOB_CREATED" in stored
    counts = {
        "answers": seen(answers),
        "live frames": seen("".join(frames)),
        "database": seen(stored),
        "log": seen(written.getvalue()),
    }
    print({name: len(found) for name, found in counts.items()})
    assert counts == {"answers": [], "live frames": [], "database": [], "log": []}
