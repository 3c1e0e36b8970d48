"""Jobs and a workflow that the browser tests run."""

import asyncio
from datetime import timedelta

from pydantic import BaseModel, Field

from atlas import Run, workflow
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job


class Report(BaseModel):
    """Which report, and how long it takes."""

    name: str = Field(description="What the report is called.", max_length=100)
    seconds: float = Field(default=0.0, ge=0, le=600, description="How long it takes.")
    fails: bool = Field(default=False, description="Whether it fails in the end.")


class Payout(BaseModel):
    """Money that goes to someone, once a person has agreed."""

    to: str
    amount_cents: int


@job("report.build", max_retries=0)
async def build_report(input: Report, ctx: JobContext) -> dict[str, str]:
    """Build a report, and say how far it is."""
    for percent in range(0, 100, 20):
        await ctx.progress(percent, f"page {percent // 20 + 1} of 5")
        await asyncio.sleep(input.seconds / 5)
    if input.fails:
        raise RuntimeError(f"the report {input.name} has no data")
    return {"file": f"{input.name}.pdf"}


@workflow("payout")
async def payout(run: Run, input: Payout) -> dict[str, bool]:
    """Pay once a person has approved it."""
    await run.step("check", check, input.amount_cents)
    decision = await run.approval("approve", title=f"Pay {input.to}?", expires=timedelta(hours=4))
    if decision:
        await run.job("mail", "EMAIL_SEND", {"to": input.to, "subject": "Your payout", "text": "It is on its way."})
    return {"paid": bool(decision)}


async def check(cents: int) -> int:
    """Refuse what is not a payout."""
    return cents


@job("report.once", max_retries=0)
async def fail_once(input: dict[str, object], ctx: JobContext) -> dict[str, int]:
    """Fail at the first attempt, and not when it is retried."""
    ctx.log.info("looking for the printer", attempt=ctx.attempt)
    if ctx.attempt == 1:
        raise RuntimeError("the first attempt fails")
    return {"attempt": ctx.attempt}


class Order(BaseModel):
    """An order, and whether its parcel is lost."""

    number: str
    is_lost: bool = False


@workflow("order")
async def order(run: Run, input: Order) -> dict[str, str]:
    """Some of everything that a graph shows: a loop, branches, a sub-run, an approval, a step that fails."""
    await run.step("reserve", check, 1)
    for number in range(4):
        await run.step("weigh", check, number)
    label = run.job("label", "report.build", {"name": input.number})
    await run.gather(run.step("pack", check, 3), label, run.child("screen", "screening", {"number": input.number}))
    await run.approval("approve", title=f"Ship {input.number}?", expires=timedelta(hours=4))
    await run.step("ship", ship, input.is_lost, retries=0)
    return {"parcel": input.number}


async def ship(is_lost: bool) -> str:
    """Hand the parcel over, if it is there."""
    if is_lost:
        raise RuntimeError("the parcel is lost")
    return "shipped"


@workflow("screening")
async def screening(run: Run, input: dict[str, str]) -> dict[str, bool]:
    """Look at a customer."""
    await run.gather(run.step("address", check, 1), run.step("history", check, 2))
    return {"ok": True}


@workflow("long")
async def long(run: Run, input: dict[str, int]) -> dict[str, int]:
    """Many steps in a few branches."""

    async def branch(name: str) -> None:
        for number in range(input["steps"]):
            await run.step(f"{name} {number}", check, number)

    await run.gather(*(branch(name) for name in ("north", "east", "south", "west")))
    return input
