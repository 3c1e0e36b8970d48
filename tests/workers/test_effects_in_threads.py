"""Effects of plain functions, which run in threads, and of batch handlers, which make several in one call."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from atlas.engine.effects.batch_effect import batch_effect
from atlas.engine.effects.effect_call import OpenEffect
from atlas.engine.effects.find_effects import list_effects
from atlas.engine.effects.outcomes import Done, EffectRefused, NotDone
from atlas.engine.effects.settle import settle_effect
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.errors import AtlasError
from tests.support import DANA

JOBS = "select id, status::text, output::text, retry_count, lost_count from atlas.jobs where id = any ($1::uuid[]) order by id"
RETRY: dict[str, Any] = {"max_retries": 1, "retry": {"base": 0, "factor": 1, "jitter": 0}}

# What the provider made, by the key it was given; the sizes of its calls; and those of the calls of a batch handler.
made: dict[str, str] = {}
calls: list[int] = []
batches: list[int] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    made.clear()
    calls.clear()
    batches.clear()


def put(effect: OpenEffect, input: dict[str, Any], attempt: int) -> str:
    calls.append(1)
    if attempt == 1 and input.get("refused"):
        effect.refused("no room")
    if attempt == 1 and input.get("lost before"):
        raise ConnectionError("no route")
    made[effect.key] = f"put_{input['n']}"
    if attempt == 1 and input.get("lost"):
        raise ConnectionError("the response was lost")
    return made[effect.key]


def find(key: str) -> Done | NotDone:
    return Done(made[key]) if key in made else NotDone()


@job("thread.puts", **RETRY)
def puts(input: dict[str, Any], ctx: JobContext) -> dict[str, Any]:
    lookup = find if input.get("lookup") else None
    return {"put": ctx.effect_from_thread("s3.put", put, input, ctx.attempt, lookup=lookup, visible_after=0)}


@job("thread.misused", max_retries=0)
async def misuses(input: dict[str, Any], ctx: JobContext) -> None:
    with pytest.raises(AtlasError, match="does not run in a thread"):
        ctx.effect_from_thread("s3.put", put, input, 1)


# What the input says, the job's status, how often the provider was called, and the effect.
CASES: list[tuple[dict[str, Any], str, int, str]] = [
    ({}, "succeeded", 1, "done"),
    ({"refused": True}, "succeeded", 2, "done"),
    ({"lost": True, "lookup": True}, "succeeded", 1, "done"),
    ({"lost before": True, "lookup": True}, "succeeded", 2, "done"),
    ({"lost": True}, "queued", 1, "unknown"),
]


async def test_a_plain_function_makes_an_effect_in_its_thread(pool, given, drain):
    jobs = await given("thread.puts", *({**input, "n": n} for n, (input, *_) in enumerate(CASES)))
    [misused] = await given("thread.misused")
    await drain("thread.puts", "thread.misused")

    rows = {row["id"]: row for row in await pool.fetch(JOBS, [*jobs, misused])}
    effects = {effect.job_id: effect for effect in await list_effects(pool)}
    for number, (job_id, (input, status, _, state)) in enumerate(zip(jobs, CASES, strict=True)):
        assert (input, rows[job_id]["status"], effects[job_id].state) == (input, status, state)
        if status == "succeeded":
            assert orjson.loads(rows[job_id]["output"]) == {"put": f"put_{number}"}
    assert sum(calls) == sum(count for _, _, count, _ in CASES)
    assert rows[misused]["status"] == "succeeded"

    async with pool.acquire() as conn:
        await settle_effect(conn, effects[jobs[-1]].id, "done", reference="put_found", actor=DANA)
    await drain("thread.puts")
    [row] = await pool.fetch(JOBS, jobs[-1:])
    assert orjson.loads(row["output"]) == {"put": "put_found"}


async def send(effects: Sequence[OpenEffect], mails: Sequence[dict[str, Any]]) -> list[str | Exception | None]:
    calls.append(len(mails))
    results: list[str | Exception | None] = []
    for effect, mail in zip(effects, mails, strict=True):
        if mail.pop("refused", False):
            results.append(EffectRefused("no such address"))
        elif mail.pop("lost", False):
            results.append(ConnectionError("the response was lost"))
        else:
            made[effect.key] = f"mail_{mail['n']}"
            results.append(made[effect.key])
    return results


@job("batch.sends", batch_size=10, **RETRY)
async def sends(mails: list[dict[str, Any]], contexts: list[JobContext]) -> list[Any]:
    batches.append(len(mails))
    mails = [mail if context.attempt == 1 else {"n": mail["n"]} for mail, context in zip(mails, contexts, strict=True)]
    return [
        {"sent": result} if isinstance(result, str) else result
        for result in await batch_effect(contexts, "mail.send", send, mails)
    ]


async def test_a_batch_makes_an_effect_for_each_job_in_one_call(pool, given, drain):
    mails: list[dict[str, Any]] = [{"n": 0}, {"n": 1, "refused": True}, {"n": 2, "lost": True}, {"n": 3}]
    jobs = await given("batch.sends", *mails)
    await drain("batch.sends")

    rows = {row["id"]: row for row in await pool.fetch(JOBS, jobs)}
    assert [rows[job_id]["status"] for job_id in jobs] == ["succeeded", "succeeded", "queued", "succeeded"]
    assert [orjson.loads(rows[jobs[n]]["output"]) for n in (0, 1, 3)] == [{"sent": f"mail_{n}"} for n in (0, 1, 3)]
    # Each once, and the one that was refused again. The provider is not called for the one in doubt.
    assert sum(calls) == 5
    assert len(calls) <= len(batches)
    [doubt] = await list_effects(pool, state="unknown")
    assert doubt.job_id == jobs[2]


@job("batch.doubts", batch_size=10, max_retries=3, retry={"base": 0, "factor": 1, "jitter": 0})
async def waits(inputs: list[dict[str, Any]], contexts: list[JobContext]) -> list[Any]:
    """Makes the effects one by one; the exception of one ends the call."""

    async def call(effect: OpenEffect, input: dict[str, Any]) -> str:
        if "lost" in input:
            raise ConnectionError("the response was lost")
        return "made"

    return [await context.effect("s3.put", call, input) for context, input in zip(contexts, inputs, strict=True)]


async def test_a_job_in_doubt_ends_the_call_and_the_others_start_again_uncounted(pool, given, drain):
    jobs = await given("batch.doubts", {}, {"lost": True}, {})
    await drain("batch.doubts")

    rows = {row["id"]: row for row in await pool.fetch(JOBS, jobs)}
    assert [rows[job_id]["status"] for job_id in jobs] == ["succeeded", "queued", "succeeded"]
    assert {rows[job_id]["lost_count"] for job_id in jobs} == {0}
    assert max(rows[job_id]["retry_count"] for job_id in jobs) == 1
