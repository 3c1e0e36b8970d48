"""Capabilities that change something beside the queue: effects at a provider, and transactions with rows of one's own.

The provider is the effect log. It honors no key: each call is another charge.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

from atlas.engine.effects.effect_call import OpenEffect
from atlas.engine.effects.outcomes import Done, NotDone
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.workflows.intents import request_workflow
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from tests.faults.capability import Capability, Marked, runs_of
from tests.faults.effects import VARIABLE, note, read_effects
from tests.faults.judge import Evidence
from tests.support import DANA

COUNT = 2
# Writes of these handlers fail for as long as a disk is full.
PATIENT: dict[str, Any] = {"max_retries": 30, "retry": {"base": 0.3, "factor": 1, "jitter": 0}}


async def charge(effect: OpenEffect) -> str:
    """Make a charge and name it."""
    reference = str(uuid4())
    note("charged", kind=effect.key, key=reference)
    return reference


async def find_charge(key: str) -> Done | NotDone:
    """The charge with this key."""
    made = [
        effect.key
        for effect in read_effects(Path(os.environ[VARIABLE]))
        if (effect.what, effect.kind) == ("charged", key)
    ]
    return Done(made[0]) if made else NotDone()


@job("fault.charged", **PATIENT)
async def charged(input: dict[str, Any], ctx: JobContext) -> str | None:
    """Charges once."""
    async with Marked("fault.charged", ctx):
        return await ctx.effect("bank.charge", charge, lookup=find_charge, visible_after=0)


async def book(conn: Any, id: str) -> None:
    await conn.execute("insert into public.bookings values ($1)", id)


@job("fault.booked", **PATIENT)
async def booked(input: dict[str, Any], ctx: JobContext) -> None:
    """Writes a row in the transaction that ends the job."""
    # It may be killed between the commit and whatever comes next.
    async with ctx.transaction() as conn, Marked("fault.booked", ctx):
        await book(conn, str(ctx.job_id))


@workflow("fault.pays")
async def pays(run: Run, input: dict[str, Any]) -> str | None:
    """Both, as steps."""
    reference = await run.effect("bank.charge", charge, lookup=find_charge, visible_after=0, retries=5)
    await run.transaction("book", book, str(run.id), retries=5)
    return reference


async def give_money(conn: Any) -> None:
    await conn.execute("create table public.bookings (id text)")
    jobs = [NewJob(name, {"n": n}) for name in ("fault.charged", "fault.booked") for n in range(COUNT)]
    await enqueue_many(conn, jobs, actor=DANA)
    await request_workflow(conn, SYSTEM_TENANT, "fault.pays", {}, DANA, allow_unknown=True)


async def charged_once(evidence: Evidence) -> list[str]:
    """Each effect is made, and again only after an attempt was lost: its worker may have been frozen before the call."""
    made = Counter(effect.kind for effect in evidence.effects if effect.what == "charged")
    references = {effect.key for effect in evidence.effects if effect.what == "charged"}
    lost = {row[0] for row in await evidence.conn.fetch("select job_id from atlas.job_attempts where status = 'lost'")}
    rows = await evidence.conn.fetch("select job_id, key, state, reference from atlas.effects")
    broken = [] if len(rows) == COUNT + 1 else [f"{len(rows)} effects instead of {COUNT + 1}"]
    for row in rows:
        if row["state"] != "done" or row["reference"] not in references:
            broken.append(f"effect {row['key']} is {row['state']} with the reference {row['reference']}")
        if made[row["key"]] > 1 and row["job_id"] not in lost:
            broken.append(f"effect {row['key']} was made {made[row['key']]} times, and no attempt was lost")
    return broken


async def booked_once(evidence: Evidence) -> list[str]:
    """A row that was written with the outcome is there once."""
    rows = Counter(row[0] for row in await evidence.conn.fetch("select id from public.bookings"))
    jobs = await evidence.conn.fetch(
        "select id::text from atlas.jobs where job_type = 'fault.booked' or input::jsonb->>'workflow' = 'fault.pays'"
    )
    return [f"job {row[0]} was booked {rows[row[0]]} times" for row in jobs if rows[row[0]] != 1]


MONEY = Capability(
    "effects and transactions",
    give_money,
    (charged_once, booked_once),
    types=("fault.charged", "fault.booked", "ENGINE_RUN"),
    done=runs_of(1, "fault.pays"),
)
