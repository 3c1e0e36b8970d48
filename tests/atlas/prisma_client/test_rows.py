"""Rows become instances without validation, and are what validation would have made of them."""

from datetime import UTC, datetime

import pytest

from atlas.generated import Base64, Json
from atlas.generated.bases import BaseTenant
from atlas.prisma_client import client

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
DOCUMENT = {"a": [1, 2.5, None, "x"], "b": {"c": True}}


@pytest.fixture
def validated(monkeypatch):
    """Reads with pydantic's validation instead."""

    async def read(actions, **options):
        with monkeypatch.context() as patched:
            patched.setattr(client, "as_models", lambda model, result, rows: rows)
            return await actions.find_many(**options)

    return read


async def test_an_instance_is_what_validation_would_make_of_its_row(db, tenant, validated):
    await db.apitoken.create(
        {"prefix": "p", "hash": Base64.encode(b"\0\xff" * 16), "subject": "s", "role": "auditor", "tenantId": tenant.id}
    )
    job = await db.job.create(
        {"tenantId": tenant.id, "jobType": "t", "input": Json(DOCUMENT), "progress": Json(None), "nextRetryAt": NOW}
    )
    await db.jobattempt.create(
        {"jobId": job.id, "attemptNo": 1, "workerId": "w", "status": "failed", "startedAt": NOW, "result": Json([1])}
    )
    await db.jobworker.create(
        {"workerId": "w", "hostname": "h", "version": "1", "jobTypes": ["t", "u"], "leaseExpiresAt": NOW}
    )
    counts = dict.fromkeys(("enqueued", "succeeded", "failed", "deadLettered", "retried", "canceled"), 2**40)
    times = {"waits": [1, 2], "waitSeconds": 1.5, "runs": [], "runSeconds": 2.0}
    await db.jobtotal.create({"jobType": "t", **counts, **times})
    await db.usagecost.create({"jobId": job.id, "cents": 3})
    for name in (
        "tenant",
        "apitoken",
        "job",
        "shownjob",
        "listedjob",
        "jobattempt",
        "jobrun",
        "jobworker",
        "jobtotal",
        "usagecost",
    ):
        made, checked = await getattr(db, name).find_many(), await validated(getattr(db, name))
        assert made
        assert made == checked
        assert [one.model_dump() for one in made] == [one.model_dump() for one in checked]
        assert [list(dict(one)) for one in made] == [list(dict(one)) for one in checked]


async def test_relations_that_are_included_are_validated_alike(db, tenant, validated):
    for name in ("a", "b"):
        host = await db.host.create({"tenantId": tenant.id, "name": name})
    await db.serverinstance.create({"tenantId": tenant.id, "hostId": host.id, "name": "i"})
    for include in ({"instances": True}, {"instances": {"include": {"host": True}}, "tenant": True}):
        for _ in range(2):
            made = await db.host.find_many(include=include, order={"name": "asc"})
            checked = await validated(db.host, include=include, order={"name": "asc"})
            assert made == checked
            assert [one.model_dump() for one in made] == [one.model_dump() for one in checked]
            assert [list(dict(one)) for one in made] == [list(dict(one)) for one in checked]
            assert [one.model_fields_set for one in made] == [one.model_fields_set for one in checked]
    assert [len(one.instances) for one in made] == [0, 1]


async def test_instances_share_nothing(db):
    first, second = await db.tenant.find_first_or_raise(), await db.tenant.find_first_or_raise()
    first.name = "Another"
    first.limits["in_flight"] = 7
    assert (second.name, second.limits) == ("System", {})


async def test_a_class_of_the_caller_is_validated(db):
    class Short(BaseTenant):
        slug: str
        limits: Json

    found = await Short.prisma(db).find_first()
    assert found == Short(slug="system", limits="{}")
    assert type(found) is Short


async def test_a_number_that_no_float_holds_comes_as_text(db, tenant):
    job = await db.job.create({"tenantId": tenant.id, "jobType": "t"})
    await db.execute_raw("""update atlas.jobs set input = '{"n": 1e400}' where id = $1::uuid""", job.id)
    found = await db.job.find_unique_or_raise(where={"id": job.id})
    assert found.input["n"].strip("0") == "1"
