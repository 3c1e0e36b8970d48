"""Jobs are enqueued in the application's own transaction, with its own login, over the library that it uses."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import asyncpg
import orjson
import pytest
from pydantic import BaseModel, Field

from atlas import job
from atlas.engine.jobs.handlers.types import registered
from atlas.errors import DedupeConflict, InvalidInput, NotFound, Refused
from tests.integrations.ways import WAYS, RolledBackError, call
from tests.pgbouncer import without_pooler

every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@without_pooler("it maps every login to one of its own")
@every_way
async def test_a_job_exists_with_its_event_once_the_transaction_commits(shop, shop_jobs, way):
    made = await call(
        way, shop.url, True, shop_jobs.send_invoice, shop_jobs.SendInvoice(invoice_id=7), tenant="acme", actor="dana"
    )

    [job] = await shop.jobs()
    assert (job["id"], job["tenant_id"], job["job_type"]) == (made.id, shop.acme, "invoice.send")
    assert (job["status"], job["max_retries"], job["created_by"]) == ("queued", 8, f"db:{shop.login}")
    assert orjson.loads(job["input"]) == {"invoice_id": 7}
    meta = orjson.loads(job["meta"])
    assert (job["actor_id"], meta["login"], meta["on_behalf_of"]) == (f"db:{shop.login}", shop.login, "dana")
    assert await shop.state() == "sent"


@every_way
async def test_nothing_is_left_of_a_transaction_that_rolls_back(shop, way):
    with pytest.raises(RolledBackError):
        await call(way, shop.url, False, "invoice.send", {"invoice_id": 7}, tenant="acme")

    assert await shop.jobs() == []
    assert await shop.state() == "new"


@pytest.mark.long
@without_pooler("it maps every login to one of its own")
@every_way
async def test_every_option_reaches_the_job(shop, way):
    terms = {
        "tenant": shop.acme,
        "priority": 3,
        "delay": timedelta(hours=1),
        "max_retries": 1,
        "timeout": timedelta(seconds=90),
        "dedupe_key": "invoice-7",
        "correlation_id": "order-1",
    }
    first = await call(way, shop.url, True, "invoice.send", {"invoice_id": 7}, **terms)
    again = await call(way, shop.url, True, "invoice.send", {"invoice_id": 7}, **terms)
    other = await call(way, shop.url, True, "invoice.send", {"invoice_id": 8}, **terms, coalesce=True)

    [job] = await shop.jobs()
    assert (again.id, other.id) == (first.id, first.id)
    assert (first.deduplicated, again.deduplicated) == (False, True)
    assert (job["priority"], job["max_retries"], job["timeout_seconds"]) == (3, 1, 90)
    assert (job["dedupe_key"], job["correlation_id"], job["created_by"]) == ("invoice-7", "order-1", f"db:{shop.login}")
    assert timedelta(minutes=50) < job["next_retry_at"] - datetime.now(UTC) < timedelta(minutes=70)
    with pytest.raises(DedupeConflict):
        await call(way, shop.url, True, "invoice.send", {"invoice_id": 8}, **terms)


REFUSED = {
    "another type": (("invoice.sned", {"invoice_id": 7}), {}, InvalidInput, "names like it are invoice.send"),
    "a field of another type": (("invoice.send", {"invoice_id": "x"}), {}, InvalidInput, "input.invoice_id|invoice_id"),
    "no such tenant": (
        ("invoice.send", {"invoice_id": 7}),
        {"tenant": "unknown"},
        (NotFound, Refused),
        "tenant unknown",
    ),
    "no zone": (("invoice.send", {"invoice_id": 7}), {"run_at": datetime(2030, 1, 1)}, InvalidInput, "no time zone"),
    "no such option": (("invoice.send", {"invoice_id": 7}), {"prio": 1}, InvalidInput, "prio: is unknown"),
    "too many retries": (
        ("invoice.send", {"invoice_id": 7}),
        {"max_retries": 5000},
        InvalidInput,
        "max_retries: is not",
    ),
}


@pytest.mark.parametrize("name", ["asyncpg", "psycopg", "sqlalchemy async on asyncpg", "django"])
async def test_what_is_refused_says_why_in_every_library(shop, name):
    for called, terms, kind, reason in REFUSED.values():
        with pytest.raises(kind, match=reason):
            await call(WAYS[name], shop.url, True, *called, **{"tenant": "acme", **terms})

    assert await shop.jobs() == []


async def test_the_published_schema_checks_what_this_process_has_no_handler_for(shop, monkeypatch):
    monkeypatch.delitem(registered(), "invoice.send")

    with pytest.raises(InvalidInput, match=r"input.invoice_id: is not of the type integer"):
        await call(WAYS["psycopg"], shop.url, True, "invoice.send", {"invoice_id": "x"}, tenant="acme")
    with pytest.raises(InvalidInput, match=r"input.invoice_id: is missing"):
        await call(WAYS["asyncpg"], shop.url, True, "invoice.send", tenant="acme")
    await call(WAYS["django"], shop.url, True, "invoice.send", {"invoice_id": 7}, tenant="acme")
    assert len(await shop.jobs()) == 1


async def test_sql_names_the_field_in_the_message_and_what_fits_in_the_hint(shop):
    conn = await asyncpg.connect(shop.url)
    try:
        for input, message in (('{"invoice_id": "x"}', "is not of the type integer"), ("{}", "is missing")):
            with pytest.raises(asyncpg.PostgresError) as refused:
                await conn.execute("select atlas.enqueue('acme', 'invoice.send', $1)", input)
            assert refused.value.message == f"input.invoice_id: {message}"
            assert refused.value.hint == "The input of invoice.send has the fields invoice_id (integer, required)."
    finally:
        await conn.close()


async def test_a_type_that_nothing_knows_is_accepted_if_asked(shop):
    await call(WAYS["psycopg"], shop.url, True, "invoice.print", {"n": 1}, tenant="acme", allow_unknown=True)

    [job] = await shop.jobs()
    assert job["job_type"] == "invoice.print"


@without_pooler("it maps every login to one of its own")
async def test_the_login_may_enqueue_and_nothing_else(shop):
    conn = await asyncpg.connect(shop.url)
    try:
        for attempt in (
            "select * from atlas.jobs",
            "insert into atlas.jobs (tenant_id, job_type) values (gen_random_uuid(), 'x')",
            "select * from atlas.tenants",
            "insert into atlas.audit_log (actor_type, actor_id, action, entity_type, entity_id, body) values ('user', 'x', 'x', 'x', 'x', '')",
            "select atlas.grant_enqueue(current_user)",
            "set role atlas_engine",
        ):
            with pytest.raises(asyncpg.PostgresError):
                await conn.execute(attempt)
        assert await conn.fetchval("select state from invoices") == "new"
    finally:
        await conn.close()


@without_pooler("it maps every login to one of its own")
async def test_a_login_without_the_grant_may_not_enqueue(shop):
    await shop.owner.execute(f"revoke atlas_enqueuer from {shop.login}")

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await call(WAYS["asyncpg"], shop.url, True, "invoice.send", {"invoice_id": 7}, tenant="acme")
    await shop.owner.execute(f"grant atlas_enqueuer to {shop.login}")


class SignIn(BaseModel):
    password: Annotated[str, Field(json_schema_extra={"x-secret": True})]


@job("shop.sign_in")
async def sign_in(input: SignIn) -> None: ...


async def test_a_job_with_secrets_is_refused_before_it_is_sent(shop):
    with pytest.raises(Refused, match="secret fields"):
        await call(WAYS["psycopg"], shop.url, True, sign_in, SignIn(password="hunter22"), tenant="acme")

    assert await shop.jobs() == []
