"""What a decorator may say."""

from dataclasses import replace

import pytest

from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.handlers.type_catalog import publish_types
from atlas.engine.jobs.handlers.types import job, registered
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.errors import InvalidInput
from tests.support import DANA


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"success_action": "shipped"}, "success_action"),
        ({"max_output": 0}, "max_output"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 1001}, "max_retries"),
        ({"success_action": ""}, "success_action"),
    ],
)
def test_a_decorator_that_says_something_wrong_is_refused_by_the_field(said, field):
    with pytest.raises(InvalidInput) as refused:

        @job("types.wrong", **said)
        async def wrong(input): ...

    assert [error.field for error in refused.value.errors] == [field]
    assert "types.wrong" not in registered()


@job("types.patient", max_retries=9)
async def patient(input):
    """Known here, and not published yet."""


async def test_a_known_types_retries_are_stored_however_its_jobs_are_enqueued(conn):
    await enqueue(conn, NewJob("types.patient"), actor=DANA)
    await enqueue(conn, NewJob("types.patient", priority=1), actor=DANA)
    await enqueue(conn, NewJob("types.patient", dedupe_key="k"), actor=DANA)
    await enqueue_many(conn, [NewJob("types.patient"), NewJob("types.patient", max_retries=2)], actor=DANA)

    found = await conn.fetch("select * from atlas.jobs where job_type = 'types.patient' order by id")
    assert [(row["max_retries"], row["retries_chosen"]) for row in found] == [*[(9, False)] * 4, (2, True)]


async def test_the_retries_of_each_type_are_stored_in_a_batch_of_several(conn):
    await conn.execute("insert into atlas.job_types (key, max_retries) values ('types.elsewhere', 6)")
    asked = [("types.patient", None), ("types.elsewhere", None), ("types.unheard_of", None), ("types.elsewhere", 0)]
    jobs = [NewJob(key, max_retries=retries, dedupe_key=str(n)) for n, (key, retries) in enumerate(asked)]
    await enqueue_many(conn, jobs, actor=DANA)

    found = await conn.fetch("select * from atlas.jobs order by dedupe_key")
    stored = [(row["max_retries"], row["retries_chosen"]) for row in found]
    assert stored == [(9, False), (6, False), (3, False), (0, True)]


async def test_types_that_did_not_change_are_published_in_one_statement_and_the_others_with_an_event_each(conn):
    first = replace(registered()["types.patient"], key="types.first", rate="5/minute", input_schema={"type": "object"})
    types = [first, *(replace(first, key=f"types.{n}") for n in range(20))]
    await publish_types(conn, types)
    await conn.execute("update atlas.job_types set last_seen_at = '2000-01-01'")

    sent = []
    with conn.query_logger(lambda query: sent.append(query.query)):
        await publish_types(conn, types)
    changed = replace(first, concurrency=7)
    await publish_types(conn, [*types[1:], changed, replace(first, key="types.new")])

    assert len(sent) == 1
    assert await conn.fetchval("select count(*) from atlas.job_types where last_seen_at > '2001-01-01'") == 22
    events = await conn.fetch(
        "select entity_id, meta #>> '{changes,concurrency,after}' as changed from atlas.audit_log"
        " where action = 'JOB_TYPE_PUBLISHED' order by id offset 21"
    )
    assert [tuple(event) for event in events] == [("types.new", None), ("types.first", "7")]
    assert await cross_check(conn, limit=1000, rows=1000) == []
