"""What is refused leaves an event: wrong credentials and calls, counted, and decisions that someone may not make."""

from types import SimpleNamespace
from uuid import UUID, uuid4

from atlas.api.access.authentication import Caller
from atlas.engine.workflows.declared.store import save_workflow
from tests.support import DANA, given_review


async def test_wrong_credentials_are_one_event_an_address_with_their_count(world, pool):
    client = world.client()
    client.headers["Authorization"] = "Bearer atl_wrong"
    for number in range(3):
        client.headers["Authorization"] = f"Bearer atl_wrong{number}"
        assert (await client.get("/jobs")).status_code == 401
    await world.app.state.api.record_refusals()
    await world.app.state.api.record_refusals()  # nothing came since

    rows = await pool.fetch(
        "select p.value, a.entity_id = encode(p.commitment, 'hex') as named, (a.meta->>'count')::int as count"
        " from atlas.audit_log a left join atlas.audit_private p on encode(p.commitment, 'hex') = a.meta->'ip'->>'commitment'"
        " where a.action = 'CREDENTIALS_REFUSED'"
    )
    assert [tuple(row) for row in rows] == [("10.1.2.3", True, 3)]


async def test_many_addresses_share_one_event(world, pool):
    for number in range(200):
        world.app.state.api.callers.refused.count(f"10.9.8.{number}")
    await world.app.state.api.record_refusals()

    rows = await pool.fetch(
        "select entity_id, (meta->>'count')::int as count from atlas.audit_log where action = 'CREDENTIALS_REFUSED'"
    )
    counts = {row["entity_id"]: row["count"] for row in rows}
    assert (len(counts), counts["others"], sum(counts.values())) == (51, 150, 200)


async def test_calls_that_a_credential_may_not_make_are_one_event_a_route_with_their_count(world, pool):
    client = world.client("acme", "enqueuer")
    for _ in range(3):
        assert (await client.get("/tokens")).status_code == 403
    assert (await client.delete(f"/tokens/{world.ids['acme', 'auditor']}")).status_code == 403
    await world.app.state.api.record_refusals()
    await world.app.state.api.record_refusals()  # nothing came since

    rows = await pool.fetch(
        "select actor_id, tenant_id, entity_id, meta->>'route' as route, (meta->>'count')::int as count, meta->>'token' as token"
        " from atlas.audit_log where action = 'CALLS_REFUSED' order by id"
    )
    who = ("enqueuer@acme", world.acme.id, str(world.ids["acme", "enqueuer"]))
    prefix = world.tokens["acme", "enqueuer"].split("_")[1]
    assert [tuple(row) for row in rows] == [
        (*who, "GET /api/v1/tokens", 3, prefix),
        (*who, "DELETE /api/v1/tokens/{token_id}", 1, prefix),
    ]


async def test_a_flood_of_refused_calls_does_not_flood_the_audit_log(world, pool):
    caller = (await world.app.state.api.callers.by_token(world.tokens["acme", "enqueuer"], None)).token
    calls = world.app.state.api.refused_calls
    for credential in range(300):
        token = caller.model_copy(update={"id": uuid4(), "subject": f"program {credential}"})
        for number in range(5):
            route = SimpleNamespace(path_format=f"/api/v1/{credential}/{number}")
            calls.count({"atlas.caller": Caller(token), "method": "GET", "route": route})
    await world.app.state.api.record_refusals()

    rows = await pool.fetch("select (meta->>'count')::int as count from atlas.audit_log where action = 'CALLS_REFUSED'")
    assert len(rows) <= 151
    assert sum(row["count"] for row in rows) == 1500


async def test_a_decision_that_is_refused_is_recorded(world, admin, pool):
    async with pool.acquire() as conn:
        document = {"key": "greet", "steps": [{"id": "wait", "sleep": "10m"}]}
        await save_workflow(conn, document, actor=DANA, tenant_id=world.acme.id)
    asked = await admin.post("/intents", json={"workflow": "greet"})
    async with pool.acquire() as conn:
        await given_review(conn, UUID(asked.json()["id"]))
    id = await pool.fetchval("select id from atlas.approvals")
    refused = await admin.post(f"/approvals/{id}/decision", json={"approve": True})
    assert refused.status_code in (403, 409), refused.text

    [row] = await pool.fetch("select tenant_id, entity_id from atlas.audit_log where action = 'DECISION_REFUSED'")
    assert tuple(row) == (world.acme.id, str(id))
