"""query_raw, query_first and execute_raw."""

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

from atlas.generated import Base64, Json
from atlas.generated.enums import JobSource
from atlas.generated.errors import FieldNotFoundError, ForeignKeyViolationError, RawQueryError
from atlas.generated.models import Job, JobWorker
from tests.atlas.prisma_client.workshop import Gadget

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "parameters", "value"),
    [
        ("select 1 as v", (), 1),
        ("select $1::int + $2::int as v", (2, 3), 5),
        ("select $1::text as v", ("'; drop table atlas.jobs; --",), "'; drop table atlas.jobs; --"),
        ("select $1::text as v", (JobSource.event,), "event"),
        ("select $1::text as v", (UUID(int=1),), str(UUID(int=1))),
        ("select $1::uuid as v", (str(UUID(int=1)),), str(UUID(int=1))),
        ("select array[$1::uuid] as v", (UUID(int=1),), [str(UUID(int=1))]),
        ("select $1::timestamptz as v", (NOON,), NOON),
        ("select $1::timestamptz as v", (NOON.replace(tzinfo=None),), NOON),
        ("select $1::timestamp at time zone 'UTC' as v", (NOON,), NOON),
        ("select $1::jsonb as v", (Json({"a": [1]}),), {"a": [1]}),
        ("select $1::jsonb as v", ({"a": None},), {"a": None}),
        ("select $1::jsonb as v", ([1, 2],), [1, 2]),
        ("select $1::jsonb as v", ("[1]",), [1]),
        ("select $1::json ->> 'a' as v", (Json({"a": "b"}),), "b"),
        ("select 'null'::jsonb as v", (), None),
        ("select null::jsonb as v", (), None),
        ("select array['{\"a\": 1}'::jsonb] as v", (), [{"a": 1}]),
        ("select $1::bytea as v", (Base64.encode(b"\x00\xff"),), "AP8="),
        ("select $1::numeric as v", (Decimal("1.10"),), Decimal("1.10")),
        ("select $1::bool as v", (True,), True),
        ("select $1::text[] as v", (["a", "b"],), ["a", "b"]),
        ("select $1::timestamptz[] as v", ([NOON.replace(tzinfo=None)],), [NOON]),
        ("select 2::bigint ^ 62 as v", (), 2.0**62),
        ("select $1::atlas.job_source as v", ("event",), "event"),
        ("select $1::int as v", (None,), None),
    ],
)
async def test_a_value_goes_in_and_comes_out(db, query, parameters, value):
    assert await db.query_raw(query, *parameters) == [{"v": value}]
    assert await db.query_first(query, *parameters) == {"v": value}


async def test_rows_become_models_by_the_names_of_their_columns_or_fields(db, tenant):
    job = await db.job.create({"tenantId": tenant.id, "jobType": "x", "input": Json({"a": 1})})
    assert await db.query_raw("select * from atlas.jobs where id = $1", job.id, model=Job) == [job]
    assert await db.job.query_raw("select * from atlas.jobs where id = $1", job.id) == [job]
    assert await db.job.query_first("select * from atlas.jobs where id = $1::uuid", job.id) == job
    renamed = 'select j.*, j.tenant_id as "tenantId" from atlas.jobs j'
    assert await Job.prisma(db).query_first(renamed) == job
    assert await db.query_first("select * from atlas.jobs where false", model=Job) is None
    assert await db.query_raw("select * from atlas.jobs where false") == []
    assert (await db.query_raw("select tenant_id from atlas.jobs"))[0] == {"tenant_id": tenant.id}


async def test_rows_become_any_model(db):
    class Sum(BaseModel):
        total: int
        ids: list[UUID]

    assert await db.query_first("select 5 as total, array[$1::uuid] as ids", UUID(int=3), model=Sum) == Sum(
        total=5, ids=[UUID(int=3)]
    )


async def test_lists_bytes_and_json_become_models(db, workshop):
    worker = {"workerId": "w", "hostname": "h", "version": "1", "jobTypes": ["a"], "leaseExpiresAt": NOON}
    made = await db.jobworker.create(worker)
    assert await db.query_first("select * from atlas.job_workers", model=JobWorker) == made
    data = {"code": "g", "blob": Base64.encode(b"x" * 100), "doc": Json([1]), "odd": "o", "refs": [str(uuid4())]}
    gadget = await workshop.gadget.create({**data, "price": Decimal("1.5"), "color": "red", "atz": NOON})
    columns = 'id, code, blob, doc, "odd ""column""; drop", refs, price, color, atz, touched, tags, numbers'
    found = await workshop.client.query_first(f'select {columns} from atlas."odd ""gadgets"""', model=Gadget)
    assert found.model_dump(exclude_unset=True) == gadget.model_dump(include=found.model_fields_set)


async def test_execute_raw_says_how_many_rows_it_touched(db):
    await db.jobtype.create_many([{"key": str(number)} for number in range(5)])
    assert await db.execute_raw("update atlas.job_types set max_retries = $1 where key <= $2", 7, "2") == 3
    assert await db.execute_raw("delete from atlas.job_types where max_retries = 7") == 3
    assert await db.execute_raw("insert into atlas.job_types (key) values ($1), ($2)", "a", "b") == 2
    assert await db.execute_raw("select 1") == 1
    assert await db.execute_raw("") == 0
    assert await db.query_raw("") == []
    assert await db.execute_raw("set local search_path to public") == 0


@pytest.mark.parametrize(
    ("query", "parameters", "words"),
    [
        ("select nope", (), "nope"),
        ("selec 1", (), "syntax"),
        ("select 1; select 2", (), "multiple commands"),
        ("select $1::int", (), "argument"),
        ("select 1", (1, 2), "argument"),
        ("select $1::int", ("x",), "invalid input"),
        ("select 1 / 0", (), "division by zero"),
        ("insert into atlas.job_types (key) values ('a'), ('a')", (), "duplicate key"),
    ],
)
async def test_what_goes_wrong_in_raw_sql_is_a_raw_query_error(db, query, parameters, words):
    for call in (db.query_raw, db.execute_raw):
        with pytest.raises(RawQueryError, match=words) as wrong:
            await call(query, *parameters)
        assert wrong.value.code == "P2010"
        assert wrong.value.__cause__ is not None


async def test_a_parameter_that_cannot_be_sent_is_refused(db):
    with pytest.raises(FieldNotFoundError):
        await db.query_raw("select $1::jsonb", Json(object()))
    with pytest.raises(FieldNotFoundError):
        await db.query_raw("select $1::bytea", Base64(b"?"))


async def test_typed_errors_stay_typed_beside_raw_ones(db):
    attempt = {"attemptNo": 1, "workerId": "w", "status": "lost", "startedAt": NOON}
    with pytest.raises(ForeignKeyViolationError):
        await db.jobattempt.create({"jobId": str(uuid4()), **attempt})
