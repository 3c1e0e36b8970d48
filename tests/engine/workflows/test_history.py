"""A run in history is read, explained, proved, erased and forked as before; a dead letter is not moved there."""

from uuid import UUID

import pytest

from atlas.audit.exports.proof import prove
from atlas.audit.personal_data import erase
from atlas.audit.record import Event, record
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.crosscheck import cross_check
from atlas.db.prisma import prisma_on
from atlas.engine.jobs.actions.change_many import change_many
from atlas.engine.jobs.explain.explain_job import explain
from atlas.engine.workflows.explain import explain_run
from atlas.engine.workflows.run_actions import fork_run
from tests.audit.given import Installation
from tests.engine.retention.test_history import file_all, given_failure, places, side_rows
from tests.engine.retention.test_retention import age, old
from tests.engine.workflows.flows import calls
from tests.engine.workflows.kit import APPROVER, REQUESTER

ROW_OF_JOB = "select max(id) from atlas.audit_log where entity_id = $1"


async def read(conn, run_id: UUID) -> dict[str, object]:
    """What readers show of a run."""
    prisma = prisma_on(conn)
    where = {"status": "succeeded", "jobType": "ENGINE_RUN"}
    return {
        "job": await prisma.job.find_many(where=where, include={"attempts": True}),
        "shown": await prisma.shownjob.find_many(where={"id": {"in": [str(run_id)]}}),
        "run": await prisma.workflowrun.find_unique(where={"id": str(run_id)}),
        "steps": await prisma.workflowstep.find_many(where={"runId": str(run_id)}, order={"position": "asc"}),
        "explained": (await explain(conn, run_id), await explain_run(conn, run_id)),
        "proof": await prove(conn, await conn.fetchval(ROW_OF_JOB, str(run_id))),
    }


async def test_a_run_in_history_is_read_explained_proved_erased_and_forked_as_before(kit, pool, tmp_path):
    calls.clear()
    run = await kit.run("wf.stepping", {"steps": 3}, id=old())
    async with pool.acquire() as conn:
        personal = {"to": "ann@example.org"}
        await record(conn, Event("NOTED", "job", str(run.id), REQUESTER, run.tenant_id), personal=personal)
        await seal(conn)
        await Installation(tmp_path / "home").sign(conn)
        await age(conn, days=0)
        before = await read(conn, run.id)
        assert len(before["steps"]) == 3

        assert await file_all(pool) == 1
        assert "hot" not in (await side_rows(conn)).values()
        assert await read(conn, run.id) == before
        assert await erase(conn, "ann@example.org", actor=APPROVER) == 1
        assert await cross_check(conn) == []
        forked = await fork_run(conn, run.id, "step 2", actor=APPROVER)
    await kit.tick()
    await kit.work()
    assert (await kit.get(forked)).status == "succeeded"
    assert [calls[f"step {n}"] for n in range(3)] == [1, 1, 2]
    async with pool.acquire() as conn:
        assert {id: place != "jobs" for id, place in (await places(conn)).items()} == {run.id: True, forked: False}


@pytest.mark.usefixtures("online")
async def test_a_dead_letter_moves_once_it_is_discarded(conn, pool):
    letter = await given_failure(conn, ValueError("no"))
    await age(conn, days=0)
    assert await file_all(pool) == 0
    await change_many(conn, "discard", [letter], actor=APPROVER, tenant_id=None)
    await age(conn, days=0)
    assert await file_all(pool) == 1
