"""An application's login ends the attempt whose token it has, while that attempt is its worker's, and can do nothing else."""

import re
import secrets
from dataclasses import replace
from uuid import uuid4

import asyncpg
import orjson
import pytest

from atlas.engine.jobs.attempts.attempt_commit import attempt_token, finishing
from atlas.engine.jobs.claim import Claimant, claim
from atlas.engine.jobs.lease import new_worker_id, reap, register_worker
from atlas.engine.jobs.new_jobs.refusals import refusals
from atlas.engine.jobs.verdicts import succeed
from atlas.engine.workflows.steps.step_commit import StepCommit
from atlas.errors import LeaseLost, Refused
from tests.engine.jobs.given import actions, given_job, load, lose_lease
from tests.engine.workflows.kit import first_step
from tests.pgbouncer import direct_url

KEY = secrets.token_bytes(32)


@pytest.fixture(autouse=True)
def online() -> None:
    """Atlas is on."""


@pytest.fixture
async def shop(owner, database_url):
    """A connection of the application, whose login may call enqueue and commit_attempt."""
    login = f"shop_{uuid4().hex[:12]}"
    await owner.execute(
        f"""create role {login} login password 'secret'; create table ledger (job_id uuid);
        alter table ledger owner to {login}; select atlas.grant_enqueue('{login}')"""
    )
    conn = await asyncpg.connect(re.sub("//[^@]*@", f"//{login}:secret@", direct_url(database_url)))
    yield conn
    await conn.close()
    await owner.execute(f"drop owned by {login}; drop role {login}")


@pytest.fixture
async def claimed(conn):
    """A job in the hands of a living worker with a key."""

    async def make(job_type="report.build"):
        await given_job(conn, job_type)
        worker = Claimant(new_worker_id(), [job_type])
        await register_worker(conn, worker.id, lease=60, job_types=[job_type], key=KEY)
        [job] = await claim(conn, worker, limit=1)
        return worker, job

    return make


def call_of(worker, job, key=KEY):
    return finishing(worker.id, key, [succeed(job, worker.id, '{"n": "it\'s \\\\ 1"}', "JOB_SUCCEEDED")])


async def commit(shop, job, call):
    with refusals():
        async with shop.transaction():
            await shop.execute("insert into ledger values ($1)", job.id)
            await shop.execute(call.text())


async def test_what_the_login_wrote_the_outcome_and_the_event_are_one_commit(conn, shop, claimed):
    worker, job = await claimed()
    await shop.execute("set standard_conforming_strings = off")
    await commit(shop, job, call_of(worker, job))

    row = await load(conn, job.id)
    assert (row["status"], row["output"], row["claimed_by"]) == ("succeeded", '{"n": "it\'s \\\\ 1"}', worker.id)
    assert await actions(conn, job.id) == ["JOB_CREATED", "JOB_SUCCEEDED"]
    assert await shop.fetchval("select count(*) from ledger") == 1

    # The same call again, its response having been lost, is refused with all that was written beside it.
    with pytest.raises(LeaseLost, match="no longer leased"):
        await commit(shop, job, call_of(worker, job))
    assert await shop.fetchval("select count(*) from ledger") == 1


async def test_it_is_refused_and_nothing_stays(conn, owner, shop, claimed):
    async def lose(worker, job):
        await lose_lease(conn, worker)
        return worker, job, KEY

    async def reaped(worker, job):
        await lose_lease(conn, worker)
        await reap(conn)
        return worker, job, KEY

    async def another_key(worker, job):
        return worker, job, secrets.token_bytes(32)

    async def another_worker(worker, job):
        return (await claimed())[0], job, KEY

    async def another_attempt(worker, job):
        return worker, replace(job, attempt=2), KEY

    async def keyless(worker, job):
        await owner.execute("delete from atlas.worker_keys where worker_id = $1", worker.id)
        return worker, job, KEY

    faults = {
        lose: LeaseLost,
        reaped: LeaseLost,
        another_key: Refused,
        another_worker: LeaseLost,
        another_attempt: LeaseLost,
        keyless: Refused,
    }
    for fault, error in faults.items():
        worker, job = await claimed()
        other, changed, key = await fault(worker, job)
        with pytest.raises(error):
            await commit(shop, job, call_of(other, changed, key))
        assert "JOB_SUCCEEDED" not in await actions(conn, job.id), fault.__name__
    assert await shop.fetchval("select count(*) from ledger") == 0


async def test_the_token_of_one_attempt_ends_no_other(conn, shop, claimed):
    worker, job = await claimed()
    _, other = await claimed()
    forged = call_of(worker, other)._replace(
        jobs=call_of(worker, other).jobs.replace(
            attempt_token(KEY, other.id, other.attempt), attempt_token(KEY, job.id, job.attempt)
        )
    )
    with pytest.raises(Refused, match="token"):
        await commit(shop, other, forged)


@pytest.mark.parametrize("action", ["AUDIT_PRUNED", "AUDIT_KEY", "ERASED"])
async def test_it_writes_no_event_of_the_log_itself(conn, shop, claimed, action):
    worker, job = await claimed()
    call = call_of(worker, job)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="not one that audit_log takes from shop_"):
        await shop.execute(call._replace(jobs=call.jobs.replace("JOB_SUCCEEDED", action)).text())
    assert await actions(conn, job.id) == ["JOB_CREATED"]


async def test_the_event_names_the_login_whatever_the_call_leaves_out(conn, shop, claimed):
    login = await shop.fetchval("select session_user::text")
    worker, job = await claimed()
    call = call_of(worker, job)
    [row] = orjson.loads(call.jobs)
    row.pop("meta", None)
    await shop.execute(call._replace(jobs=orjson.dumps([row]).decode()).text())
    assert await conn.fetchval("select meta->>'login' from atlas.audit_log where action = 'JOB_SUCCEEDED'") == login


async def test_the_login_may_call_nothing_else_and_sees_nothing(shop):
    refused = [
        "select * from atlas.worker_keys",
        "select * from atlas.jobs",
        "update atlas.jobs set status = 'succeeded'",
        "insert into atlas.audit_log (actor_type) values ('system')",
        "select atlas.finish('w', null, '{}', null, null, null, null, null, null, null, null, null, null, null, null, null, null)",
        "select * from atlas.enqueue('system', 'report.build')",
        "set role atlas_engine",
    ]
    for statement in refused:
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.PostgresError)) as refusal:
            await shop.execute(statement)
        assert refusal.value.sqlstate in ("42501", "AT403"), statement


async def test_a_session_that_freezes_before_its_commit_frees_the_job_in_seconds(conn, shop, claimed):
    worker, job = await claimed()
    async with shop.transaction():
        await shop.execute(call_of(worker, job).text())
        assert await shop.fetchval("select current_setting('idle_in_transaction_session_timeout')") == "4s"


async def test_a_step_is_recorded_with_what_it_wrote_or_not_at_all(conn, shop, claimed):
    worker, run = await claimed("ENGINE_RUN")

    class Keys:
        def key_of(self, worker_id, job_id, attempt):
            return KEY

    step = first_step(run.id, 1)._replace(output='{"a":  1}', input="[2]")
    call = StepCommit(Keys(), worker.id).call(step)
    await commit(shop, run, call)
    recorded = await conn.fetchrow("select status::text, output::text, input::text from atlas.workflow_steps")
    # The text as it is: the digest of a run's end is computed of it.
    assert tuple(recorded) == ("succeeded", '{"a":  1}', "[2]")
    with pytest.raises(asyncpg.UniqueViolationError):
        await commit(shop, run, call)
    await lose_lease(conn, worker)
    with pytest.raises(LeaseLost):
        await commit(shop, run, StepCommit(Keys(), worker.id).call(step._replace(position=1)))
    assert await shop.fetchval("select count(*) from ledger") == 1
