"""Enqueue as applications call it: checked by what is published, typed, with the terms of the handler that runs it."""

from datetime import timedelta
from typing import Annotated

import asyncpg
import orjson
import pytest
from pydantic import BaseModel, Field

from atlas import Actor, NewJob, enqueue, enqueue_many, job
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.types import registered
from atlas.engine.jobs.lists.find import get_job
from atlas.engine.secrets.key import SecretKey, use_secret_key
from atlas.errors import AtlasError, InvalidInput, NotFound
from atlas.ids import new_id
from tests.support import DANA, given_tenant


class Parcel(BaseModel):
    weight: int
    to: str = "home"


class SignIn(BaseModel):
    password: Annotated[str, Field(json_schema_extra={"x-secret": True})]


@job("parcel.ship", max_retries=7, timeout=30)
async def ship(input: Parcel) -> dict[str, int]:
    """Ship a parcel."""
    return {"weight": input.weight}


@job("parcel.weigh")
async def weigh(input: list[Parcel]) -> None:
    """Weigh the parcels of several jobs in one call."""


@job("parcel.sign_in")
async def sign_in(input: SignIn) -> None: ...


@pytest.fixture
async def elsewhere(conn, monkeypatch):
    """The handler is published, and is not in this process."""
    await publish_types(conn, [registered()["parcel.ship"]])
    monkeypatch.delitem(registered(), "parcel.ship")


async def test_a_decorated_function_is_called_as_before_and_enqueues_jobs_of_itself(conn):
    acme = await given_tenant(conn)

    made = await ship.enqueue(conn, Parcel(weight=3), tenant="acme", actor="dana", delay=timedelta(minutes=5))

    assert await ship(Parcel(weight=2)) == {"weight": 2}
    found = await get_job(conn, made.id)
    assert (found.tenant_id, found.job_type, found.input) == (acme, "parcel.ship", {"weight": 3, "to": "home"})
    assert (found.shown_status, found.created_by) == ("waiting", "dana")
    by_id = await ship.enqueue(conn, Parcel(weight=3), tenant=acme)
    assert (await get_job(conn, by_id.id)).created_by == await conn.fetchval("select session_user::text")


async def test_a_function_that_takes_several_jobs_enqueues_one_for_each_input(conn):
    made = await weigh.enqueue(conn, Parcel(weight=3))

    assert (await get_job(conn, made.id)).input == {"weight": 3, "to": "home"}
    with pytest.raises(InvalidInput, match="not a JSON object"):
        await weigh.enqueue(conn, [Parcel(weight=3)])


async def test_a_decorated_function_enqueues_secrets_encrypted(conn):
    use_secret_key(SecretKey(bytes(32)))
    acme = await given_tenant(conn)

    made = await sign_in.enqueue(conn, SignIn(password="hunter22"), tenant="acme", actor="dana", priority=2)

    found = await get_job(conn, made.id)
    assert (found.tenant_id, found.priority, found.created_by) == (acme, 2, "dana")
    assert "hunter22" not in str(found.input)
    assert await conn.fetchval("select count(*) from atlas.job_secrets") == 1


async def test_an_actor_may_be_a_name(conn):
    made = await enqueue(conn, NewJob("parcel.ship", {"weight": 1}), actor="dana")

    row = await conn.fetchrow("select actor_type, actor_id from atlas.audit_log where entity_id = $1", str(made.id))
    assert tuple(row) == ("user", "dana")


async def test_what_is_published_checks_an_input_whose_handler_is_elsewhere(conn, elsewhere):
    with pytest.raises(InvalidInput, match="weight"):
        await enqueue(conn, NewJob("parcel.ship", {"weight": "heavy"}), actor=DANA)
    with pytest.raises(InvalidInput, match="weight"):
        await enqueue_many(conn, [NewJob("parcel.ship", {"weight": 1}), NewJob("parcel.ship")], actor=DANA)
    await enqueue_many(conn, [NewJob("parcel.ship", {"weight": n}) for n in range(3)], actor=DANA)

    assert await conn.fetchval("select count(*) from atlas.jobs") == 3


async def test_a_type_that_nothing_knows_is_refused_with_names_like_it(conn, elsewhere):
    with pytest.raises(InvalidInput, match=r"'parcel.shipp' is not known; names like it are parcel.ship"):
        await enqueue(conn, NewJob("parcel.shipp", {}), actor=DANA)
    with pytest.raises(InvalidInput, match="'zzz' is not known"):
        await enqueue_many(conn, [NewJob("parcel.ship", {"weight": 1}), NewJob("zzz")], actor=DANA)
    with pytest.raises(
        asyncpg.PostgresError, match="'parcel.shipp' is not known; names like it are parcel.ship"
    ) as refused:
        await conn.execute("select atlas.enqueue('system', 'parcel.shipp')")

    assert (refused.value.sqlstate, refused.value.column_name) == ("AT422", "job_type")
    assert "allow_unknown" in refused.value.hint
    assert await conn.fetchval("select count(*) from atlas.jobs") == 0


async def test_a_type_that_nothing_knows_is_accepted_if_asked(conn):
    await enqueue(conn, NewJob("parcel.shipp", {}, allow_unknown=True), actor=DANA)
    await conn.execute("select atlas.enqueue('system', 'parcel.shipp', allow_unknown => true)")

    assert await conn.fetchval("select count(*) from atlas.jobs") == 2


async def test_a_type_that_is_built_in_is_known_before_any_worker_was_there(conn):
    mail = {"to": "ann@example.com", "subject": "Hello", "text": "It works."}

    await enqueue(conn, NewJob("email_send", mail), actor=DANA)
    await conn.execute("select atlas.enqueue('system', 'EMAIL_SEND', $1::text::jsonb)", orjson.dumps(mail).decode())

    assert await conn.fetchval("select count(*) from atlas.jobs") == 2


async def test_a_function_without_the_decorator_is_refused(conn):
    from atlas.integrations.asyncpg import enqueue as enqueue_by_name

    async def forgotten(input: Parcel) -> None: ...

    with pytest.raises(AtlasError, match="forgotten is not the handler of a job type"):
        await enqueue_by_name(conn, forgotten, Parcel(weight=1))
    with pytest.raises(NotFound, match="no tenant nowhere"):
        await ship.enqueue(conn, Parcel(weight=1), tenant="nowhere")


async def test_jobs_show_the_retries_of_their_type_unless_they_say_otherwise(conn, elsewhere):
    for_all = await enqueue(conn, NewJob("parcel.ship", {"weight": 1}), actor=Actor("user", "dana"))
    own = await enqueue(conn, NewJob("parcel.ship", {"weight": 1}, max_retries=2), actor=DANA)
    unknown = await enqueue(conn, NewJob("parcel.lost", allow_unknown=True), actor=DANA)

    assert [(await get_job(conn, one.id)).max_retries for one in (for_all, own, unknown)] == [7, 2, 3]
    await conn.execute("update atlas.job_types set max_retries = 9 where key = 'parcel.ship'")
    assert [(await get_job(conn, one.id)).max_retries for one in (for_all, own, unknown)] == [9, 2, 3]


async def test_ids_that_sql_makes_are_in_the_order_of_time(conn):
    made = [(await ship.enqueue(conn, Parcel(weight=n))).id for n in range(30)]

    assert made == sorted(made)
    assert {one.version for one in made} == {7}
    # The milliseconds since 1970, as in the ids that Python makes.
    assert abs((made[0].int >> 80) - (new_id().int >> 80)) < 60_000
