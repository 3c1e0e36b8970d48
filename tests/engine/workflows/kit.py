"""What tests of workflows need: an Atlas that is online, runs asked for and driven to rest, time that passes."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson

import atlas.workers.workflows  # registers ENGINE_RUN
from atlas.actors import Actor, system
from atlas.db.pool import Pool
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.workflows.find_runs import get_run, list_steps
from atlas.engine.workflows.intents import request_workflow, take_intents
from atlas.engine.workflows.steps.history import StepCheckpoint
from atlas.models.workflows import RunStep, WorkflowRun
from atlas.workers.worker import Worker, WorkerOptions

assert atlas.workers.workflows
REQUESTER = Actor("user", "ada")
APPROVER = Actor("user", "grace")


def first_step(run_id: UUID, attempt: int) -> StepCheckpoint:
    """How the first step of a run ended in one of its attempts."""
    return StepCheckpoint(
        run_id,
        attempt,
        branch="",
        position=0,
        name="a",
        kind="step",
        status="succeeded",
        attempts=1,
        seconds=0.0,
        input=None,
        output="1",
        error=None,
        known=None,
        reset=False,
    )


class Kit:
    """One Atlas for one test."""

    def __init__(self, pool: Pool, url: str) -> None:
        self.pool = pool
        self.url = url

    async def online(self, online: bool = True) -> None:
        async with self.pool.acquire() as conn:
            await switch(conn, online=online, actor=system("test"))

    async def ask(self, workflow: str, input: Mapping[str, Any] | None = None, **options: Any) -> UUID:
        """Ask for a run; nothing happens before `tick`."""
        async with self.pool.acquire() as conn:
            asked = {"allow_unknown": True, **options}
            return await request_workflow(conn, SYSTEM_TENANT, workflow, input, REQUESTER, **asked)

    async def tick(self) -> None:
        """Let the engine poll for intents."""
        async with self.pool.acquire() as conn:
            while (await take_intents(conn, "engine")).claimed:
                pass

    async def work(self, concurrency: int = 50) -> None:
        """Run all that is due, and what becomes due by it."""
        # Not the types of other tests: a worker publishes each that it serves.
        served = sorted(key for key in registered() if "." not in key or key.startswith("wf."))
        options = WorkerOptions(served, concurrency=concurrency, poll=0.2, lease=60, drain=True)
        # Nothing comes from outside, and the session that listens takes a quarter of the time of a worker.
        await Worker(self.pool, self.url, options, listen=False).run()

    async def run(self, workflow: str, input: Mapping[str, Any] | None = None, **options: Any) -> WorkflowRun:
        """Ask for a run and work until nothing is due."""
        run_id = await self.ask(workflow, input, **options)
        await self.tick()
        await self.work()
        return await self.get(run_id)

    async def get(self, run_id: UUID) -> WorkflowRun:
        run = await get_run(self.pool, run_id)
        assert run is not None
        return run

    async def steps(self, run_id: UUID) -> dict[str, RunStep]:
        return {step.key: step for step in await list_steps(self.pool, run_id)}

    async def pass_time(self, time: timedelta) -> None:
        """Everything that waits for a time waits so much less."""
        async with self.pool.acquire() as conn, conn.transaction():
            await conn.execute("update atlas.workflow_steps set wake_at = wake_at - $1::interval", time)
            await conn.execute("update atlas.approvals set expires_at = expires_at - $1::interval", time)
            await conn.execute(
                "update atlas.jobs set next_retry_at = next_retry_at - $1::interval where next_retry_at < '9000-01-01'",
                time,
            )

    async def actions(self, entity_id: UUID | None = None) -> list[str]:
        """The audited actions, in order."""
        rows = await self.pool.fetch(
            "select action from atlas.audit_log where $1::text is null or entity_id = $1 order by id",
            None if entity_id is None else str(entity_id),
        )
        return [row["action"] for row in rows]


def read_json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)
