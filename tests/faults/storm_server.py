"""The server of a storm: it is started again whenever it ends, a standby may take its place, and its disk may be small."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import asyncpg

from atlas.db.pool import UNREACHABLE, connect
from atlas.errors import AtlasError, EmbeddedPostgresError
from atlas.postgres import pg_ctl
from atlas.postgres.as_root import give_to_server, open_path_to
from atlas.postgres.pg_ctl import call, clear_after_kill, is_running, run, server_pid
from tests.support import until

DATABASE = "storm"
# Whatever happens to the connection of a person: they try again.
AWAY = (*UNREACHABLE, asyncpg.PostgresError, AtlasError)
LOOK_SECONDS = 0.5
# The size of the file system that a server has to itself, and how much the log may take of it.
DISK = "400m"
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "min_wal_size": "32MB",
    "max_wal_size": "96MB",
    "hot_standby": "on",
    "timezone": "UTC",
    "autovacuum_naptime": "10s",
    "idle_in_transaction_session_timeout": "60s",
}
FOLLOWS = "select count(*) > 0 from pg_stat_replication where state = 'streaming'"
FOLLOWS_SYNCHRONOUSLY = "select count(*) > 0 from pg_stat_replication where sync_state in ('sync', 'quorum')"


@cache
def why_no_disk() -> str | None:
    """Why a server cannot have a small file system of its own; None: it can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            return f"a file system cannot be mounted: {mounted.stderr.strip()}"
        subprocess.run(["umount", folder], check=True)
    return None


class _Node:
    """One server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        folder.mkdir()
        if why_no_disk() is None:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)], check=True)
        open_path_to(folder, pg_ctl.BIN)

    def make(self) -> None:
        run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres", "-D", str(self.data))
        self.configure(unix_socket_directories=self.folder, **SETTINGS)
        self.start()

    def follow(self, primary: "_Node") -> None:
        options = ("--checkpoint=fast", "--write-recovery-conf", "--host", str(primary.folder), "--username=postgres")
        run("pg_basebackup", "--pgdata", str(self.data), *options)
        self.configure(unix_socket_directories=self.folder)
        self.start()

    def configure(self, **settings: object) -> None:
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        clear_after_kill(self.data)
        log = self.folder.parent / f"{self.folder.name}.log"
        log.touch()
        give_to_server(log)
        run("pg_ctl", "-w", "-s", "-l", str(log), "start", data=self.data)

    def stop(self) -> None:
        """As a crash does."""
        call("pg_ctl", "-w", "-s", "-m", "immediate", "stop", data=self.data)

    def remove(self) -> None:
        self.stop()
        if why_no_disk() is None:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class StormServer:
    """Its address stays the same, whichever server leads: a link to the folder of that one's socket."""

    def __init__(self) -> None:
        # The path of a socket is short.
        self.folder = Path(tempfile.mkdtemp(prefix="atlas-storm-"))
        self._address = self.folder / "leader"
        self._count = 0
        self._changing = asyncio.Lock()
        self._leader = self._add()

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._address}"

    @property
    def log(self) -> str:
        """What all servers have logged."""
        return "".join(file.read_text(errors="replace") for file in sorted(self.folder.glob("*.log")))

    async def start(self) -> None:
        """Make the server and its database."""
        await asyncio.to_thread(self._leader.make)
        self._point_to(self._leader)
        conn = await connect(self.url_of("postgres"))
        await conn.execute(f"create database {DATABASE}")
        await conn.close()

    async def keep_running(self) -> None:
        """Start it whenever it has ended, as an installation does."""
        while True:
            async with self._changing:
                if not await asyncio.to_thread(is_running, self._leader.data):
                    with suppress(EmbeddedPostgresError):
                        await asyncio.to_thread(self._leader.start)
            await asyncio.sleep(LOOK_SECONDS)

    async def crash(self, *, down: float) -> None:
        """Stop it without any order. It stays down for a time."""
        async with self._changing:
            await asyncio.to_thread(self._leader.stop)
            await asyncio.sleep(down)

    def processes(self) -> list[int]:
        """Every process of the server."""
        pid = server_pid(self._leader.data)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [pid, *map(int, children.split())]

    async def fill_disk(self, seconds: float) -> None:
        """Leave no byte on the server's file system for a time."""
        filler = self._leader.folder / "filler"
        ends_at = asyncio.get_running_loop().time() + seconds
        try:
            # Again and again: what the server frees is taken, too.
            while asyncio.get_running_loop().time() < ends_at:
                await asyncio.to_thread(_fill, filler)
                await asyncio.sleep(0.1)
        finally:
            filler.unlink(missing_ok=True)

    async def fail_over(self) -> None:
        """Lose the server for good, and let a standby lead that has all that was committed."""
        standby = self._add()
        await until(lambda: self._ask("select true"), within=120)
        await asyncio.to_thread(standby.follow, self._leader)
        await until(lambda: self._ask(FOLLOWS), within=120)
        await self._tell("alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
        await until(lambda: self._ask(FOLLOWS_SYNCHRONOUSLY), within=120)
        async with self._changing:
            lost = self._leader
            await asyncio.to_thread(lost.stop)
            await asyncio.to_thread(run, "pg_ctl", "-w", "-s", "promote", data=standby.data)
            self._leader = standby
            self._point_to(standby)
        await asyncio.to_thread(lost.remove)

    async def remove(self) -> None:
        """End it, and remove its files."""
        async with self._changing:
            await asyncio.to_thread(self._leader.remove)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _add(self) -> _Node:
        self._count += 1
        return _Node(self.folder / str(self._count))

    def _point_to(self, node: _Node) -> None:
        new = self.folder / "leader.new"
        new.symlink_to(node.folder)
        new.replace(self._address)

    async def _ask(self, sql: str) -> bool:
        with suppress(*AWAY):
            conn = await connect(self.url_of("postgres"))
            try:
                return bool(await conn.fetchval(sql))
            finally:
                conn.terminate()
        return False

    async def _tell(self, *statements: str) -> None:
        conn = await connect(self.url_of("postgres"))
        for statement in statements:
            await conn.execute(statement)
        await conn.close()


def _fill(file: Path) -> None:
    with suppress(OSError), file.open("ab", buffering=0) as filler:
        for size in (2**20, 2**12, 1):
            with suppress(OSError):
                while True:
                    filler.write(bytes(size))
