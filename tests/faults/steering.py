"""Capabilities that people and limits steer: a pause, an approval, a rate."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg

from atlas.actors import Actor
from atlas.db.pool import UNREACHABLE, connect
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.pauses import list_pauses, pause, resume
from atlas.engine.workflows.approvals import decide_approval, list_approvals
from atlas.engine.workflows.intents import request_workflow
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.errors import AtlasError
from tests.faults.capability import Capability, Marked, runs_of
from tests.faults.effects import note
from tests.faults.judge import Evidence
from tests.support import DANA

APPROVER = Actor("user", "approver")
# Whatever a fault does to the connection of a person: they try again.
TRY_AGAIN = (*UNREACHABLE, asyncpg.PostgresError, AtlasError)
RATE, BURST = 5, 2
PAUSED_SECONDS = 1.5

# A pause that is in force when the programs begin.


@job("fault.paused")
async def paused(input: dict[str, Any], ctx: JobContext) -> None:
    """Starts when the pause is over."""
    async with Marked("fault.paused", ctx):
        pass


async def give_paused(conn: Any) -> None:
    await publish_types(conn, [registered()["fault.paused"]])
    await enqueue_many(conn, [NewJob("fault.paused", {"n": n}) for n in range(2)], actor=DANA)
    await pause(conn, "type", "fault.paused", actor=DANA)


@asynccontextmanager
async def resuming(url: str, folder: Path) -> AsyncIterator[None]:
    """End the pause after some time."""
    note("pause returned", kind="fault.paused", path=folder / "effects")

    async def end_pauses() -> None:
        await asyncio.sleep(PAUSED_SECONDS)
        note("resume asked for", kind="fault.paused", path=folder / "effects")
        await until_done(url, _resume)

    task = asyncio.create_task(end_pauses())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _resume(conn: Any) -> bool:
    for listed in await list_pauses(conn):
        if listed.name == "fault.paused":
            await resume(conn, listed.id, actor=DANA)
    return True


async def paused_jobs_start(evidence: Evidence) -> list[str]:
    """The pause was in force, and what it paused has run."""
    started = {effect.job_id for effect in evidence.effects if (effect.what, effect.kind) == ("start", "fault.paused")}
    return [] if len(started) == 2 else [f"{len(started)} jobs started after the pause instead of 2"]


# A run that waits for a decision.


@workflow("fault.asks")
async def asks(run: Run, input: dict[str, Any]) -> str:
    """Ask once, and return what was decided."""
    decision = await run.approval("may it", title="May it?", expires=timedelta(hours=1))
    return decision.status


async def give_asking(conn: Any) -> None:
    await request_workflow(conn, SYSTEM_TENANT, "fault.asks", {}, DANA, allow_unknown=True)


@asynccontextmanager
async def deciding(url: str, folder: Path) -> AsyncIterator[None]:
    """Approve what is asked for."""
    task = asyncio.create_task(until_done(url, _approve))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _approve(conn: Any) -> bool:
    asked = [approval for approval in await list_approvals(conn, status="pending") if approval.kind == "step"]
    for one in asked:
        await decide_approval(conn, one.id, True, actor=APPROVER)
    return bool(asked)


async def one_decision(evidence: Evidence) -> list[str]:
    rows = await evidence.conn.fetch("select status::text from atlas.approvals where kind = 'step'")
    ends = await evidence.conn.fetch(
        "select status::text, output::text from atlas.jobs where input::jsonb->>'workflow' = 'fault.asks'"
    )
    found = ([row["status"] for row in rows], [tuple(row) for row in ends])
    right = (["approved"], [("succeeded", '"approved"')])
    return [] if found == right else [f"the approvals and runs that ask are {found}"]


async def until_done(url: str, work: Any) -> None:
    """Try until it has worked, over new connections."""
    while True:
        with suppress(*TRY_AGAIN):
            conn = await connect(url, statement_seconds=20)
            try:
                while not await work(conn):
                    await asyncio.sleep(0.1)
                return
            finally:
                await conn.close()
        await asyncio.sleep(0.3)


# A rate.


@job("fault.rated", rate=f"{RATE}/second", burst=BURST)
async def rated(input: dict[str, Any], ctx: JobContext) -> None:
    """Starts at its rate."""
    async with Marked("fault.rated", ctx):
        pass


async def give_rated(conn: Any) -> None:
    await publish_types(conn, [registered()["fault.rated"]])
    await enqueue_many(conn, [NewJob("fault.rated", {"n": n}) for n in range(6)], actor=DANA)


async def rate_holds(evidence: Evidence) -> list[str]:
    """Over any interval at most rate × interval + burst jobs start, by the database's clock."""
    rows = await evidence.conn.fetch("select started_at from atlas.job_runs where job_type = 'fault.rated' order by 1")
    times = [row["started_at"].timestamp() for row in rows]
    return [
        f"{last - first + 1} jobs of a rate of {RATE}/s started within {times[last] - times[first]:.3f} s"
        for first in range(len(times))
        for last in range(first, len(times))
        if last - first + 1 > RATE * (times[last] - times[first]) + BURST + 0.01
    ]


STEERING = (
    Capability("a pause", give_paused, (paused_jobs_start,), resuming, types=("fault.paused",)),
    Capability(
        "an approval",
        give_asking,
        (one_decision,),
        deciding,
        types=("ENGINE_RUN",),
        done=runs_of(1, "fault.asks"),
    ),
    Capability("a rate", give_rated, (rate_holds,), types=("fault.rated",)),
)
