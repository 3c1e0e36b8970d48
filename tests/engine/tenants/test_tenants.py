"""Tenants: added with their event, found by either name, refused with the field and the reason."""

import asyncio
from datetime import timedelta

import orjson
import pytest

from atlas.actors import Actor
from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.retention.retention import read_ages
from atlas.engine.tenants.tenants import add_tenant, edit_tenant, find_tenant, list_tenants
from atlas.errors import Conflict, InvalidInput, NotFound

ALICE = Actor("user", "alice", request_id="r-7")


async def events(conn, action):
    return await conn.fetch("select * from atlas.audit_log where action = $1 order by id", action)


async def test_an_added_tenant_is_found_by_its_slug_and_by_its_id(conn):
    tenant = await add_tenant(conn, slug="acme", name="Acme & Söhne", timezone="Europe/Berlin", actor=ALICE)

    assert await find_tenant(conn, "acme") == tenant
    assert await find_tenant(conn, tenant.id) == tenant
    assert await find_tenant(conn, str(tenant.id)) == tenant
    assert (tenant.name, tenant.timezone) == ("Acme & Söhne", "Europe/Berlin")


async def test_the_list_shows_every_tenant_by_slug_with_the_one_that_is_always_there(conn):
    for slug in ("zeta", "acme"):
        await add_tenant(conn, slug=slug, name=slug, actor=ALICE)

    assert [tenant.slug for tenant in await list_tenants(conn)] == ["acme", "system", "zeta"]


async def test_adding_a_tenant_is_audited_in_the_same_transaction(conn):
    tenant = await add_tenant(conn, slug="acme", name="Acme", actor=ALICE)

    [event] = await events(conn, "TENANT_ADDED")
    assert (event["tenant_id"], event["entity_id"], event["actor_id"]) == (tenant.id, str(tenant.id), "alice")
    meta = orjson.loads(event["meta"])
    assert len(meta.pop("state")) == 64
    assert meta == {"slug": "acme", "name": "Acme", "timezone": "UTC", "request_id": "r-7"}
    assert orjson.loads(event["body"])["action"] == "TENANT_ADDED"


async def test_a_caller_that_rolls_back_leaves_neither_tenant_nor_event(conn):
    transaction = conn.transaction()
    await transaction.start()
    await add_tenant(conn, slug="acme", name="Acme", actor=ALICE)
    await transaction.rollback()

    with pytest.raises(NotFound):
        await find_tenant(conn, "acme")
    assert await events(conn, "TENANT_ADDED") == []


async def test_a_slug_that_is_taken_is_refused_and_the_first_tenant_stands(pool):
    async def add(name):
        async with pool.acquire() as conn:
            return await add_tenant(conn, slug="acme", name=name, actor=ALICE)

    answers = await asyncio.gather(*(add(f"Acme {n}") for n in range(5)), return_exceptions=True)

    [winner] = [answer for answer in answers if not isinstance(answer, Exception)]
    assert [type(answer) for answer in answers if answer is not winner] == [Conflict] * 4
    async with pool.acquire() as conn:
        assert await find_tenant(conn, "acme") == winner
        assert len(await events(conn, "TENANT_ADDED")) == 1


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("slug", "", "1 to 63 lower-case"),
        ("slug", "Acme", "1 to 63 lower-case"),
        ("slug", "-acme", "1 to 63 lower-case"),
        ("slug", "acme\n", "1 to 63 lower-case"),
        ("slug", "a" * 64, "1 to 63 lower-case"),
        ("slug", "a'; drop table atlas.tenants; --", "1 to 63 lower-case"),
        ("slug", "0190a4c8-0000-7000-8000-000000000001", "must not look like an id"),
        ("name", "  ", "must not be empty"),
        ("name", "x" * 201, "longer than 200"),
        ("name", "bell\x07", "control characters"),
        ("name", "nul\x00", "control characters"),
        ("timezone", "Europe/Atlantis", "'Europe/Atlantis' is not a zone"),
        ("timezone", "../../etc/passwd", "is not a zone"),
        ("timezone", "localtime", "is not a zone"),
        ("timezone", "europe/berlin", "is not a zone"),
    ],
)
async def test_a_wrong_field_is_refused_by_its_name_and_reason(conn, field, value, reason):
    fields = {"slug": "acme", "name": "Acme", "timezone": "UTC", field: value}

    with pytest.raises(InvalidInput) as refused:
        await add_tenant(conn, **fields, actor=ALICE)

    [error] = refused.value.errors
    assert error.field == field
    assert reason in error.reason
    assert len(await list_tenants(conn)) == 1


@pytest.mark.parametrize("name", ["nobody", "", "nul\x00", "0190a4c8-0000-7000-8000-00000000dead"])
async def test_a_tenant_that_does_not_exist_is_not_found(conn, name):
    with pytest.raises(NotFound, match="There is no tenant"):
        await find_tenant(conn, name)


async def test_what_another_changed_since_it_was_read_stays(conn):
    read = await add_tenant(conn, slug="acme", name="Acme", actor=ALICE)
    await edit_tenant(conn, read, {"name": "Acme Ltd"}, actor=ALICE)
    edited = await edit_tenant(conn, read, {"limits": {"in_flight": 2}}, actor=ALICE)

    assert (edited.name, edited.limits, edited.retention) == ("Acme Ltd", {"in_flight": 2}, {})
    assert await cross_check(conn) == []


async def test_a_tenant_may_keep_a_kind_for_ever_and_no_unknown_kind(conn):
    acme = await add_tenant(conn, slug="acme", name="Acme", actor=ALICE)
    edited = await edit_tenant(conn, acme, {"retention": {"jobs": None, "steps": 7}}, actor=ALICE)
    with pytest.raises(InvalidInput) as refused:
        await edit_tenant(conn, acme, {"retention": {"job": 7, "events": 0}}, actor=ALICE)
    [ages] = [age for age in await read_ages(conn) if age.tenant_id == acme.id]

    assert edited.retention == {"jobs": None, "steps": 7}
    assert (ages.before("jobs"), ages.before("steps")) == (None, ages.now - timedelta(days=7))
    assert [error.field for error in refused.value.errors] == ["retention.job", "retention.events"]
    assert await cross_check(conn) == []
