"""The command line on a bad day of the database: a quick answer, the true cause, the right remedy, no stack trace."""

import asyncio
import math
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from atlas.cli import runtime
from atlas.cli.programs.long_running import atlas_argv
from atlas.cli.runtime import open_atlas
from atlas.db.migrations import migrate
from atlas.db.pool import connect
from atlas.engine.jobs.enqueue import enqueue
from atlas.engine.jobs.new_jobs.new_job import NewJob
from atlas.engine.jobs.switches.gate import switch
from atlas.postgres.cluster import start_embedded
from atlas.postgres.pg_ctl import call, cause_of, running_at
from atlas.settings import Settings
from atlas.test_databases import TEST_SETTINGS
from tests.cli.conftest import MAKE_GUEST, as_guest, environment
from tests.programs import require_program
from tests.support import DANA, NO_SPACE, fill_disk, kept_down, some, until
from tests.workers.processes import start_worker

# What programs log when they have begun.
BEGUN = (b"worker started", b"scheduler leads", b"the API listens")


@pytest.mark.parametrize(
    ("arguments", "table"),
    some(
        [(("enqueue", "x.work"), "jobs"), (("tenant", "add", "acme"), "tenants"), (("offline",), "system_state")],
        every=3,
    ),
)
async def test_a_full_disk_is_named(atlas, owner, arguments, table):
    await fill_disk(owner, table)
    refusal = (await atlas(*arguments)).refusal

    assert f"is full: {NO_SPACE}. Free space there." in refusal


@pytest.mark.slow
async def test_a_disk_that_is_really_full_is_named_and_nothing_is_left_to_mend(atlas, small_disk):
    home = {"DATABASE_URL": None, "ATLAS_HOME": str(small_disk / "home")}
    server = await start_embedded(small_disk / "home", settings=TEST_SETTINGS)
    try:
        assert (await atlas("online", **home)).code == 0
        with (small_disk / "fill").open("wb", buffering=0) as fill, suppress(OSError):
            while True:
                fill.write(bytes(2**16))
        # It may have room in the pages that it has.
        async with asyncio.timeout(60):
            while (ran := await atlas("enqueue", "x.work", "--allow-unknown", **home)).code == 0:
                pass
        assert "is full: could not" in ran.refusal
        assert "No space left on device. Free space there." in ran.refusal

        (small_disk / "fill").unlink()
        assert (await atlas("enqueue", "x.work", "--allow-unknown", **home)).code == 0
    finally:
        server.release()
        await until(lambda: not (server.folder / "data" / "postmaster.pid").exists())


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (
            '2026-11-17 23:35:44.223 UTC [31457] FATAL:  could not extend file "base/1/2691": No space left on device\n'
            "2026-11-17 23:35:44.223 UTC [31457] HINT:  Check free disk space.\n"
            "child process exited with exit code 134\n"
            'initdb: removing data directory "/home/postgres"',
            'could not extend file "base/1/2691": No space left on device',
        ),
        (
            'initdb: error: directory "/data" exists but is not empty\ninitdb: hint: Remove it.',
            'directory "/data" exists but is not empty',
        ),
        ("pg_ctl: could not start server", "pg_ctl: could not start server"),
        ("", None),
    ],
)
def test_the_cause_of_a_failed_program_of_postgres_is_its_first_error(output, cause):
    assert cause_of(output) == cause


@pytest.mark.long
async def test_a_database_that_cannot_be_made_for_want_of_space_says_so(atlas, small_disk):
    with (small_disk / "fill").open("wb") as fill:
        os.posix_fallocate(fill.fileno(), 0, 130 * 2**20)
    refusal = (await atlas("migrate", DATABASE_URL=None, ATLAS_HOME=str(small_disk / "home"))).refusal

    assert "initdb failed: could not" in refusal
    assert "No space left on device. Free space on that disk, or set ATLAS_HOME" in refusal


@pytest.fixture
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of 150 MB, where the machine lets one be mounted."""
    folder = tmp_path_factory.mktemp("disk")
    require_program("mount", "-t", "tmpfs", "-o", "size=150m", "tmpfs", str(folder))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.long
async def test_a_worker_that_starts_on_a_full_disk_begins_when_there_is_room(database_url, owner, pool, tmp_path):
    async with pool.acquire() as conn:
        await switch(conn, online=True, actor=DANA)
        await enqueue(conn, NewJob("test.noop", {}), actor=DANA)
    await fill_disk(owner, "job_types")
    log = (tmp_path / "log").open("w+b")
    worker = await start_worker(database_url, types="test.noop", stderr=log)
    try:
        await until(lambda: b"cannot begin now and tries again" in (tmp_path / "log").read_bytes())
        await owner.execute("drop trigger full_disk on atlas.job_types")
        await until(lambda: owner.fetchval("select exists (select from atlas.jobs where status = 'succeeded')"))
        assert worker.returncode is None
    finally:
        worker.kill()
        await worker.wait()


@pytest.mark.long
async def test_a_server_without_a_free_connection_is_named(atlas, owner, database_url):
    await owner.execute(MAKE_GUEST)
    await owner.execute(f'alter database "{await owner.fetchval("select current_database()")}" connection limit 0')
    refusal = (await atlas("status", DATABASE_URL=as_guest(database_url))).refusal

    assert "has no free connection: too many connections for database" in refusal
    assert "None became free within 3 s." in refusal
    assert "raise max_connections" in refusal


@pytest.mark.parametrize("wait_seconds", [60, math.inf])
async def test_what_finds_no_free_connection_waits_for_one(owner, database_url, tmp_path, monkeypatch, wait_seconds):
    """A command for a limited time, `atlas up` without end."""
    name = await owner.fetchval("select current_database()")
    login = f"atlas_waits_{wait_seconds}"
    await owner.execute(f"drop role if exists {login}; create role {login} login in role atlas_engine")
    await owner.execute(f'alter database "{name}" connection limit 0')
    settings = Settings(atlas_home=tmp_path, database_url=as_guest(database_url).replace("atlas_guest:guest", login))
    refused = asyncio.Event()
    opened = runtime._open_atlas

    def counted(*arguments: Any, **options: Any) -> Any:
        refused.set()
        return opened(*arguments, **options)

    async def use() -> Any:
        async with open_atlas(settings, wait_seconds=wait_seconds, size=1) as atlas:
            return await atlas.pool.fetchval("select 7")

    using = asyncio.create_task(use())
    await asyncio.sleep(0.2)
    monkeypatch.setattr(runtime, "_open_atlas", counted)
    await refused.wait()
    assert not using.done()
    await owner.execute(f'alter database "{name}" connection limit -1')
    assert await using == 7
    await owner.execute(f"drop role {login}")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["worker --all", "scheduler", "api --port 18765"])
async def test_a_program_that_finds_no_free_connection_begins_when_there_is_one(tmp_path, program):
    server = await start_embedded(tmp_path / "home", settings={**TEST_SETTINGS, "max_connections": "60"})
    log = tmp_path / "log"
    taken = []
    try:
        migrating = await asyncio.create_subprocess_exec(*atlas_argv("migrate"), env=environment(tmp_path / "home"))
        assert await migrating.wait() == 0
        url = server.url("atlas", login="atlas_app")
        environ = environment(tmp_path / "home", DATABASE_URL=url, ATLAS_OWNER_URL=server.url("atlas"))
        with pytest.raises(asyncpg.TooManyConnectionsError):
            while True:
                taken.append(await asyncpg.connect(url))
        with log.open("wb") as file:
            running = await asyncio.create_subprocess_exec(*atlas_argv(*program.split()), env=environ, stderr=file)
        try:
            await until(lambda: b"cannot begin now and tries again" in log.read_bytes())
            assert b"has no free connection" in log.read_bytes()
            for conn in taken:
                await conn.close()
            await until(lambda: any(word in log.read_bytes() for word in BEGUN))
            assert running.returncode is None
        finally:
            running.terminate()
            await running.wait()
    finally:
        for conn in taken:
            conn.terminate()
        server.release()


@pytest.mark.long
async def test_an_operator_has_a_connection_when_all_others_are_taken(atlas, tmp_path):
    server = await start_embedded(tmp_path / "home", settings={**TEST_SETTINGS, "max_connections": "15"})
    taken = []
    try:
        assert (await atlas("migrate", DATABASE_URL=None)).code == 0
        with pytest.raises(asyncpg.TooManyConnectionsError):
            while True:
                taken.append(await asyncpg.connect(server.url("atlas", login="atlas_app")))

        offline = await atlas("offline", "--json", DATABASE_URL=None)
        status = await atlas("status", "--json", DATABASE_URL=None)
        assert (offline.code, status.document["gate"]["online"]) == (0, False)
        assert "has no free connection" in (await atlas("worker", "--all", "--drain", DATABASE_URL=None)).refusal
    finally:
        for conn in taken:
            conn.terminate()
        server.release()


@pytest.mark.long
async def test_a_locked_table_is_named_with_who_holds_it(atlas, owner):
    async with owner.transaction():
        await owner.execute("lock table atlas.jobs, atlas.system_state")
        async with asyncio.timeout(20):
            refused = await asyncio.gather(atlas("status"), atlas("enqueue", "x.work"), atlas("offline"))
        pid = await owner.fetchval("select pg_backend_pid()")

    for ran in refused:
        assert f"pid {pid}, idle in transaction) holds AccessExclusiveLock on " in ran.refusal
        assert f"end it with `select pg_terminate_backend({pid})`" in ran.refusal


async def test_a_database_that_is_read_only_is_named(atlas, owner):
    name = await owner.fetchval("select current_database()")
    await owner.execute(f'alter database "{name}" set default_transaction_read_only = on')
    refusal = (await atlas("enqueue", "x.work")).refusal

    assert "is read-only: cannot execute" in refusal
    assert "default_transaction_read_only" in refusal


@pytest.mark.slow
async def test_a_standby_is_named_and_can_be_looked_at(atlas, tmp_path_factory):
    home = tmp_path_factory.mktemp("standby")
    server = await start_embedded(home, settings=TEST_SETTINGS)
    try:
        url, data = server.url("postgres"), home / "postgres" / "data"
        await migrate(url)
        with kept_down(home):
            await asyncio.to_thread(call, "pg_ctl", "-w", "-s", "-m", "fast", "stop", data=data)
            (data / "standby.signal").touch()
        await until(lambda: asyncio.to_thread(running_at, data))
        await until(lambda: _accepts(url))

        assert (await atlas("status", DATABASE_URL=url)).code == 0
        for arguments in (("enqueue", "x.work", "--allow-unknown"), ("online",)):
            refusal = (await atlas(*arguments, DATABASE_URL=url)).refusal
            assert "is a standby, which is read-only. Set DATABASE_URL to the primary" in refusal
    finally:
        server.release()


async def _accepts(url: str) -> bool:
    try:
        await (await connect(url)).close()
    except Exception:
        return False
    return True
