"""PostgreSQL servers of the tests' own, with the programs that Atlas brings: backed up, followed by a standby, lost."""

import shutil
import tempfile
from pathlib import Path

from atlas.db.pool import connect
from atlas.postgres.as_root import give_to_server, open_path_to
from atlas.postgres.pg_ctl import BIN, call, run


class Server:
    """A PostgreSQL with the settings of the page about backups, or a standby of one."""

    def __init__(self, primary: "Server | None" = None) -> None:
        # Not in the folder of the tests: a socket's path is short.
        self.folder = Path(tempfile.mkdtemp(prefix="atlas-server-"))
        self.data = self.folder / "data"
        self.archive = self.folder / "archive"
        open_path_to(self.folder, BIN)
        if primary is None:
            self._make()
        else:
            primary.back_up(self.data, "--write-recovery-conf")
            self.configure(unix_socket_directories=self.folder)

    def _make(self) -> None:
        self.archive.mkdir()
        give_to_server(self.archive)
        run("initdb", "--auth=trust", "--username=postgres", "--no-sync", "--pgdata", str(self.data))
        self.configure(
            listen_addresses="",
            unix_socket_directories=self.folder,
            archive_mode="on",
            archive_command=f"test ! -f {self.archive}/%f && cp %p {self.archive}/%f",
        )

    async def furnish(self) -> None:
        """Make an empty database, and the login of Atlas's programs."""
        conn = await connect(self.url("postgres", "postgres"))
        await conn.execute("create database atlas")
        await conn.execute("create role atlas_app login")
        await conn.close()

    def url(self, login: str, database: str = "atlas") -> str:
        return f"postgresql://{login}@/{database}?host={self.folder}"

    def configure(self, **settings: object) -> None:
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        run("pg_ctl", "-w", "-s", "-l", str(self.folder / "log"), "start", data=self.data)

    def stop(self) -> None:
        """Stop it as a crash does."""
        call("pg_ctl", "-w", "-s", "-m", "immediate", "stop", data=self.data)

    def promote(self) -> None:
        run("pg_ctl", "-w", "-s", "promote", data=self.data)

    def back_up(self, target: Path, *options: str) -> None:
        where = ("--checkpoint=fast", "--host", str(self.folder), "--username=postgres")
        run("pg_basebackup", "--pgdata", str(target), *where, *options)

    def recover(self, base: Path, until: str) -> None:
        """Lose the server, and start the backup of it up to this time."""
        self.stop()
        shutil.rmtree(self.data)
        base.rename(self.data)
        self.configure(restore_command=f"cp {self.archive}/%f %p", recovery_target_time=until)
        (self.data / "recovery.signal").touch()
        give_to_server(self.data / "recovery.signal")
        self.start()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)
