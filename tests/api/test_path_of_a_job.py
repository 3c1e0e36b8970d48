"""`POST /jobs` runs through few files of Atlas on its way to the audit row."""

import math
import sys
from collections import defaultdict
from pathlib import Path

from atlas.api.app import create_app
from tests.api.conftest import QUICK, furnish
from tests.pgbouncer import without_pooler

ROOT = Path(__file__).parent.parent.parent
MAX_FILES = 30
BODY = {"job_type": "x.work", "payload": {"n": 1}}
WITH_SCHEMA = """
update atlas.job_types set input_schema = '{"properties": {"n": {"type": "integer"}}, "required": ["n"]}' where key = 'x.work'
"""


def files_and_functions(note):
    """A profiler that notes every function of Atlas that is called, by its file."""

    def profile(frame, event, _argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] not in (".venv", "tests"):
            note[str(path.relative_to(ROOT))].add(frame.f_code.co_qualname)

    return profile


@without_pooler("its connections are one file more")
async def test_a_job_passes_few_files_from_the_request_to_its_audit_row(pool, database_url, settings, monkeypatch):
    # A request that was slow on a busy machine is logged, which is no part of its way.
    monkeypatch.setattr("atlas.api.http.middleware.SLOW_SECONDS", math.inf)
    await pool.execute(WITH_SCHEMA)
    # Not started, so that no listener runs beside the request.
    world = await furnish(pool, create_app(settings, pool, database_url, rates=QUICK))
    client = world.client("acme", "enqueuer")
    # Connections that the request finds open: opening one is not on its way.
    async with pool.acquire(), pool.acquire(), pool.acquire():
        pass
    assert (await client.post("/jobs", json=BODY)).status_code == 201
    ran = defaultdict(set)

    sys.setprofile(files_and_functions(ran))
    try:
        response = await client.post("/jobs", json=BODY)
    finally:
        sys.setprofile(None)

    for file, functions in sorted(ran.items()):
        print(file, *sorted(functions))
    assert response.status_code == 201
    rows = await world.client("acme", "auditor").get("/audit", params={"entity_id": response.json()["id"]})
    assert [row["action"] for row in rows.json()["items"]] == ["JOB_CREATED"]
    assert "engine/schemas.py" in ran
    assert len(ran) <= MAX_FILES, sorted(ran)
