"""Removing a tenant: all of it goes and nothing else, whatever is added meanwhile and whichever process dies."""

import asyncio
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import orjson
import pytest

from atlas.audit.record import Event, record
from atlas.audit.sealing.seal import seal
from atlas.audit.verification.crosscheck import cross_check
from atlas.audit.verification.verify import verify
from atlas.engine.access.sessions import open_session
from atlas.engine.access.tokens import add_token, list_tokens
from atlas.engine.hosts.hosts import add_host
from atlas.engine.idempotency import call_key, once
from atlas.engine.jobs.backoff import ATLAS
from atlas.engine.jobs.enqueue import enqueue, enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT, NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import JobCanceled, decide
from atlas.engine.metering.usage import meter_usage
from atlas.engine.policy.rules import add_rule
from atlas.engine.schedules.recurring import save_recurring
from atlas.engine.tenants.removal import begin_removal, continue_removal, list_removals, removed_rows
from atlas.engine.tenants.tenants import add_tenant, find_tenant
from atlas.engine.triggers.store import add_trigger
from atlas.engine.workflows.declared.store import save_workflow
from atlas.engine.workflows.events import publish_event
from atlas.engine.workflows.intents import request_workflow
from atlas.errors import Conflict, NotFound, Refused
from atlas.scheduler.maintenance import Maintenance
from tests.audit.given import Installation, kinds
from tests.engine.given import EVERY, given_full_tenant, rows_of
from tests.engine.jobs.given import given_claimed, given_job, lose_lease, success
from tests.support import DANA

STAYS = {"audit_log", "audit_seal_tenant"}


@pytest.fixture
def transaction(pool):
    """Opens a transaction, as those who carry out a removal do."""

    @asynccontextmanager
    async def open():
        async with pool.acquire() as conn, conn.transaction():
            yield conn

    return open


async def remove(transaction, tenant, *, most=None, **options):
    """Carry out so many steps of a removal, or all; returns them."""
    steps = []
    async with aclosing(continue_removal(transaction, tenant.id, actor=DANA, **options)) as going:
        async for step in going:
            steps.append(step)
            if len(steps) == most:
                break
    return steps


async def last_event(conn, action):
    row = await conn.fetchrow("select * from atlas.audit_log where action = $1 order by id desc limit 1", action)
    return orjson.loads(row["meta"])


async def test_everything_of_a_tenant_goes_and_the_audit_log_proves_it(conn, transaction, tmp_path):
    installation = Installation(tmp_path / "home")
    acme, other = await given_full_tenant(conn), await given_full_tenant(conn, "other")
    had, others = await rows_of(conn, acme.id), await rows_of(conn, other.id)
    # The next claim takes the events of limits.
    empty = ["audit_moved", "audit_seal_tenant", "enqueue_grants", "limit_events"]
    assert [table for table, count in had.items() if not count] == empty
    logged = await conn.fetch("select * from atlas.audit_log where tenant_id = $1 order by id", acme.id)
    assert await cross_check(conn) == []

    await begin_removal(conn, acme, actor=DANA, reason="they left", cancel=True)
    await remove(transaction, acme)

    left = await rows_of(conn, acme.id)
    assert {table for table, count in left.items() if count} == {"audit_log"}
    assert await rows_of(conn, other.id) == others
    assert await conn.fetchval("select count(*) from atlas.mail_pace where bucket like 'tenant:%'") == 1
    with pytest.raises(NotFound):
        await find_tenant(conn, "acme")
    kept = await conn.fetch("select * from atlas.audit_log where tenant_id = $1 order by id", acme.id)
    assert kept[: len(logged)] == logged

    facts = await last_event(conn, "TENANT_REMOVED")
    assert (facts["slug"], facts["asked_by"], facts["reason"], facts["state"]) == ("acme", "dana", "they left", None)
    with_jobs = {
        "job_secrets",
        "mail_ledger",
        "mail_slots",
        "effects",
        "workflow_runs",
        "workflow_steps",
        "job_counts",
        "dead_letters",
    }
    with_jobs |= {"dead_letter_causes"}
    assert facts["rows"] == {table: count for table, count in had.items() if count and table not in STAYS | with_jobs}
    assert await removed_rows(conn, acme.id) == facts["rows"]

    await seal(conn)
    await installation.sign(conn)
    assert kinds(await verify(conn, installation.keys, installation.notes)) == set()
    assert await cross_check(conn) == []


async def test_the_slug_is_free_again_and_leads_to_nothing_of_the_tenant_before(conn, transaction):
    acme = await given_full_tenant(conn)
    await begin_removal(conn, acme, actor=DANA, cancel=True)
    with pytest.raises(Conflict):
        await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    await remove(transaction, acme)

    again = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    assert again.id != acme.id
    assert {table for table, count in (await rows_of(conn, again.id)).items() if count} == {"audit_log"}
    await given_job(conn, tenant_id=again.id)
    assert await cross_check(conn) == []


async def test_a_tenant_with_work_is_not_removed_unless_it_may_be_canceled(conn):
    acme = await given_full_tenant(conn)
    await given_claimed(conn, "runs", tenant_id=acme.id)
    had = await rows_of(conn, acme.id)

    with pytest.raises(Conflict) as refused:
        await begin_removal(conn, acme, actor=DANA)
    assert refused.value.message == (
        "Tenant acme has work that has not ended: 3 queued jobs, 1 running jobs, 1 open requests for workflows."
    )
    assert await rows_of(conn, acme.id) == had
    assert (await find_tenant(conn, "acme")).removing_at is None

    begun = await begin_removal(conn, acme, actor=DANA, cancel=True)
    assert await begin_removal(conn, acme, actor=DANA) == begun
    assert await conn.fetchval("select count(*) from atlas.audit_log where action = 'TENANT_REMOVAL_BEGAN'") == 1


async def test_a_tenant_without_work_is_removed_without_canceling(conn, transaction):
    acme = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    await begin_removal(conn, acme, actor=DANA)

    assert await remove(transaction, acme) == []
    assert (await last_event(conn, "TENANT_REMOVED"))["rows"] == {}


async def test_the_tenant_of_atlas_itself_is_not_removed(conn):
    with pytest.raises(Refused, match="is Atlas's own"):
        await begin_removal(conn, await find_tenant(conn, SYSTEM_TENANT), actor=DANA, cancel=True)


async def test_a_running_job_is_asked_to_stop_and_waited_for(conn, transaction):
    acme = await given_full_tenant(conn)
    worker, job = await given_claimed(conn, "runs", tenant_id=acme.id)
    await begin_removal(conn, acme, actor=DANA, cancel=True)

    ended = 0
    async for step in continue_removal(transaction, acme.id, actor=DANA):
        if (step.did, step.what) == ("waited", "running jobs") and not ended:
            row = await conn.fetchrow("select * from atlas.jobs where tenant_id = $1", acme.id)
            assert (row["id"], row["status"], row["cancel_requested_by"]) == (job.id, "running", "dana")
            assert (await finish(conn, worker, [decide(job, worker.id, JobCanceled("stop"), ATLAS)])).lost == []
            ended += 1
    assert ended == 1
    assert {table for table, count in (await rows_of(conn, acme.id)).items() if count} == {"audit_log"}
    assert await cross_check(conn) == []


async def test_the_job_of_a_worker_that_is_gone_holds_up_a_removal_only_until_its_lease_has_expired(conn, transaction):
    acme = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    await switch(conn, online=True, actor=DANA)
    worker, _ = await given_claimed(conn, "runs", tenant_id=acme.id)
    await begin_removal(conn, acme, actor=DANA, cancel=True)
    await lose_lease(conn, worker)

    await remove(transaction, acme)
    assert await list_removals(conn) == []


@pytest.mark.long
async def test_nothing_can_be_added_to_a_tenant_that_is_being_removed_or_gone(conn, transaction):
    acme = await given_full_tenant(conn)
    [token] = await list_tokens(conn, tenant_id=acme.id)
    document = {"key": "c", "steps": [{"id": "wait", "sleep": "10m"}]}
    schedule = {"start_at": datetime.now(UTC), "repeat_every": timedelta(hours=1)}
    job = NewJob("a", {}, acme.id)
    additions = [
        lambda: enqueue(conn, job, actor=DANA),
        lambda: enqueue(conn, NewJob("a", {}, acme.id, dedupe_key="k"), actor=DANA),
        lambda: enqueue_many(conn, [NewJob("a", {}), job], actor=DANA),
        lambda: publish_event(conn, acme.id, "order.paid", {}, actor=DANA),
        lambda: request_workflow(conn, acme.id, "a", {}, DANA, allow_unknown=True),
        lambda: add_token(conn, subject="ben", role="auditor", tenant=acme, actor=DANA),
        lambda: open_session(conn, token, actor=DANA),
        lambda: add_host(conn, tenant_id=acme.id, name="rack", actor=DANA),
        lambda: add_trigger(conn, acme.id, {**EVERY, "label": "new"}, actor=DANA),
        lambda: add_rule(conn, label="new", effect="allow", tenant_id=acme.id, actor=DANA),
        lambda: save_workflow(conn, document, actor=DANA, tenant_id=acme.id),
        lambda: save_recurring(conn, (acme.id, "new"), **schedule),
        lambda: once(conn, call_key(acme.id, "ann", "key 2", b""), pytest.fail),
    ]
    await begin_removal(conn, acme, actor=DANA, cancel=True)
    had = await rows_of(conn, acme.id)

    for addition in additions:
        with pytest.raises(NotFound, match=f"There is no tenant {acme.id}.*being removed"):
            await addition()
    with pytest.raises(asyncpg.PostgresError, match="being removed"):
        await conn.execute("select atlas.enqueue('acme', 'a')")
    assert await rows_of(conn, acme.id) == had
    assert await conn.fetchval("select count(*) from atlas.jobs where tenant_id = $1", SYSTEM_TENANT) == 0

    await remove(transaction, acme)
    for addition in additions:
        with pytest.raises(NotFound, match=f"There is no tenant {acme.id}"):
            await addition()
    assert {table for table, count in (await rows_of(conn, acme.id)).items() if count} == {"audit_log"}


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read"])
async def test_what_a_transaction_adds_that_began_before_the_removal_goes_too(pool, conn, transaction, isolation):
    acme = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    async with pool.acquire() as late, late.transaction(isolation=isolation):
        assert (await find_tenant(late, "acme")).removing_at is None
        if isolation == "read_committed":
            await enqueue(late, NewJob("a", {}, acme.id), actor=DANA)
        await begin_removal(conn, acme, actor=DANA)
        [first, second] = await remove(transaction, acme, most=2)
        if isolation == "repeatable_read":
            await enqueue(late, NewJob("a", {}, acme.id), actor=DANA)

    assert str(first) == str(second) == "waits for 1 transactions that began before it"
    assert await conn.fetchval("select status from atlas.jobs where tenant_id = $1", acme.id) == "queued"
    steps = await remove(transaction, acme)
    assert [str(step) for step in steps] == ["canceled 1 jobs", "removed 1 jobs"]
    assert await cross_check(conn) == []


@pytest.mark.long
async def test_a_removal_goes_on_after_any_step_and_the_tables_agree_with_the_log_at_each(conn, transaction):
    acme = await given_full_tenant(conn)
    had = await rows_of(conn, acme.id)
    await begin_removal(conn, acme, actor=DANA, cancel=True)

    steps = []
    while found := await remove(transaction, acme, most=1, batch=2):
        steps += found
        assert await cross_check(conn) == [], found
    rows = await last_rows(conn)
    assert {step.what for step in steps if step.did == "removed"} == set(rows)
    assert (rows["jobs"], rows["api_tokens"]) == (had["jobs"], had["api_tokens"])
    assert max(step.count for step in steps if step.what != "audit_private") == 2
    assert {table for table, count in (await rows_of(conn, acme.id)).items() if count} == {"audit_log"}


async def last_rows(conn):
    return (await last_event(conn, "TENANT_REMOVED"))["rows"]


@pytest.mark.long
async def test_two_removals_at_once_take_turns_and_one_of_them_ends_it(conn, transaction):
    acme = await given_full_tenant(conn)
    had = await rows_of(conn, acme.id)
    begun = await asyncio.gather(*(_begin(transaction, acme) for _ in range(3)))
    assert {one.removing_at for one in begun} == {begun[0].removing_at}

    await asyncio.gather(*(remove(transaction, acme, batch=1) for _ in range(3)))
    for action in ("TENANT_REMOVAL_BEGAN", "TENANT_REMOVED"):
        assert await conn.fetchval("select count(*) from atlas.audit_log where action = $1", action) == 1
    rows = await last_rows(conn)
    assert {table: rows[table] for table in ("jobs", "api_tokens", "events")} == {
        table: had[table] for table in ("jobs", "api_tokens", "events")
    }
    assert await cross_check(conn) == []


async def _begin(transaction, tenant):
    async with transaction() as conn:
        return await begin_removal(conn, tenant, actor=DANA, cancel=True)


@pytest.mark.long
async def test_a_scheduler_goes_on_with_a_removal_that_was_left(conn, pool):
    acme = await given_full_tenant(conn)
    await begin_removal(conn, acme, actor=DANA, reason="they left", cancel=True)

    await Maintenance(pool, asyncio.Event()).remove()
    facts = await last_event(conn, "TENANT_REMOVED")
    assert (facts["asked_by"], facts["reason"]) == ("dana", "they left")
    assert await list_removals(conn) == []


async def test_what_is_metered_after_the_removal_brings_nothing_back(conn, transaction):
    acme = await add_tenant(conn, slug="acme", name="Acme", actor=DANA)
    await switch(conn, online=True, actor=DANA)
    assert await count_jobs(conn)
    worker, job = await given_claimed(conn, "ok", tenant_id=acme.id)
    await finish(conn, worker, [success(worker, job)])
    await begin_removal(conn, acme, actor=DANA, cancel=True)
    await remove(transaction, acme)

    while await meter_usage(conn):
        pass
    assert {table for table, count in (await rows_of(conn, acme.id)).items() if count} == {"audit_log"}


@pytest.mark.long
async def test_the_removal_of_one_tenant_hides_nothing_of_another(conn, owner, transaction):
    acme, other = await given_full_tenant(conn), await given_full_tenant(conn, "other")
    await begin_removal(conn, acme, actor=DANA, cancel=True)
    await remove(transaction, acme)
    assert await cross_check(conn) == []

    # Someone writes the same event about the other tenant: as another tenant, and even as that tenant.
    for writer in (acme.id, other.id):
        await record(conn, Event("TENANT_REMOVAL_BEGAN", "tenant", str(other.id), DANA, writer))
    await owner.execute("delete from atlas.server_instances where tenant_id = $1", other.id)
    await owner.execute("delete from atlas.events where tenant_id = $1", other.id)
    await owner.execute("delete from atlas.jobs where tenant_id = $1 and job_type = 'ok'", other.id)
    found = " ".join(finding.message for finding in await cross_check(conn))
    assert "server instance" in found
    assert "The event" in found
    assert f"1 jobs of tenant {other.id}" in found

    # Marked as well, the tenant itself is not as its last event left it.
    await owner.execute("update atlas.tenants set removing_at = now() where id = $1", other.id)
    found = [finding.message for finding in await cross_check(conn)]
    assert any(message.startswith(f"The tenant {other.id} is not as its last event left it") for message in found)


async def test_rows_of_a_tenant_that_is_not_being_removed_are_not_touched(conn):
    acme = await given_full_tenant(conn)
    had = await rows_of(conn, acme.id)
    with pytest.raises(asyncpg.PostgresError, match="is not being removed"):
        await conn.fetch("select * from atlas.remove_tenant_rows($1, 500, 'user', 'eve', '{}')", acme.id)
    assert await rows_of(conn, acme.id) == had
