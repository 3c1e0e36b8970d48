"""A dump restored into another cluster: sealing is refused until an epoch has begun there, and nothing is lost."""

import asyncio

import pytest

from atlas.audit.retention import new_epoch
from atlas.audit.sealing.checkpoint import InconsistentTree, publish
from atlas.audit.sealing.seal import OtherCluster, seal
from atlas.audit.verification.verify import verify
from atlas.db.pool import connect, open_pool
from atlas.postgres.cluster import start_embedded
from atlas.postgres.pg_ctl import BIN
from atlas.test_databases import TEST_SETTINGS
from tests.audit.given import CALLER, audit_log, kinds, write


@pytest.fixture
async def second_cluster(tmp_path):
    """A cluster of its own, with Atlas's roles and an empty database."""
    server = await start_embedded(tmp_path / "second", settings=TEST_SETTINGS)
    conn = await connect(server.url("postgres"))
    for role in ("atlas_owner", "atlas_engine", "atlas_tenant"):
        await conn.execute(f"create role {role} nologin")
    await conn.execute("create database restored")
    await conn.close()
    yield server.url("restored")
    server.release()


async def restore(source: str, target: str) -> None:
    """pg_dump into psql, as an operator would."""
    dump = await asyncio.create_subprocess_exec(BIN / "pg_dump", source, stdout=asyncio.subprocess.PIPE)
    text, _ = await dump.communicate()
    # A newer dump may set what an older server does not know; that is no part of the data.
    load = await asyncio.create_subprocess_exec(
        BIN / "psql", "-q", "-o", "/dev/null", target, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    await load.communicate(text)


@pytest.mark.long
async def test_a_restored_audit_log_goes_on_in_an_epoch_of_its_own(conn, database_url, second_cluster, installation):
    await audit_log(conn, installation, seals=5)
    await write(conn, 3)
    await restore(database_url, second_cluster)
    pool, owner = await open_pool(second_cluster), await connect(second_cluster)
    async with pool.acquire() as restored:
        # The new cluster counts transactions from the beginning, and work goes on at once.
        await write(restored, 4)
        with pytest.raises(OtherCluster):
            await seal(restored)
        report = await verify(restored, installation.keys, installation.notes)
        assert kinds(report) == {"cluster"}

        await new_epoch(owner, reason="restored", actor=CALLER)
        await write(restored, 2)
        assert await seal(restored) == 3 + 4 + 1 + 2
        await installation.sign(restored)
        report = await verify(restored, installation.keys, installation.notes)
        assert report.findings == []
        assert report.rows == await restored.fetchval("select count(*) from atlas.audit_log")
    await owner.close()
    await pool.close()


@pytest.mark.long
async def test_a_restore_shows_by_its_transaction_ids_where_the_cluster_has_no_identifier(
    conn, owner, database_url, second_cluster, installation
):
    await owner.execute(
        "alter table atlas.audit_epoch disable trigger all; update atlas.audit_epoch set system_identifier = 0"
    )
    await owner.execute(
        "create or replace function atlas.system_identifier() returns bigint language sql stable as 'select 0::bigint'"
    )
    # More transactions than a restore takes.
    burn = "do $$ begin for i in 1..9000 loop perform pg_current_xact_id(); commit; end loop; end $$"
    await owner.execute(burn)
    await audit_log(conn, installation, seals=3)
    await restore(database_url, second_cluster)
    pool, owner = await open_pool(second_cluster), await connect(second_cluster)
    async with pool.acquire() as restored:
        await write(restored, 4)
        report = await verify(restored, installation.keys, installation.notes)
        assert kinds(report) == {"cluster"}
        assert report.unsealed == 4

        await new_epoch(owner, reason="restored", actor=CALLER)
        await seal(restored)
        await installation.sign(restored)
        assert (await verify(restored, installation.keys, installation.notes)).findings == []
    await owner.close()
    await pool.close()


@pytest.mark.long
async def test_a_backup_that_lacks_the_end_gets_no_signature_until_the_loss_is_accepted(
    conn, database_url, second_cluster, installation
):
    await audit_log(conn, installation, seals=3)
    await restore(database_url, second_cluster)
    await audit_log(conn, installation, seals=2, seed=4)
    pool, owner = await open_pool(second_cluster), await connect(second_cluster)
    async with pool.acquire() as restored:
        assert "cut" in kinds(await verify(restored, installation.keys, installation.notes))
        await new_epoch(owner, reason="restored, the last hour is lost", actor=CALLER)
        await seal(restored)
        with pytest.raises(InconsistentTree):
            await installation.sign(restored)

        await publish(restored, installation.key, installation.copies, abandon=True)
        report = await verify(restored, installation.keys, installation.notes)
        assert report.findings == []
        assert any("The signer abandoned" in notice for notice in report.notices)
    await owner.close()
    await pool.close()
