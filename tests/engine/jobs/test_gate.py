"""The gate: once turning it off has returned, no claim commits until it is on again."""

import asyncio
from datetime import timedelta

import pytest

from atlas.actors import Actor
from atlas.engine.jobs.claim import claim
from atlas.engine.jobs.enqueue import enqueue_many
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import expire, read_gate, switch, switch_engine
from atlas.errors import InvalidInput, Refused
from tests.engine.jobs.given import given_worker, success
from tests.support import DANA, PROOF

TOGGLES = 500 if PROOF else 30


async def test_the_gate_says_who_switched_it_why_and_since_when(conn):
    gate = await switch(conn, online=False, actor=DANA, reason="provider outage", until=timedelta(hours=2))
    assert await read_gate(conn) == gate
    assert (gate.online, gate.by, gate.reason) == (False, "dana", "provider outage")
    assert gate.since is not None
    assert gate.until is not None
    assert gate.until - gate.since == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=1))
    assert "by dana: provider outage. It comes back at" in gate.closed_because


@pytest.mark.parametrize("online", [True, False])
async def test_switching_the_gate_to_its_present_state_keeps_the_time_it_was_switched(conn, online):
    await switch(conn, online=not online, actor=DANA)
    turned = await switch(conn, online=online, actor=DANA)
    again = await switch(conn, online=online, actor=Actor("user", "erin"), reason="to be sure")
    assert (again.since, again.by, again.reason) == (turned.since, "erin", "to be sure")
    assert (await switch(conn, online=not online, actor=DANA)).since > turned.since


@pytest.mark.parametrize("online", [True, False])
async def test_a_switch_that_changes_nothing_leaves_who_switched_it_and_is_no_event(conn, online):
    await switch(conn, online=not online, actor=DANA)
    turned = await switch(conn, online=online, actor=DANA, reason="new disks")
    events = await conn.fetchval("select count(*) from atlas.audit_log")
    for reason in (None, "new disks"):
        assert await switch(conn, online=online, actor=Actor("user", "erin"), reason=reason) == turned
    assert await read_gate(conn) == turned
    assert await conn.fetchval("select count(*) from atlas.audit_log") == events


async def test_a_gate_closed_for_a_time_and_closed_again_without_one_stays_closed(conn):
    turned = await switch(conn, online=False, actor=DANA, until=timedelta(hours=2))
    again = await switch(conn, online=False, actor=Actor("user", "erin"))
    assert (again.since, again.by, again.until) == (turned.since, "erin", None)
    assert again.version > turned.version


async def test_every_turn_of_the_gate_is_audited(conn):
    await switch(conn, online=False, actor=DANA, reason="why")
    await switch(conn, online=True, actor=DANA)
    rows = await conn.fetch(
        "select action, actor_id, message from atlas.audit_log where entity_id = 'atlas_online' order by id"
    )
    assert [tuple(row) for row in rows][-2:] == [("ATLAS_OFFLINE", "dana", "why"), ("ATLAS_ONLINE", "dana", "")]


async def test_turning_the_gate_keeps_the_engines_own_switch(conn):
    await switch_engine(conn, enabled=False, actor=DANA, reason="new rules")
    gate = await switch(conn, online=True, actor=Actor("user", "erin"))
    assert (gate.engine_enabled, gate.engine_by, gate.engine_reason) == (False, "dana", "new rules")


async def test_each_switch_of_the_engine_is_audited_once_and_moves_no_switch_of_the_gate(conn, online):
    before = await read_gate(conn)
    off = await switch_engine(conn, enabled=False, actor=DANA, reason="new rules")
    again = await switch_engine(conn, enabled=False, actor=Actor("user", "erin"), reason="to be sure")
    on = await switch_engine(conn, enabled=True, actor=DANA)

    assert (
        off
        == again
        == before.model_copy(
            update={
                "engine_enabled": False,
                "engine_by": "dana",
                "engine_reason": "new rules",
                "engine_since": off.engine_since,
            }
        )
    )
    assert on == await read_gate(conn)
    assert on.engine_enabled
    assert on.version == before.version
    assert on.etag != before.etag
    rows = await conn.fetch(
        "select action, actor_id, message from atlas.audit_log where entity_id = 'engine_enabled' order by id"
    )
    assert [tuple(row) for row in rows] == [("ENGINE_DISABLED", "dana", "new rules"), ("ENGINE_ENABLED", "dana", "")]


async def test_an_engine_without_a_gate_cannot_be_switched(conn):
    await conn.execute("delete from atlas.system_state where key = 'atlas_online'")
    with pytest.raises(Refused, match=r"Atlas was never brought online"):
        await switch_engine(conn, enabled=True, actor=DANA)
    with pytest.raises(InvalidInput, match="reason"):
        await switch_engine(conn, enabled=True, actor=DANA, reason="x" * 2001)


async def test_a_gate_closed_for_a_time_opens_by_itself_and_not_before(conn):
    await switch(conn, online=False, actor=DANA, until=timedelta(hours=2))
    assert not await expire(conn)
    await conn.execute(
        "update atlas.system_state set value = value || jsonb_build_object('until', clock_timestamp() - interval '1 second')"
    )
    assert await expire(conn)
    gate = await read_gate(conn)
    assert (gate.online, gate.by, gate.until) == (True, "watchdog", None)
    assert not await expire(conn)


async def test_no_claim_commits_while_the_gate_is_off(pool):
    """Claimers at full speed, and an operator who turns the gate off, counts, waits, and counts again."""
    stop = asyncio.Event()
    violations = 0

    async def claimer():
        async with pool.acquire() as conn:
            worker = await given_worker(conn, "flood")
            while not stop.is_set():
                jobs = await claim(conn, worker, limit=20)
                await finish(conn, worker, [success(worker, job) for job in jobs])
                await asyncio.sleep(0)

    async def feeder():
        async with pool.acquire() as conn:
            while not stop.is_set():
                if (
                    await conn.fetchval(
                        "select count(*) from (select from atlas.jobs where status = 'queued' limit 2000) q"
                    )
                    < 1000
                ):
                    await enqueue_many(conn, [NewJob("flood", {}) for _ in range(1000)], actor=DANA)
                await asyncio.sleep(0.01)

    async def operator():
        nonlocal violations
        async with pool.acquire() as conn:
            for _ in range(TOGGLES):
                await switch(conn, online=False, actor=DANA)
                before = await conn.fetchval("select coalesce(sum(attempt_count), 0) from atlas.jobs")
                await asyncio.sleep(0.002)
                after = await conn.fetchval("select coalesce(sum(attempt_count), 0) from atlas.jobs")
                violations += before != after
                await switch(conn, online=True, actor=DANA)
                await asyncio.sleep(0.005)

    others = [asyncio.create_task(one) for one in (claimer(), claimer(), claimer(), claimer(), feeder())]
    await operator()
    stop.set()
    await asyncio.gather(*others)
    async with pool.acquire() as conn:
        claimed = await conn.fetchval("select sum(attempt_count) from atlas.jobs")
    print(f"gate: {TOGGLES} toggles, {claimed} claims, {violations} while off")
    assert claimed > 100
    assert violations == 0


@pytest.mark.parametrize(
    ("terms", "field"),
    [({"reason": "x" * 2001}, "reason"), ({"until": timedelta(days=400)}, "until"), ({"until": timedelta()}, "until")],
)
async def test_an_order_out_of_all_bounds_turns_nothing(conn, online, terms, field):
    with pytest.raises(InvalidInput) as refused:
        await switch(conn, online=False, actor=DANA, **terms)
    assert [error.field for error in refused.value.errors] == [field]
    assert (await read_gate(conn)).online
