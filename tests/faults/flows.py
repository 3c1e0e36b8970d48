"""Workflows: in code with a job, a child and steps; one that waits for events; a declared one."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.workflows.declared.store import save_workflow
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.intents import request_workflow
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from atlas.errors import InvalidInput
from tests.faults.capability import Capability, runs_of
from tests.faults.effects import note
from tests.faults.judge import Evidence
from tests.faults.steering import until_done
from tests.support import DANA, publish

RUN_TYPE = "ENGINE_RUN"
BELL = UUID("01900000-0000-7000-8000-00000000be11")
RING_SECONDS = 1.0
DECLARED = {
    "key": "fault.declared",
    "steps": [
        {"id": "first", "job": "fault.effect", "with": {"of": "a declared run"}},
        {"id": "many", "needs": ["first"], "each": [1, 2], "job": "fault.effect", "with": {"n": "{{ item }}"}},
        {"id": "rest", "needs": ["many"], "sleep": 1},
    ],
    "output": {"many": "{{ steps.many.output | length }}"},
}
ENDS = "select status::text, output::text from atlas.jobs where input::jsonb->>'workflow' = any ($1::text[])"

# A workflow with a job, a child and steps.


async def take_step(number: int) -> int:
    note("did", key=str(number))
    return number


@workflow("fault.flow")
async def flow(run: Run, input: dict[str, Any]) -> int:
    """Three steps, with a job and a child between them. What has returned was recorded."""
    total = 0
    for number in (1, 2):
        total += await run.step(f"step {number}", take_step, number, retries=5)
        note("recorded", key=str(number))
    await run.job("work", "fault.effect", {"of": "a run"})
    total += await run.child("child", "fault.child", {})
    return total


@workflow("fault.child")
async def child_flow(run: Run, input: dict[str, Any]) -> int:
    """The child: one step."""
    result = await run.step("step 3", take_step, 3, retries=5)
    note("recorded", key="3")
    return result


async def give_run(conn: Any) -> None:
    await publish(conn, "fault.effect")
    await request_workflow(conn, SYSTEM_TENANT, "fault.flow", {}, DANA, allow_unknown=True)


async def recorded_steps_stay(evidence: Evidence) -> list[str]:
    """A step never runs again once its result was returned, and the run has the sum of all."""
    broken, recorded, did = [], set(), Counter[str]()
    for effect in evidence.effects:
        if effect.what == "recorded":
            recorded.add(effect.key)
        elif effect.what == "did":
            did[effect.key] += 1
            if effect.key in recorded:
                broken.append(f"step {effect.key} ran again after it was recorded")
    broken += await ended_as(evidence, [("succeeded", "3"), ("succeeded", "6")], "fault.flow", "fault.child")
    return broken + [f"step {number} never ran" for number in "123" if not did[number]]


# A run that waits for two events. One of them was published before the run began to wait for it.


@workflow("fault.waits")
async def waits(run: Run, input: dict[str, Any]) -> list[Any]:
    """Return what both events said, in the order of the waits."""
    said = []
    for bell in (1, 2):
        event = await run.wait_event("fault.rang", {"bell": bell}, required=True)
        said.append(event["says"])
    return said


async def give_waiting(conn: Any) -> None:
    await request_workflow(conn, SYSTEM_TENANT, "fault.waits", {}, DANA, allow_unknown=True)
    await publish_event(conn, SYSTEM_TENANT, "fault.rang", {"bell": 2, "says": "early"}, actor=DANA)


@asynccontextmanager
async def ringing(url: str, folder: Path) -> AsyncIterator[None]:
    """Publish the first event while the run waits, again until there was an answer."""

    async def ring() -> None:
        await asyncio.sleep(RING_SECONDS)
        await until_done(url, _ring)

    task = asyncio.create_task(ring())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _ring(conn: Any) -> bool:
    # It is stored already, if the answer was lost.
    with suppress(InvalidInput):
        await publish_event(conn, SYSTEM_TENANT, "fault.rang", {"bell": 1, "says": "late"}, actor=DANA, id=BELL)
    return True


async def each_wait_has_its_event(evidence: Evidence) -> list[str]:
    return await ended_as(evidence, [("succeeded", '["late","early"]')], "fault.waits")


# A declared workflow.


async def give_declared(conn: Any) -> None:
    await publish(conn, "fault.effect")
    await save_workflow(conn, DECLARED, actor=DANA)
    await request_workflow(conn, SYSTEM_TENANT, "fault.declared", {}, DANA)


async def each_step_has_its_job(evidence: Evidence) -> list[str]:
    """Every step of the document started its jobs once, and the run has their number."""
    jobs = await evidence.conn.fetchval(
        "select count(*) from atlas.jobs where job_type = 'fault.effect' and parent_run_id in"
        " (select id from atlas.jobs where input::jsonb->>'workflow' = 'fault.declared')"
    )
    broken = [] if jobs == 3 else [f"the declared run started {jobs} jobs instead of 3"]
    return broken + await ended_as(evidence, [("succeeded", '{"many":2}')], "fault.declared")


async def ended_as(evidence: Evidence, expected: list[tuple[str, str]], *workflows: str) -> list[str]:
    """The runs of these workflows ended so."""
    rows = await evidence.conn.fetch(ENDS, list(workflows))
    ends = sorted((row["status"], (row["output"] or "").replace(" ", "")) for row in rows)
    return [] if ends == expected else [f"the runs of {', '.join(workflows)} ended as {ends}"]


FLOWS = (
    Capability(
        "a workflow in code",
        give_run,
        (recorded_steps_stay,),
        types=(RUN_TYPE,),
        done=runs_of(2, "fault.flow", "fault.child"),
    ),
    Capability(
        "a workflow that waits for events",
        give_waiting,
        (each_wait_has_its_event,),
        ringing,
        types=(RUN_TYPE,),
        done=runs_of(1, "fault.waits"),
    ),
    Capability(
        "a declared workflow",
        give_declared,
        (each_step_has_its_job,),
        types=(RUN_TYPE,),
        done=runs_of(1, "fault.declared"),
    ),
)
