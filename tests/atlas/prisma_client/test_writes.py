"""create, update, upsert and delete, one row and many."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest

from atlas.generated import Base64, Json
from atlas.generated.errors import (
    DataError,
    FieldNotFoundError,
    ForeignKeyViolationError,
    MissingRequiredValueError,
    RecordNotFoundError,
    UniqueViolationError,
)
from atlas.prisma_client import UnsupportedQuery
from tests.support import some

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_created_row_has_what_was_given_and_the_databases_defaults(db, tenant):
    before = datetime.now(UTC) - timedelta(seconds=5)
    job = await db.job.create({"tenantId": tenant.id, "jobType": "mail", "input": Json({"to": "x"}), "claimedBy": None})
    assert (job.jobType, job.input, job.status, job.maxRetries, job.output) == ("mail", {"to": "x"}, "queued", 3, {})
    assert UUID(job.id)
    assert job.createdAt > before
    assert await db.job.find_unique(where={"id": job.id}) == job


async def test_every_model_of_the_client_can_be_written_and_read(db, tenant, clean_pool):
    now = datetime(2024, 1, 1, tzinfo=UTC)
    job = await db.job.create({"tenantId": tenant.id, "jobType": "x"})
    token = {"prefix": "p", "hash": Base64.encode(b"h" * 32), "subject": "s", "role": "operator", "tenantId": tenant.id}
    made = [
        await db.tenant.create({"slug": "t", "name": "T", "limits": Json({"in_flight": 2})}),
        await db.apitoken.create(token),
        await db.jobattempt.create(
            {"jobId": job.id, "attemptNo": 1, "workerId": "w", "status": "lost", "startedAt": now}
        ),
        await db.jobtype.create({"key": "mail", "concurrency": 3}),
        await db.jobworker.create(
            {"workerId": "w", "hostname": "h", "version": "1", "jobTypes": ["a", "b"], "leaseExpiresAt": now}
        ),
        await db.systemstate.create({"key": "k", "value": Json(False), "updatedBy": "me"}),
    ]
    assert made[1].hash.decode() == b"h" * 32
    assert made[4].jobTypes == ["a", "b"]
    assert made[5].value is False
    audit = {"actorType": "user", "actorId": "me", "action": "A", "entityType": "job", "entityId": job.id}
    event = await db.auditlog.create({**audit, "body": Base64.encode(b"{}")})
    assert await db.auditlog.find_unique(where={"id": event.id}) == event
    with pytest.raises(DataError):
        await db.auditlog.update(where={"id": event.id}, data={"message": "changed"})
    with pytest.raises(DataError):
        await db.auditlog.delete_many()


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ({}, MissingRequiredValueError, r"Tenant\.slug"),
        ({"slug": "t"}, MissingRequiredValueError, r"Tenant\.name"),
        ({"slug": "t", "name": None}, MissingRequiredValueError, r"Tenant\.name"),
        ({"slug": "t", "name": "T", "timezone": None}, MissingRequiredValueError, r"Tenant\.timezone"),
        ({"slug": "t", "name": "T", "nope": 1}, FieldNotFoundError, "nope"),
        ({"slug": "t", "name": 5}, FieldNotFoundError, r"Tenant\.name"),
        ({"slug": "t", "name": {"set": "T"}}, FieldNotFoundError, r"Tenant\.name"),
        ({"slug": "system", "name": "T"}, UniqueViolationError, "slug"),
        ({"slug": "Not a slug", "name": "T"}, DataError, "tenants_slug_check"),
        ("text", FieldNotFoundError, r"Tenant\.data"),
    ],
)
async def test_a_row_that_cannot_be_is_refused(db, data, error, words):
    with pytest.raises(error, match=words):
        await db.tenant.create(data)
    if isinstance(data, dict):
        with pytest.raises(error, match=words):
            await db.tenant.create_many([data])
    assert await db.tenant.count() == 1


async def test_violations_name_the_fields_and_carry_prismas_codes(db, tenant):
    with pytest.raises(UniqueViolationError) as taken:
        await db.tenant.create({"slug": "system", "name": "T"})
    assert (taken.value.code, taken.value.meta) == ("P2002", {"modelName": "Tenant", "target": ["slug"]})
    attempt = {"attemptNo": 1, "workerId": "w", "status": "lost", "startedAt": datetime.now(UTC)}
    with pytest.raises(ForeignKeyViolationError) as orphan:
        await db.jobattempt.create({"jobId": str(uuid4()), **attempt})
    assert orphan.value.code == "P2003"
    job = await db.job.create({"tenantId": tenant.id, "jobType": "x"})
    await db.jobattempt.create({"jobId": job.id, **attempt})
    with pytest.raises(UniqueViolationError) as twice:
        await db.jobattempt.create({"jobId": job.id, **attempt})
    assert twice.value.meta["target"] == ["jobId", "attemptNo"]


async def test_prismas_own_defaults_are_made_here(workshop):
    person = await workshop.person.create({"name": "Ada"})
    assert UUID(person.key).version == 4
    assert UUID((await workshop.badge.create({})).number).version == 7
    with pytest.raises(UnsupportedQuery, match=r"the default cuid\(\) of Club.title"):
        await workshop.club.create({"id": 1})
    assert (await workshop.club.create({"id": 1, "title": "given"})).title == "given"


async def test_updated_at_follows_every_write(workshop):
    first = await workshop.gadget.create({"code": "g"})
    second = await workshop.gadget.update(where={"code": "g"}, data={"small": 1})
    assert second.touched > first.touched
    await workshop.gadget.update_many(where={}, data={"small": 2})
    third = await workshop.gadget.find_first()
    assert third.touched > second.touched
    chosen = datetime(2024, 1, 1, tzinfo=UTC)
    fourth = await workshop.gadget.update(where={"code": "g"}, data={"touched": chosen})
    assert fourth.touched == chosen
    assert (await workshop.gadget.update(where={"code": "g"}, data={})).touched == chosen


async def test_many_rows_need_not_name_the_same_fields(workshop):
    rows = [{"code": "a"}, {"code": "b", "small": 1, "tags": []}, {"code": "c", "tags": ["x"], "doc": Json(None)}]
    assert await workshop.gadget.create_many(rows) == 3
    found = await workshop.gadget.find_many(order={"code": "asc"})
    assert [(row.small, row.tags) for row in found] == [(None, ["new"]), (1, []), (None, ["x"])]
    assert await workshop.gadget.create_many([]) == 0
    assert await workshop.badge.create_many([{}, {}]) == 2


@pytest.mark.long
async def test_more_rows_than_one_statement_can_carry_are_still_all_or_nothing(workshop):
    rows = [{"name": f"p{number}", "email": str(number), "key": "k"} for number in range(12_000)]
    assert await workshop.person.create_many(rows) == 12_000
    more = [{"name": f"q{number}", "email": f"q{number}", "key": "k"} for number in range(12_000)]
    with pytest.raises(UniqueViolationError):
        await workshop.person.create_many([*more, rows[0]])
    assert await workshop.person.count() == 12_000


async def test_duplicates_are_skipped_when_asked(workshop):
    assert await workshop.gadget.create_many([{"code": "a"}, {"code": "b"}]) == 2
    with pytest.raises(UniqueViolationError):
        await workshop.gadget.create_many([{"code": "c"}, {"code": "a"}])
    assert await workshop.gadget.count() == 2
    assert await workshop.gadget.create_many([{"code": "c"}, {"code": "a"}, {"code": "c"}], skip_duplicates=True) == 1
    assert await workshop.gadget.count() == 3


UPDATES = [
    ("small", 5, 7, 7),
    ("small", 5, None, None),
    ("small", 5, {"set": 7}, 7),
    ("small", 5, {"set": None}, None),
    ("small", 5, {"increment": 3}, 8),
    ("small", 5, {"decrement": 7}, -2),
    ("small", 5, {"multiply": -2}, -10),
    ("small", 7, {"divide": 2}, 3),
    ("small", None, {"increment": 3}, None),
    ("big", 2**40, {"increment": 2**40}, 2**41),
    ("ratio", 1.5, {"multiply": 2}, 3.0),
    ("ratio", 1.0, {"divide": 4}, 0.25),
    ("price", Decimal("1.5"), {"increment": Decimal("0.125")}, Decimal("1.625")),
    ("odd", "a", {"set": "b"}, "b"),
    ("flag", True, {"set": False}, False),
    ("color", "red", "blue", "blue"),
    ("color", "red", {"set": "green"}, "green"),
    ("doc", Json(1), Json({"set": 2}), {"set": 2}),
    ("doc", Json(1), {"set": Json([2])}, [2]),
    ("doc", Json(1), None, None),
    ("tags", ["a"], ["b", "c"], ["b", "c"]),
    ("tags", ["a"], {"set": []}, []),
    ("tags", ["a"], {"push": ["b", "a"]}, ["a", "b", "a"]),
    ("tags", ["a"], {"push": "b"}, ["a", "b"]),
    ("tags", ["a"], {"push": []}, ["a"]),
    ("colors", ["red"], {"push": ["blue"]}, ["red", "blue"]),
    ("refs", [], {"push": ["0190f3c4-7d2e-7c11-8a55-0123456789ab"]}, ["0190f3c4-7d2e-7c11-8a55-0123456789ab"]),
    ("docs", [Json(1)], {"push": [Json({"a": 1})]}, [1, {"a": 1}]),
]


@pytest.mark.parametrize(("field", "before", "change", "after"), some(UPDATES, every=3))
async def test_an_update_changes_what_it_names_and_nothing_else(workshop, field, before, change, after):
    for code in ("one", "many", "upsert", "other"):
        await workshop.gadget.create({"code": code, field: before})
    other = await workshop.gadget.find_unique(where={"code": "other"})
    assert getattr(await workshop.gadget.update(where={"code": "one"}, data={field: change}), field) == after
    assert await workshop.gadget.update_many(where={"code": "many"}, data={field: change}) == 1
    data = {"create": {"code": "upsert"}, "update": {field: change}}
    assert getattr(await workshop.gadget.upsert(where={"code": "upsert"}, data=data), field) == after
    assert getattr(await workshop.gadget.find_unique(where={"code": "many"}), field) == after
    assert await workshop.gadget.find_unique(where={"code": "other"}) == other


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ({"nope": 1}, FieldNotFoundError, "nope"),
        ({"code": None}, MissingRequiredValueError, r"Gadget\.code"),
        ({"code": {"set": None}}, MissingRequiredValueError, r"Gadget\.code"),
        ({"small": {"increment": None}}, MissingRequiredValueError, r"Gadget\.small\.increment"),
        ({"small": {"increment": 1, "set": 2}}, FieldNotFoundError, "exactly one operation"),
        ({"small": {}}, FieldNotFoundError, "exactly one operation"),
        ({"small": {"power": 2}}, FieldNotFoundError, "`power` on Gadget.small"),
        ({"odd": {"increment": 1}}, FieldNotFoundError, "`increment` on Gadget.odd"),
        ({"odd": {"push": "x"}}, FieldNotFoundError, "`push` on Gadget.odd"),
        ({"numbers": {"increment": 1}}, FieldNotFoundError, "`increment` on Gadget.numbers"),
        ({"doc": {"a": 1}}, FieldNotFoundError, "`a` on Gadget.doc"),
        ({"small": {"divide": 0}}, DataError, "division by zero"),
        ({"small": {"multiply": 30_000}}, DataError, "out of range"),
        ([], FieldNotFoundError, r"Gadget\.data"),
    ],
)
async def test_an_update_that_cannot_be_is_refused(workshop, data, error, words):
    made = await workshop.gadget.create({"code": "g", "small": 5})
    for call in (
        lambda: workshop.gadget.update(where={"code": "g"}, data=data),
        lambda: workshop.gadget.update_many(where={}, data=data),
    ):
        with pytest.raises(error, match=words):
            await call()
    assert await workshop.gadget.find_first() == made


async def test_the_key_itself_can_be_changed(workshop):
    await workshop.pair.create({"left": 1, "right": 1, "label": "x"})
    where = {"left_right": {"left": 1, "right": 1}}
    moved = await workshop.pair.update(where=where, data={"right": {"increment": 4}}, include={"marks": True})
    assert (moved.left, moved.right, moved.marks) == (1, 5, [])


async def test_what_is_not_there_is_not_updated_or_deleted(db):
    absent = {"id": str(uuid4())}
    assert await db.tenant.find_unique(where=absent) is None
    assert await db.tenant.update(where=absent, data={"name": "x"}) is None
    assert await db.tenant.update(where=absent, data={}) is None
    assert await db.tenant.delete(where=absent) is None
    assert await db.tenant.update_many(where=absent, data={"name": "x"}) == 0
    assert await db.tenant.delete_many(where=absent) == 0
    for call in (
        lambda: db.tenant.find_unique_or_raise(where=absent),
        lambda: db.tenant.find_first_or_raise(where=absent),
    ):
        with pytest.raises(RecordNotFoundError) as missing:
            await call()
        assert missing.value.code == "P2025"


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ({}, FieldNotFoundError),
        ({"name": "System"}, FieldNotFoundError),
        ({"id": None}, MissingRequiredValueError),
        ({"slug": {"contains": "sys"}}, FieldNotFoundError),
        ({"slug": "system", "nope": 1}, FieldNotFoundError),
        ({"id": "1 or 1=1"}, DataError),
        ("system", FieldNotFoundError),
    ],
)
async def test_one_row_is_only_found_by_a_whole_key(db, where, error):
    for call in (
        lambda: db.tenant.find_unique(where=where),
        lambda: db.tenant.update(where=where, data={"name": "x"}),
        lambda: db.tenant.delete(where=where),
        lambda: db.tenant.upsert(where=where, data={"create": {"slug": "a", "name": "b"}, "update": {}}),
    ):
        with pytest.raises(error):
            await call()
    assert (await db.tenant.find_first()).name == "System"


async def test_a_key_can_be_joined_by_more_conditions(db, tenant):
    assert await db.tenant.find_unique(where={"slug": "system", "name": {"startswith": "Sys"}}) == tenant
    assert await db.tenant.find_unique(where={"slug": "system", "NOT": [{"name": "System"}]}) is None
    assert await db.tenant.find_unique(where={"slug": "system", "id": tenant.id}) == tenant
    assert await db.tenant.update(where={"slug": "system", "name": "Other"}, data={"name": "x"}) is None


async def test_a_compound_key_needs_all_its_parts(db, tenant):
    job = await db.job.create({"tenantId": tenant.id, "jobType": "x"})
    attempt = {"jobId": job.id, "attemptNo": 1, "workerId": "w", "status": "lost", "startedAt": job.createdAt}
    made = await db.jobattempt.create(attempt)
    key = {"jobId": job.id, "attemptNo": 1}
    assert await db.jobattempt.find_unique(where={"jobId_attemptNo": key}) == made
    for part in ({"jobId": job.id}, {**key, "attemptNo": None}, {}):
        with pytest.raises(MissingRequiredValueError):
            await db.jobattempt.find_unique(where={"jobId_attemptNo": part})
    with pytest.raises(FieldNotFoundError):
        await db.jobattempt.find_unique(where={"jobId_attemptNo": {**key, "pid": 1}})
    with pytest.raises(FieldNotFoundError):
        await db.jobattempt.find_unique(where=key)
    assert (await db.jobattempt.update(where={"jobId_attemptNo": key}, data={"pid": 5})).pid == 5
    assert (await db.jobattempt.delete(where={"jobId_attemptNo": key})).pid == 5


async def test_upsert_creates_once_and_updates_then(db):
    data = {"create": {"key": "mail", "maxRetries": 1}, "update": {"maxRetries": {"increment": 10}}}
    for expected in (1, 11, 21):
        assert (await db.jobtype.upsert(where={"key": "mail"}, data=data)).maxRetries == expected
    other = {"create": {"key": "mail"}, "update": {}}
    with pytest.raises(UniqueViolationError):
        await db.jobtype.upsert(where={"key": "absent"}, data=other)
    with pytest.raises(MissingRequiredValueError):
        await db.jobtype.upsert(where={"key": "x"}, data={"create": {"key": "x"}})
    assert await db.jobtype.count() == 1


async def test_concurrent_upserts_all_succeed_and_make_one_row(db):
    data = {"create": {"key": "hot", "maxRetries": 0}, "update": {"maxRetries": {"increment": 1}}}
    rows = await asyncio.gather(*(db.jobtype.upsert(where={"key": "hot"}, data=data) for _ in range(24)))
    assert sorted(row.maxRetries for row in rows) == list(range(24))


async def test_delete_gives_back_the_row_as_it_was(db):
    made = await db.jobtype.create({"key": "mail", "retryPolicy": Json({"base": 1})})
    assert await db.jobtype.delete(where={"key": "mail"}) == made
    assert await db.jobtype.delete(where={"key": "mail"}) is None
    await db.jobtype.create_many([{"key": str(number)} for number in range(5)])
    assert await db.jobtype.delete_many(where={"key": {"in": ["1", "2"]}}) == 2
    assert await db.jobtype.delete_many() == 3


async def test_nothing_to_change_changes_nothing(db, tenant):
    assert await db.tenant.update(where={"id": tenant.id}, data={}) == tenant
    assert await db.tenant.update_many(where={}, data={}) == 0
