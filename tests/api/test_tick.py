"""A tick of the API runs what is due in its own process: mails, and requests for workflows with all their steps."""

from collections.abc import Iterator

import pytest

from atlas.api.app import create_app
from atlas.engine.jobs.handlers import types
from atlas.engine.workflows.declared.store import save_workflow
from atlas.settings import Settings
from atlas.workers.tick import Ticker
from tests.api.conftest import QUICK, furnish
from tests.support import DANA

MAIL = {"to": ["ann@example.org"], "subject": "Hello", "text": "Hello Ann"}


@pytest.fixture
def own_handlers() -> Iterator[None]:
    """What a tick registers is forgotten afterwards: other tests want a process without it."""
    before = dict(types._registry)
    yield
    types._registry.clear()
    types._registry.update(before)


@pytest.mark.parametrize("address", ["http://atlas.test/api/v1/jobs/tick", "http://atlas.test/api/jobs/tick"])
async def test_a_tick_sends_mails_and_runs_workflows(pool, database_url, tmp_path, own_handlers, address):
    settings = Settings(atlas_home=tmp_path, outbound_email_from="atlas@example.org")
    app = create_app(settings, pool, database_url, rates=QUICK, tick=Ticker(settings))
    world = await furnish(pool, app)
    async with pool.acquire() as conn:
        step = {"id": "mail", "job": "EMAIL_SEND", "with": {**MAIL, "subject": "From a run"}}
        await save_workflow(conn, {"key": "greet", "steps": [step]}, actor=DANA)
    admin, operator = world.client("acme", "tenant_admin"), world.client()
    assert (await admin.post("/jobs", json={"job_type": "EMAIL_SEND", "payload": MAIL})).status_code == 201
    assert (await admin.post("/intents", json={"workflow": "greet"})).status_code in (201, 202)
    first = (await operator.post(address, json={"limit": 1})).json()
    rest = (await operator.post(address, json={"limit": 50})).json()

    assert (first["ok"], first["ran"], sum(first["types"].values())) == (True, 1, 1)
    assert (rest["failed"], rest["closed"]) == (0, False)
    both = {key: first["types"].get(key, 0) + rest["types"].get(key, 0) for key in ("EMAIL_SEND", "ENGINE_RUN")}
    assert both["EMAIL_SEND"] == 2
    assert both["ENGINE_RUN"] >= 2  # until it waits for its mail, and to its end
    assert len(list(tmp_path.glob("outbox/*/*.eml"))) == 2
    assert await pool.fetchval("select count(*) from atlas.jobs where status <> 'succeeded'") == 0
