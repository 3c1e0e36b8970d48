"""Four eyes: whoever requested work does not decide about it, whatever the name of their token."""

from uuid import UUID

import pytest

from atlas.actors import Actor
from atlas.engine.tenants import Tenant
from atlas.engine.tokens import add_token
from atlas.engine.workflows.approvals import ask_for_reviews
from atlas.engine.workflows.declared.store import save_workflow
from tests.support import DANA


@pytest.fixture
async def pending(world, pool):
    """Ask for a workflow as someone, and the address of the approval that it waits for."""
    async with pool.acquire() as conn:
        document = {"key": "greet", "steps": [{"id": "wait", "sleep": "10m"}]}
        await save_workflow(conn, document, actor=DANA, tenant_id=world.acme.id)

    async def ask(client):
        asked = await client.post("/intents", json={"workflow": "greet"}, params={"tenant": "acme"})
        async with pool.acquire() as conn:
            await ask_for_reviews(conn, [(UUID(asked.json()["id"]), "the tests want it")])
            id = await conn.fetchval("select id from atlas.approvals where run_id = $1", UUID(asked.json()["id"]))
        return f"/approvals/{id}/decision"

    return ask


async def made_by(client, world, subject, **query):
    """A client with a token that another one made."""
    asked = {"subject": subject, "role": "tenant_admin"}
    made = await client.post("/tokens", json=asked, params=query)
    assert made.status_code == 201, made.text
    new = world.client("acme", "tenant_admin")
    new.headers["Authorization"] = f"Bearer {made.json()['token']}"
    return new


async def decide(client, place):
    return (await client.post(place, json={"approve": True})).status_code


async def test_a_token_that_descends_from_the_requesters_does_not_decide(world, admin, pending):
    first = await made_by(admin, world, "somebody")
    second = await made_by(first, world, "somebody else")
    place = await pending(admin)

    assert [await decide(client, place) for client in (admin, first, second)] == [409] * 3
    told = await second.post(place, json={"approve": True})
    assert "descends from theirs" in told.json()["detail"]
    assert await decide(world.client(), place) == 200


async def test_nor_does_one_that_an_operator_created_for_a_tenant(world, operator, admin, pending):
    made = await made_by(operator, world, "somebody", tenant="acme")

    assert await decide(made, await pending(operator)) == 409
    assert await decide(made, await pending(admin)) == 200


async def test_a_token_of_the_machine_itself_descends_from_no_other(world, conn, admin, pending):
    acme: Tenant = world.acme
    _, clear = await add_token(
        conn, subject="second", role="tenant_admin", tenant=acme, actor=Actor("user", "tenant_admin@acme")
    )
    second = world.client("acme", "tenant_admin")
    second.headers["Authorization"] = f"Bearer {clear}"

    assert await decide(second, await pending(admin)) == 200


async def test_a_tenants_token_cannot_have_the_name_of_an_operator(admin, operator):
    taken = await admin.post("/tokens", json={"subject": "operator@all", "role": "tenant_admin"})
    named = await operator.post("/tokens", json={"subject": "operator@all", "role": "operator"})

    assert (taken.status_code, named.status_code) == (409, 201)
    assert "acts for all tenants" in taken.json()["detail"]
