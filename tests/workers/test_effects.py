"""Effects outside of the database: recorded before the call, asked about after a loss, never repeated blindly."""

import asyncio
from typing import Any

import orjson
import pytest

from atlas.actors import Actor
from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.effects.find_effects import count_doubts, find_effect, list_effects
from atlas.engine.effects.outcomes import CannotTell, Done, NotDone
from atlas.engine.effects.settle import settle_effect
from atlas.engine.jobs.actions.cancel import cancel
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.verdicts import PermanentError
from atlas.engine.policy.rules import add_rule
from atlas.errors import AtlasError, Conflict, LeaseLost, Refused
from tests.support import DANA

ERIN = Actor("user", "erin")
STATE = "select status::text, retry_count, next_retry_at::text, output::text from atlas.jobs where id = $1"
ACTIONS = "select action from atlas.audit_log where entity_id = $1::uuid::text and meta ? 'effect' order by id"
FOREVER = "9999-12-31 00:00:00+00"
LOSE_LEASE = "update atlas.jobs set attempt_count = attempt_count + 1 where id = $1"

# What the provider made, by the key it was given, and how it answers.
charges: list[str] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    charges.clear()


async def charge(effect: Any, input: dict[str, Any], ctx: JobContext) -> str:
    match input.get("call"):
        case "refused":
            effect.refused("the card was declined")
        case "refused for good":
            effect.refused(PermanentError("the card was stolen"))
        case "lost before":
            raise ConnectionError("no route")
    charges.append(effect.key)
    match input.get("call"):
        case "lost":
            raise ConnectionError("the response was lost")
        case "hangs":
            await asyncio.sleep(60)
        case "loses its lease":
            await ctx.pool.execute(LOSE_LEASE, ctx.job_id)
    return f"ch_{len(charges)}"


@job("effect.charges", max_retries=1, retry={"base": 0, "factor": 1, "jitter": 0})
async def charges_once(input: dict[str, Any], ctx: JobContext) -> dict[str, Any]:
    """Calls the provider as the input says; later attempts have an answer, or none."""

    async def look_up(key: str) -> Any:
        match input["lookup"]:
            case "done":
                return Done("ch_found")
            case "not done":
                return NotDone()
            case "wrong":
                return "perhaps"
            case _:
                return CannotTell("the provider lists nothing")

    first = dict(input) if ctx.attempt == 1 else {"call": input.get("second call")}
    options: dict[str, Any] = {"lookup": look_up} if "lookup" in input else {}
    options |= {name: input[name] for name in ("repeatable", "repeatable_for", "visible_after") if name in input}
    try:
        reference = await ctx.effect("stripe.charge", charge, first, ctx, detail={"cents": 40}, **options)
    except Exception:
        if input.get("catches"):
            return {"reference": "caught"}
        raise
    if input.get("fails after") and ctx.attempt == 1:
        raise ValueError("after the effect")
    return {"reference": reference}


# What the input says, the job's status and reference, how often the provider was called, and the events.
CASES: list[tuple[dict[str, Any], str, str | None, int, str]] = [
    ({}, "succeeded", "ch", 1, "INTENDED DONE"),
    ({"fails after": True}, "succeeded", "ch", 1, "INTENDED DONE"),
    ({"call": "refused"}, "succeeded", "ch", 1, "INTENDED REFUSED INTENDED DONE"),
    ({"call": "refused for good"}, "failed", None, 0, "INTENDED REFUSED"),
    ({"call": "lost"}, "queued", None, 1, "INTENDED UNKNOWN UNKNOWN"),
    ({"call": "lost", "catches": True}, "succeeded", "caught", 1, "INTENDED UNKNOWN"),
    ({"call": "lost", "lookup": "done"}, "succeeded", "ch_found", 1, "INTENDED UNKNOWN DONE"),
    ({"call": "lost", "lookup": "silent"}, "queued", None, 1, "INTENDED UNKNOWN UNKNOWN"),
    ({"call": "lost", "lookup": "wrong"}, "failed", None, 1, "INTENDED UNKNOWN"),
    (
        {"call": "lost before", "lookup": "not done", "visible_after": 0},
        "succeeded",
        "ch",
        1,
        "INTENDED UNKNOWN INTENDED DONE",
    ),
    ({"call": "lost", "lookup": "not done", "visible_after": 60}, "queued", None, 1, "INTENDED UNKNOWN"),
    ({"call": "lost", "repeatable": True}, "succeeded", "ch", 2, "INTENDED UNKNOWN INTENDED DONE"),
    # The second call was refused; whether the first was made is as unknown as before.
    (
        {"call": "lost", "repeatable": True, "second call": "refused"},
        "failed",
        None,
        1,
        "INTENDED UNKNOWN INTENDED UNKNOWN",
    ),
    ({"call": "lost", "repeatable": True, "repeatable_for": 0}, "queued", None, 1, "INTENDED UNKNOWN UNKNOWN"),
]


async def test_what_becomes_of_an_effect(pool, given, drain):
    jobs = [(await given("effect.charges", input))[0] for input, *_ in CASES]
    await drain("effect.charges")

    for job_id, (input, status, reference, calls, actions) in zip(jobs, CASES, strict=True):
        job = await pool.fetchrow(STATE, job_id)
        events = [row["action"].removeprefix("EFFECT_") for row in await pool.fetch(ACTIONS, job_id)]
        made = [key for key in charges if key == f"{job_id}:stripe.charge"]
        shown = orjson.loads(job["output"]).get("reference")
        shown = "ch" if shown is not None and shown[3:].isdigit() else shown
        assert (input, job["status"], shown, len(made), " ".join(events)) == (input, status, reference, calls, actions)
    assert len(charges) == sum(calls for *_, calls, _ in CASES)
    assert await cross_check(pool) == []


async def test_a_doubt_waits_for_a_person_without_a_worker_or_a_retry_and_the_answer_wakes_the_job(pool, given, drain):
    [made, not_made] = [(await given("effect.charges", {"call": "lost"}))[0] for _ in range(2)]
    await drain("effect.charges")

    job = await pool.fetchrow(STATE, made)
    # One retry was spent by the failure, none by the wait.
    assert (job["status"], job["retry_count"], job["next_retry_at"]) == ("queued", 1, FOREVER)
    assert await count_doubts(pool) == 2
    doubts = {effect.job_id: effect for effect in await list_effects(pool, state="unknown", provider="stripe")}
    doubt = doubts[made]
    assert doubt.question == f"Was stripe.charge {made}:stripe.charge made?"
    assert (doubt.detail, doubt.attempt_no, doubt.reference) == ({"cents": 40}, 1, None)

    async with pool.acquire() as conn:
        settled = await settle_effect(conn, doubt.id, "done", reference="ch_9", actor=DANA)
        assert (settled.state, settled.woken) == ("done", True)
        with pytest.raises(Conflict, match="is done"):
            await settle_effect(conn, doubt.id, "not_done", actor=DANA)
        await settle_effect(conn, doubts[not_made].id, "not_done", actor=DANA)
    await drain("effect.charges")

    outputs = [orjson.loads((await pool.fetchrow(STATE, job_id))["output"]) for job_id in (made, not_made)]
    assert outputs == [{"reference": "ch_9"}, {"reference": "ch_3"}]
    assert (await find_effect(pool, doubt.id)).settled_by == "dana"
    assert await count_doubts(pool) == 0
    assert await cross_check(pool) == []


async def test_policy_demands_a_second_person(pool, given, drain):
    await given("effect.charges", {"call": "lost"})
    await drain("effect.charges")
    [doubt] = await list_effects(pool)
    async with pool.acquire() as conn:
        await conn.execute("update atlas.jobs set created_by = 'dana' where id = $1", doubt.job_id)
        await add_rule(conn, label="money", effect="review", workflow="effect:stripe.*", actor=DANA)
        with pytest.raises(Refused, match="same person"):
            await settle_effect(conn, doubt.id, "not_done", actor=DANA)
        assert (await settle_effect(conn, doubt.id, "not_done", actor=ERIN)).woken


async def test_a_worker_that_dies_in_the_call_leaves_a_doubt_that_can_be_settled(
    pool, given, drain, serving, eventually
):
    """The handler hangs, its job is canceled with its process: nobody else would ask."""
    async with serving("effect.charges", grace=0.1):
        [job_id] = await given("effect.charges", {"call": "hangs"})
        await eventually("select count(*) from atlas.effects", equals=1)
        assert [effect.state for effect in await list_effects(pool)] == ["intended"]
        assert await count_doubts(pool) == 0
        async with pool.acquire() as conn:
            await cancel(conn, job_id, actor=DANA)
        await eventually("select status::text from atlas.jobs where id = $1", job_id, equals="canceled")
    # As a process leaves it that is gone before it can record anything.
    await pool.execute("update atlas.effects set state = 'intended'")

    [doubt] = await list_effects(pool, state="unknown")
    assert await count_doubts(pool) == 1
    async with pool.acquire() as conn:
        assert not (await settle_effect(conn, doubt.id, "done", reference="ch_1", actor=DANA)).woken
    assert (await find_effect(pool, doubt.id)).state == "done"


async def test_what_a_lost_attempt_made_is_recorded_and_a_double_is_not_silent(pool, given, drain):
    [job_id] = await given("effect.charges", {"call": "loses its lease"})
    await drain("effect.charges")
    [effect] = await list_effects(pool)
    assert (effect.state, effect.reference) == ("done", "ch_1")

    # Another attempt has begun it again, and was told otherwise.
    await pool.execute("update atlas.effects set attempt_no = 7, state = 'refused', reference = null")
    late = "select atlas.end_effect($1, 'gone', $2, 1, 'done', 'ch_1', '', false)"
    assert await pool.fetchval(late, effect.id, job_id) == "taken"
    found = await find_effect(pool, effect.id)
    assert (found.state, found.other_references) == ("unknown", ["ch_1"])
    events = "select level::text from atlas.audit_log where action = 'EFFECT_REPEATED'"
    assert await pool.fetchval(events) == "error"


raised: list[BaseException] = []


@job("effect.misused", max_retries=0)
async def misused(input: dict[str, Any], ctx: JobContext) -> None:
    """Uses the block in ways that are refused."""
    for use in (_forgets, _asks_for_the_key_again, _at_the_same_time, _awaits_nothing, _in_a_transaction, _unleased):
        try:
            await use(ctx)
        except AtlasError as error:
            raised.append(error)


async def _forgets(ctx: JobContext) -> None:
    async with ctx.effect("forgets"):
        pass


async def _asks_for_the_key_again(ctx: JobContext) -> None:
    async with ctx.effect("s3.put") as effect:
        effect.done(effect.key)
    async with ctx.effect("s3.put") as effect:
        assert effect.is_done
        assert effect.reference == f"{ctx.job_id}:s3.put"
        effect.done(effect.key)


async def _at_the_same_time(ctx: JobContext) -> None:
    async with ctx.effect("s3.copy") as effect:
        effect.done("made")
        async with ctx.effect("s3.copy"):
            pass


async def _awaits_nothing(ctx: JobContext) -> None:
    await ctx.effect("s3.delete")


async def _in_a_transaction(ctx: JobContext) -> None:
    async with ctx.transaction():
        await ctx.effect("stripe.charge", charge, {}, ctx)


async def _unleased(ctx: JobContext) -> None:
    await ctx.pool.execute(LOSE_LEASE, ctx.job_id)
    await ctx.effect("stripe.charge", charge, {}, ctx)


async def test_misuse_is_an_error_that_says_what_to_do(pool, given, drain):
    await given("effect.misused")
    await drain("effect.misused")
    parts = ("did not say what became of it", "done already", "already", "without an async function", "within the", "")
    for part, error in zip(parts, raised, strict=True):
        assert part in str(error)
    assert isinstance(raised[-1], LeaseLost)
    # Before the call.
    assert charges == []
