"""The sealer's loop: seals and signs by itself, survives failures, stops when asked."""

import asyncio
from unittest.mock import Mock

import pytest

from atlas.audit.keys import key_file
from atlas.audit.retention import new_epoch
from atlas.audit.sealing import sealer
from atlas.audit.sealing.sealer import Sealer, seal_and_sign, sign_epoch
from atlas.audit.verification.verify import verify
from atlas.errors import Conflict
from atlas.waiting import wait_for
from tests.audit.given import CALLER, audit_log, replaced_key, write
from tests.support import until


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(sealer, "SIGN_EVERY", 0.02)


async def run_sealer(pool, settings, stop):
    """Passes one after the other, as a scheduler runs them."""
    made = Sealer(pool, settings)
    while not await wait_for(stop, within=0.02):
        await made.seal()


async def test_rows_are_sealed_and_signed_soon_after_they_are_committed(pool, conn, installation):
    stop = asyncio.Event()
    loops = [asyncio.create_task(run_sealer(pool, installation.settings, stop)) for _ in range(2)]
    for _ in range(3):
        await write(conn, 4)
    sealed = "(select sum(count - 1) from atlas.audit_seal) = 13"  # 12 and the event that names the key
    signed = "(select max(size) from atlas.audit_checkpoint) = (select max(size) from atlas.audit_seal)"
    await until(lambda: conn.fetchval(f"select {sealed} and {signed}"))
    stop.set()
    await asyncio.gather(*loops)

    assert (await verify(conn, installation.keys, installation.notes)).findings == []


async def test_a_failure_is_logged_and_tried_again(pool, conn, owner, installation):
    stop = asyncio.Event()
    await owner.execute("alter table atlas.audit_epoch disable trigger all")
    await owner.execute("update atlas.audit_epoch set system_identifier = system_identifier + 1")
    loop = asyncio.create_task(run_sealer(pool, installation.settings, stop))
    await write(conn, 1)
    await asyncio.sleep(0.2)
    assert await conn.fetchval("select count(*) from atlas.audit_seal") == 0
    assert not loop.done()

    await owner.execute("update atlas.audit_epoch set system_identifier = system_identifier - 1")
    await until(lambda: conn.fetchval("select exists (select from atlas.audit_checkpoint)"))
    stop.set()
    await loop


async def test_a_key_that_others_can_read_is_logged_at_the_start(pool, installation, monkeypatch):
    monkeypatch.setattr(sealer, "log", log := Mock())
    Sealer(pool, installation.settings)
    assert not log.warning.called

    key_file(installation.settings).chmod(0o644)
    Sealer(pool, installation.settings)
    assert "can read the audit key" in log.warning.call_args.args[0]


async def test_the_loop_outlives_a_server_that_drops_its_connections(pool, owner, installation):
    stop = asyncio.Event()
    loop = asyncio.create_task(run_sealer(pool, installation.settings, stop))
    await until(lambda: owner.fetchval("select exists (select from atlas.audit_seal)"))
    await owner.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    count = await owner.fetchval("select count(*) from atlas.audit_seal")
    await write(owner, 1)
    await until(lambda: owner.fetchval("select count(*) > $1 from atlas.audit_seal", count))
    stop.set()
    await loop


async def test_one_round_by_hand_seals_and_signs_what_is_committed(pool, conn, installation):
    await write(conn, 2)
    await seal_and_sign(pool, installation.settings)
    assert (await verify(conn, installation.keys, installation.notes)).findings == []


async def test_an_epoch_is_signed_once_the_sealer_that_is_at_it_lets_go(pool, conn, owner, installation):
    await audit_log(conn, installation, seals=2)
    epoch = await new_epoch(owner, reason="restored", actor=CALLER)
    async with pool.acquire() as other:
        await other.execute("select pg_advisory_lock(atlas.lock_class('seal'), 0)")
        signing = asyncio.create_task(
            sign_epoch(conn, installation.key, installation.copies, epoch=epoch, abandon=True)
        )
        await asyncio.sleep(0.5)
        await other.execute("select pg_advisory_unlock(atlas.lock_class('seal'), 0)")
        await asyncio.wait_for(signing, 20)
    [note] = await conn.fetch("select note from atlas.audit_checkpoint where epoch = $1", epoch)
    assert "\nabandons " in note["note"]


async def test_an_epoch_that_another_process_keeps_from_being_signed_is_reported(
    pool, conn, owner, installation, monkeypatch
):
    monkeypatch.setattr(sealer, "EPOCH_TRIES", 2)
    await audit_log(conn, installation, seals=2)
    epoch = await new_epoch(owner, reason="restored", actor=CALLER)
    async with pool.acquire() as other, other.transaction():
        await other.execute("select pg_advisory_xact_lock(atlas.lock_class('seal'), 0)")
        with pytest.raises(Conflict, match="Epoch 2 has begun, but another process"):
            await sign_epoch(conn, installation.key, installation.copies, epoch=epoch, abandon=True)


async def test_the_loop_goes_on_with_a_key_that_took_the_place_of_a_lost_one(
    pool, conn, owner, installation, monkeypatch
):
    stop = asyncio.Event()
    loop = asyncio.create_task(run_sealer(pool, installation.settings, stop))
    await until(lambda: conn.fetchval("select exists (select from atlas.audit_checkpoint)"))
    # It seals and does not sign, so that it does not come first with the old key.
    monkeypatch.setattr(sealer, "SIGN_EVERY", 3600)
    await asyncio.sleep(0.3)
    epoch = await new_epoch(owner, reason="the key is lost", actor=CALLER)
    key_file(installation.settings).unlink()
    key = replaced_key(installation.settings)
    await sign_epoch(conn, key, installation.copies, epoch=epoch, abandon=False)

    monkeypatch.setattr(sealer, "SIGN_EVERY", 0.02)
    await write(conn, 1)
    await until(lambda: conn.fetchval("select count(*) = 2 from atlas.audit_checkpoint where key_name = $1", key.label))
    stop.set()
    await loop
