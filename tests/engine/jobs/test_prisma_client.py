"""The typed client of applications: its jobs are enqueued like any other, and nothing is written by halves."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import asyncpg
import orjson
import pytest
from pydantic import BaseModel

from atlas import Actor, AtlasPrisma, JobsRepository, WriteRefused, job
from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.prisma.prisma_rules import VERBS, WRITES
from atlas.engine.jobs.switches.gate import switch
from atlas.errors import DedupeConflict, InvalidInput, NotFound
from atlas.generated import Json
from atlas.generated.enums import JobStatus
from atlas.generated.errors import FieldNotFoundError, MissingRequiredValueError, PrismaError
from atlas.prisma_client import packaged_schema
from tests.pgbouncer import direct_url
from tests.support import DANA, given_tenant, publish

TENANT = str(SYSTEM_TENANT)
NEW = {"tenantId": TENANT, "jobType": "report.build"}


class Report(BaseModel):
    month: int


@pytest.fixture
async def db(pool, conn):
    await switch(conn, online=True, actor=DANA)
    await publish(conn, "report.build", "t.0", "t.1", "t.2")
    return AtlasPrisma(pool)


@pytest.fixture
async def green(conn):
    """After the test the tables still agree with the audit log, as `atlas doctor` and `audit verify --state` ask."""
    yield
    assert await cross_check(conn) == []


async def created(conn, id):
    return await conn.fetchrow(
        "select actor_type, actor_id, meta from atlas.audit_log where entity_id = $1 and action = 'JOB_CREATED'",
        str(id),
    )


async def test_a_created_job_has_its_event_and_wakes_workers(db, conn, database_url, green):
    heard = asyncio.Event()
    listener = await asyncpg.connect(direct_url(database_url))
    await listener.add_listener("atlas_jobs", lambda *_: heard.set())
    made = await db.job.create({**NEW, "input": Json({"month": 3}), "priority": 5, "correlationId": "c-1"})
    await asyncio.wait_for(heard.wait(), 10)
    await listener.close()

    assert (made.status, made.input, made.priority, made.createdBy) == ("queued", {"month": 3}, 5, "prisma")
    event = await created(conn, made.id)
    assert (event["actor_type"], event["actor_id"]) == ("system", "prisma")
    assert orjson.loads(event["meta"]) == {"job_type": "report.build", "correlation_id": "c-1"}
    [claimed] = await JobsRepository().claim(conn)
    assert str(claimed.id) == made.id


async def test_an_input_may_be_a_plain_dict(db, conn, green):
    made = await db.job.create(data={**NEW, "input": {"month": 3, "tags": ["a"]}})
    assert made.input == {"month": 3, "tags": ["a"]}
    assert await db.job.create_many([{**NEW, "input": {"month": 4}}, {**NEW, "input": {}}]) == 2
    assert await db.job.count(where={"input": {"equals": Json({"month": 4})}}) == 1


async def test_a_job_of_another_is_created_in_the_name_of_its_creator(db, pool, conn, green):
    named = await AtlasPrisma(pool).job.create({**NEW, "createdBy": "alice"})
    program = await AtlasPrisma(pool, actor="app").job.create(NEW)
    acted = await AtlasPrisma(pool, actor=Actor("agent", "importer")).job.create(NEW)

    assert tuple(await created(conn, named.id))[:2] == ("user", "alice")
    assert tuple(await created(conn, acted.id))[:2] == ("agent", "importer")
    assert tuple(await created(conn, program.id))[:2] == ("user", "app")


async def test_a_job_is_created_with_the_writes_beside_it_or_not_at_all(db, pool, conn, green):
    with pytest.raises(RuntimeError):
        async with db.tx() as tx:
            await tx.job.create(NEW)
            assert await tx.connection.fetchval("select count(*) from atlas.jobs") == 1
            raise RuntimeError
    async with pool.acquire() as other, other.transaction():
        await AtlasPrisma.on(other).job.create(NEW)
        assert await conn.fetchval("select count(*) from atlas.jobs") == 0
    async with db.batch_() as batch:
        batch.job.create(NEW)
        batch.job.create_many([NEW, NEW])
    assert await conn.fetchval("select count(*) from atlas.jobs") == 4
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'JOB_CREATED'") == 4


async def test_a_dedupe_key_means_what_it_means_to_enqueue(db, green):
    data = {**NEW, "dedupeKey": "march", "input": Json({"month": 3})}
    first = await db.job.create(data)
    assert (await db.job.create(data)).id == first.id
    with pytest.raises(DedupeConflict):
        await db.job.create({**data, "input": Json({"month": 4})})
    assert await db.job.create_many([data, {**data, "dedupeKey": "april"}]) == 1
    other = {**data, "input": Json({"month": 5})}
    assert await db.job.create_many([other], skip_duplicates=True) == 0
    assert await db.job.count() == 2


async def test_many_jobs_are_created_together_each_with_its_event(db, conn, green):
    tenant = str(await given_tenant(conn))
    rows = [
        {"tenantId": tenant if n % 2 else TENANT, "jobType": f"t.{n % 3}", "createdBy": f"u{n % 2}"} for n in range(9)
    ]
    assert await db.job.create_many(rows) == 9
    events = await conn.fetch("select actor_id, tenant_id from atlas.audit_log where action = 'JOB_CREATED'")
    assert {(row["actor_id"], str(row["tenant_id"])) for row in events} == {("u1", tenant), ("u0", TENANT)}
    assert len(events) == 9
    assert await db.job.create_many([]) == 0
    with pytest.raises(NotFound):
        await db.job.create_many([NEW, {**NEW, "tenantId": "0190a4c8-0000-7000-8000-00000000dead"}])
    assert await db.job.count() == 9


async def test_admission_is_that_of_every_job(db, monkeypatch, green):
    monkeypatch.setattr("atlas.engine.jobs.handlers.types._registry", {})

    @job("checked.work")
    async def checked(input: Report) -> None: ...

    with pytest.raises(InvalidInput, match="integer"):
        await db.job.create({**NEW, "jobType": "checked.work", "input": Json({"month": "May"})})
    made = await db.job.create({**NEW, "jobType": "checked.work", "input": Json({"month": 5})})
    assert made.input == {"month": 5}
    for wrong, refusal in (
        ({"priority": 2_000_000}, InvalidInput),
        ({"input": Json([1])}, InvalidInput),
        ({"id": made.id}, InvalidInput),
        ({"tenantId": "0190a4c8-0000-7000-8000-00000000dead"}, NotFound),
        ({"priority": "high"}, FieldNotFoundError),
        ({"input": [{"in": "a list"}]}, FieldNotFoundError),
    ):
        with pytest.raises(refusal):
            await db.job.create({**NEW, **wrong})
    with pytest.raises(InvalidInput, match="Request the run with `request_workflow"):
        await db.job.create({**NEW, "jobType": "ENGINE_RUN"})
    with pytest.raises(MissingRequiredValueError):
        await db.job.create({"jobType": "x"})
    assert await db.job.count() == 1


async def test_a_type_that_nothing_knows_is_refused_unless_asked(db, pool, green):
    with pytest.raises(InvalidInput, match=r"'report.biuld' is not known; names like it are report.build"):
        await db.job.create({**NEW, "jobType": "report.biuld"})
    made = await AtlasPrisma(pool, allow_unknown=True).job.create({**NEW, "jobType": "report.biuld"})
    assert (made.jobType, made.maxRetries) == ("report.biuld", 3)


async def test_a_job_of_later_is_due_then(db, conn, green):
    later = datetime.now(UTC) + timedelta(hours=1)
    made = await db.job.create({**NEW, "nextRetryAt": later, "status": "queued", "retryCount": 0, "claimedBy": None})
    assert (made.nextRetryAt, made.scheduledFor) == (later, later)
    made = await db.job.create({**NEW, "scheduledFor": later})
    assert (made.nextRetryAt, made.scheduledFor) == (later, later)
    with pytest.raises(WriteRefused, match="has one time"):
        await db.job.create({**NEW, "scheduledFor": later, "nextRetryAt": later + timedelta(hours=1)})
    assert await JobsRepository().claim(conn) == []


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        ({"status": "running"}, "claim"),
        ({"status": "running", "claimedBy": "me"}, "claim"),
        ({"status": {"set": "succeeded"}}, "mark_success"),
        ({"status": JobStatus.canceled}, "cancel"),
        ({"status": "queued"}, "retry"),
        ({"attemptCount": {"increment": 1}}, "claim"),
        ({"leaseExpiresAt": None}, "claim"),
        ({"output": Json({})}, "mark_success"),
        ({"nextRetryAt": None}, "Snooze"),
        ({"cancelRequestedBy": "me"}, "cancel"),
        ({"priority": 1, "input": Json({})}, "create another"),
        ({"attempts": {"create": [{"attemptNo": 1}]}}, "create another"),
        ({"updatedAt": datetime(2026, 1, 1, tzinfo=UTC)}, "create another"),
    ],
)
async def test_what_the_engine_moves_is_changed_by_its_verbs_alone(db, green, data, remedy):
    made = await db.job.create(NEW)
    before = await db.job.find_unique(where={"id": made.id})
    for call in (
        lambda: db.job.update(data, {"id": made.id}),
        lambda: db.job.update_many(data, {"id": made.id, "status": "queued"}),
    ):
        with pytest.raises(WriteRefused, match="does not change") as refused:
            await call()
        assert remedy in refused.value.remedy
        assert isinstance(refused.value, PrismaError)
    assert await db.job.find_unique(where={"id": made.id}) == before


async def test_the_claim_of_an_own_loop_is_refused_whole(db, conn, green):
    made = await db.job.create(NEW)
    with pytest.raises(WriteRefused, match="claim"):
        await db.job.update_many(where={"id": made.id, "status": "queued"}, data={"status": "running"})
    jobs = JobsRepository()
    [claimed] = await jobs.claim(conn)
    await jobs.mark_success(conn, claimed.id, {"done": True})
    assert (await db.job.find_unique_or_raise(where={"id": made.id})).status == "succeeded"


async def test_how_a_job_is_to_run_may_be_changed(db, green):
    made = await db.job.create(NEW)
    changed = await db.job.update({"priority": {"increment": 3}, "maxRetries": 7}, {"id": made.id})
    assert (changed.priority, changed.maxRetries) == (3, 7)
    assert (made.retriesChosen, changed.retriesChosen) == (False, True)
    assert changed.updatedAt > made.updatedAt
    assert await db.job.update_many({"timeoutSeconds": 30}, {"status": "queued"}) == 1
    assert await db.job.update({"priority": 1}, {"id": "0190a4c8-0000-7000-8000-00000000dead"}) is None


@pytest.mark.parametrize(
    "field", ["output", "startedAt", "createdAt", "definitionId", "attemptCount", "attempts", "careful"]
)
async def test_a_new_job_takes_nothing_that_is_not_its_callers(db, field):
    values = {"output": Json({"x": 1}), "attemptCount": 1, "attempts": {"create": [{}]}, "careful": True}
    value = values.get(field, TENANT if field == "definitionId" else datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(WriteRefused, match=field):
        await db.job.create({**NEW, field: value})
    assert await db.job.count() == 0


async def test_jobs_are_neither_deleted_nor_upserted(db, green):
    made = await db.job.create(NEW)
    for call in (
        lambda: db.job.delete({"id": made.id}),
        lambda: db.job.delete_many(),
        lambda: db.job.upsert({"id": made.id}, {"create": NEW, "update": {"priority": 1}}),
    ):
        with pytest.raises(WriteRefused):
            await call()
    assert await db.job.count() == 1


async def test_every_other_table_is_written_by_its_verbs_alone(db, green):
    models = packaged_schema().models
    assert VERBS.keys() <= models.keys() - {"Job"}
    for name in models.keys() - {"Job"}:
        for method in sorted(WRITES):
            with pytest.raises(WriteRefused, match=models[name].table) as refused:
                await db._execute(method=method, arguments={}, model=SimpleNamespace(__prisma_model__=name))
            assert refused.value.remedy


async def test_a_job_cannot_be_reached_through_what_refers_to_it(db, green):
    made = await db.job.create(NEW)
    attempt = {"attemptNo": 1, "workerId": "w", "status": "running", "startedAt": datetime(2026, 1, 1, tzinfo=UTC)}
    for call in (
        lambda: db.jobattempt.create({**attempt, "job": {"connect": {"id": made.id}}}),
        lambda: db.jobattempt.create({**attempt, "job": {"create": NEW}}),
        lambda: db.auditlog.update_many({"message": "x"}, {}),
        lambda: db.auditlog.delete_many(),
    ):
        with pytest.raises(WriteRefused):
            await call()
    assert await db.job.count() == 1
