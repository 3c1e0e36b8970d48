"""The workflows and jobs of these tests. What they did is counted in `calls`, by run and step."""

import asyncio
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, Field

from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.verdicts import PermanentError, RetryAfter, Snooze
from atlas.engine.workflows.errors import StepFailed
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run

calls: Counter[str] = Counter()


class Order(BaseModel):
    """A typed input."""

    item: str
    amount: int = 1


class Price(BaseModel):
    """A typed result of a step."""

    cents: int
    at: datetime


@job("wf.double", max_retries=0)
async def double(input: dict[str, Any]) -> dict[str, Any]:
    calls["double"] += 1
    return {"value": input["x"] * 2}


@job("wf.price", max_retries=0)
async def price_of(input: Order) -> Price:
    return Price(cents=input.amount * 250, at=datetime(2026, 1, 2, tzinfo=UTC))


@job("wf.count", max_retries=0)
async def count(input: dict[str, Any]) -> int:
    return 4


@job("wf.nothing", max_retries=0)
async def nothing(input: dict[str, Any]) -> None: ...


@job("wf.refuse", max_retries=0)
async def refuse(input: dict[str, Any]) -> None:
    raise PermanentError("no stock")


@job("wf.idle")
async def idle(input: dict[str, Any]) -> None:
    await asyncio.sleep(3600)


async def note(word: str) -> str:
    calls[word] += 1
    return word


def note_plainly(word: str) -> str:
    calls[word] += 1
    return word


@workflow("wf.typed")
async def typed(run: Run, input: Order) -> dict[str, Any]:
    async def price(item: str) -> Price:
        calls["price"] += 1
        return Price(cents=len(item) * 100, at=datetime(2026, 1, 2, tzinfo=UTC))

    first = await run.step("price", price, input.item)
    await run.sleep(60)
    assert isinstance(first, Price)
    return {"cents": first.cents * input.amount, "at": first.at}


@workflow("wf.faithful")
async def faithful(run: Run, input: dict[str, Any]) -> Any:
    async def answer() -> dict[str, Any]:
        return {"zeta": 1e16, "b": -0.0, "aa": {"2": 1, "10": 1.0}}

    async def typed_answer() -> dict[str, Order | float]:
        return {"zeta": 1e16, "b": -0.0, "aa": Order(item="tea")}

    answers = [repr(await run.step("answer", answer)), repr(await run.step("typed answer", typed_answer))]
    for word in await run.step("answer", answer):
        await run.step(word, note, word)
    calls[str(answers)] += 1
    await run.sleep(0)
    return {"answers": answers}


@workflow("wf.plain")
async def plain(run: Run, input: dict[str, Any]) -> str:
    one = await run.step("note", note, "one")
    two = await run.step("note", note_plainly, "two")
    return f"{one} {two}"


@workflow("wf.flaky")
async def flaky(run: Run, input: dict[str, Any]) -> Any:
    async def attempt() -> int:
        calls["attempt"] += 1
        if calls["attempt"] <= input["failures"]:
            raise ValueError(f"failure {calls['attempt']}")
        return calls["attempt"]

    return await run.step("attempt", attempt, retries=input.get("retries", 3))


@workflow("wf.steered")
async def steered(run: Run, input: dict[str, Any]) -> Any:
    async def attempt() -> str:
        calls["attempt"] += 1
        if calls["attempt"] == 1:
            raise Snooze(100)
        if calls["attempt"] == 2:
            raise RetryAfter(500)
        return "there"

    return await run.step("attempt", attempt, retries=1)


@workflow("wf.spells")
async def spells(run: Run, input: dict[str, Any]) -> Any:
    async def spell() -> Order:
        return Order.model_construct(item="caf\udce9")

    async def misspell(word: str) -> None:
        raise ValueError("caf\udce9")

    found = await run.step("spell", spell)
    try:
        await run.step("misspell", misspell, "caf\udce9", retries=0)
    except StepFailed as error:
        return [found.item, error.reason]


@workflow("wf.exits")
async def exits(run: Run, input: dict[str, Any]) -> Any:
    async def leave() -> None:
        raise KeyboardInterrupt

    caught = []
    for step in (leave, sys.exit):
        try:
            await run.step("leave", step, retries=0)
        except StepFailed as error:
            caught.append(error.reason)
    await run.step("note", note, " ".join(caught))
    raise KeyboardInterrupt


@workflow("wf.returns")
async def returns(run: Run, input: dict[str, int]) -> str:
    async def produce() -> str:
        return "x" * input["step"]

    await run.step("produce", produce, retries=0)
    return "x" * input["run"]


@workflow("wf.exhausts")
async def exhausts(run: Run, input: dict[str, Any]) -> Any:
    return await run.step("exhaust", lambda: next(iter(())), retries=0)


@workflow("wf.slow")
async def slow(run: Run, input: dict[str, Any]) -> Any:
    return await run.step("doze", asyncio.sleep, 30, timeout=timedelta(milliseconds=20), retries=0)


@workflow("wf.hangs")
async def hangs(run: Run, input: dict[str, Any]) -> Any:
    await run.step("hang", SWITCHES["hang"], timeout=0.05, retries=0)


@workflow("wf.holds")
async def holds(run: Run, input: dict[str, Any]) -> Any:
    return await run.step("hold", SWITCHES["hold"])


@workflow("wf.queues")
async def queues(run: Run, input: dict[str, Any]) -> Any:
    return await run.gather(*(run.step("doze", time.sleep, 0.3, timeout=0.5, retries=0) for _ in range(3)))


@workflow("wf.charges")
async def charges(run: Run, input: dict[str, Any]) -> Any:
    async def charge(key: str) -> list[str]:
        calls[key] += 1
        if calls[key] == 1:
            raise RetryAfter(0)
        return [key, run.idempotency_key("charge")]

    async def branch() -> Any:
        return [await run.step("charge", charge, run.idempotency_key("charge")) for _ in range(2)]

    return {"root": await branch(), "sides": await run.gather(branch(), branch())}


class Invoice(BaseModel):
    """A result whose fields have other names in JSON."""

    number: int = Field(alias="invoiceNumber")
    cents: int = Field(serialization_alias="amountInCents")
    lines: list[str] = Field(validation_alias="invoiceLines")
    tax: int = Field(default=0, serialization_alias="taxInCents")


class SentInvoice(Invoice, serialize_by_alias=True):
    """One that is written with those names."""


@workflow("wf.invoices")
async def invoices(run: Run, input: dict[str, Any]) -> Any:
    facts = {"invoiceNumber": 7, "cents": 100, "invoiceLines": ["tea"], "tax": 19}

    async def invoice() -> Invoice:
        return Invoice.model_validate(facts)

    async def sent() -> list[SentInvoice]:
        return [SentInvoice.model_validate(facts)]

    async def ratios() -> list[float]:
        calls["ratios"] += 1
        return [float("nan")]

    found = [await run.step("invoice", invoice), *await run.step("sent", sent)]
    await run.sleep(0)
    try:
        await run.step("ratios", ratios)
    except StepFailed as error:
        return {"invoices": [(one.number, one.cents, one.lines, one.tax) for one in found], "reason": error.reason}


@workflow("wf.catches")
async def catches(run: Run, input: dict[str, Any]) -> Any:
    try:
        await run.job("refuse", "wf.refuse")
    except StepFailed as error:
        return {"reason": error.reason, "kind": error.kind, "other": await run.step("other", note, "other")}


@workflow("wf.family")
async def family(run: Run, input: dict[str, Any]) -> Any:
    doubled = await run.job("double", "wf.double", {"x": input["x"]})
    child = await run.child("child", "wf.plain", {})
    return {"doubled": doubled, "child": child}


@workflow("wf.typed_jobs")
async def typed_jobs(run: Run, input: dict[str, Any]) -> Any:
    price = await run.job("price", price_of, Order(item="tea", amount=2))
    number = await run.job("count", count, {})
    named = await run.job("named", "wf.count")
    empty = await run.job("nothing", nothing, {})
    await run.sleep(60)
    return [price.cents, price.at.year, number, named, empty]


@workflow("wf.parent")
async def parent(run: Run, input: dict[str, Any]) -> Any:
    return await run.child("child", input["child"], input.get("input", {}), timeout=input.get("timeout"))


@workflow("wf.chain")
async def chain(run: Run, input: dict[str, Any]) -> Any:
    calls["links"] += 1
    if input["side"]:
        await run.gather(run.child("next", "wf.chain", input))
    elif input["deepest"] is None or calls["links"] < input["deepest"]:
        await run.child("next", "wf.chain", input)
    else:
        await run.wait_event("never")


@workflow("wf.idles")
async def idles(run: Run, input: dict[str, Any]) -> Any:
    return await run.gather(run.job("one", "wf.idle"), run.job("two", "wf.idle"))


@workflow("wf.waits")
async def waits(run: Run, input: dict[str, Any]) -> Any:
    first = await run.wait_event("paid", {"order": input["order"]}, input.get("timeout"))
    if not input.get("twice"):
        return {"first": first}
    return {"first": first, "second": await run.wait_event("paid", {"order": input["order"]})}


@workflow("wf.asks")
async def asks(run: Run, input: dict[str, Any]) -> Any:
    decision = await run.approval("ship", title="Ship it?", expires=timedelta(hours=4), detail={"to": "Paris"})
    return {"approved": bool(decision), "by": decision.by, "status": decision.status, "comment": decision.comment}


@workflow("wf.fan")
async def fan(run: Run, input: dict[str, Any]) -> Any:
    async def branch(number: int) -> Any:
        await run.step("begin", note, f"begin {number}")
        doubled = await run.job("double", "wf.double", {"x": number})
        await run.step("end", note, f"end {number}")
        return doubled["value"]

    return await run.gather(*(branch(number) for number in range(input["width"])))


@workflow("wf.fan_fails")
async def fan_fails(run: Run, input: dict[str, Any]) -> Any:
    async def bad(word: str) -> None:
        if calls["cured"] == 0:
            raise PermanentError(word)

    return await run.gather(
        run.step("a", note, "a"), run.step("b", bad, "b is bad"), run.step("c", bad, "c is bad"), name="fan"
    )


@workflow("wf.careless")
async def careless(run: Run, input: dict[str, Any]) -> Any:
    async def two_steps(word: str) -> None:
        await run.step(f"{word} 1", note, word)
        await run.step(f"{word} 2", note, word)

    await asyncio.gather(two_steps("a"), two_steps("b"))


@workflow("wf.values")
async def values(run: Run, input: dict[str, Any]) -> Any:
    drawn = [(await run.now()).isoformat(), str(await run.uuid()), await run.random(), str(await run.uuid())]
    await run.sleep(60)
    return {"drawn": drawn}


@workflow("wf.saga")
async def saga(run: Run, input: dict[str, Any]) -> Any:
    await run.step("reserve", note, "reserve")
    run.on_failure("release", undo, "release")
    await run.step("charge", note, "charge")
    run.on_failure("refund", run.job, "refund", "wf.double", {"x": 1})
    await run.sleep(60)
    if input.get("undo_fails"):
        run.on_failure("break", undo, "break", retries=0)
    if not input.get("well"):
        raise RuntimeError("the parcel is lost")
    return {"sent": True}


@workflow("wf.misnames")
async def misnames(run: Run, input: dict[str, Any]) -> Any:
    await run.step("reserve", note, "reserve")
    run.on_failure("release", undo, "release")
    run.on_failure("refund", run.job, "refund", "wf.double", {"x": 1})
    for name in input["names"]:
        await run.step(name, note, "other")


@workflow("wf.overflows")
async def overflows(run: Run, input: dict[str, Any]) -> Any:
    await run.step("reserve", note, "reserve")
    run.on_failure("refund", run.job, "refund", "wf.double", {"x": 1})
    run.on_failure("pause", run.sleep, 60)

    async def again() -> None:
        calls["again"] += 1
        raise RetryAfter(30)

    async def notes() -> None:
        for _ in range(10):
            await run.step("note", note, "note")

    await run.gather(run.wait_event("never"), run.step("again", again), notes())


async def undo(word: str) -> None:
    calls[f"undo {word}"] += 1
    if word == "break" and calls["cured"] == 0:
        raise PermanentError("cannot be undone")


@workflow("wf.far")
async def far(run: Run, input: dict[str, Any]) -> Any:
    async def again(delay: float) -> None:
        raise RetryAfter(delay)

    match input:
        case {"sleep": seconds}:
            await run.sleep(float(seconds))
        case {"until": time}:
            await run.sleep_until(datetime.fromisoformat(time))
        case {"approval": seconds, "title": title}:
            await run.approval("ask", title=title.replace("NUL", "\0"), expires=float(seconds))
        case {"retry": seconds}:
            await run.step("again", again, float(seconds))
        case {"cap": seconds}:
            await run.step("again", refuse_once, retry={"base": float(seconds), "factor": 1, "cap": float(seconds)})
        case {"job": seconds}:
            await run.job("late", "wf.double", {"x": 1}, timeout=float(seconds))


async def refuse_once() -> None:
    raise RuntimeError("not now")


@workflow("wf.pays")
async def pays(run: Run, input: dict[str, Any]) -> Any:
    await run.step("draw up", note, "draw up")
    decision = await run.approval("may pay", title="Pay?")
    await run.now()
    await run.step("pay", note, "pay")
    await run.step("thank", note, "thank")
    return {"by": decision.by}


@workflow("wf.namesakes")
async def namesakes(run: Run, input: dict[str, Any]) -> Any:
    for name in ("x", "x", "x#2", "y"):
        await run.step(name, note, name)


@workflow("wf.cure")
async def cure(run: Run, input: dict[str, Any]) -> Any:
    async def work() -> str:
        calls["work"] += 1
        if calls["cured"] == 0:
            raise PermanentError("not yet")
        return "done"

    before = await run.step("before", note, "before")
    return {"before": before, "work": await run.step("work", work)}


@workflow("wf.stubborn")
async def stubborn(run: Run, input: dict[str, Any]) -> Any:
    try:
        await run.sleep(60)
    except BaseException:
        calls["caught"] += 1
    return await run.step("after", note, "after")


@workflow("wf.stepping")
async def stepping(run: Run, input: dict[str, Any]) -> Any:
    for number in range(input["steps"]):
        await run.step(f"step {number}", note, f"step {number}")
    return {"steps": input["steps"]}


@workflow("wf.offline")
async def offline(run: Run, input: dict[str, Any]) -> Any:
    async def turn_off() -> None:
        calls["first"] += 1
        await SWITCHES["off"]()

    await run.step("first", turn_off)
    return await run.step("second", note, "second")


@workflow("wf.offline_between")
async def offline_between(run: Run, input: dict[str, Any]) -> Any:
    """Atlas goes offline between two steps, while nothing is recorded."""
    await run.step("first", note, "first")
    if "off" in SWITCHES:
        await SWITCHES.pop("off")()
    return await run.step("second", note, "second")


# Set by the test that uses it.
SWITCHES: dict[str, Any] = {}


@workflow("wf.busy")
async def busy(run: Run, input: dict[str, Any]) -> Any:
    return await run.gather(run.job("idle", "wf.idle"), run.step("doze", asyncio.sleep, 3600))


@workflow("wf.changing")
async def changing(run: Run, input: dict[str, Any]) -> Any:
    await run.step("first", note, "first")
    if calls["changed"]:
        try:
            await run.step("new", note, "new")
        except Exception:
            calls["swallowed"] += 1
    await run.sleep(60)
    return {"well": True}


@job("wf.strict")
async def strict(input: Order) -> None:
    """Takes an order and nothing else."""


@workflow("wf.misfit")
async def misfit(run: Run, input: dict[str, Any]) -> Any:
    return await run.job("misfit", "wf.strict", {"item": "cup", "amount": "many"})


@workflow("wf.impatient")
async def impatient(run: Run, input: dict[str, Any]) -> Any:
    try:
        await run.job("late", "wf.unserved", expires_in=3600)
    except StepFailed as error:
        return {"reason": error.reason}
