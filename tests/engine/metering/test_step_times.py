"""Step times: the slowest steps of runs, with exact percentiles and shares."""

from datetime import timedelta

import pytest

from atlas.engine.metering import step_times
from atlas.engine.metering.step_times import StepTimesQuery, read_step_times
from atlas.engine.tenants.tenants import add_tenant
from atlas.errors import InvalidInput
from atlas.ids import new_id
from tests.support import DANA

STEP = """
insert into atlas.workflow_steps (run_id, branch, position, tenant_id, name, kind, status, started_at, finished_at, child_id)
values ($1, '', $2, $3, $4, $5, $6, now(), now() + $7 * interval '1 second', $8)"""
RUN = """
insert into atlas.workflow_runs (id, tenant_id, workflow, requested_by, events_from) values ($1, $2, $3, 'dana', 0)"""


async def given_run(conn, tenant_id, workflow, **seconds):
    """A run with a finished step of each of these names that took so long; one more has not finished."""
    run_id = new_id()
    await conn.execute(RUN, run_id, tenant_id, workflow)
    for position, (name, took) in enumerate([*seconds.items(), ("open", None)]):
        status = "waiting" if took is None else "failed" if name == "fails" else "succeeded"
        await conn.execute(STEP, run_id, position, tenant_id, name, "step", status, took, None)
    return run_id


async def test_the_slowest_steps_come_first_with_their_percentiles_and_shares(conn, monkeypatch):
    acme, other = [await add_tenant(conn, slug=slug, name=slug, actor=DANA) for slug in ("acme", "other")]
    for took in (1.0, 2.0, 3.0):
        await given_run(conn, acme.id, "payout", check=took, mail=took * 9)
    await given_run(conn, acme.id, "order", fails=40.0)
    await given_run(conn, other.id, "payout", check=1000.0)

    found = await read_step_times(conn, StepTimesQuery(acme.id))
    shown = [(item.workflow, item.step, item.count, item.failed, item.p50, item.total_seconds) for item in found.items]
    assert shown == [
        ("payout", "mail", 3, 0, 18.0, 54.0),
        ("order", "fails", 1, 1, 40.0, 40.0),
        ("payout", "check", 3, 0, 2.0, 6.0),
    ]
    assert [item.share for item in found.items] == pytest.approx([0.54, 0.4, 0.06])
    assert found.items[0].p95 == pytest.approx(26.1)
    assert (found.runs, found.is_sampled) == (4, False)

    of_one = await read_step_times(conn, StepTimesQuery(acme.id, workflow="payout"))
    assert [item.step for item in of_one.items] == ["mail", "check"]
    # An operator sees all tenants; a time before the runs has none.
    assert (await read_step_times(conn, StepTimesQuery())).items[0].p50 == pytest.approx(501.0, abs=500)
    early = found.start - timedelta(days=7)
    assert (await read_step_times(conn, StepTimesQuery(acme.id, early, found.start))).items == []

    # Of more runs than it reads, it reads the newest, and says so.
    monkeypatch.setattr(step_times, "MAX_RUNS", 1)
    newest = await read_step_times(conn, StepTimesQuery(acme.id))
    assert ([item.step for item in newest.items], newest.is_sampled) == (["fails"], True)
    with pytest.raises(InvalidInput, match="31 days"):
        await read_step_times(conn, StepTimesQuery(acme.id, found.end - timedelta(days=40), found.end))


async def test_the_steps_that_run_jobs_of_a_type_are_found_by_it(conn):
    acme = await add_tenant(conn, slug="acme", name="acme", actor=DANA)
    run_id = await given_run(conn, acme.id, "payout", check=1.0)
    job_id = await conn.fetchval(
        "insert into atlas.jobs (id, tenant_id, job_type, source) values ($1, $2, 'mail.send', 'workflow') returning id",
        new_id(),
        acme.id,
    )
    await conn.execute(STEP, run_id, 9, acme.id, "mail", "job", "succeeded", 3.0, job_id)
    found = await read_step_times(conn, StepTimesQuery(acme.id, job_type="mail.send"))
    assert [(item.step, item.kind, item.share) for item in found.items] == [("mail", "job", 1.0)]
    assert (await read_step_times(conn, StepTimesQuery(acme.id, job_type="other"))).items == []
