"""Machines that lease jobs over HTTP: a remote worker, and a host. They ask and report again until there is a response."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from atlas.db.pool import connect
from atlas.engine.access.tokens import add_token
from atlas.engine.hosts.hosts import add_host
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.tenants.tenants import find_tenant
from tests.faults.capability import Capability
from tests.faults.clients import ADDRESS, REST_SECONDS
from tests.faults.effects import note
from tests.faults.judge import Evidence, Law
from tests.support import DANA, given_tenant

COUNT = 6
# Lost responses cost a lease and an attempt each.
RETRIES = {"max_retries": 20, "allow_unknown": True}
REPORTED = (200, 404, 409)
TENANT = "remote"


async def give_nothing(conn: Any) -> None:
    """The jobs are enqueued when there is a machine for them."""


@asynccontextmanager
async def working_remotely(url: str, folder: Path) -> AsyncIterator[None]:
    """A remote worker of a tenant."""
    conn = await connect(url)
    tenant_id = await given_tenant(conn, TENANT)
    tenant = await find_tenant(conn, TENANT)
    _, clear = await add_token(
        conn, subject="remote", role="worker", tenant=tenant, scopes={"job_types": ["fault.remote"]}, actor=DANA
    )
    jobs = [NewJob("fault.remote", {"n": n}, tenant_id, **RETRIES) for n in range(COUNT)]
    await enqueue_many(conn, jobs, actor=DANA)
    await conn.close()

    async def turn(client: httpx.AsyncClient) -> None:
        response = await client.post("/worker/jobs/claim", json={"job_types": ["fault.remote"], "limit": 2})
        response.raise_for_status()
        for item in response.json()["items"]:
            _note(folder, "fault.remote", item["job_id"], item["attempt"])
            body = {"attempt": item["attempt"], "output": {}}
            await _report(client, f"/worker/jobs/{item['job_id']}/complete", body)

    async with _machine(folder, clear, turn):
        yield


@asynccontextmanager
async def working_on_a_host(url: str, folder: Path) -> AsyncIterator[None]:
    """The agent of a host."""
    conn = await connect(url)
    tenant_id = await given_tenant(conn, "racks")
    tenant = await find_tenant(conn, "racks")
    host = await add_host(conn, tenant_id=tenant_id, name="rack", actor=DANA)
    _, clear = await add_token(
        conn, subject="rack", role="host", tenant=tenant, scopes={"host_id": str(host.id)}, actor=DANA
    )
    jobs = [NewJob("fault.hosted", {"n": n}, tenant_id, host_id=host.id, **RETRIES) for n in range(COUNT)]
    await enqueue_many(conn, jobs, actor=DANA)
    await conn.close()
    place = f"/agent/hosts/{host.id}/jobs"

    async def turn(client: httpx.AsyncClient) -> None:
        response = await client.get(place, params={"wait": 1})
        response.raise_for_status()
        if response.status_code == httpx.codes.OK:
            item = response.json()
            _note(folder, "fault.hosted", item["job_id"], item["lease"])
            body = {"lease": item["lease"], "status": "succeeded", "output": {}}
            await _report(client, f"{place}/{item['job_id']}/result", body)

    async with _machine(folder, clear, turn):
        yield


@asynccontextmanager
async def _machine(folder: Path, token: str, turn: Callable[[httpx.AsyncClient], Any]) -> AsyncIterator[None]:
    """Take turns for as long as the block."""

    async def work() -> None:
        while not (folder / ADDRESS).exists():
            await asyncio.sleep(REST_SECONDS)
        base = f"{(folder / ADDRESS).read_text()}/api/v1"
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=20) as client:
            while True:
                with suppress(httpx.HTTPError):
                    await turn(client)
                await asyncio.sleep(REST_SECONDS)

    task = asyncio.create_task(work())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _note(folder: Path, kind: str, job_id: str, attempt: int) -> None:
    """The machine's clock is not the server's: when it began says nothing about the gate."""
    for what in ("leased", "end"):
        note(what, path=folder / "effects", kind=kind, job_id=job_id, attempt=attempt)


async def _report(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    while True:
        with suppress(httpx.HTTPError):
            if (await client.post(path, json=body)).status_code in REPORTED:
                return
        await asyncio.sleep(REST_SECONDS)


def leased_once(kind: str) -> Law:
    """Every attempt is given to a machine once."""

    async def law(evidence: Evidence) -> list[str]:
        leased = Counter(
            (effect.job_id, effect.attempt)
            for effect in evidence.effects
            if (effect.what, effect.kind) == ("leased", kind)
        )
        jobs = {job_id for job_id, _ in leased}
        broken = [] if len(jobs) == COUNT else [f"{len(jobs)} {kind} jobs were leased instead of {COUNT}"]
        return broken + [
            f"attempt {attempt} of job {job_id} ({kind}) was given out {count} times"
            for (job_id, attempt), count in leased.items()
            if count > 1
        ]

    return law


def _leases(name: str, kind: str, beside: Any) -> Capability:
    done = f"select count(*) = {COUNT} from atlas.jobs where job_type = '{kind}'"
    return Capability(name, give_nothing, (leased_once(kind),), beside, done=done, needs_installation=True)


LEASES = (
    _leases("a remote worker", "fault.remote", working_remotely),
    _leases("a host", "fault.hosted", working_on_a_host),
)
