"""The work that the simulation and the database are given alike."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from atlas import (
    Done,
    JobContext,
    NotDone,
    OpenEffect,
    PermanentError,
    RetryAfter,
    Run,
    Snooze,
    StepFailed,
    job,
    workflow,
)
from atlas.engine.effects.outcomes import EffectOptions

DELAY = timedelta(hours=1)
POLICY = {"base": DELAY.total_seconds(), "factor": 1, "jitter": 0}

calls: Counter[tuple[UUID, int, str]] = Counter()


def call_number(id: UUID, input: dict[str, Any], name: str) -> int:
    """How often this was called, with this call. The number of the attempt counts those that were given back, too."""
    key = (id, input["sequence"], name)
    calls[key] += 1
    return calls[key]


def fails_first(
    run: Run, input: dict[str, Any], name: str, times: int, error: type[Exception] = RuntimeError
) -> Callable[[], Awaitable[Any]]:
    """A step that fails so often, in the run of either side."""

    async def work() -> dict[str, int]:
        call = call_number(run.id, input, name)
        if call <= times:
            raise error("not yet")
        return {"calls": call}

    return work


@job("same.flaky", max_retries=2, retry=POLICY)
async def flaky(input: dict[str, Any], ctx: JobContext) -> dict[str, Any]:
    call = call_number(ctx.job_id, input, "flaky")
    if call <= input["fails"]:
        raise RuntimeError(f"call {call}")
    return {"call": call, **input}


@job("same.settles", retry=POLICY)
async def settles(input: dict[str, Any], ctx: JobContext) -> dict[str, Any]:
    if call_number(ctx.job_id, input, "settles") == 1:
        raise {"snooze": Snooze(9 * DELAY), "later": RetryAfter(DELAY), "never": PermanentError("no")}[input["how"]]
    return {"how": input["how"]}


@workflow("same.steps")
async def steps(run: Run, input: dict[str, Any]) -> Any:
    first = await run.step("first", fails_first(run, input, "first", input["n"] % 3))
    await run.sleep(timedelta(hours=23))
    try:
        await run.step("second", fails_first(run, input, "second", 9, PermanentError), retries=0)
    except StepFailed as error:
        return {"first": first, "failed": error.reason}


@workflow("same.jobs")
async def jobs(run: Run, input: dict[str, Any]) -> Any:
    try:
        return await run.job(
            "work", "same.flaky", {"fails": input["n"] % 5, "sequence": input["sequence"]}, retries=input["n"] % 4
        )
    except StepFailed as error:
        return {"failed": error.kind}


@workflow("same.events")
async def events(run: Run, input: dict[str, Any]) -> Any:
    one = await run.wait_event("rang", {"sequence": input["sequence"]}, timedelta(hours=71))
    two = await run.wait_event("rang", {"sequence": input["sequence"], "n": 1}, timedelta(hours=37))
    return {"one": one, "two": two}


@workflow("same.asks")
async def asks(run: Run, input: dict[str, Any]) -> Any:
    decision = await run.approval("may it", title="May it?", expires=timedelta(hours=71))
    await run.step("then", fails_first(run, input, "then", 1))
    return {"approved": bool(decision), "status": decision.status}


@workflow("same.beside")
async def beside(run: Run, input: dict[str, Any]) -> Any:
    match = {"sequence": input["sequence"]}
    return await run.gather(
        run.wait_event("knocked", match, timedelta(hours=71)),
        run.job("work", "same.flaky", {"fails": 1, "sequence": input["sequence"]}),
        run.sleep(timedelta(hours=23)),
        run.step("plain", fails_first(run, input, "plain", 1)),
    )


@workflow("same.parent")
async def parent(run: Run, input: dict[str, Any]) -> Any:
    child = ("same.asks", "same.jobs", "same.undoes")[input["n"] % 3]
    try:
        return await run.child("child", child, input, timeout=timedelta(hours=601))
    except StepFailed as error:
        return {"failed": error.kind}


@workflow("same.sleeps")
async def sleeps(run: Run, input: dict[str, Any]) -> Any:
    await run.sleep(timedelta(hours=127))


@workflow("same.late")
async def late(run: Run, input: dict[str, Any]) -> Any:
    try:
        return await run.child("child", "same.sleeps", input, timeout=timedelta(hours=53))
    except StepFailed as error:
        return {"failed": error.kind}


@workflow("same.undoes")
async def undoes(run: Run, input: dict[str, Any]) -> Any:
    await run.step("book", fails_first(run, input, "book", 0))
    run.on_failure("unbook", fails_first(run, input, "unbook", 1))
    await run.wait_event("knocked", {"sequence": input["sequence"]}, timedelta(hours=37), required=True)
    raise RuntimeError("it fails in the end")


# Effects: what the first call does, and how a doubt about it is resolved.


async def found(key: str) -> Done:
    return Done("found")


async def not_done(key: str) -> NotDone:
    return NotDone()


HOWS: dict[str, EffectOptions] = {
    "works": {},
    "refused": {},
    "asks": {},
    "found": {"lookup": found},
    "not done": {"lookup": not_done, "visible_after": 3 * DELAY},
    "repeats": {"repeatable": True},
    "repeats no more": {"repeatable": True, "repeatable_for": DELAY / 2},
}


async def charge(effect: OpenEffect, id: UUID, input: dict[str, Any], how: str) -> str:
    call = call_number(id, input, "charge")
    if call == 1 and how == "refused":
        effect.refused("no money")
    if call == 1 and how != "works":
        raise RuntimeError("no response")
    return f"charge {call}"


@job("same.charges", retry=POLICY)
async def charges(input: dict[str, Any], ctx: JobContext) -> str | None:
    how = input["how"]
    return await ctx.effect("bank.charge", charge, ctx.job_id, input, how, **HOWS[how])


@workflow("same.pays")
async def pays(run: Run, input: dict[str, Any]) -> str | None:
    how = sorted(HOWS)[input["n"] % len(HOWS)]
    return await run.effect("bank.charge", charge, run.id, input, how, **HOWS[how])


# Transactions: what they write is compared, too.

BOOK = "insert into same_bookings values ($1)"
BOOKINGS = "create table same_bookings (sequence int); grant all on same_bookings to public"


class Bookings:
    """The table in a simulation."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    async def execute(self, query: str, sequence: int) -> None:
        self.rows.append(sequence)


@job("same.books", max_retries=2, retry=POLICY)
async def books(input: dict[str, Any], ctx: JobContext) -> None:
    async with ctx.transaction() as conn:
        await conn.execute(BOOK, input["sequence"])
        call = call_number(ctx.job_id, input, "books")
        if call <= input["fails"]:
            raise RuntimeError(f"call {call}")
        ctx.output({"call": call})


@workflow("same.parts")
async def parts(run: Run, input: dict[str, Any]) -> Any:
    async def book(conn: Any, name: str, times: int) -> Any:
        await conn.execute(BOOK, input["sequence"])
        return await fails_first(run, input, name, times)()

    first = await run.transaction("first", book, "first", input["n"] % 3)
    await run.sleep(timedelta(hours=23))
    try:
        return {"first": first, "second": await run.transaction("second", book, "second", 9, retries=input["n"] % 2)}
    except StepFailed as error:
        return {"first": first, "failed": error.reason}


STARTS = (
    "same.steps",
    "same.jobs",
    "same.events",
    "same.asks",
    "same.beside",
    "same.parent",
    "same.late",
    "same.undoes",
    "same.pays",
    "same.parts",
)
