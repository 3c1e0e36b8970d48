"""Requests of the API under faults: a client repeats each with its idempotency key until it is acknowledged."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from atlas.engine.access.tokens import ensure_operator_token
from tests.faults.effects import note
from tests.faults.judge import Evidence
from tests.faults.program import Program
from tests.support import DANA, publish

TOKEN = "atl_faults_" + "0" * 32
REQUESTS = 3
# A request that has no response by then is repeated.
RESPONSE_SECONDS = 5.0


async def give_type(conn: Any) -> None:
    await publish(conn, "a.work")
    await ensure_operator_token(conn, TOKEN, actor=DANA)


async def send_requests(address: str, effects: Path) -> None:
    """Enqueue some jobs, one after the other."""
    for number in range(REQUESTS):
        headers = {"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": f"order-{number}"}
        while True:
            # A connection of its own: the program may be another process by now.
            try:
                async with httpx.AsyncClient(base_url=address, headers=headers, timeout=RESPONSE_SECONDS) as client:
                    response = await client.post("/api/v1/jobs", json={"job_type": "a.work", "input": {"n": number}})
            except httpx.TransportError:
                await asyncio.sleep(0.1)
                continue
            if response.is_success:
                break
            # What the server could not do now. Anything else would be refused again.
            assert response.status_code >= 500 or response.status_code in (409, 429), response.text
            await asyncio.sleep(0.1)
        note("acknowledged", path=effects, job_id=response.json()["id"], key=str(number))


async def acknowledged_once(evidence: Evidence) -> list[str]:
    """Each request that was acknowledged has made one job."""
    rows = await evidence.conn.fetch("select id::text, input->>'n' as number from atlas.jobs order by 2, 1")
    made = [(row["number"], row["id"]) for row in rows]
    promised = [(effect.key, effect.job_id) for effect in evidence.effects if effect.what == "acknowledged"]
    return [] if made == sorted(promised) else [f"acknowledged were {promised}, and there are {made}"]


API = Program(
    "api",
    ("api",),
    give_type,
    f"select count(*) >= {REQUESTS} from atlas.jobs",
    (acknowledged_once,),
    serves=True,
    drive=send_requests,
    settings={"ATLAS_OPERATOR_TOKEN": TOKEN, "ATLAS_GRACE_SECONDS": "1"},
)
