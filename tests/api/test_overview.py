"""The overview: right counts, what fails and what needs a person, of a tenant alone or of all."""

from datetime import timedelta

import pytest

from atlas.audit.sealing.seal import seal
from atlas.engine.alerts import save_findings
from atlas.engine.jobs.backoff import policy_of
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.lists.counts import count_jobs
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.verdicts import PermanentError, decide
from atlas.engine.metering import attention
from atlas.engine.metering.usage import meter_usage
from atlas.models.system import Alert
from tests.api.given import furnish_tenant
from tests.engine.jobs.given import given_worker, success
from tests.engine.jobs.test_bulk_actions import given_dead
from tests.support import DANA


@pytest.fixture
async def database_url(databases):
    """A database that is furnished for the test: rows that have waited for their seal since the session began are a finding."""
    async with databases.database() as url:
        yield url


async def do_work(conn, tenant, *, failing=0, dead=0, succeeding=0, left=0):
    """Jobs of the type x that end so, in this order, and some that stay queued."""
    worker = await given_worker(conn, "x")
    endings = [*(["failing"] * failing), *(["dead"] * dead), *(["succeeding"] * succeeding)]
    for n, ending in enumerate(endings):
        await enqueue(conn, NewJob("x", {"n": n}, tenant.id, max_retries=0), actor=DANA)
        [job] = await claim(conn, worker, limit=1)
        if ending == "succeeding":
            await finish(conn, worker, [success(worker, job)])
        else:
            error = PermanentError(f"never {n}") if ending == "failing" else ValueError(f"no {n}")
            await finish(conn, worker, [decide(job, worker.id, error, policy_of(None))])
    for n in range(left):
        await enqueue(conn, NewJob("y", {"n": n}, tenant.id), actor=DANA)
    await count_jobs(conn)
    while await meter_usage(conn):
        pass


async def overview(client, **query):
    response = await client.get("/overview", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def needs(shown):
    return {need["kind"]: (need["count"], need["subject"]) for need in shown["needs"]}


async def test_a_tenant_sees_its_counts_types_failures_and_needs(world, admin, conn):
    await do_work(conn, world.acme, failing=1, dead=1, succeeding=3, left=4)
    await do_work(conn, world.other, dead=1, left=1)
    shown = await overview(admin)

    counts = {name: count for name, count in shown["counts"].items() if count}
    assert counts == {"queued": 4, "succeeded": 3, "failed": 1, "dead_letter": 1}
    assert {one["job_type"]: (one["queued"], one["is_served"]) for one in shown["types"]} == {
        "x": (0, True),
        "y": (4, False),
    }
    [x, y] = shown["types"]
    hour = x["last_hour"]
    assert [hour[name] for name in ("enqueued", "finished", "failed", "dead_lettered")] == [5, 5, 1, 1]
    assert hour["run_p95"] is not None
    assert (y["last_hour"]["enqueued"], y["last_hour"]["finished"]) == (4, 0)
    assert [(failure["error"], failure["is_dead_letter"], failure["tenant"]) for failure in shown["failures"]] == [
        ("ValueError: no 1", True, "acme"),
        ("never 0", False, "acme"),
    ]
    assert needs(shown) == {"dead_letters": (1, "x"), "no_worker": (4, "y")}
    assert (shown["workers"], shown["gate"]["online"]) == (2, True)


async def test_failures_come_in_the_order_of_their_ends(world, operator, conn):
    old = await enqueue(conn, NewJob("x", {}, world.acme.id, delay=timedelta(hours=1), max_retries=0), actor=DANA)
    await do_work(conn, world.other, dead=2)
    await conn.execute("update atlas.jobs set next_retry_at = null where id = $1", old.id)
    await do_work(conn, world.acme)
    worker = await given_worker(conn, "x")
    [job] = await claim(conn, worker, limit=1)
    await finish(conn, worker, [decide(job, worker.id, ValueError("last"), policy_of(None))])

    shown = await overview(operator)
    assert [(failure["tenant"], failure["error"]) for failure in shown["failures"]] == [
        ("acme", "ValueError: last"),
        ("other", "ValueError: no 1"),
        ("other", "ValueError: no 0"),
    ]
    assert [failure["error"] for failure in (await overview(operator, tenant="acme"))["failures"]] == [
        "ValueError: last"
    ]


async def test_an_operator_sees_the_installation_and_its_alerts(world, operator, admin, conn):
    await do_work(conn, world.acme, dead=1)
    await do_work(conn, world.other, dead=1, left=2)
    found = [Alert(kind="worker_lost", subject=name, message=f"Worker {name} fell silent.") for name in ("w1", "w2")]
    silent = Alert(kind="host_silent", subject="h", message="Host h is silent.")
    await save_findings(conn, [*found, silent], by="tests")
    shown = await overview(operator)

    assert (shown["counts"]["dead_letter"], shown["counts"]["queued"]) == (2, 2)
    expected = {"worker_lost": (2, None), "host_silent": (1, "h"), "no_worker": (2, "y"), "dead_letters": (2, "x")}
    assert needs(shown) == expected
    assert needs(await overview(admin)) == {"dead_letters": (1, "x")}
    for need in shown["needs"]:
        assert (await operator.get(need["address"])).status_code == 200, need


async def test_dead_letters_need_a_person_by_their_cause(world, admin, conn, monkeypatch):
    await do_work(conn, world.acme, dead=3)
    [need] = (await overview(admin))["needs"]
    assert (need["count"], need["subject"]) == (3, "x")
    assert need["message"].startswith("3 dead letters of x: ValueError: no ")

    # The causes of the newest are named, the others counted.
    monkeypatch.setattr(attention, "MAX_CAUSES", 1)
    await given_dead(conn, 2, tenant_id=world.acme.id, message="The disk is full")
    found = [(need["count"], need["message"]) for need in (await overview(admin))["needs"]]
    assert found == [(2, "2 dead letters of report.build: The disk is full"), (3, "3 other dead letters.")]


async def test_what_waits_for_a_person_is_counted(pool, world, admin, conn):
    await furnish_tenant(pool, world.acme)
    await conn.execute("delete from atlas.pauses")
    await conn.execute("update atlas.jobs set status = 'canceled', finished_at = now()")
    await conn.execute(
        "update atlas.system_state set value = value || '{\"since\": \"2026-01-01T00:00:00Z\"}' where key = 'atlas_online'"
    )
    await conn.execute(
        "update atlas.job_triggers set next_fire_at = clock_timestamp() - interval '2 minutes', last_error = '{\"message\": \"x\"}'"
    )
    await conn.execute("update atlas.webhooks set is_enabled = false, disabled_reason = 'too many failures'")
    shown = await overview(admin)

    expected = {"approvals": 1, "effects": 1, "schedules_late": 1, "triggers_failing": 1, "webhooks_disabled": 1}
    assert {kind: count for kind, (count, _) in needs(shown).items()} == expected
    assert (await admin.get("/approvals/summary")).json() == {"pending": 1}
    for need in shown["needs"]:
        assert (await admin.get(need["address"])).status_code == 200, need
    enqueuer = world.client("acme", "enqueuer")
    assert ((await overview(enqueuer))["needs"], (await overview(enqueuer))["seal"]) == ([], None)


async def test_rows_without_a_seal_are_counted_and_reported_when_they_wait(world, admin, operator, conn, owner):
    await do_work(conn, world.other, succeeding=1)
    await seal(conn)
    sealed = (await overview(admin))["seal"]
    assert (sealed["unsealed"], sealed["lag_seconds"]) == (0, 0)

    await enqueue(conn, NewJob("x", {}, world.acme.id), actor=DANA)
    await enqueue(conn, NewJob("x", {}, world.other.id), actor=DANA)
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute("update atlas.audit_log set created_at = created_at - interval '2 minutes'")
    waiting, of_all = await overview(admin), await overview(operator)
    assert (waiting["seal"]["unsealed"], of_all["seal"]["unsealed"]) == (1, 2)
    assert waiting["seal"]["lag_seconds"] > 100
    assert needs(waiting)["seal_lag"] == (1, None)


async def test_tenants_stand_side_by_side_the_busiest_first(world, operator, conn):
    await do_work(conn, world.acme, dead=1, succeeding=2, left=3)
    await do_work(conn, world.other, left=5)
    await conn.execute("update atlas.job_series set begins_at = begins_at - interval '1 minute' where step = 'minute'")
    received = await operator.get("/overview/tenants")

    other, acme, system = received.json()["items"]
    assert (other["slug"], other["queued"], other["oldest_due_at"] is not None) == ("other", 5, True)
    assert (acme["slug"], acme["queued"], acme["dead_letters"]) == ("acme", 3, 1)
    assert (acme["finished"], acme["failed"], acme["enqueued_per_minute"]) == (3, 1, 6 / 5)
    assert (system["slug"], system["active"], system["oldest_due_at"]) == ("system", 0, None)


@pytest.mark.parametrize("who", [("acme", "auditor"), ("acme", "tenant_admin")])
async def test_a_tenant_does_not_see_others_beside_it(world, who):
    assert (await world.client(*who).get("/overview/tenants")).status_code == 403
