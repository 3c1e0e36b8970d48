"""A run of a workflow in code goes to the workers that have the code."""

import pytest

from atlas.engine.jobs.claim import Claimant, claim
from atlas.engine.jobs.lease import register_worker
from atlas.engine.workflows.registry import CodeWorkflow
from atlas.engine.workflows.workflow_catalog import publish_workflows

ELSEWHERE = "wf.elsewhere"


async def no_code(run, input):
    raise AssertionError


@pytest.fixture
async def run_id(kit, conn):
    """A run whose workflow another worker has published."""
    await publish_workflows(conn, [CodeWorkflow(ELSEWHERE, no_code, None, "")], by="test")
    asked = await kit.ask(ELSEWHERE)
    await kit.tick()
    return asked


async def state(conn, run_id):
    row = await conn.fetchrow("select status, attempt_count, next_retry_at from atlas.jobs where id = $1", run_id)
    return row["status"], row["attempt_count"], row["next_retry_at"] is not None


async def test_a_worker_without_the_code_takes_a_run_once_and_leaves_it_to_those_that_have_it(kit, conn, run_id):
    for worker, workflows in (("has-it", [ELSEWHERE]), ("lacks-it", ["wf.other"])):
        await register_worker(conn, worker, lease=600, job_types=["ENGINE_RUN"], metadata={"workflows": workflows})

    await kit.work()
    assert await state(conn, run_id) == ("queued", 1, False)
    await kit.work()
    lacking = await claim(conn, Claimant("lacks-it", ["ENGINE_RUN"]), limit=5)
    assert (lacking, await state(conn, run_id)) == ([], ("queued", 1, False))
    # A run that every worker can do is not held up by it.
    assert (await kit.run("wf.plain")).status == "succeeded"

    [taken] = await claim(conn, Claimant("has-it", ["ENGINE_RUN"]), limit=5)
    assert (taken.id, taken.attempt) == (run_id, 2)


async def test_a_run_whose_code_no_living_worker_has_waits_and_is_looked_at_again(kit, conn, run_id):
    await register_worker(conn, "has-it", lease=600, job_types=["ENGINE_RUN"], metadata={"workflows": [ELSEWHERE]})
    await kit.work()
    await conn.execute("update atlas.job_workers set lease_expires_at = now() - interval '1 minute'")

    await kit.work()
    assert await state(conn, run_id) == ("queued", 2, True)
