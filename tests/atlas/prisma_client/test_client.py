"""The client as a whole: which models it knows, how it is reached, how many statements it needs."""

import asyncio
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import ClassVar

import pytest
from pydantic import BaseModel

from atlas.errors import AtlasError
from atlas.generated import Base64, Prisma, register
from atlas.generated.actions import JobActions
from atlas.generated.bases import _PrismaModel
from atlas.generated.errors import (
    DataError,
    ForeignKeyViolationError,
    InvalidModelError,
    MissingRequiredValueError,
    PrismaError,
    TableNotFoundError,
    UnknownModelError,
)
from atlas.generated.models import Job, Tenant
from atlas.prisma_client import AsyncpgPrisma, UnsupportedQuery, packaged_schema
from atlas.prisma_client.read_schema import parse_schema
from tests.pgbouncer import without_pooler

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Ghost(_PrismaModel):
    __prisma_model__: ClassVar[str] = "Ghost"
    id: int


class Clock(_PrismaModel):
    __prisma_model__: ClassVar[str] = "Clock"
    id: int
    time: datetime


async def test_it_is_a_prisma_client_and_serves_the_models_methods(db, monkeypatch):
    assert isinstance(db, Prisma)
    assert await Tenant.prisma(db).count() == 1
    monkeypatch.setattr("atlas.generated._registry._registered_client", None)
    register(db)
    assert db.is_registered()
    assert (await Tenant.prisma().find_first_or_raise()).slug == "system"


@pytest.mark.long
async def test_every_model_of_the_schema_can_be_read_with_all_its_relations(clean_pool):
    async with clean_pool.acquire() as conn:
        await conn.execute("set role none")
        client = AsyncpgPrisma.on(conn)
        for name, model in packaged_schema().models.items():
            actions = getattr(client, name.lower())
            include = {field.name: True for field in model.fields.values() if field.relation}
            rows = await actions.find_many(include=include, order=[{field: "desc"} for field in model.identity.fields])
            assert await actions.count() == len(rows)
            for field in model.scalars:
                groups = await actions.group_by([field.name], count=True)
                assert sum(group["_count"]["_all"] for group in groups) == len(rows)


async def test_a_model_it_does_not_know_is_refused(db):
    class Stranger(BaseModel):
        id: int

    with pytest.raises(UnknownModelError, match="Ghost"):
        await JobActions(db, Ghost).find_many()
    with pytest.raises(InvalidModelError):
        await JobActions(db, Stranger).find_many()


async def test_a_table_that_is_missing_is_named(clean_pool):
    client = AsyncpgPrisma(clean_pool, schema=parse_schema('model Ghost {\n  id Int @id\n\n  @@map("ghosts")\n}\n'))
    with pytest.raises(TableNotFoundError, match="`ghosts`") as missing:
        await JobActions(client, Ghost).find_many()
    assert (missing.value.code, missing.value.table) == ("P2021", "ghosts")


async def test_a_type_it_cannot_carry_is_named(clean_pool):
    schema = parse_schema("model Clock {\n  id Int @id\n  time DateTime @db.Time(6)\n}\n")
    with pytest.raises(UnsupportedQuery, match=r"the type of Clock.time, Time\(6\)") as refusal:
        await JobActions(AsyncpgPrisma(clean_pool, schema=schema), Clock).find_many()
    assert isinstance(refusal.value, AtlasError)
    assert isinstance(refusal.value, PrismaError)
    assert refusal.value.remedy


async def test_a_column_that_is_missing_or_null_is_reported(clean_pool):
    schema = parse_schema('model Ghost {\n  id Int @id @map("no_such_column")\n\n  @@map("tenants")\n}\n')
    with pytest.raises(DataError, match="no_such_column"):
        await JobActions(AsyncpgPrisma(clean_pool, schema=schema), Ghost).find_many()
    schema = parse_schema('model Ghost {\n  id Int? @unique @map("subject")\n\n  @@map("api_tokens")\n}\n')
    with pytest.raises(MissingRequiredValueError):
        await JobActions(AsyncpgPrisma(clean_pool, schema=schema), Ghost).create({"id": None})


async def test_a_view_is_only_read(db, tenant):
    job = await db.job.create({"tenantId": tenant.id, "jobType": "x"})
    assert (await db.shownjob.find_unique_or_raise(where={"id": job.id})).shownStatus == "queued"
    for write in (
        lambda: db.shownjob.create({"id": job.id}),
        lambda: db.shownjob.update({"priority": 3}, {"id": job.id}),
        lambda: db.shownjob.delete_many(),
    ):
        with pytest.raises(UnsupportedQuery, match="on the view shown_jobs"):
            await write()


@without_pooler("its sessions are not those of the connections")
async def test_a_row_without_any_given_value_takes_all_its_defaults(clean_pool):
    async with clean_pool.acquire() as conn:
        await conn.execute("set role none; create table atlas.ghosts (id serial primary key)")
        schema = parse_schema('model Ghost {\n  id Int @id @default(autoincrement())\n\n  @@map("ghosts")\n}\n')
        ghosts = JobActions(AsyncpgPrisma.on(conn, schema=schema), Ghost)
        assert (await ghosts.create({})).id == 1
        assert await ghosts.create_many([{}, {}, {"id": 9}]) == 3
        assert [ghost.id for ghost in await ghosts.find_many(order={"id": "asc"})] == [1, 2, 3, 9]
        await conn.execute("drop table atlas.ghosts")


async def test_a_row_that_is_restricted_from_going_stays(db):
    tenant = await db.tenant.create({"slug": "t", "name": "T"})
    token = {"prefix": "p", "hash": Base64.encode(b"h" * 32), "subject": "s", "role": "host"}
    await db.apitoken.create({**token, "tenant": {"connect": {"slug": "t"}}})
    with pytest.raises(ForeignKeyViolationError):
        await db.tenant.delete(where={"id": tenant.id})
    found = await db.tenant.find_unique(where={"slug": "t"}, include={"tokens": True})
    assert found.tokens[0].hash.decode() == b"h" * 32


@asynccontextmanager
async def watched(pool):
    """A client on one connection, and the statements that it sends."""
    statements = []
    async with pool.acquire() as conn:
        conn.add_query_logger(statements.append)
        yield AsyncpgPrisma.on(conn), statements
        conn.remove_query_logger(statements.append)


async def sent(statements):
    """The statements since the last look, without those by which asyncpg learns about types."""
    await asyncio.sleep(0)  # asyncpg reports them with the loop's next turn
    queries = [entry.query for entry in statements if not re.search("typeinfo|jit", entry.query)]
    statements.clear()
    return queries


@without_pooler("a transaction around each statement sets the role")
async def test_reads_and_plain_writes_are_one_statement_each(clean_pool, tenant):
    async with watched(clean_pool) as (client, statements):
        job = await client.job.create({"tenantId": tenant.id, "jobType": "x"})
        attempt = {"jobId": job.id, "workerId": "w", "status": "lost", "startedAt": datetime.now(UTC)}
        await client.jobattempt.create_many([{**attempt, "attemptNo": number} for number in range(3)])
        upsert = {"create": {"tenantId": "", "jobType": ""}, "update": {}}
        calls = [
            lambda: client.job.find_unique(where={"id": job.id}),
            lambda: client.job.find_many(include={"attempts": {"include": {"job": {"include": {"attempts": True}}}}}),
            lambda: client.job.count(where={"attempts": {"some": {}}}),
            lambda: client.job.group_by(["status"], count=True),
            lambda: client.job.update(where={"id": job.id}, data={"priority": 1}),
            lambda: client.job.update_many(where={}, data={"priority": 2}),
            lambda: client.job.upsert(where={"id": job.id}, data=upsert),
            lambda: client.jobtype.create_many([{"key": str(number)} for number in range(100)]),
            lambda: client.job.delete(where={"id": job.id}, include={"attempts": True}),
        ]
        await sent(statements)
        for call in calls:
            await call()
            queries = await sent(statements)
            assert len(queries) == 1, queries


@without_pooler("a transaction around each statement sets the role")
async def test_values_never_stand_in_the_text_of_a_statement(clean_pool, tenant):
    async with watched(clean_pool) as (client, statements):
        await client.job.create({"tenantId": tenant.id, "jobType": "needle", "claimedBy": "needle", "priority": 31337})
        where = {"jobType": {"contains": "needle"}, "priority": {"in": [31337]}, "NOT": {"claimedBy": "x' needle"}}
        await client.job.find_many(where=where, take=31337, skip=31337)
        await client.job.update_many(where=where, data={"claimedBy": "needle", "priority": {"increment": 31337}})
        await client.job.group_by(["priority"], where=where, having={"priority": {"_sum": {"gt": 31337}}})
        await client.job.delete_many(where=where)
        queries = await sent(statements)
    assert len(queries) == 5
    assert not [query for query in queries if "needle" in query or "31337" in query]


@without_pooler("a transaction around each statement sets the role")
async def test_a_partial_index_can_serve_an_enum_that_is_a_parameter(clean_pool, tenant):
    async with watched(clean_pool) as (client, statements):
        await client.job.find_many(where={"status": "running", "claimedBy": "w"})
        [query] = await sent(statements)
        await client.connection.execute("set enable_seqscan = off")
        # Planned for these values, as Postgres plans a statement the first times.
        plan = await client.connection.fetch("explain " + query.replace("$1", "'running'").replace("$2", "'w'"))
        await client.connection.execute("reset enable_seqscan")
    assert "jobs_running" in "\n".join(row[0] for row in plan)


@without_pooler("a transaction around each statement sets the role")
async def test_only_the_rows_of_a_page_are_cast_for_the_models(clean_pool, tenant):
    """A cast under the sort would be made for every row of the table."""
    async with watched(clean_pool) as (client, statements):
        await client.job.find_many(order=[{"priority": "desc"}, {"id": "asc"}], take=100, include={"attempts": True})
        [query] = await sent(statements)
        plan = await client.connection.fetch("explain (verbose, costs off) " + query.replace("$1::int8", "100"))
    lines = [row[0] for row in plan]
    [limit, *_] = [number for number, line in enumerate(lines) if line.strip().startswith("->  Limit")]
    assert not [line for line in lines[limit:] if "Output:" in line and "input)::text" in line]
    assert [line for line in lines[:limit] if "input)::text" in line]


async def test_generated_models_are_what_comes_back(db, tenant):
    job = await db.job.create({"tenantId": tenant.id, "jobType": "x"})
    assert type(job) is Job
    assert (await db.job.find_many()) == [job]
