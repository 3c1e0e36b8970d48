"""What the steps of a run returned is compared with the event of its end."""

from datetime import timedelta

from atlas.audit.verification.crosscheck import cross_check
from atlas.engine.workflows.run_actions import retry_run
from tests.engine.workflows.kit import APPROVER

DIGEST = "select meta->>'step_outputs_sha256' from atlas.audit_log where entity_id = $1 order by id desc limit 1"
CHANGES = [
    "update atlas.workflow_steps set output = '\"other\"' where run_id = $1 and name = $2",
    "update atlas.workflow_steps set output = null where run_id = $1 and name = $2",
    "delete from atlas.workflow_steps where run_id = $1 and name = $2",
    "update atlas.workflow_steps set position = 7 where run_id = $1 and name = $2",
]


async def test_outputs_of_steps_that_were_changed_after_the_end_are_found(kit, owner):
    ended = await kit.run("wf.plain")
    undone = await kit.run("wf.saga")
    typed = await kit.run("wf.typed", {"item": "tea"})
    await kit.pass_time(timedelta(seconds=61))
    await kit.work()
    assert [(await kit.get(run.id)).status for run in (ended, undone, typed)] == ["succeeded", "failed", "succeeded"]
    assert await cross_check(owner) == []

    for run, step in ((ended, "note"), (undone, "reserve"), (typed, "price")):
        assert await owner.fetchval(DIGEST, str(run.id)) is not None
        for change in CHANGES:
            transaction = owner.transaction()
            await transaction.start()
            assert await owner.execute(change, run.id, step) in ("UPDATE 1", "DELETE 1")
            [finding] = await cross_check(owner)
            await transaction.rollback()
            assert finding.message == f"Job {run.id} differs from its events: outputs of steps."


async def test_a_run_that_is_retried_is_compared_with_its_next_end(kit, owner):
    run = await kit.run("wf.flaky", {"failures": 1, "retries": 0})
    assert run.status == "failed"
    async with kit.pool.acquire() as conn:
        await retry_run(conn, run.id, actor=APPROVER)
    assert await cross_check(owner) == []
    await kit.work()

    assert (await kit.get(run.id)).status == "succeeded"
    assert await cross_check(owner) == []
    await owner.execute("update atlas.workflow_steps set output = '3'")
    assert len(await cross_check(owner)) == 1
