"""What a decorator may say."""

import pytest

from atlas.engine.jobs import NewJob, enqueue, enqueue_many
from atlas.engine.jobs.types import job, registered
from atlas.errors import InvalidInput
from tests.support import DANA


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"success_action": "shipped"}, "success_action"),
        ({"max_output": 0}, "max_output"),
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


async def test_only_retries_that_the_caller_names_are_stored_however_a_job_is_enqueued(conn):
    await enqueue(conn, NewJob("types.patient"), actor=DANA)
    await enqueue(conn, NewJob("types.patient", priority=1), actor=DANA)
    await enqueue(conn, NewJob("types.patient", dedupe_key="k"), actor=DANA)
    await enqueue_many(conn, [NewJob("types.patient"), NewJob("types.patient", max_retries=2)], actor=DANA)

    found = await conn.fetch("select max_retries from atlas.jobs where job_type = 'types.patient' order by id")
    assert [row["max_retries"] for row in found] == [None, None, None, None, 2]
