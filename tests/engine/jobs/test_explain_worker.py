"""Explain: the one reason a worker takes nothing, by the claim's own predicates, and the way out."""

from datetime import timedelta

import pytest

from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.explain.explain_worker import explain_worker
from atlas.engine.jobs.lease import new_worker_id, reap, register_worker, request_drain, retire_worker
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.switches.pauses import pause, resume
from atlas.errors import NotFound
from tests.engine.jobs.given import given_host, given_job, given_worker, lose_lease
from tests.support import DANA, given_tenant


async def why(conn, worker):
    found = await explain_worker(conn, worker.id)
    assert found.sentence.endswith(".")
    assert found.kind == "worker"
    return found


async def test_what_is_due_decides_what_a_living_worker_lacks(conn):
    worker = await given_worker(conn, "report.build", "mail.send")
    found = await why(conn, worker)
    assert (found.status, found.reason, found.command) == ("alive", "nothing_due", None)

    await given_job(conn, delay=timedelta(minutes=5))
    assert "; the next is due at " in (await why(conn, worker)).sentence

    await given_job(conn, "sync", host_id=await given_host(conn))
    assert ((await why(conn, worker)).reason, (await why(conn, worker)).numbers) == ("host_only", {"due": 1})

    await given_job(conn, "other.work")
    found = await why(conn, worker)
    assert (found.reason, found.command) == ("other_types", "atlas worker --types other.work")
    assert "1 job of other types (other.work) waits" in found.sentence

    held = await given_job(conn)
    await conn.execute("update atlas.jobs set careful = true where id = $1", held)
    assert (await why(conn, worker)).reason == "limited"
    await conn.execute("update atlas.jobs set careful = false where id = $1", held)

    # What is paused, for its type or its tenant, is not claimed next.
    other = await given_tenant(conn, "other")
    await given_job(conn, tenant_id=other)
    await given_job(conn, "mail.send")
    await conn.execute("insert into atlas.job_types (key) values ('mail.send'), ('report.build')")
    await pause(conn, "tenant", "other", actor=DANA)
    mails = await pause(conn, "type", "mail.send", actor=DANA)
    found = await why(conn, worker)
    assert (found.reason, found.numbers) == ("next", {"ready": 1})
    everything = await pause(conn, "type", "report.build", actor=DANA)
    found = await why(conn, worker)
    assert (found.reason, found.numbers, found.command) == ("paused", {"paused": 3}, "atlas pauses")
    for one in (mails, everything):
        await resume(conn, one.id, actor=DANA)
    await conn.execute("delete from atlas.jobs where job_type = 'mail.send'")
    found = await why(conn, worker)
    assert (found.reason, found.numbers) == ("next", {"ready": 1})
    assert [job.id for job in await claim(conn, worker, limit=9)] == [held]
    found = await why(conn, worker)
    assert (found.reason, found.sentence) == ("busy", "Running 1 job.")


async def test_a_worker_whose_slots_are_taken_is_full(conn):
    worker = await given_worker(conn, "report.build")
    await conn.execute("update atlas.job_workers set metadata = '{\"concurrency\": 1}'")
    await given_job(conn)
    await claim(conn, worker, limit=1)
    found = await why(conn, worker)
    assert (found.reason, found.numbers) == ("full", {"running": 1, "concurrency": 1})
    await conn.execute("update atlas.job_workers set metadata = '{\"concurrency\": 50}'")
    assert (await why(conn, worker)).sentence == "Running 1 job in 50 slots."


async def test_the_gate_a_drain_and_an_end_come_first(conn):
    worker = await given_worker(conn, "report.build")
    await given_job(conn)
    await switch(conn, online=False, actor=DANA, reason="disks")
    found = await why(conn, worker)
    assert (found.reason, found.command) == ("gate", "atlas online")
    assert "disks" in found.sentence

    await request_drain(conn, worker.id, actor=DANA)
    assert ((await why(conn, worker)).status, (await why(conn, worker)).reason) == ("draining", "draining")
    await retire_worker(conn, worker.id)
    assert ((await why(conn, worker)).status, (await why(conn, worker)).reason) == ("ended", "ended")

    for is_reaped in (False, True):
        lost = await given_worker(conn, "report.build")
        await lose_lease(conn, lost)
        if is_reaped:
            await reap(conn)
        assert (await why(conn, lost)).reason == "lease_lost"


async def test_a_worker_without_types_serves_all_and_a_stranger_is_not_found(conn):
    worker_id = new_worker_id()
    await register_worker(conn, worker_id, lease=60, job_types=[])
    assert (await explain_worker(conn, worker_id)).sentence.startswith("Serves every type")
    await given_job(conn, "anything")
    assert (await explain_worker(conn, worker_id)).reason == "next"
    with pytest.raises(NotFound):
        await explain_worker(conn, "box:1:nobody")
