"""Handlers that the tests of workers run."""

import asyncio
import contextlib
import contextvars
import os
import signal
import threading
import time
from typing import Any

from pydantic import BaseModel, Field

from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.verdicts import PermanentError, RetryAfter, Snooze
from atlas.logs import _redacted

STARTED: list[int] = []
SAID: list[str] = []
ENDED: list[float] = []
RUNNING: set[str] = set()
MET: dict[str, set[str]] = {}
LEAK: contextvars.ContextVar[str] = contextvars.ContextVar("leak", default="clean")


class Numbers(BaseModel):
    n: int


class Words(BaseModel):
    x: str


@job("test.noop")
async def noop(input: dict[str, Any]) -> None:
    return None


@job("test.double")
async def double(input: Numbers, ctx: JobContext) -> Numbers:
    """Twice the number."""
    ctx.cost(2)
    await ctx.progress(50, "halfway")
    return Numbers(n=input.n * 2)


@job("test.plain")
def plain(input: Numbers, ctx: JobContext) -> dict[str, Any]:
    return {"n": input.n, "thread": threading.current_thread().name}


@job("test.stubborn", timeout=0.2, max_retries=0)
def stubborn(input: dict[str, Any], ctx: JobContext) -> str:
    """A plain function that outlasts its time until it is asked to stop."""
    until = time.monotonic() + 5
    while not ctx.cancelled and time.monotonic() < until:
        threading.Event().wait(0.01)
    return "stopped" if ctx.cancelled else "never asked"


class Login(BaseModel):
    password: str = Field(json_schema_extra={"x-secret": True})


@job("test.costly", max_retries=0)
async def costly(input: dict[str, Any], ctx: JobContext) -> None:
    """Costs more than the database can count."""
    ctx.cost(2**40)


@job("test.logs_late", timeout=0.2, max_retries=0)
def logs_late(input: Login) -> None:
    """Says its secret when its attempt is long over."""
    threading.Event().wait(0.8)
    SAID.append(_redacted(None, "", f"the password is {input.password}"))


@job("test.lingers", timeout=0.2, max_retries=0)
def lingers(input: dict[str, Any]) -> None:
    """A plain function that never checks whether it should stop."""
    threading.Event().wait(input["seconds"])


@job("test.borrows")
async def borrows(input: dict[str, Any], ctx: JobContext) -> None:
    """Keeps a connection for itself."""
    async with ctx.pool.acquire():
        await asyncio.sleep(input["seconds"])


@job("test.unstoppable")
def unstoppable(input: dict[str, Any]) -> None:
    """A plain function without a context: it cannot be asked to stop."""
    threading.Event().wait(input["seconds"])


@job("test.refuses")
async def refuses(input: dict[str, Any]) -> None:
    """Goes on after its cancellation."""
    until = time.monotonic() + input["seconds"]
    while (left := until - time.monotonic()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(left)


@job("test.winds_up")
def winds_up(input: dict[str, Any], ctx: JobContext) -> str:
    """Cleans up for a short time after it was asked to stop."""
    while not ctx.cancelled:
        threading.Event().wait(0.01)
    threading.Event().wait(0.7)
    ENDED.append(time.time())
    return "half done"


@job("test.fails", max_retries=2, retry={"base": 0, "factor": 1, "jitter": 0})
async def fails(input: dict[str, Any]) -> None:
    raise ValueError("no paper")


@job("test.raises")
async def raises(input: dict[str, Any]) -> None:
    match input["what"]:
        case "permanent":
            raise PermanentError("wrong address")
        case "later":
            raise RetryAfter(300, "busy")
        case "snooze":
            raise Snooze(300)
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "generator":
            raise GeneratorExit
        case "cancelled":
            raise asyncio.CancelledError
        case "panic":
            raise Panic("index out of range")
        case "surrogate":
            raise ValueError("caf\udce9.txt")
        case "nul":
            raise ValueError("caf\0.txt")
        case "unreadable":
            raise Unreadable


@job("test.exits_in_thread")
def exits_in_thread(input: dict[str, Any]) -> None:
    raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "generator": GeneratorExit()}[input["what"]]


@job("test.exits_in_task", max_retries=0)
async def exits_in_task(input: dict[str, Any]) -> None:
    """Ends a task of its own by what asyncio takes for the end of the program."""
    await asyncio.create_task(raises(input))


@job("test.large")
async def large(input: Numbers) -> dict[str, str]:
    """Returns so many characters."""
    return {"x": "é" * input.n}


@job("test.larger", max_output=2 * 2**20)
def larger(input: Numbers) -> str:
    return "x" * input.n


class Panic(BaseException):
    """What libraries written in other languages raise when they fail within."""


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


@job("test.notes")
async def notes(input: dict[str, Any], ctx: JobContext) -> dict[str, Any]:
    """Reports the same text in every way there is."""
    said = {"caf\udce9": ["caf\udce9", 1]} if input["what"] == "surrogate" else {"n": 2**80}
    await ctx.progress(50, "caf\udce9")
    ctx.audit("CAFE_VISITED", message="caf\udce9", meta=said)
    ctx.notes.detail["said"] = said
    ctx.log.info("caf\udce9")
    if input.get("raises"):
        raise ValueError("caf\udce9")
    return said


@job("test.exhausts", max_retries=0)
def exhausts(input: dict[str, Any]) -> None:
    next(iter(()))


@job("test.slow", timeout=0.2, max_retries=0)
async def slow(input: dict[str, Any]) -> None:
    await asyncio.sleep(60)


@job("test.sleeps")
async def sleeps(input: dict[str, Any], ctx: JobContext) -> dict[str, Any]:
    STARTED.append(1)
    await asyncio.sleep(input.get("seconds", 60))
    return {"slept": True}


@job("test.meets")
async def meets(input: dict[str, Any], ctx: JobContext) -> None:
    """Writes down which others run beside it."""
    RUNNING.add(me := ctx.idempotency_key)
    for one in RUNNING:
        MET.setdefault(one, set()).update(RUNNING - {one})
    await asyncio.sleep(input["seconds"])
    RUNNING.discard(me)


@job("test.deaf")
async def deaf(input: dict[str, Any]) -> str:
    """Swallows its cancellation."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "swallowed"
    return "slept"


@job("test.converts", timeout=0.2, max_retries=0)
async def converts(input: dict[str, Any]) -> None:
    """Turns its cancellation into an error of its own, or cancels its own task and forgets about it."""
    if input.get("itself"):
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise ValueError("cleaned up") from None


@job("test.some_cancel_themselves")
async def some_cancel_themselves(input: Numbers) -> None:
    if input.n % 10 == 5:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
    else:
        await asyncio.sleep(0)


@job("test.group", max_retries=0)
async def group(input: dict[str, Any]) -> None:
    """One of two children fails, and the group cancels the rest."""
    async with asyncio.TaskGroup() as children:
        children.create_task(asyncio.sleep(5))
        children.create_task(fails({}))


@job("test.leaks")
async def leaks(input: dict[str, Any]) -> str:
    found = LEAK.get()
    LEAK.set("dirty")
    return found


@job("test.again_at_once")
async def again_at_once(input: dict[str, Any], ctx: JobContext) -> None:
    await asyncio.sleep(0.1)
    if ctx.attempt == 1:
        raise RetryAfter(0)


@job("test.busy")
async def busy(input: dict[str, Any]) -> dict[str, float]:
    began = time.time()
    threading.Event().wait(0.005)
    return {"began": began}


@job("test.blocks")
async def blocks(input: dict[str, Any]) -> None:
    threading.Event().wait(input.get("seconds", 1.6))


@job("test.returns")
async def returns(input: dict[str, Any]) -> Any:
    match input["what"]:
        case "list":
            return [1, 2]
        case "number":
            return 4
        case "false":
            return False
        case "text":
            return "four"
        case "nul":
            return {"x": "a\0b"}
        case "surrogate":
            return {"x": ["caf\udce9", ("caf\udce9",)]}
        case "model":
            return Words.model_construct(x="caf\udce9")
        case "object":
            return {"x": {1, 2}}
        case "huge":
            return {"x": 2**80}


@job("test.kills")
async def kills(input: dict[str, Any]) -> None:
    """Takes its worker with it."""
    os.kill(os.getpid(), signal.SIGKILL)


@job("test.effect")
async def effect(input: dict[str, Any], ctx: JobContext) -> None:
    """Leaves a mark in the database outside of the job's own transaction, as a provider would."""
    async with ctx.pool.acquire() as conn:
        await conn.execute("insert into effects (job_id, attempt) values ($1, $2)", ctx.job_id, ctx.attempt)
    await asyncio.sleep(input.get("seconds", 0))


@job("rated.noop", rate="20/second", burst=4)
async def rated(input: dict[str, Any]) -> None:
    """Starts at its rate."""


@job("rated.stored", rate="20/second", burst=100)
async def rated_stored(input: dict[str, Any]) -> None:
    """Starts at its rate, which stores five seconds of it."""


@job("keyed.sleeps", concurrency=1, concurrency_key="{{ input.customer }}")
async def keyed(input: dict[str, Any]) -> None:
    """Takes a moment, one after the other for each customer."""
    await asyncio.sleep(0.005)
