"""Clients of the API: they enqueue over HTTP, and send a request again until there is a response."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from atlas.engine.access.tokens import ensure_operator_token
from atlas.engine.jobs.handlers.context import JobContext
from atlas.engine.jobs.handlers.typed_job import job
from tests.faults.capability import Capability, Marked
from tests.faults.effects import note
from tests.faults.judge import Evidence
from tests.support import DANA, publish

TOKEN = "the operator of the storm's clients"
# In the folder of a storm: the address of its API.
ADDRESS = "api.address"
COUNT = 60
REST_SECONDS = 0.3


@job("fault.requested")
async def requested(input: dict[str, Any], ctx: JobContext) -> None:
    """Enqueued by a client."""
    async with Marked("fault.requested", ctx):
        pass


async def give_token(conn: Any) -> None:
    await publish(conn, "fault.requested")
    await ensure_operator_token(conn, TOKEN, actor=DANA)


@asynccontextmanager
async def requesting(url: str, folder: Path) -> AsyncIterator[None]:
    """Send the requests, one after another."""
    task = asyncio.create_task(_request_all(folder))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _request_all(folder: Path) -> None:
    while not (folder / ADDRESS).exists():
        await asyncio.sleep(REST_SECONDS)
    base = (folder / ADDRESS).read_text()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=20) as client:
        for number in range(COUNT):
            job_id = await _request(client, number)
            note("accepted", path=folder / "effects", key=str(number), job_id=job_id)
            await asyncio.sleep(REST_SECONDS)


async def _request(client: httpx.AsyncClient, number: int) -> str:
    """Enqueue a job; the key says that it is the same request, sent again."""
    body = {"job_type": "fault.requested", "payload": {"request": number}}
    while True:
        with suppress(httpx.HTTPError):
            response = await client.post("/api/v1/jobs", json=body, headers={"Idempotency-Key": f"request {number}"})
            if response.is_success:
                return str(response.json()["id"])
        await asyncio.sleep(REST_SECONDS)


async def each_request_has_one_job(evidence: Evidence) -> list[str]:
    """A request made one job, however often it was sent, and that is the one in the response."""
    accepted = {effect.key: effect.job_id for effect in evidence.effects if effect.what == "accepted"}
    rows = await evidence.conn.fetch(
        "select input::jsonb->>'request' as request, array_agg(id::text) as ids from atlas.jobs"
        " where job_type = 'fault.requested' group by 1"
    )
    made = {row["request"]: row["ids"] for row in rows}
    broken = [] if len(accepted) == COUNT else [f"{len(accepted)} of {COUNT} requests were accepted"]
    return broken + [
        f"request {number} has the jobs {made.get(number)}, and {accepted.get(number)} was in the response"
        for number in sorted(accepted.keys() | made.keys())
        if made.get(number) != [accepted.get(number)]
    ]


CLIENTS = Capability(
    "requests to the API",
    give_token,
    (each_request_has_one_job,),
    requesting,
    types=("fault.requested",),
    done=f"select count(*) >= {COUNT} from atlas.jobs where job_type = 'fault.requested'",
    needs_installation=True,
)
