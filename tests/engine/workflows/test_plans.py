"""Plans: the hot statements of workflows never scan a table, whatever its statistics say."""

from dataclasses import replace

import pytest

from atlas.engine.jobs.claim import Claimant, claim
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lease import register_worker
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.verdicts import succeed
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.intents import NewIntent, request_workflows, take_intents
from atlas.engine.workflows.steps.history import Suspension, Wait
from atlas.engine.workflows.steps.step_store import load_histories, record_steps
from atlas.engine.workflows.suspend import suspend_runs
from tests.engine.workflows.kit import REQUESTER, first_step

CROWD = 20_000
TABLES = ("jobs", "workflow_runs", "workflow_steps", "intents", "events", "approvals", "audit_log")

FILL = f"""
insert into atlas.jobs (id, tenant_id, job_type, status, finished_at)
select gen_random_uuid(), '{SYSTEM_TENANT}', 'ENGINE_RUN', 'succeeded', now() from generate_series(1, {CROWD});
insert into atlas.intents (id, tenant_id, workflow, input_hash, status, requested_by)
select id, tenant_id, 'x', '\\x00', 'executed', 'x' from atlas.jobs;
insert into atlas.workflow_runs (id, tenant_id, workflow, requested_by) select id, tenant_id, 'x', 'x' from atlas.jobs;
insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status)
select id, '', n, tenant_id, 'x', 'step', 'succeeded' from atlas.jobs cross join generate_series(0, 2) n;
insert into atlas.events (tenant_id, name, created_by, handled_at)
select tenant_id, 'past', 'x', now() from atlas.jobs;
insert into atlas.approvals (tenant_id, run_id, kind, title, input_hash, requested_by, status, expires_at, decided_at)
select tenant_id, id, 'step', 'x', '\\x00', 'x', 'approved', now(), now() from atlas.jobs;
"""


async def scans(owner) -> dict[str, int]:
    await owner.execute("select pg_stat_force_next_flush()")
    await owner.execute("select pg_stat_clear_snapshot()")
    rows = await owner.fetch("select relname, seq_scan from pg_stat_user_tables where relname = any($1)", list(TABLES))
    return {row["relname"]: row["seq_scan"] for row in rows}


@pytest.mark.long
@pytest.mark.parametrize("analyzed", [False, True])
async def test_no_hot_verb_of_workflows_scans_a_table(kit, owner, analyzed):
    await owner.execute(FILL)
    if analyzed:
        await owner.execute("vacuum analyze")
    worker = Claimant("worker", ["ENGINE_RUN"])
    async with kit.pool.acquire() as conn:
        await register_worker(conn, worker.id, lease=60, job_types=["ENGINE_RUN"])
        await conn.execute("select pg_stat_force_next_flush()")
        before = await scans(owner)

        asked = [NewIntent("wf.plain") for _ in range(60)]
        await request_workflows(conn, SYSTEM_TENANT, asked, requested_by=REQUESTER)
        await take_intents(conn, "engine")
        jobs = await claim(conn, worker, limit=60)
        marks = [first_step(job.id, job.attempt) for job in jobs]
        await record_steps(conn, marks, worker_id=worker.id)
        await record_steps(conn, marks, True, worker_id=worker.id)
        leaving = [
            Suspension(job.id, job.attempt, SYSTEM_TENANT, "ada", None, [_event_wait(1)], ["paid"]) for job in jobs[:30]
        ]
        begun = [replace(one, stays=True) for one in leaving]
        assert set(await suspend_runs(conn, begun, worker_id=worker.id)) == {"held"}
        assert set(await suspend_runs(conn, begun, True, worker_id=worker.id)) == {"held"}
        leaving = [replace(one, waits=[]) for one in leaving]
        assert set(await suspend_runs(conn, leaving, worker_id=worker.id)) == {"held"}
        assert (await publish_event(conn, SYSTEM_TENANT, "paid", {}, actor=REQUESTER)).woken == 30
        assert len(await load_histories(conn, [job.id for job in jobs[:30]])) == 30
        await finish(conn, worker, [succeed(job, worker.id, None, "WORKFLOW_COMPLETE") for job in jobs[30:]])

        await conn.execute("select pg_stat_force_next_flush()")
    assert await scans(owner) == before


def _event_wait(position: int) -> Wait:
    return Wait("", position, "paid", "event", event_name="paid", event_match="{}")
