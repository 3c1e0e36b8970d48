"""One caller's documents hold the event loop for no one: the worst that pass the bounds are checked elsewhere."""

import asyncio
import time

import httpx
import pytest

import atlas.api.limits.helpers
from atlas.engine.templates import check_expressions
from tests.support import MAX_HOLD, watch_loop

# Without helpers these take 0.4 to 0.7 s each.
FILTERS = [f"{{{{ {number}" + " | d" * 20 + " }}" for number in range(180)]
SUMS = [f"{{{{ {number}" + "+1" * 30 + " }}" for number in range(220)]
SMALL = [f"{{{{ {number} }}}}" for number in range(1000)]
DENSE = [{"id": f"s{n}", "needs": [f"s{m}" for m in range(n)], "sleep": "1s"} for n in range(135)]
TRIGGER = {"label": "worst", "trigger_type": "event", "event_name": "x", "job_type": "x.work"}


def document(expressions):
    return {"document": {"key": "worst", "steps": [{"id": "a", "job": "x.work", "with": {"of": expressions}}]}}


@pytest.mark.long
async def test_health_stays_responsive_beside_four_worst_documents(server):
    assert not any(check_expressions(worst, "") for worst in (FILTERS, SUMS, SMALL))
    holds, tasks = [], []
    server.within(lambda: tasks.append(asyncio.ensure_future(watch_loop(holds))))

    def client(tenant, role):
        headers = server.world.headers(tenant, role)
        return httpx.AsyncClient(base_url=f"{server.address}/api/v1", headers=headers, timeout=60)

    async with client("acme", "tenant_admin") as acme, client("other", "tenant_admin") as other:
        async with client("all", "operator") as operator, client("all", "auditor") as auditor:
            template = {"payload_template": {"of": SMALL}}
            trigger = await acme.post("/jobs/triggers", json={**TRIGGER, **template})
            fire = f"/jobs/triggers/{trigger.json()['id']}/fire"
            busy = asyncio.gather(
                acme.post(fire, json={}),
                other.post("/workflows", json=document(FILTERS)),
                operator.post("/workflows/check", json=document(SUMS)),
                auditor.post("/workflows/check", json={"document": {"key": "worst", "steps": DENSE}}),
            )
            took = []
            while not busy.done():
                began = time.monotonic()
                assert (await auditor.get(f"{server.address}/healthz")).json() == {"ok": True}
                took.append(time.monotonic() - began)
                await asyncio.sleep(0.01)
            answers = await busy

    server.within(tasks[0].cancel)
    assert [answer.status_code for answer in answers] == [201, 201, 200, 200], [answer.text for answer in answers]
    assert [answer.json()["ok"] for answer in answers[2:]] == [True, True]
    print(f"longest hold {max(holds) * 1000:.0f} ms, slowest of {len(took)} /healthz {max(took) * 1000:.0f} ms")
    assert max(holds) < MAX_HOLD


async def test_a_caller_has_one_document_checked_at_a_time_and_others_go_on(world, monkeypatch):
    monkeypatch.setattr(atlas.api.limits.helpers, "WAIT_SECONDS", 0.01)
    acme, other = world.client("acme", "auditor"), world.client("other", "auditor")
    began, answered = hold_the_next_call(world.app.state.api.helper_shares, monkeypatch)
    checking = asyncio.create_task(acme.post("/workflows/check", json=document([])))
    await began.wait()
    second = await acme.post("/workflows/check", json=document([]))
    theirs = await other.post("/workflows/check", json=document(["{{ input.n }}"]))
    answered.set()

    assert ((await checking).status_code, theirs.status_code) == (200, 200)
    assert second.status_code == 429
    assert second.headers["retry-after"] == "2"
    assert "Try again" in second.json()["remedy"]


def hold_the_next_call(shares, monkeypatch):
    """Two events: the next call of a helper has begun, and may go on."""
    began, may_go_on, run = asyncio.Event(), asyncio.Event(), shares._run

    async def held(*arguments, **options):
        monkeypatch.setattr(shares, "_run", run)
        began.set()
        await may_go_on.wait()
        return await run(*arguments, **options)

    monkeypatch.setattr(shares, "_run", held)
    return began, may_go_on
