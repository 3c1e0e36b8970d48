"""What is refused leaves an event: wrong credentials, counted by address, and decisions that someone may not make."""

from uuid import UUID

from atlas.engine.workflows.declared.store import save_workflow
from tests.support import DANA, given_review


async def test_wrong_credentials_are_one_event_an_address_with_their_count(world, pool):
    client = world.client()
    client.headers["Authorization"] = "Bearer atl_wrong"
    for number in range(3):
        client.headers["Authorization"] = f"Bearer atl_wrong{number}"
        assert (await client.get("/jobs")).status_code == 401
    callers = world.app.state.api.callers
    await callers.refused.record(world.app.state.api.db)
    await callers.refused.record(world.app.state.api.db)  # nothing came since

    rows = await pool.fetch("select entity_id, meta::text from atlas.audit_log where action = 'CREDENTIALS_REFUSED'")
    assert [tuple(row) for row in rows] == [("10.1.2.3", '{"count": 3}')]


async def test_many_addresses_share_one_event(world, pool):
    refused = world.app.state.api.callers.refused
    for number in range(200):
        refused.count(f"10.9.8.{number}")
    await refused.record(world.app.state.api.db)

    rows = await pool.fetch(
        "select entity_id, (meta->>'count')::int as count from atlas.audit_log where action = 'CREDENTIALS_REFUSED'"
    )
    counts = {row["entity_id"]: row["count"] for row in rows}
    assert (len(counts), counts["others"], sum(counts.values())) == (51, 150, 200)


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
