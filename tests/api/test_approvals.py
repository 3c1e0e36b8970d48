"""Approvals over HTTP: exactly what is decided about, whether the caller may, and the version that a run keeps."""

from uuid import UUID

import pytest

from atlas.engine.workflows.intents import take_intents
from tests.support import given_review


@pytest.fixture
async def review(admin, pool):
    """An intent of a declared workflow that waits for a person; returns its id."""
    document = {"key": "greet", "steps": [{"id": "wait", "sleep": "10m"}]}
    assert (await admin.post("/workflows", json={"document": document})).status_code == 201
    asked = await admin.post("/intents", json={"workflow": "greet", "input": {"to": "ann", "cents": 900}})
    async with pool.acquire() as conn:
        await given_review(conn, UUID(asked.json()["id"]), "it costs much")
    return asked.json()["id"]


async def test_an_approval_shows_what_is_decided_and_who_may(review, world, admin, operator):
    [own] = (await admin.get("/approvals")).json()["items"]
    [theirs] = (await operator.get("/approvals")).json()["items"]
    auditor = world.client("acme", "auditor")
    [read_only] = (await auditor.get("/approvals")).json()["items"]

    assert (own["workflow"], own["input"], own["detail"]) == (
        "greet",
        {"to": "ann", "cents": 900},
        {"reason": "it costs much"},
    )
    assert [one["may_decide"] for one in (own, theirs, read_only)] == [False, True, False]  # its requester may not
    assert (await operator.get(f"/approvals/{own['id']}")).json() == theirs
    assert [(await client.get("/approvals/summary")).json() for client in (admin, auditor)] == [{"pending": 1}] * 2
    assert (await world.client("other", "auditor").get("/approvals/summary")).json() == {"pending": 0}
    await operator.post(f"/approvals/{own['id']}/decision", json={"approve": True, "input_hash": own["input_hash"]})
    assert (await admin.get("/approvals/summary")).json() == {"pending": 0}
    assert not (await operator.get(f"/approvals/{own['id']}")).json()["may_decide"]


async def test_a_step_that_asks_shows_the_input_of_its_run(conn, admin, operator, pool):
    document = {"key": "pay", "steps": [{"id": "ask", "approval": "Pay?"}]}
    await admin.post("/workflows", json={"document": document})
    asked = await admin.post("/intents", json={"workflow": "pay", "input": {"cents": 4711}})
    async with pool.acquire() as taking:
        await take_intents(taking, "tests")
    run = UUID(asked.json()["id"])
    await conn.execute(
        """insert into atlas.approvals (tenant_id, run_id, kind, step, title, input_hash, requested_by, expires_at)
        select tenant_id, id, 'step', 'ask', 'Pay?', sha256(convert_to((input->'input')::text || '{}', 'UTF8')), 'someone',
          now() + interval '1 hour' from atlas.jobs where id = $1""",
        run,
    )
    [shown] = (await admin.get("/approvals")).json()["items"]

    assert (shown["kind"], shown["workflow"], shown["input"], shown["may_decide"]) == (
        "step",
        "pay",
        {"cents": 4711},
        True,
    )


async def test_a_run_shows_the_version_of_its_workflow_that_it_keeps(review, admin, operator, pool):
    run = (await admin.post("/intents", json={"workflow": "greet"})).json()["id"]
    async with pool.acquire() as conn:
        await take_intents(conn, "tests")
    newer = {"key": "greet", "steps": [{"id": "wait", "sleep": "20m"}]}
    await admin.post("/workflows", json={"document": newer})
    kept = (await admin.get(f"/runs/{run}/workflow")).json()

    assert (kept["version"], kept["document"]["steps"][0]["sleep"]) == (1, "10m")
    assert (await admin.get("/workflows/greet")).json()["version"] == 2


async def test_a_rule_is_edited_and_the_edit_is_recorded(operator, admin, conn):
    await operator.post("/policies", json={"label": "Many", "effect": "review", "runs_per_day": 5})
    edited = await operator.patch("/policies/Many", json={"effect": "block", "runs_per_day": None, "workflow": "pay*"})
    event = await conn.fetchrow("select * from atlas.audit_log where action = 'POLICY_EDITED'")

    assert edited.status_code == 200, edited.text
    assert (edited.json()["effect"], edited.json()["runs_per_day"], edited.json()["workflow"]) == (
        "block",
        None,
        "pay*",
    )
    assert (await admin.get("/policies/Many")).json() == edited.json()
    assert '"effect": "block"' in event["meta"]
    assert (await operator.patch("/policies/Many", json={"effect": "perhaps"})).status_code == 422
    assert (await operator.patch("/policies/Few", json={"effect": "allow"})).status_code == 404
    assert (
        await operator.patch("/policies/Many", params={"tenant": "acme"}, json={"effect": "allow"})
    ).status_code == 404


async def test_a_tenant_shows_the_days_that_hold_where_none_are_set(operator, admin):
    await operator.patch("/tenants/acme", json={"retention": {"jobs": 7, "events": None}})
    shown = (await admin.get("/tenants/acme")).json()

    assert shown["retention"] == {"jobs": 7, "events": None}
    assert shown["retention_days"] == {"jobs": 7, "attempts": 30, "events": None, "steps": 30, "recurring": 30}
    assert (await admin.get("/tenants")).json()["items"] == [shown]
