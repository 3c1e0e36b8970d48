"""Retention and epochs: the owner's verbs, audited, after which everything still verifies."""

import asyncio
from datetime import timedelta

import asyncpg
import orjson
import pytest

from atlas.actors import Actor
from atlas.audit.exports.export import Extract, export
from atlas.audit.exports.proof import prove, prove_consistency
from atlas.audit.forwarding.places import add_forwarder, find_forwarder, remove_forwarder, store_place
from atlas.audit.forwarding.sealed_rows import Place
from atlas.audit.personal_data import commit, commit_address
from atlas.audit.reader import AuditReader
from atlas.audit.record import Event, record
from atlas.audit.retention import new_epoch, prune
from atlas.audit.sealing.checkpoint import publish
from atlas.audit.sealing.seal import OtherCluster, seal, seal_batch
from atlas.audit.verification.verify import verify
from atlas.audit.verifier.export import verify_export
from atlas.audit.verifier.proof import check_proof
from atlas.db.pool import connect
from atlas.errors import Conflict, NotFound
from tests.audit.given import CALLER, TENANTS, audit_log, event, kinds, prune_through, seal_in_small_batches, write
from tests.pgbouncer import direct_url


async def grown_old(owner, before: int) -> None:
    """Seals up to one become a year older."""
    await owner.execute("alter table atlas.audit_seal disable trigger all")
    await owner.execute(f"update atlas.audit_seal set sealed_at = sealed_at - interval '1 year' where n <= {before}")
    await owner.execute("alter table atlas.audit_seal enable always trigger audit_seal_append_only")


@pytest.fixture
async def pruned(conn, owner, installation):
    """An audit log whose older half has been removed; proofs of two rows made before."""
    await audit_log(conn, installation, seals=4)
    await record(conn, event(1, tenant_id=TENANTS[0]), personal={"to": "old@example.org"})
    shape, loose = commit("to", "nobody@example.org")  # a value that no thing was named for
    await conn.execute("select atlas.store_personal_data(null, $1::text::jsonb)", orjson.dumps([loose]).decode())
    await record(conn, event(1, meta=shape))
    await seal(conn)
    middle = await conn.fetchval("select max(n) from atlas.audit_seal")
    await installation.sign(conn)
    old = await prove(conn, 2)
    await audit_log(conn, installation, seals=3, seed=5)
    await record(conn, event(2), personal={"to": "new@example.org"})
    await seal(conn)
    sealed = dict(await owner.fetch("select n, sealed_at from atlas.audit_seal"))
    await grown_old(owner, middle)
    done = await prune(owner, older_than=timedelta(days=180), actor=CALLER, key=installation.key)
    await owner.execute("alter table atlas.audit_seal disable trigger all")
    for n, at in sealed.items():
        await owner.execute("update atlas.audit_seal set sealed_at = $2 where n = $1", n, at)
    await owner.execute("alter table atlas.audit_seal enable always trigger audit_seal_append_only")
    await seal(conn)
    await installation.sign(conn)
    return done, old


async def test_of_two_removals_at_once_one_is_refused_by_the_other(conn, owner, installation, database_url):
    await audit_log(conn, installation, seals=4)
    await grown_old(owner, 3)
    other = await connect(direct_url(database_url))
    waits = "select exists (select from pg_locks where pid = $1 and not granted)"
    async with owner.transaction():
        await prune(owner, older_than=timedelta(days=10), actor=CALLER, key=installation.key)
        second = asyncio.create_task(prune(other, older_than=timedelta(days=10), actor=CALLER, key=installation.key))
        while not await owner.fetchval(waits, other.get_server_pid()):
            await asyncio.sleep(0.02)
    with pytest.raises(Conflict, match="were removed by another process at the same time"):
        await second
    await other.close()


async def test_rows_that_a_forwarder_has_yet_to_send_are_not_removed(conn, owner, installation):
    await audit_log(conn, installation, seals=4)
    await add_forwarder(conn, "siem", "file", "json", actor=CALLER)
    await add_forwarder(conn, "late", "file", "json", actor=CALLER)
    last = await conn.fetchval("select max(n) from atlas.audit_seal")
    await grown_old(owner, last)
    older = {"older_than": timedelta(days=10), "actor": CALLER, "key": installation.key}
    await store_place(conn, "late", Place(), Place(1), sent=1)

    with pytest.raises(Conflict) as refused:
        await prune(owner, **older)
    waiting = (await find_forwarder(conn, "late")).lag_rows
    late = f"late has sent the rows up to seal 1, and {waiting} more wait; siem has"
    assert f"The rows up to seal {last} were not all forwarded: {late}" in str(refused.value)
    assert "atlas audit forward --remove late" in refused.value.remedy
    await remove_forwarder(conn, "late", actor=CALLER)
    await store_place(conn, "siem", Place(), Place(last), sent=1)
    assert (await prune(owner, **older)).through_seal == last


async def test_the_rows_of_old_seals_go_and_their_leaves_stay(conn, pruned, installation):
    done, _ = pruned
    assert done.rows > 0
    seals = await conn.fetch("select n, count from atlas.audit_seal where n <= $1", done.through_seal)
    assert sum(row["count"] - 1 for row in seals) == done.rows
    order = await conn.fetchrow("select * from atlas.audit_log where action = 'AUDIT_PRUNED'")
    assert (order["actor_id"], order["entity_id"]) == ("dana", str(done.through_seal))

    report = await verify(conn, installation.keys, installation.notes)
    assert report.findings == []
    assert report.pruned == done.rows
    assert report.rows == await conn.fetchval("select count(*) from atlas.audit_log")


async def test_personal_values_of_removed_rows_go_with_them(conn, pruned):
    assert [row["value"] for row in await conn.fetch("select value from atlas.audit_private")] == ["new@example.org"]


async def test_old_proofs_still_hold_and_new_ones_of_removed_rows_cannot_be_made(conn, pruned, installation):
    _, old = pruned
    assert check_proof(old, installation.keys).ok
    with pytest.raises(NotFound, match="audit row 2"):
        await prove(conn, 2)
    newest = await conn.fetchval("select max(id) from atlas.audit_log where action = 'THING_CHANGED'")
    assert check_proof(await prove(conn, newest), installation.keys).ok
    sizes = await conn.fetch("select size from atlas.audit_checkpoint order by size")
    assert check_proof(await prove_consistency(conn, sizes[0]["size"]), installation.keys).ok


async def test_an_export_of_what_is_left_verifies(conn, pruned, installation, tmp_path):
    done, _ = pruned
    path = tmp_path / "left.jsonl"
    for extract in (Extract(), Extract(tenant_id=TENANTS[0])):
        with path.open("wb") as file:
            async for piece in export(conn, extract, actor=CALLER):
                file.write(piece)
        report = verify_export(path, installation.keys)
        assert report.findings == []
        assert report.pruned == (done.rows if extract.tenant_id is None else 0)


async def test_rows_that_are_gone_without_an_order_are_missing(conn, owner, pruned, installation):
    done, _ = pruned
    await owner.execute(
        "alter table atlas.audit_log disable trigger all; alter table atlas.audit_pruned disable trigger all"
    )
    await owner.execute("delete from atlas.audit_log where action = 'AUDIT_PRUNED'")
    assert "row" in kinds(await verify(conn, installation.keys))

    await owner.execute("delete from atlas.audit_pruned")
    report = await verify(conn, installation.keys)
    assert sum("Missing" in finding.message for finding in report.findings) >= done.through_seal - 1


FORGED_ORDER = """
insert into atlas.audit_log (actor_type, actor_id, action, entity_type, entity_id, meta, body)
select 'user', 'dana', 'AUDIT_PRUNED', 'audit_seal', '2', meta,
  atlas.audit_body(null, 'user', 'dana', 'info', 'AUDIT_PRUNED', 'audit_seal', '2', '', meta)
from jsonb_build_object('through_seal', 2) meta"""


async def test_an_order_that_was_never_carried_out_is_found(conn, owner, installation):
    await audit_log(conn, installation, seals=3)
    await owner.execute("insert into atlas.audit_pruned (through_seal) values (2)")
    words = [finding.message for finding in (await verify(conn, installation.keys)).findings]
    assert ["but no event orders it" in words[0], "Recorded as removed, but still there" in words[1]] == [True, True]

    await owner.execute(FORGED_ORDER)
    await seal(conn)
    await installation.sign(conn)
    words = [finding.message for finding in (await verify(conn, installation.keys)).findings]
    assert ["that no key has signed" in words[0], "Recorded as removed, but still there" in words[1]] == [True, True]


FORGED_HEADER = """
update atlas.audit_seal set sealed_at = '2099-01-01T00:00:00+00', system_identifier = 42, header = convert_to(replace(replace(
  convert_from(header, 'UTF8'), '"system_identifier":' || system_identifier, '"system_identifier":42'),
  substring(convert_from(header, 'UTF8') from '"sealed_at":"[^"]*"'), '"sealed_at":"2099-01-01T00:00:00.000000+00:00"'), 'UTF8')
where n = {n}"""


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        FORGED_HEADER,
        "update atlas.audit_seal_tenant set first_number = first_number + 1 where n = {n}",
        "update atlas.audit_seal_tenant set count = count + 1 where n = {n}",
        "update atlas.audit_seal_tenant set n = 1000 where n = {n}",
        "update atlas.audit_seal_tenant set tenant_id = gen_random_uuid() where n = {n}",
    ],
)
async def test_a_changed_seal_of_removed_rows_is_found(conn, owner, pruned, installation, change):
    n = await owner.fetchval("select min(n) from atlas.audit_seal where n <= $1 and count > 1", pruned[0].through_seal)
    await owner.execute(
        "alter table atlas.audit_seal disable trigger all; alter table atlas.audit_seal_tenant disable trigger all"
    )
    await owner.execute(change.format(n=n))
    assert kinds(await verify(conn, installation.keys)) == {"seal"}


async def test_more_than_was_ordered_cannot_go_unseen(conn, owner, pruned, installation):
    await owner.execute("alter table atlas.audit_log disable trigger all")
    victim = await owner.fetchval("select min(id) from atlas.audit_log where action = 'THING_CHANGED'")
    await owner.execute(f"delete from atlas.audit_log where id = {victim}")
    assert "row" in kinds(await verify(conn, installation.keys))


@pytest.mark.long
async def test_an_order_for_more_than_is_written_down_is_found(conn, owner, pruned, installation):
    """A superuser may write an order by hand, and the rows go; the missing event is found."""
    next_seal = await owner.fetchval(
        "select min(n) from atlas.audit_seal where n > $1 and closes and count > 1", pruned[0].through_seal
    )
    await owner.execute(
        f"begin; insert into atlas.audit_pruned (through_seal) values ({next_seal});"
        f" delete from atlas.audit_log a using atlas.audit_seal s where s.n = {next_seal} and pg_visible_in_snapshot(a.xid, s.snap_cur);"
        " commit"
    )
    assert "row" in kinds(await verify(conn, installation.keys))


@pytest.mark.parametrize("sealed", [False, True])
async def test_rows_removed_during_a_verification_are_not_missing(conn, owner, installation, monkeypatch, sealed):
    await audit_log(conn, installation, seals=5)
    read, orders = AuditReader.rows, [5]

    async def interrupted(self, seal, before):
        async for rows in read(self, seal, before):
            yield rows
            if seal.n == 3 and orders:  # in the middle of a batch
                assert len(rows) < seal.count - 1
                await prune_through(owner, installation, orders.pop())
                if sealed:
                    await seal_batch(owner)

    monkeypatch.setattr("atlas.audit.reader.ROWS_AT_ONCE", 2)
    monkeypatch.setattr(AuditReader, "rows", interrupted)
    report = await verify(conn, installation.keys, installation.notes)
    assert report.findings == []
    assert report.pruned == await conn.fetchval("select sum(count - 1) from atlas.audit_seal where n between 3 and 5")
    assert (report.rows + report.unsealed, orders) == (
        await conn.fetchval("select sum(count - 1) from atlas.audit_seal where n not between 3 and 5") + (not sealed),
        [],
    )


async def test_an_epoch_that_begins_during_a_verification_is_no_forgery(conn, owner, installation, monkeypatch):
    await audit_log(conn, installation, seals=2)
    read = AuditReader.unsealed

    async def interrupted(self, last):
        async for rows in read(self, last):
            yield rows
        await new_epoch(owner, reason="meanwhile", actor=CALLER)

    monkeypatch.setattr(AuditReader, "unsealed", interrupted)
    assert (await verify(conn, installation.keys, installation.notes)).findings == []


@pytest.mark.parametrize("tenant", [None, TENANTS[0]])
async def test_an_export_whose_rows_are_removed_meanwhile_breaks_off(conn, owner, installation, tenant):
    await audit_log(conn, installation, seals=5)
    lines = export(conn, Extract(tenant_id=tenant), actor=CALLER)
    assert b"manifest" in await anext(lines)
    await owner.execute("select atlas.audit_prune(5, 'user', 'dana', '{}')")
    with pytest.raises(Conflict, match="removed by order while they were exported"):
        _ = [line async for line in lines]


async def test_nothing_that_no_checkpoint_covers_is_removed(conn, owner, installation):
    await write(conn, 3)
    await seal(conn)
    await grown_old(owner, 1)
    assert await prune(owner, older_than=timedelta(days=1), actor=CALLER, key=installation.key) is None
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="not covered by a checkpoint"):
        await owner.execute("select atlas.audit_prune(1, 'user', 'dana', '{}')")
    assert await conn.fetchval("select count(*) from atlas.audit_log") == 3


async def restored(owner, epoch: int = 1) -> None:
    """What the sealer sees after a restore into another cluster: the epoch belongs to the one before."""
    await owner.execute("alter table atlas.audit_epoch disable trigger all")
    await owner.execute("update atlas.audit_epoch set system_identifier = 42 where epoch = $1", epoch)
    await owner.execute("alter table atlas.audit_epoch enable always trigger audit_epoch_append_only")


async def test_a_restored_cluster_goes_on_after_a_new_epoch_has_begun(conn, owner, installation, tmp_path):
    await audit_log(conn, installation, seals=3)
    await write(conn, 2)
    await restored(owner)
    await write(conn, 3)
    with pytest.raises(OtherCluster):
        await seal(conn)
    assert kinds(await verify(conn, installation.keys)) == {"cluster"}

    assert await new_epoch(owner, reason="restored from last night", actor=CALLER) == 2
    await write(conn, 4)
    assert await seal(conn) == 2 + 3 + 1 + 4
    await installation.sign(conn)
    await audit_log(conn, installation, seals=2, seed=9)

    report = await verify(conn, installation.keys, installation.notes)
    assert report.findings == []
    assert report.rows == await conn.fetchval("select count(*) from atlas.audit_log")
    epochs = await conn.fetch(
        "select epoch, rest, sum(count - 1) as rows from atlas.audit_seal group by 1, 2 order by 1, 2"
    )
    assert [(row["epoch"], row["rest"]) for row in epochs] == [(1, False), (1, True), (2, False)]
    assert epochs[1]["rows"] == 5
    for id in [1, await conn.fetchval("select max(id) from atlas.audit_log where epoch = 1")]:
        assert check_proof(await prove(conn, id), installation.keys).ok
    path = tmp_path / "epochs.jsonl"
    with path.open("wb") as file:
        async for piece in export(conn, Extract(), actor=CALLER):
            file.write(piece)
    assert verify_export(path, installation.keys).findings == []


async def test_rows_of_a_restored_cluster_that_repeat_old_transaction_ids_are_no_forgery(conn, owner, installation):
    """After a restore the ids of transactions start again, so new rows seem to belong into old windows."""
    await audit_log(conn, installation, seals=3)
    await write(conn, 5)
    await seal_in_small_batches(conn, 2)
    await write(conn, 2)
    await restored(owner)
    old = await owner.fetchval("select xid::text from atlas.audit_log order by id limit 1")
    await write(conn, 3)
    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute(
        "update atlas.audit_log set xid = $1::text::xid8 where id > (select max(id) - 3 from atlas.audit_log)", old
    )
    assert kinds(await verify(conn, installation.keys)) == {"cluster"}

    await new_epoch(owner, reason="restored", actor=CALLER)
    await seal(conn)
    await installation.sign(conn)
    assert (await verify(conn, installation.keys, installation.notes)).findings == []
    assert check_proof(
        await prove(conn, await conn.fetchval("select max(id) - 1 from atlas.audit_log")), installation.keys
    ).ok

    late = "select * from atlas.audit_log where epoch = 1 order by id desc limit 1"
    await owner.execute(f"insert into atlas.audit_log overriding system value {late}")
    assert "row" in kinds(await verify(conn, installation.keys))


async def test_an_epoch_that_ends_in_the_middle_of_a_window_loses_nothing(conn, owner, installation):
    await write(conn, 7)
    assert not (await seal_batch(conn, limit=3)).closes
    await new_epoch(owner, reason="a failover", actor=CALLER)
    await write(conn, 2)
    assert await seal(conn) == 4 + 1 + 2
    await installation.sign(conn)
    report = await verify(conn, installation.keys)
    assert report.findings == []
    assert report.rows == 10


async def test_an_epoch_that_is_not_sealed_yet_is_not_followed_by_another(conn, owner, installation):
    await audit_log(conn, installation, seals=2)
    assert await new_epoch(owner, reason="try", actor=CALLER) == 2
    with pytest.raises(Conflict, match="epoch 2 has begun and is not sealed yet"):
        await new_epoch(owner, reason="again", actor=CALLER)

    await seal(conn)
    assert await new_epoch(owner, reason="again", actor=CALLER) == 3
    await seal(conn)
    await installation.sign(conn)
    report = await verify(conn, installation.keys)
    assert report.findings == []
    assert report.rows == await conn.fetchval("select count(*) from atlas.audit_log")


@pytest.mark.parametrize("sealed", [0, 2])
async def test_what_waits_for_its_seal_is_counted_in_every_epoch(conn, owner, installation, sealed):
    await audit_log(conn, installation, seals=sealed)
    await write(conn, 5)
    assert (await verify(conn, installation.keys)).unsealed == 5
    await restored(owner)
    await write(conn, 3)
    assert (await verify(conn, installation.keys)).unsealed == 8
    await new_epoch(owner, reason="restored", actor=CALLER)
    await write(conn, 2)
    for waiting in (11, 7, 3, 0):  # the rest in batches of four, the last of it empty; then the new epoch's
        report = await verify(conn, installation.keys)
        assert (report.unsealed, kinds(report) - {"unsealed"}) == (waiting, set())
        await seal_batch(conn, limit=4)
        if waiting == 3:
            await seal_batch(conn, limit=4)


@pytest.mark.long
@pytest.mark.parametrize("sealed", [0, 2])
async def test_an_epoch_that_ended_before_its_first_seal_loses_nothing(conn, owner, installation, tmp_path, sealed):
    await audit_log(conn, installation, seals=sealed)
    await write(conn, 5)
    await restored(owner)
    for epoch in (2, 3):  # restored again before anything was sealed in the second
        await new_epoch(owner, reason="restored", actor=CALLER)
        await write(conn, 5)
        if epoch == 2:
            await restored(owner, epoch)
    while made := await seal_batch(conn, limit=4):  # what is left of an epoch comes in several batches
        if made.epoch == 3 and made.closes:
            break
    await installation.sign(conn)
    await audit_log(conn, installation, seals=1, seed=3)

    report = await verify(conn, installation.keys, installation.notes)
    assert report.findings == []
    assert report.rows == await conn.fetchval("select count(*) from atlas.audit_log")
    for row in await conn.fetch("select id from atlas.audit_log"):
        assert check_proof(await prove(conn, row["id"]), installation.keys).ok
    path = tmp_path / "epochs.jsonl"
    with path.open("wb") as file:
        async for piece in export(conn, Extract(), actor=CALLER):
            file.write(piece)
    assert verify_export(path, installation.keys).findings == []

    await owner.execute("alter table atlas.audit_log disable trigger all")
    await owner.execute("delete from atlas.audit_log where id = (select min(id) from atlas.audit_log where epoch = 2)")
    assert "row" in kinds(await verify(conn, installation.keys))


async def test_rows_of_an_epoch_without_a_window_go_by_order(conn, owner, installation):
    await write(conn, 5)
    await new_epoch(owner, reason="before the first seal", actor=CALLER)
    await seal(conn)
    await installation.sign(conn)
    await prune_through(owner, installation, 1)
    await seal(conn)
    await installation.sign(conn)
    report = await verify(conn, installation.keys, installation.notes)
    assert (report.findings, report.pruned) == ([], 5)


async def test_a_row_slipped_into_an_ended_epoch_is_found(conn, owner, installation):
    await audit_log(conn, installation, seals=2)
    await new_epoch(owner, reason="try", actor=CALLER)
    await audit_log(conn, installation, seals=1, seed=3)
    await owner.execute("alter table atlas.audit_log disable trigger all")
    for xid in ("5", "999999999"):
        await owner.execute(
            "insert into atlas.audit_log (epoch, xid, actor_type, actor_id, action, entity_type, entity_id, body)"
            f" values (1, '{xid}', 'user', 'eve', 'X', 'x', 'x', '{{}}')"
        )
        assert "row" in kinds(await verify(conn, installation.keys))
        await owner.execute("delete from atlas.audit_log where actor_id = 'eve'")


@pytest.mark.parametrize(
    "change",
    [
        "insert into atlas.audit_epoch (epoch, system_identifier) values (4, atlas.system_identifier())",
        "insert into atlas.audit_epoch (epoch, system_identifier) values (9, atlas.system_identifier())",
        "update atlas.audit_epoch set reason = 'nothing happened' where epoch = 3",
        "delete from atlas.audit_epoch where epoch = 2",
    ],
)
async def test_an_epoch_without_an_event_is_found(conn, owner, installation, change):
    await audit_log(conn, installation, seals=1)
    for number in (2, 3):
        await new_epoch(owner, reason=f"epoch {number}", actor=CALLER)
        await seal(conn)
    await installation.sign(conn)
    through = await conn.fetchval("select max(n) from atlas.audit_seal where epoch = 2")
    await prune_through(owner, installation, through)  # the second's event goes
    await seal(conn)
    await installation.sign(conn)
    assert (await verify(conn, installation.keys)).findings == []

    await owner.execute("alter table atlas.audit_epoch disable trigger all")
    await owner.execute(change)
    report = await verify(conn, installation.keys)
    assert any("differs from its event or its seals" in finding.message for finding in report.findings)


async def test_a_new_epoch_does_not_wait_for_ever_behind_an_open_writer(conn, owner, database_url):
    writer = await connect(database_url)
    transaction = writer.transaction()
    await transaction.start()
    await record(writer, event(1))
    with pytest.raises(Conflict, match="has been open for too long"):
        await new_epoch(owner, reason="try", actor=CALLER, timeout=timedelta(seconds=0.1))
    await transaction.commit()
    await writer.close()
    assert await owner.fetchval("select max(epoch) from atlas.audit_epoch") == 1


async def test_writers_at_work_never_fall_between_two_epochs(conn, owner, pool, installation):
    stop = asyncio.Event()

    async def writer(number: int) -> int:
        count = 0
        async with pool.acquire() as own:
            while not stop.is_set():
                await record(own, event(number))
                count += 1
        return count

    writers = [asyncio.create_task(writer(number)) for number in range(4)]
    for number in range(3):
        await seal(conn)
        await new_epoch(owner, reason=f"epoch {number}", actor=CALLER)
    stop.set()
    written = sum(await asyncio.gather(*writers))
    await seal(conn)
    await publish(conn, installation.key, installation.copies)

    report = await verify(conn, installation.keys)
    assert report.findings == []
    assert report.rows == written + 3


async def test_the_address_of_a_caller_stays_while_rows_of_its_time_are_left(conn, owner, installation):
    old = await commit_address(conn, "192.0.2.7", tenant_id=None)
    await owner.execute("alter table atlas.audit_private disable trigger all")
    await owner.execute("update atlas.audit_private set created_at = created_at - interval '31 days'")
    await owner.execute("alter table atlas.audit_private enable always trigger audit_private_no_update")
    shared = await commit_address(conn, "192.0.2.8", tenant_id=None)
    for commitment in (old, shared):
        await record(conn, Event("THING_CHANGED", "thing", "1", Actor("user", "dana", commitment)))
    await seal(conn)
    await installation.sign(conn)
    await record(conn, Event("THING_CHANGED", "thing", "2", Actor("user", "dana", shared)))
    await seal(conn)
    await grown_old(owner, 1)
    assert await prune(owner, older_than=timedelta(days=180), actor=CALLER, key=installation.key) is not None

    assert [row["value"] for row in await conn.fetch("select value from atlas.audit_private")] == ["192.0.2.8"]
    await seal(conn)
    await installation.sign(conn)
    assert not {"private"} & kinds(await verify(conn, installation.keys))
