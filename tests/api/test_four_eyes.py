"""Four eyes: those who request work do not decide about it, whatever the name of their token."""

from uuid import UUID

import pytest

from atlas.actors import Actor
from atlas.engine.access.tokens import add_token
from atlas.engine.workflows.declared.store import save_workflow
from atlas.models.tenants import Tenant
from tests.support import DANA, given_review


@pytest.fixture
async def pending(world, pool):
    """Ask for a workflow as someone, and the address of the approval that it waits for."""
    async with pool.acquire() as conn:
        document = {"key": "greet", "steps": [{"id": "wait", "sleep": "10m"}]}
        await save_workflow(conn, document, actor=DANA, tenant_id=world.acme.id)

    async def ask(client):
        asked = await client.post("/intents", json={"workflow": "greet"}, params={"tenant": "acme"})
        async with pool.acquire() as conn:
            await given_review(conn, UUID(asked.json()["id"]))
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


async def test_tokens_that_go_back_to_the_requesters_do_not_decide(world, admin, pending):
    first = await made_by(admin, world, "somebody")
    second = await made_by(first, world, "somebody else")
    place = await pending(admin)

    assert [await decide(client, place) for client in (admin, first, second)] == [409] * 3
    refused = await second.post(place, json={"approve": True})
    assert "they count as one person" in refused.json()["detail"]
    assert await decide(world.client(), place) == 200


async def test_nor_do_those_that_the_requesters_goes_back_to(world, admin, pending):
    first = await made_by(admin, world, "somebody")
    second = await made_by(first, world, "somebody else")
    place = await pending(second)

    assert [await decide(client, place) for client in (first, admin)] == [409] * 2
    assert await decide(world.client(), place) == 200


async def test_nor_do_those_that_the_same_one_made(world, operator, admin, pending):
    one, other = [await made_by(admin, world, name) for name in ("one", "other")]
    under_other = await made_by(other, world, "under other")

    assert [await decide(client, await pending(one)) for client in (other, under_other)] == [409] * 2
    assert await decide(operator, await pending(one)) == 200


async def test_nor_do_tokens_that_an_operator_created_for_a_tenant(world, operator, admin, pending):
    one, other = [await made_by(operator, world, name, tenant="acme") for name in ("one", "other")]

    assert await decide(one, await pending(operator)) == 409
    assert await decide(operator, await pending(one)) == 409
    assert await decide(other, await pending(one)) == 409
    assert await decide(one, await pending(admin)) == 200


async def test_two_tokens_of_one_subject_are_one_person_and_so_is_what_each_made(world, conn, admin, pending):
    _, clear = await add_token(conn, subject="tenant_admin@acme", role="tenant_admin", tenant=world.acme, actor=DANA)
    spare = world.client("acme", "tenant_admin")
    spare.headers["Authorization"] = f"Bearer {clear}"
    one, other = await made_by(admin, world, "one"), await made_by(spare, world, "other")

    assert await decide(other, await pending(one)) == 409
    assert await decide(spare, await pending(one)) == 409


async def test_a_revoked_token_still_counts(world, admin, pending, owner):
    one, other = [await made_by(admin, world, name) for name in ("one", "other")]
    place = await pending(one)
    await owner.execute("update atlas.api_tokens set revoked_at = now() where subject in ('one', 'tenant_admin@acme')")

    assert await decide(other, place) == 409


async def test_the_same_name_in_another_tenant_is_another_person(world, conn, admin, pending):
    _, clear = await add_token(conn, subject="somebody", role="tenant_admin", tenant=world.other, actor=DANA)
    elsewhere = world.client("other", "tenant_admin")
    elsewhere.headers["Authorization"] = f"Bearer {clear}"
    await made_by(elsewhere, world, "tenant_admin@acme")
    _, clear = await add_token(conn, subject="somebody", role="tenant_admin", tenant=world.acme, actor=DANA)
    here = world.client("acme", "tenant_admin")
    here.headers["Authorization"] = f"Bearer {clear}"

    assert await decide(here, await pending(admin)) == 200


async def test_people_who_made_a_worker_of_the_same_name_stay_two(world, conn, admin, pending):
    _, clear = await add_token(conn, subject="second", role="tenant_admin", tenant=world.acme, actor=DANA)
    second = world.client("acme", "tenant_admin")
    second.headers["Authorization"] = f"Bearer {clear}"
    await made_by(admin, world, "billing")
    await made_by(second, world, "billing")

    assert await decide(second, await pending(admin)) == 200


async def test_a_token_of_the_machine_itself_descends_from_no_other(world, conn, admin, pending):
    acme: Tenant = world.acme
    _, clear = await add_token(
        conn, subject="second", role="tenant_admin", tenant=acme, actor=Actor("user", "tenant_admin@acme")
    )
    second = world.client("acme", "tenant_admin")
    second.headers["Authorization"] = f"Bearer {clear}"

    assert await decide(second, await pending(admin)) == 200


@pytest.mark.parametrize("subject", ["operator@all", "Operator@All", "operator@a1l", "0perator all", "орerator@all"])
async def test_a_tenants_token_cannot_have_a_name_that_reads_like_an_operators(admin, operator, subject):
    asked = {"subject": subject, "role": "tenant_admin"}

    by_tenant = await admin.post("/tokens", json=asked)
    by_operator = await operator.post("/tokens", json=asked, params={"tenant": "acme"})

    assert by_tenant.status_code == by_operator.status_code
    assert by_tenant.status_code in (409, 422)
    assert "acts for all tenants" in by_tenant.json()["detail"] or "mixes letters" in by_tenant.json()["detail"]


async def test_an_operators_second_token_has_their_name(operator):
    named = await operator.post("/tokens", json={"subject": "operator@all", "role": "operator"})

    assert named.status_code == 201
