"""A base backup and the archived WAL: the database as it was at a time, what Atlas says of it, and how it goes on."""

import shutil
import tempfile
from pathlib import Path

import pytest

from atlas.audit.sealer import seal_and_sign
from atlas.db.pool import connect, open_pool
from atlas.postgres.as_root import give_to_server, open_path_to
from atlas.postgres.pg_ctl import BIN, call, run
from atlas.settings import load_settings
from tests.support import until

pytestmark = pytest.mark.slow

MAIL = '{"to": "ada@example.com", "subject": "Hello", "text": "It works."}'


class Server:
    """A PostgreSQL with the settings of the page about backups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.archive = folder / "archive"

    def make(self) -> None:
        open_path_to(self.folder, BIN)
        self.archive.mkdir()
        give_to_server(self.archive)
        run("initdb", "--auth=trust", "--username=postgres", "--no-sync", "--pgdata", str(self.data))
        self.configure(
            listen_addresses="",
            unix_socket_directories=self.folder,
            archive_mode="on",
            archive_command=f"test ! -f {self.archive}/%f && cp %p {self.archive}/%f",
        )

    def url(self, login: str, database: str = "atlas") -> str:
        return f"postgresql://{login}@/{database}?host={self.folder}"

    def configure(self, **settings: object) -> None:
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        run("pg_ctl", "-w", "-s", "-l", str(self.folder / "log"), "start", data=self.data)

    def back_up(self) -> None:
        options = ("--checkpoint=fast", "--host", str(self.folder), "--username=postgres")
        run("pg_basebackup", "--pgdata", str(self.folder / "base"), *options)

    def recover(self, until: str) -> None:
        """Lose the server, and start the backup of it up to this time."""
        call("pg_ctl", "-w", "-s", "-m", "immediate", "stop", data=self.data)
        shutil.rmtree(self.data)
        (self.folder / "base").rename(self.data)
        self.configure(restore_command=f"cp {self.archive}/%f %p", recovery_target_time=until)
        (self.data / "recovery.signal").touch()
        give_to_server(self.data / "recovery.signal")
        self.start()


@pytest.fixture
async def server():
    """A server with an empty database, and the login of Atlas's programs."""
    # A socket's path is short.
    found = Server(Path(tempfile.mkdtemp(prefix="atlas-pitr-")))
    found.make()
    found.start()
    conn = await connect(found.url("postgres", "postgres"))
    await conn.execute("create database atlas")
    await conn.execute("create role atlas_app login")
    await conn.close()
    yield found
    call("pg_ctl", "-w", "-s", "-m", "immediate", "stop", data=found.data)
    shutil.rmtree(found.folder)


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
    server.back_up()
    # After the base backup, so that the archive has to bring it.
    await done("enqueue", "EMAIL_SEND", "--input", MAIL)
    await sign()
    time = await owner.fetchval("select clock_timestamp()::text")
    await done("tenant", "add", "mistake")
    await sign()
    segment = await owner.fetchval("select pg_walfile_name(pg_switch_wal())")
    await until((server.archive / segment).exists)
    await owner.close()

    server.recover(time)

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
