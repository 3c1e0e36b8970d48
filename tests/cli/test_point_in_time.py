"""A base backup and the archived WAL: the database as it was at a time, what Atlas says of it, and how it goes on."""

import pytest

from atlas.audit.sealing.sealer import seal_and_sign
from atlas.db.pool import connect, open_pool
from atlas.settings import load_settings
from tests.cluster.server import Server
from tests.support import until

pytestmark = pytest.mark.slow

MAIL = '{"to": "ada@example.com", "subject": "Hello", "text": "It works."}'


@pytest.fixture
async def server():
    """A server with an empty database, and the login of Atlas's programs."""
    found = Server()
    found.start()
    await found.furnish()
    yield found
    found.remove()


async def test_a_database_is_restored_to_a_time_says_what_is_lost_and_goes_on(server, atlas, tmp_path):
    where = {
        "DATABASE_URL": server.url("atlas_app"),
        "ATLAS_OWNER_URL": server.url("postgres"),
        "OUTBOUND_EMAIL_PROVIDER": "outbox",
        "OUTBOUND_EMAIL_FROM": "a@example.com",
    }

    async def done(*words):
        ran = await atlas(*words, **where)
        assert ran.code == 0, ran
        return ran.stdout

    async def sign():
        pool = await open_pool(where["DATABASE_URL"], size=1)
        await seal_and_sign(pool, load_settings(atlas_home=tmp_path / "home", database_url=where["DATABASE_URL"]))
        await pool.close()

    await done("migrate")
    owner = await connect(server.url("postgres"))
    await owner.execute("grant atlas_engine, atlas_tenant to atlas_app")
    await done("online")
    await sign()
    server.back_up(server.folder / "base")
    # After the base backup, so that the archive has to bring it.
    await done("enqueue", "EMAIL_SEND", "--input", MAIL)
    await sign()
    time = await owner.fetchval("select clock_timestamp()::text")
    await done("tenant", "add", "mistake")
    await sign()
    segment = await owner.fetchval("select pg_walfile_name(pg_switch_wal())")
    await until((server.archive / segment).exists)
    await owner.close()

    server.recover(server.folder / "base", time)

    # It waits at that time, and can be read.
    assert "mistake" not in await done("tenant", "list")
    standby = await atlas("doctor", **where)
    assert standby.code == 1
    assert "a standby" in standby.stdout
    owner = await connect(server.url("postgres"))
    await until_promoted(owner)
    seen = await atlas("doctor", **where)
    assert seen.code == 1
    assert "fail checkpoints" in seen.stdout
    assert "do not continue the" in seen.stdout
    verified = await atlas("audit", "verify", **where)
    assert verified.code == 1
    assert "leaves were signed at" in verified.stdout
    await done("offline", "--reason", "restored")
    refused = await atlas("audit", "new-epoch", "--reason", "restored", **where)
    assert "--accept-loss" in refused.refusal

    await done("audit", "new-epoch", "--accept-loss", "--reason", "restored to before the mistake")
    await done("doctor")
    await done("online")
    await done("worker", "--all", "--drain")
    assert [row["status"] for row in await owner.fetch("select status from atlas.jobs")] == ["succeeded"]
    await owner.close()
    assert "The signer abandoned the tree" in await done("audit", "verify", "--state")


async def until_promoted(owner):
    """End the recovery, and wait until the server can be written."""
    await owner.execute("select pg_wal_replay_resume()")

    async def is_primary():
        return not await owner.fetchval("select pg_is_in_recovery()")

    await until(is_primary)
