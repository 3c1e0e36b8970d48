"""Bulk actions of schedulers that are killed and frozen: another goes on at once, and no job is changed twice."""

import signal
import time

import pytest

from atlas.engine.jobs.actions.bulk_actions import begin_bulk_action, find_bulk_action
from atlas.engine.jobs.lists.job_list import JobFilter
from tests.engine.jobs.test_bulk_actions import given_dead
from tests.support import DANA

COUNT, RATE = 1500, 300.0


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_an_action_goes_on_when_its_scheduler_is_killed_or_frozen(pool, conn, scheduler, eventually, how):
    first = await scheduler()
    ids = await given_dead(conn, COUNT)
    begun = await begin_bulk_action(
        conn, "retry", actor=DANA, job_filter=JobFilter(statuses=("dead_letter",)), rate_per_second=RATE
    )
    changed = "select changed from atlas.bulk_actions"
    await eventually(f"select ({changed}) > {begun.changed}")
    first.send_signal(how)
    await first.wait() if how is signal.SIGKILL else None
    done = await conn.fetchval(changed)
    assert done < COUNT

    began = time.monotonic()
    await scheduler()
    await eventually(f"select ({changed}) > {done}")
    print(f"it went on {time.monotonic() - began:.1f} s after another scheduler was started")
    await eventually("select status from atlas.bulk_actions", equals="done", within=60)

    assert (await find_bulk_action(conn, begun.id)).verdicts == {"retried": COUNT}
    audited = await pool.fetchval(
        "select count(distinct entity_id) from atlas.audit_log where action = 'JOB_RETRIED' and entity_id = any ($1::text[])",
        [str(id) for id in ids],
    )
    assert audited == COUNT
    assert await pool.fetchval("select count(*) from atlas.audit_log where action = 'JOB_RETRIED'") == COUNT
