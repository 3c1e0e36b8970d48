"""The embedded Postgres: shared by processes, kept through crashes, stopped with its last user."""

import asyncio
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import asyncpg
import psutil
import pytest

from atlas.errors import EmbeddedPostgresError
from atlas.postgres.as_root import as_server_user, give_to_server
from atlas.postgres.cluster import EmbeddedPostgres, start_embedded
from tests.support import ROOT, kept_down, until

USER = """
import asyncio, sys
from pathlib import Path
from atlas.postgres.cluster import start_embedded
async def use():
    server = await start_embedded(Path(sys.argv[1]))
    print(server.url("postgres"), flush=True)
    await asyncio.to_thread(sys.stdin.read)
asyncio.run(use())
"""


async def query(url: str, sql: str):
    conn = await asyncpg.connect(url)
    try:
        return await conn.fetchval(sql)
    finally:
        await conn.close()


async def _answers(url: str) -> bool:
    with suppress(OSError, asyncpg.PostgresError):
        return await query(url, "select true")
    return False


def pid_file(home: Path) -> Path:
    return home / "postgres" / "data" / "postmaster.pid"


def server_pid(home: Path) -> int:
    return int(pid_file(home).read_text().splitlines()[0])


def guardians(home: Path) -> list[int]:
    lines = ((process.pid, process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))
    return [pid for pid, line in lines if str(home) in line and any("guard" in argument for argument in line)]


async def use_in_a_process(home: Path) -> tuple[asyncio.subprocess.Process, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", USER, str(home)), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    return process, (await process.stdout.readline()).decode().strip()


@pytest.fixture
async def home(tmp_path: Path):
    yield tmp_path / "home"
    await until(lambda: not pid_file(tmp_path / "home").exists())


@pytest.mark.long
async def test_processes_that_start_at_once_share_one_server(home):
    users = await asyncio.gather(*(use_in_a_process(home) for _ in range(4)))
    starts = {await query(url, "select pg_postmaster_start_time()") for _, url in users}
    for process, _ in users:
        process.kill()
        await process.wait()

    assert len(starts) == 1


async def test_the_server_stops_with_its_last_user_however_that_user_ends(home):
    first, url = await use_in_a_process(home)
    second, _ = await use_in_a_process(home)
    first.kill()
    await first.wait()
    assert await query(url, "select 1") == 1

    second.terminate()
    await second.wait()

    await until(lambda: not pid_file(home).exists())


@pytest.mark.long
async def test_the_next_user_of_a_server_replaces_a_guardian_that_was_killed(home):
    first = await start_embedded(home)
    [guardian] = guardians(home)
    os.kill(guardian, signal.SIGKILL)
    await until(lambda: not guardians(home))

    second = await start_embedded(home)
    third = await start_embedded(home)
    assert len(guardians(home)) == 1
    for one in (first, second, third):
        one.release()
    await until(lambda: not pid_file(home).exists())
    await until(lambda: not guardians(home))


@pytest.mark.long
async def test_what_was_committed_is_there_after_the_server_was_killed(home):
    first, url = await use_in_a_process(home)
    await query(url, "create table kept as select 42 as n")
    os.kill(server_pid(home), signal.SIGKILL)
    first.kill()
    await first.wait()

    server = await start_embedded(home)
    try:
        assert await query(server.url("postgres"), "select n from kept") == 42
    finally:
        server.release()


def is_another_server(home, pid) -> bool:
    """Whether the file names a server, and not this one; it comes and goes meanwhile."""
    try:
        return server_pid(home) != pid
    except (OSError, LookupError, ValueError):
        return False


@pytest.mark.slow
async def test_a_killed_server_is_back_for_its_users_with_the_settings_it_had(home):
    server = await start_embedded(home, settings={"work_mem": "7MB"})
    url = server.url("postgres")
    try:
        busy = await asyncpg.connect(url)
        # It computes, and so does not notice the end of its server.
        computing = asyncio.create_task(busy.execute("do $$ begin loop end loop; end $$"))
        await until(lambda: query(url, "select exists (select from pg_stat_activity where query like 'do %')"))
        for number in (signal.SIGKILL, signal.SIGINT):
            killed = server_pid(home)
            os.kill(killed, number)
            await until(lambda killed=killed: is_another_server(home, killed))
            await until(lambda: _answers(url))
            assert await query(url, "select current_setting('work_mem')") == "7MB"
        await asyncio.gather(computing, return_exceptions=True)
    finally:
        server.release()
    await until(lambda: not guardians(home))


@pytest.mark.slow
async def test_a_killed_server_stays_down_once_its_last_user_has_ended(home):
    server = await start_embedded(home)
    with kept_down(home):
        os.kill(server_pid(home), signal.SIGKILL)
        server.release()
        await until(lambda: not guardians(home))
    server = await start_embedded(home)
    assert len(guardians(home)) == 1
    server.release()


@pytest.mark.slow
async def test_a_killed_servers_last_processes_are_waited_for(home):
    user, _ = await use_in_a_process(home)
    postmaster = server_pid(home)
    lasting = int(Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()[0])
    os.kill(lasting, signal.SIGSTOP)
    os.kill(postmaster, signal.SIGKILL)
    user.kill()
    await user.wait()
    starting = asyncio.create_task(start_embedded(home))
    await asyncio.sleep(1)
    os.kill(lasting, signal.SIGCONT)

    server = await starting
    try:
        assert await query(server.url("postgres"), "select 1") == 1
    finally:
        server.release()


@pytest.mark.long
async def test_a_process_number_that_was_reused_is_not_taken_for_the_server(home, monkeypatch):
    user, _ = await use_in_a_process(home)
    file, socket_file = pid_file(home), home / "postgres" / ".s.PGSQL.5432.lock"
    files = [(one, one.read_text().splitlines()) for one in (file, socket_file)]
    user.kill()
    await user.wait()
    await until(lambda: not file.exists())
    with (home / "postgres.users.lock").open("a") as users:
        await asyncio.to_thread(fcntl.flock, users, fcntl.LOCK_EX)  # The guardian has ended too.
    # As on a volume whose container was killed: the files are there, their number is another process's by now.
    other = await asyncio.create_subprocess_exec("sleep", "100", **as_server_user())
    for one, lines in files:
        one.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        give_to_server(one)
    monkeypatch.setattr("atlas.postgres.pg_ctl.START_SECONDS", 10)
    try:
        server = await start_embedded(home)
        assert await query(server.url("postgres"), "select 1") == 1
        server.release()
    finally:
        other.kill()
        await other.wait()


async def test_the_server_listens_on_no_port_and_forgets_nothing(home):
    server = await start_embedded(home)
    try:
        url = server.url("postgres")
        assert await query(url, "select current_setting('listen_addresses')") == ""
        assert await query(url, "select current_setting('fsync')") == "on"
        assert await query(url, "select current_setting('synchronous_commit')") == "on"
        if os.uname().sysname == "Linux":
            assert await query(url, "select current_setting('recovery_init_sync_method')") == "syncfs"
        assert await query(url, "select current_setting('server_version_num')::int / 10000") == 18
    finally:
        server.release()


@pytest.mark.long
async def test_a_path_too_long_for_a_socket_and_with_spaces_works_too(tmp_path):
    home = tmp_path / ("a long name with spaces " * 4).strip() / "home"
    server = await start_embedded(home)
    try:
        assert await query(server.url("postgres"), "select 1") == 1
    finally:
        server.release()
    await until(lambda: not pid_file(home).exists())


@pytest.mark.long
async def test_a_home_may_have_any_printable_name(tmp_path):
    home = tmp_path / """it's "here", 100\\% $HOME `id` """
    server = await start_embedded(home)
    try:
        assert await query(server.url("postgres"), "select 1") == 1
        again = await start_embedded(home)
        again.release()
    finally:
        server.release()
    await until(lambda: not pid_file(home).exists())


@pytest.mark.long
async def test_a_server_with_a_long_path_is_found_with_another_folder_for_temporary_files(tmp_path, monkeypatch):
    home = tmp_path / ("a long name" * 10) / "home"
    server = await start_embedded(home)
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "other"))
    monkeypatch.setattr("atlas.postgres.pg_ctl.START_SECONDS", 10)
    try:
        again = await start_embedded(home)
        again.release()
        assert again.url() == server.url()
    finally:
        server.release()
    await until(lambda: not pid_file(home).exists())


@pytest.mark.long
async def test_a_link_instead_of_the_sockets_folder_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home, target = tmp_path / ("a long name" * 10), tmp_path / "target"
    name = hashlib.sha256(os.fsencode(home / "postgres")).hexdigest()[:16]
    target.mkdir()
    (tmp_path / f"atlas-{os.geteuid()}-{name}").symlink_to(target)
    with pytest.raises(EmbeddedPostgresError, match="is a link"):
        await start_embedded(home)
    assert target.stat().st_uid == os.geteuid()


async def test_a_home_that_cannot_be_made_is_refused_with_a_remedy():
    with pytest.raises(EmbeddedPostgresError, match=r"cannot use /proc/atlas/postgres.*set ATLAS_HOME"):
        await start_embedded(Path("/proc/atlas"))


def test_the_address_names_the_database_and_the_socket(tmp_path):
    server = EmbeddedPostgres(tmp_path, Path("/run/some where"), (tmp_path / "lock").open("a"))
    server.release()

    assert server.url("atlas") == "postgresql://postgres@/atlas?host=%2Frun%2Fsome%20where"
