"""A streaming standby of the tests' server."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from atlas.db.pool import connect
from atlas.postgres.as_root import open_path_to
from atlas.postgres.pg_ctl import BIN, call, run
from atlas.test_databases import TestDatabases

# Every statement is logged, so that tests see what was read here.
SETTINGS = {"hot_standby": "on", "log_statement": "all", "max_standby_streaming_delay": "300s"}


class Standby:
    """A standby with a socket of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"

    def make(self, primary: str) -> None:
        """Copy the primary, whose socket is in this folder, and follow it."""
        open_path_to(self.folder, BIN)
        options = ("--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--host", primary, "--username=postgres")
        run("pg_basebackup", "--pgdata", str(self.data), *options)
        self.configure(unix_socket_directories=self.folder, **SETTINGS)
        self.start()

    def configure(self, **settings: object) -> None:
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        run("pg_ctl", "-w", "-s", "-l", str(self.folder / "log"), "start", data=self.data)

    def stop(self) -> None:
        call("pg_ctl", "-w", "-s", "-m", "immediate", "stop", data=self.data)

    def reload(self) -> None:
        run("pg_ctl", "-s", "reload", data=self.data)

    def url(self, url: str) -> str:
        """The same database here."""
        parts = urlsplit(url)
        return f"postgresql://{parts.username}@{parts.path}?host={self.folder}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    async def execute(self, url: str, sql: str) -> None:
        conn = await connect(self.url(url))
        await conn.execute(sql)
        await conn.close()


@contextmanager
def standby_of(databases: TestDatabases) -> Iterator[Standby]:
    """A standby of the tests' server, for as long as the block."""
    host = parse_qs(urlsplit(databases.url("postgres")).query).get("host")
    if host is None:
        pytest.skip("a standby is made of the embedded server, and DATABASE_URL names another one")
    # A socket's path is short; and where the server is in memory, so is its copy.
    standby = Standby(Path(tempfile.mkdtemp(prefix="atlas-standby-", dir=databases.folder.parent)))
    try:
        standby.make(host[0])
        yield standby
    finally:
        standby.stop()
        shutil.rmtree(standby.folder)
