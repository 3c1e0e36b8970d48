"""An asynchronous standby is promoted without the last transactions: Atlas says what is lost, and goes on by order alone."""

from typing import Any

import pytest

from atlas.audit.sealing.checkpoint import InconsistentTree
from atlas.audit.sealing.sealer import seal_and_sign
from atlas.db.migrations import migrate
from atlas.db.pool import connect, open_pool
from atlas.db.replica import ReplicaUnusable, replayed, until_replayed, written
from atlas.engine.alerts import find_alerts
from atlas.settings import load_settings
from tests.cluster.server import Server
from tests.support import until

LOGINS = {"DATABASE_URL": "atlas_app", "ATLAS_OWNER_URL": "postgres"}
EVENT = "select meta from atlas.audit_log where action = 'AUDIT_EPOCH'"


@pytest.fixture
async def primary():
    server = Server()
    server.configure(archive_mode="off")
    server.start()
    await server.furnish()
    yield server
    server.remove()


@pytest.mark.long
async def test_a_promoted_standby_that_lacks_the_end_is_noticed_and_used_only_by_order(primary, atlas, tmp_path):
    standby = Server(primary)
    # As people name both: whichever takes writes.
    hosts = f"?host={primary.folder},{standby.folder}&target_session_attrs=read-write"
    where = {name: f"postgresql://{login}@/atlas{hosts}" for name, login in LOGINS.items()}
    settings = load_settings(atlas_home=tmp_path / "home", database_url=where["DATABASE_URL"])

    async def done(*words: str) -> Any:
        ran = await atlas(*words, **where)
        assert ran.code == 0, ran
        return ran.stdout

    async def sign() -> None:
        pool = await open_pool(where["DATABASE_URL"], size=1)
        try:
            await seal_and_sign(pool, settings)
        finally:
            await pool.close()

    try:
        await done("migrate")
        owner = await connect(primary.url("postgres"))
        await owner.execute("grant atlas_engine, atlas_tenant to atlas_app")
        await sign()
        standby.start()
        await follow(owner)
        standby.stop()
        await done("tenant", "add", "lost")
        await sign()
        size = await owner.fetchval("select max(size) from atlas.audit_seal")
        await owner.close()

        primary.stop()
        standby.start()
        standby.promote()

        # What is written now makes the log longer than the one that was signed, and no less incomplete.
        for name in ("a", "b", "c"):
            await done("tenant", "add", name)
        with pytest.raises(InconsistentTree) as refused:
            await sign()
        lost = refused.value.lost
        assert lost.signed_size == size > lost.kept_size
        assert lost.kept_at is not None
        assert lost.kept_at < lost.signed_at
        assert f"Warning: {lost.message}" in await done("status")
        for words in (("doctor",), ("audit", "verify")):
            ran = await atlas(*words, "--json", **where)
            assert ran.code == 1
            assert lost.message in ran.stdout
        assert "--accept-loss" in (await atlas("audit", "new-epoch", "--reason", "failover", **where)).refusal
        owner = await connect(standby.url("postgres"))
        assert [(alert.kind, alert.message) for alert in await find_alerts(owner)] == [("audit_lost_end", lost.message)]

        await done("audit", "new-epoch", "--accept-loss", "--reason", "an asynchronous standby was promoted")

        meta = await owner.fetchval(EVENT)
        assert f'"signed_size": {size}' in meta
        assert f'"kept_size": {lost.kept_size}' in meta
        assert await find_alerts(owner) == []
        await owner.close()
        assert "Warning" not in await done("status")
        await done("doctor")
        assert "The signer abandoned the tree" in await done("audit", "verify", "--state")
    finally:
        standby.remove()


async def follow(primary: Any) -> None:
    """Wait until its standbys have all that the primary has."""
    caught_up = "select coalesce(bool_and(replay_lsn >= pg_current_wal_lsn()), false) from pg_stat_replication"
    await until(lambda: primary.fetchval(caught_up))


@pytest.mark.long
async def test_a_standby_that_has_what_was_lost_is_not_read(primary):
    behind, ahead = Server(primary), Server(primary)
    try:
        first = await connect(primary.url("postgres"))
        await first.execute("create table lost (n int)")
        await migrate(primary.url("postgres"))
        before = await written(first)
        behind.start()
        ahead.start()
        await until(lambda: first.fetchval("select count(*) = 2 from pg_stat_replication"))
        await follow(first)
        follower = await connect(ahead.url("postgres"))
        assert await replayed(follower, before) >= before.position
        behind.stop()
        await first.execute("insert into lost select generate_series(1, 100000)")
        await until_replayed(follower, await written(first), within=30)
        await first.close()

        primary.stop()
        behind.start()
        behind.promote()
        second = await connect(behind.url("postgres"))
        now = await written(second)
        assert now.position < await replayed(follower, before)
        with pytest.raises(ReplicaUnusable, match="does not follow the primary that a failover has made"):
            await replayed(follower, now)
        await follower.close()
        await second.close()
    finally:
        behind.remove()
        ahead.remove()
