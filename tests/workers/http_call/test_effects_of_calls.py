"""Calls that are not idempotent are effects: recorded before they are made, and never repeated blindly."""

from collections import deque
from typing import Any

import pytest

from atlas.engine.effects.find_effects import list_effects
from atlas.engine.effects.settle import settle_effect
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.lists.find import get_job
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.errors import InvalidInput
from atlas.ids import new_id
from tests.support import DANA
from tests.workers.http_call.receiver import CUT, response

DUE = "update atlas.jobs set next_retry_at = null, due_at = now() where next_retry_at < '9999-12-31 00:00:00+00'"
NOBODY = "http://127.0.0.1:1"

# What the input says, the first responses, and after two attempts: the job's status, how many calls arrived, the effect.
CASES: list[tuple[dict[str, Any], list[bytes], str, int, str | None]] = [
    ({}, [], "succeeded", 1, "done"),
    ({}, [CUT], "succeeded", 2, "done"),
    ({"method": "PATCH"}, [response(500)], "succeeded", 2, "done"),
    ({"repeatable": False}, [CUT], "queued", 1, "unknown"),
    ({"repeatable": False}, [response(503)], "queued", 1, "unknown"),
    ({"repeatable": False}, [response(429)], "succeeded", 2, "done"),
    ({}, [response(400)], "failed", 1, "refused"),
    ({}, [response(307)], "failed", 1, "refused"),
    ({}, [response(303)], "failed", 1, "unknown"),
    # The refusal of the second call says nothing about the first.
    ({}, [CUT, response(401)], "failed", 2, "unknown"),
    ({"url": NOBODY}, [], "queued", 0, "refused"),
    ({"url": "http://192.0.2.1"}, [], "failed", 0, "refused"),
    ({"method": "PUT"}, [CUT], "succeeded", 2, None),
    ({"method": "DELETE", "repeatable": False}, [CUT], "queued", 1, "unknown"),
]


async def test_what_becomes_of_a_call(calls, receiver):
    jobs = []
    for number, (input, responses, *_) in enumerate(CASES):
        receiver.responses_to[f"/{number}"] = deque(responses)
        jobs.append(await calls.enqueue(**{"url": f"{receiver.url}/{number}", **input}))
    await calls.drain()
    await calls.pool.execute(DUE)
    await calls.drain()

    effects = {effect.job_id: effect for effect in await list_effects(calls.pool)}
    for number, (job_id, (input, _, status, count, state)) in enumerate(zip(jobs, CASES, strict=True)):
        job = await get_job(calls.pool, job_id)
        effect = effects.get(job_id)
        keys = [request.headers["idempotency-key"] for request in receiver.received if request.path == f"/{number}"]
        found = (job.status, keys, effect and effect.state)
        assert (input, *found) == (input, status, [str(job_id)] * count, state)
    assert (effects[jobs[0]].name, effects[jobs[0]].key, effects[jobs[0]].reference) == (
        "http.call",
        str(jobs[0]),
        "HTTP 204",
    )


async def test_a_person_says_whether_a_call_was_carried_out(calls, receiver, pool):
    receiver.responses.extend([response(502), response(502)])
    url = f"{receiver.url}/${{path}}"
    jobs = [await calls.enqueue(url=url, secrets={"path": "s3cret"}, repeatable=False) for _ in range(2)]
    await calls.drain()
    await pool.execute(DUE)
    await calls.drain()
    made, not_made = [(await list_effects(pool, job_id=job_id, state="unknown"))[0] for job_id in jobs]
    assert made.detail == {"method": "POST", "url": url}

    receiver.responses.append(response(201, location="/transfers/7"))
    async with pool.acquire() as conn:
        await settle_effect(conn, made.id, "done", reference="transfer 6", actor=DANA)
        await settle_effect(conn, not_made.id, "not_done", actor=DANA)
    await calls.drain()

    first, second = [(await get_job(pool, job_id)).output for job_id in jobs]
    assert first == {"status": None, "headers": {}, "body": None, "truncated": True, "reference": "transfer 6"}
    assert second["status"] == 201
    assert (await list_effects(pool, job_id=jobs[1]))[0].reference == "/transfers/7"
    assert len(receiver.received) == 3


async def test_a_delivery_to_a_webhook_is_always_repeatable(calls, conn):
    with pytest.raises(InvalidInput, match="goes not with webhook"):
        await enqueue(conn, NewJob("HTTP_CALL", {"webhook": str(new_id()), "repeatable": False}), actor=DANA)
