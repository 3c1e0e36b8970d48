"""Capabilities that guard what starts: secrets, programs that an allow-list names, and requests that a person reviews."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from atlas.db.pool import connect
from atlas.engine.commands.definitions import add_definition
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.typed_job import job
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.policy.rules import add_rule
from atlas.engine.workflows.approvals import decide_approval, list_approvals
from atlas.engine.workflows.intents import request_workflow
from atlas.engine.workflows.registry import workflow
from atlas.engine.workflows.run_context import Run
from tests.faults.capability import Capability, Marked, runs_of
from tests.faults.deliveries import put_key, using_key
from tests.faults.flows import ended_as
from tests.faults.judge import Evidence
from tests.faults.steering import APPROVER, until_done
from tests.support import DANA

COUNT = 2
SAY = "say.word"
CARD = "4111-1111-1111-1111"
COMMAND = {
    "key": SAY,
    "argv": ["/bin/echo", "--", "{{ word }}"],
    "arg_schema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    "max_retries": 20,
    "retry_policy": {"base": 0.3, "factor": 1, "jitter": 0},
}
WORDS = ["one", "two"]
SAID = """
select j.status::text, r.stdout_tail from atlas.jobs j
join atlas.job_runs r on r.job_id = j.id and r.attempt_no = j.attempt_count where j.job_type = $1"""


async def give_nothing(conn: Any) -> None:
    """What is given needs the folder of the case."""


# Secrets.


class Card(BaseModel):
    """The input of a job with a secret."""

    number: str = Field(json_schema_extra={"x-secret": True})


@job("fault.secret")
async def secret(input: Card, ctx: JobContext) -> None:
    """Gets the secret in clear."""
    async with Marked("fault.secret", ctx):
        if input.number != CARD:
            raise ValueError("another card")


@asynccontextmanager
async def enqueuing_secrets(url: str, folder: Path) -> AsyncIterator[None]:
    """Enqueue jobs with a secret."""
    conn = await connect(url)
    await publish_types(conn, [registered()["fault.secret"]])
    with using_key(put_key(folder)):
        await enqueue_many(conn, [NewJob("fault.secret", {"number": CARD}) for _ in range(COUNT)], actor=DANA)
    await conn.close()
    yield


async def secrets_stay_secret(evidence: Evidence) -> list[str]:
    """The clear value is in no row that people or auditors read."""
    places = {
        "a job": "select count(*) from atlas.jobs j where j::text like $1",
        "an attempt": "select count(*) from atlas.job_attempts a where a::text like $1",
        "the audit log": "select count(*) from atlas.audit_log where convert_from(body, 'utf8') like $1",
    }
    return [
        f"a secret is in {place}" for place, sql in places.items() if await evidence.conn.fetchval(sql, f"%{CARD}%")
    ]


# Programs.


async def give_commands(conn: Any) -> None:
    await add_definition(conn, COMMAND, actor=DANA)
    await enqueue_many(conn, [NewJob(SAY, {"word": word}) for word in WORDS], actor=DANA)


async def each_word_is_said(evidence: Evidence) -> list[str]:
    """Every program has run, and its job ended with what it printed."""
    rows = await evidence.conn.fetch(SAID, SAY)
    said = sorted(tuple(row) for row in rows)
    return [] if said == [("succeeded", f"-- {word}\n") for word in WORDS] else [f"the programs said {said}"]


# A request that a person reviews.


@workflow("fault.reviewed")
async def reviewed(run: Run, input: dict[str, Any]) -> str:
    """Runs when it was approved."""
    return "ran"


async def give_reviewed(conn: Any) -> None:
    await add_rule(conn, label="look", effect="review", workflow="fault.reviewed", actor=DANA)
    await request_workflow(conn, SYSTEM_TENANT, "fault.reviewed", {}, DANA, allow_unknown=True)


@asynccontextmanager
async def reviewing(url: str, folder: Path) -> AsyncIterator[None]:
    """Approve the request, as soon as the engine asks for it."""
    task = asyncio.create_task(until_done(url, _approve_reviews))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _approve_reviews(conn: Any) -> bool:
    asked = [approval for approval in await list_approvals(conn, status="pending") if approval.kind == "intent"]
    for one in asked:
        await decide_approval(conn, one.id, True, actor=APPROVER)
    return bool(asked)


async def reviewed_once(evidence: Evidence) -> list[str]:
    rows = await evidence.conn.fetch("select status::text from atlas.approvals where kind = 'intent'")
    found = [row["status"] for row in rows]
    broken = [] if found == ["approved"] else [f"the reviews are {found}"]
    return broken + await ended_as(evidence, [("succeeded", '"ran"')], "fault.reviewed")


GUARDED = (
    Capability("secrets", give_nothing, (secrets_stay_secret,), enqueuing_secrets, types=("fault.secret",)),
    Capability("commands", give_commands, (each_word_is_said,), types=(SAY,)),
    Capability(
        "a review",
        give_reviewed,
        (reviewed_once,),
        reviewing,
        types=("ENGINE_RUN",),
        done=runs_of(1, "fault.reviewed"),
    ),
)
