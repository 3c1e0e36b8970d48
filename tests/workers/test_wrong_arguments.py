"""A wrong argument of a handler's context fails its job with a sentence, and no other job with it."""

from collections.abc import Callable
from typing import Any

from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.verdicts import RetryAfter, Snooze

NOT_SECONDS = "is not a number of seconds or a timedelta"


async def put(effect: Any) -> str:
    return "made"


# By what is called: the wrong call, and the sentence.
WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "cost as a text": (lambda ctx: ctx.cost("5"), "ctx.cost takes a whole number as cents, not '5'."),
    "cost as a fraction": (lambda ctx: ctx.cost(0.5), "ctx.cost takes a whole number as cents, not 0.5."),
    "cost beyond all": (lambda ctx: ctx.cost(2**70), "ctx.cost takes a whole number as cents, not 1180591620717411303424."),
    "action": (lambda ctx: ctx.audit(5), "ctx.audit takes a text as action, not 5."),
    "no action": (lambda ctx: ctx.audit(""), "ctx.audit takes a text as action, not ''."),
    "message of an event": (lambda ctx: ctx.audit("DONE", message=5), "ctx.audit takes a text as message, not 5."),
    "facts of an event": (lambda ctx: ctx.audit("DONE", meta=5), "ctx.audit takes a mapping as meta, not 5."),
    "percent": (lambda ctx: ctx.progress("half"), "ctx.progress takes a number as percent, not 'half'."),
    "message of progress": (lambda ctx: ctx.progress(5, message=7), "ctx.progress takes a text as message, not 7."),
    "name of an effect": (lambda ctx: ctx.effect(5, put), "ctx.effect takes a text as name, not 5."),
    "function of an effect": (lambda ctx: ctx.effect("s.put", "put"), "ctx.effect takes an async function as function, not 'put'."),
    "option of an effect": (lambda ctx: ctx.effect("s.put", put, lokup=put), "ctx.effect has no option 'lokup'. Its options are"),
    "lookup of an effect": (lambda ctx: ctx.effect("s.put", put, lookup=5), "ctx.effect takes a function as lookup, not 5."),
    "detail of an effect": (lambda ctx: ctx.effect("s.put", put, detail=5), "ctx.effect takes a mapping as detail, not 5."),
    "key of an effect": (lambda ctx: ctx.effect("s.put", put, key=5), "key: is not one line of 1 to 255 printable characters"),
    "delay of an effect": (lambda ctx: ctx.effect("s.put", put, visible_after="soon"), f"'soon' {NOT_SECONDS}"),
    "snooze": (lambda ctx: Snooze("soon"), f"'soon' {NOT_SECONDS}"),
    "retry": (lambda ctx: RetryAfter(None), f"None {NOT_SECONDS}"),
}  # fmt: skip


@job("wrong.call", max_retries=0)
async def call_wrongly(input: dict[str, str], ctx: JobContext) -> None:
    if input["call"] == "right":
        ctx.cost(5)
        ctx.audit("PUT", message="done", meta={"n": 1})
        await ctx.progress(50, "half")
        return
    call, _ = WRONG[input["call"]]
    made = call(ctx)
    if hasattr(made, "__await__"):
        await made


async def test_a_wrong_argument_fails_its_own_job_with_a_sentence(pool, given, drain):
    calls = [*WRONG, "right"]
    jobs = await given("wrong.call", *({"call": call} for call in calls))
    await drain("wrong.call")
    rows = await pool.fetch("select id, status::text, error->>'message' as message from atlas.jobs")
    ended = {row["id"]: (row["status"], row["message"]) for row in rows}
    for call, job_id in zip(calls, jobs, strict=True):
        status, message = ended[job_id]
        assert (call, status) == (call, "succeeded" if call == "right" else "failed")
        assert call == "right" or WRONG[call][1] in message, (call, message)
