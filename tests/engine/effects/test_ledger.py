"""The ledger of effects: it goes with its jobs into history and with its tenant, its edits are found, its details are erased."""

from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

import pytest

from atlas.audit.verification.crosscheck import cross_check
from atlas.db.statements import fetch
from atlas.engine.effects.effect_call import default_key
from atlas.engine.effects.erase import erase_details
from atlas.engine.effects.find_effects import count_doubts, find_effect, list_effects
from atlas.engine.effects.ledger import EffectLedger
from atlas.engine.effects.reconcile import EXPLAIN, LEDGER
from atlas.engine.effects.settle import settle_effect
from atlas.engine.jobs.actions.delete import delete
from atlas.engine.jobs.claim import Claimant, ClaimedJob
from atlas.engine.jobs.finish import finish
from atlas.engine.jobs.new_jobs.new_job import SYSTEM_TENANT
from atlas.engine.jobs.switches.gate import switch
from atlas.engine.jobs.verdicts import cancel_attempt
from atlas.errors import NotFound
from tests.engine.given import given_full_tenant
from tests.engine.jobs.given import actions, given_claimed, load, success
from tests.engine.retention.test_history import file_all
from tests.engine.retention.test_retention import age, old
from tests.engine.tenants.test_tenant_move import cells
from tests.support import DANA

__all__ = ["cells"]

PLACE = "select tableoid::regclass::text from atlas.effects where id = $1"
ROWS = "select to_jsonb(e) as row from atlas.effects e where tenant_id = $1 order by id"


@pytest.fixture(autouse=True)
async def online(conn) -> None:
    await switch(conn, online=True, actor=DANA)


class Given(NamedTuple):
    """An effect, its job, and what the attempt records it by."""

    id: UUID
    job: ClaimedJob
    ledger: EffectLedger
    worker: Claimant


async def given_effect(
    conn,
    state: str = "done",
    *,
    detail: dict | None = None,
    reference: str | None = "ch_1",
    is_asked: bool = False,
    **options,
) -> Given:
    """An effect of a job that a worker holds, or that waits for the answer of a person."""
    worker, job = await given_claimed(conn, "pays", **options)

    async def work(call):
        return await call(conn)

    ledger = EffectLedger(work, worker.id, job.id, job.attempt)
    begun = await ledger.begin("stripe.charge", default_key(job.id, "", "stripe.charge"), detail or {})
    if is_asked:
        assert await ledger.ask(begun.id, "Was it made?", "") == "asked"
    elif state != "intended":
        assert await ledger.end(begun.id, state, reference=reference if state == "done" else None) == "ended"
    if state == "done":
        await finish(conn, worker, [success(worker, job)])
    return Given(begun.id, job, ledger, worker)


async def test_an_effect_goes_into_history_with_its_job_and_can_be_settled_there(conn, pool):
    done, first, *_ = await given_effect(conn, id=old())
    doubt, second, _, worker = await given_effect(conn, "unknown", id=old(), detail={"to": "ann@example.org"})
    await finish(conn, worker, [cancel_attempt(second.id, second.attempt)])
    before = await find_effect(conn, done)
    await age(conn, days=0)
    assert await file_all(pool) == 2
    for effect_id in (done, doubt):
        assert "effects_history_" in await conn.fetchval(PLACE, effect_id)
    assert await find_effect(conn, done) == before
    assert [effect.id for effect in await list_effects(conn, job_id=first.id)] == [done]

    # A provider's list settles it, however old it is; so does erasing.
    settled = await settle_effect(conn, doubt, "done", reference="ch_9", actor=DANA)
    assert (settled.state, settled.woken) == ("done", False)
    assert await erase_details(conn, "ANN@example.org", actor=DANA) == 1
    assert (await find_effect(conn, doubt)).detail == {"erased": True}
    assert await cross_check(conn) == []
    await delete(conn, second.id, actor=DANA)
    with pytest.raises(NotFound):
        await find_effect(conn, doubt)


async def given_effect_in_history(conn, pool, state: str) -> Given:
    """An effect whose job was canceled during the call, or has succeeded."""
    effect = await given_effect(conn, state, id=old())
    if state != "done":
        await finish(conn, effect.worker, [cancel_attempt(effect.job.id, effect.job.attempt)])
    await age(conn, days=0)
    assert await file_all(pool) == 1
    assert "effects_history_" in await conn.fetchval(PLACE, effect.id)
    return effect


@pytest.mark.parametrize("state", ["intended", "unknown"])
async def test_the_first_report_of_a_call_is_recorded_though_its_job_is_in_history(conn, pool, state):
    effect = await given_effect_in_history(conn, pool, state)
    assert await effect.ledger.end(effect.id, "done", reference="ch_1") == "late"
    found = await find_effect(conn, effect.id)
    assert (found.state, found.reference, found.other_references) == ("done", "ch_1", [])
    assert (await actions(conn, effect.job.id))[-1] == "EFFECT_DONE"
    assert await cross_check(conn) == []


async def test_an_effect_in_history_is_recorded_as_made_twice_only_with_another_reference(conn, pool):
    effect = await given_effect_in_history(conn, pool, "done")
    before = await actions(conn, effect.job.id)
    assert await effect.ledger.end(effect.id, "done", reference="ch_1") == "taken"
    assert await actions(conn, effect.job.id) == before

    assert await effect.ledger.end(effect.id, "done", reference="ch_2") == "taken"
    found = await find_effect(conn, effect.id)
    assert (found.state, found.reference, found.other_references) == ("done", "ch_1", ["ch_2"])
    assert await actions(conn, effect.job.id) == [*before, "EFFECT_REPEATED"]
    assert await cross_check(conn) == []


@pytest.mark.long
async def test_a_doubt_moves_with_its_tenant_and_is_settled_where_it_is(cells, tmp_path):
    left, arrived = cells
    acme = await given_full_tenant(left.conn)
    doubt, job, *_ = await given_effect(left.conn, "unknown", tenant_id=acme.id, is_asked=True, detail={"to": "ann"})
    await left.export(acme, tmp_path / "acme.zip")
    had = [row["row"] for row in await left.conn.fetch(ROWS, acme.id)]
    with pytest.raises(NotFound):
        await settle_effect(left.conn, doubt, "not_done", actor=DANA)

    await arrived.bring_in(tmp_path / "acme.zip")
    assert [row["row"] for row in await arrived.conn.fetch(ROWS, acme.id)] == had
    assert len(had) == 2
    assert await arrived.findings() == (set(), [])
    settled = await settle_effect(arrived.conn, doubt, "not_done", actor=DANA)
    assert settled.woken
    assert (await load(arrived.conn, job.id))["next_retry_at"] is None
    assert await arrived.findings() == (set(), [])
    await arrived.conn.execute("update atlas.effects set state = 'done' where id = $1", doubt)
    assert len(await cross_check(arrived.conn)) == 1
    await arrived.conn.execute("update atlas.effects set state = 'refused' where id = $1", doubt)
    assert await left.findings() == (set(), [])


EDITS = {
    "its state": "update atlas.effects set state = 'done' where state = 'unknown'",
    "its reference": "update atlas.effects set reference = 'ch_2' where state = 'done'",
    "no reference": "update atlas.effects set reference = null where state = 'done'",
    "its job": "update atlas.effects e set job_id = j.id from atlas.jobs j where j.id <> e.job_id and e.state = 'done'",
    "its removal": "delete from atlas.effects where state = 'done'",
    "one that nobody made": "insert into atlas.effects (id, tenant_id, job_id, job_type, name, key, attempt_no)"
    " select gen_random_uuid(), tenant_id, id, job_type, 'stripe.charge', 'more', 1 from atlas.jobs limit 1",
}


async def test_an_edit_of_the_ledger_is_found_by_the_comparison_with_the_log(conn):
    await given_effect(conn)
    await given_effect(conn, "unknown")
    assert await cross_check(conn) == []
    for name, edit in EDITS.items():
        undone = conn.transaction()
        await undone.start()
        await conn.execute(edit)
        found = [finding.message for finding in await cross_check(conn)]
        await undone.rollback()
        assert any("effects" in message for message in found), (name, found)
    assert await cross_check(conn) == []


async def test_a_person_is_erased_from_the_details_and_every_erasure_is_an_event(conn):
    nested = {"order": 7, "buyer": [{"name": "Ann", "mail": "Ann@Example.org"}]}
    mine, job, *_ = await given_effect(conn, detail=nested)
    other, *_ = await given_effect(conn, detail={"mail": "bob@example.org", "note": "for ann@example.org"})
    assert await erase_details(conn, "ann@example.org", actor=DANA, tenant_id=UUID(int=1)) == 0
    assert await erase_details(conn, "ann@example.org", actor=DANA) == 1
    assert await erase_details(conn, "ann@example.org", actor=DANA) == 0

    assert (await find_effect(conn, mine)).detail == {"erased": True}
    assert (await find_effect(conn, other)).detail["mail"] == "bob@example.org"
    assert (await actions(conn, job.id))[-1] == "EFFECT_DETAIL_ERASED"
    bodies = await conn.fetchval("select string_agg(convert_from(body, 'UTF8'), '') from atlas.audit_log")
    assert "ann@example.org" not in bodies.lower()
    assert await cross_check(conn) == []


CROWD = 20_000
FILL = f"""
insert into atlas.jobs (id, tenant_id, job_type, status, finished_at)
select gen_random_uuid(), '{SYSTEM_TENANT}', 'past', 'succeeded', now() from generate_series(1, {CROWD});
insert into atlas.effects (id, tenant_id, job_id, job_type, name, key, state, attempt_no, reference)
select gen_random_uuid(), tenant_id, id, job_type, 'stripe.charge', id::text, 'done', 1, 'ch_' || id from atlas.jobs;
"""
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SCANNED = (
    "select relname, seq_scan from pg_stat_user_tables where relname in ('effects', 'jobs', 'job_workers') order by 1"
)


async def scans(conn) -> list:
    await conn.execute("select pg_stat_force_next_flush()")
    await conn.execute("select pg_stat_clear_snapshot()")
    return [(row["relname"], row["seq_scan"]) for row in await conn.fetch(SCANNED)]


@pytest.mark.parametrize("is_analyzed", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_no_statement_of_the_ledger_scans_a_table(conn, owner, is_analyzed):
    await owner.execute(FILL)
    if is_analyzed:
        await owner.execute("vacuum analyze atlas.jobs, atlas.effects")
    await conn.execute("select pg_stat_force_next_flush()")
    before = dict(await scans(owner))

    done, job, *_ = await given_effect(conn)
    doubt, _, ledger, _ = await given_effect(conn, "unknown")
    assert (await ledger.begin("stripe.charge", default_key(ledger.job_id, "", "stripe.charge"), {})).verdict == "doubt"
    asked, *_ = await given_effect(conn, "unknown", is_asked=True)
    for effect_id in (doubt, asked):
        await settle_effect(conn, effect_id, "done", reference="ch", actor=DANA)
    assert await count_doubts(conn) == await count_doubts(conn, tenant_id=SYSTEM_TENANT) == 0
    for chosen in (
        {"id": done},
        {"job_id": job.id},
        {"state": "unknown"},
        {"tenant_id": SYSTEM_TENANT, "provider": "stripe"},
        {"provider": "s3"},
    ):
        await list_effects(conn, limit=20, **chosen)
    rows = await fetch(conn, LEDGER, provider="stripe", after=UUID(int=0), since=LONG_AGO, limit=1000)
    assert len(rows) == 1000
    [row] = await fetch(conn, EXPLAIN, provider="stripe", keys=["none"], references=["ch_1"])
    assert row["id"] == done

    await conn.execute("select pg_stat_force_next_flush()")
    after = dict(await scans(owner))
    assert (after["effects"], after["jobs"]) == (before["effects"], before["jobs"])
