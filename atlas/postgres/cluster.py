"""A real PostgreSQL that comes in a wheel, for machines that have none. Processes share one server a folder."""

import asyncio
import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

from atlas.errors import EmbeddedPostgresError
from atlas.home.private_folder import make_private
from atlas.postgres.as_root import give_to_server, open_path_to, server_ids
from atlas.postgres.guardian import GUARDIAN_LOCK, START_LOCK, USERS_LOCK, ensure_guarded, register_user
from atlas.postgres.password import FILE as PASSWORD_FILE
from atlas.postgres.password import password_of, protect_server
from atlas.postgres.pg_ctl import BIN, clear_after_kill, run, running_at, start_server

SOCKET_PATH_LIMIT = 90
# How long a server may take to stop after its last user.
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A use of the server in `folder`. Keep it for as long as the server is needed, then `release` it."""

    folder: Path
    socket_dir: Path
    _users: IO[str]

    def url(self, database: str = "atlas", *, login: str = "postgres") -> str:
        """The address of one of its databases, for a login; by default for its superuser."""
        password = password_of(self.folder.parent, login)
        who = login if password is None else f"{login}:{password}"
        return f"postgresql://{who}@/{database}?host={quote(str(self.socket_dir), safe='')}"

    def release(self) -> None:
        """Stop using it. The guardian stops the server after its last user."""
        self._users.close()


def has_embedded(home: Path) -> bool:
    """Whether `home` has a server of its own, running or not."""
    return (home / "postgres" / "data" / "PG_VERSION").exists()


def remove_embedded(home: Path) -> None:
    """Remove the server of `home`, and its password, once its guardian, which has no user left, has stopped it."""
    ends = time.monotonic() + STOP_SECONDS
    while (home / "postgres" / "data" / "postmaster.pid").exists() and time.monotonic() < ends:
        time.sleep(0.05)
    shutil.rmtree(home / "postgres", ignore_errors=True)
    for file in (START_LOCK, USERS_LOCK, GUARDIAN_LOCK, PASSWORD_FILE):
        (home / file).unlink(missing_ok=True)


async def start_embedded(
    home: Path, *, settings: dict[str, str] | None = None, asks_password: bool = False
) -> EmbeddedPostgres:
    """Use the server in `home/postgres`, making and starting it when needed.

    With `asks_password` its local users need a password from then on: see `atlas.postgres.password`.
    """
    return await asyncio.to_thread(_use, home, settings or {}, asks_password)


def _use(home: Path, settings: dict[str, str], asks_password: bool) -> EmbeddedPostgres:
    folder = home / "postgres"
    try:
        make_private(home)
        folder.mkdir(exist_ok=True)
        with _locked(home / START_LOCK):
            users = register_user(home)
            server = EmbeddedPostgres(folder, _ensure_running(home, folder, settings), users)
            if asks_password:
                protect_server(home, folder / "data", server.url("postgres"))
            return server
    except OSError as error:
        writable = "Make the folder writable, or set ATLAS_HOME to one that is, or set DATABASE_URL."
        raise EmbeddedPostgresError(
            f"The embedded Postgres cannot use {folder}: {error.strerror or error}.",
            remedy="Free space on that disk." if error.errno == errno.ENOSPC else writable,
        ) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ensure_running(home: Path, folder: Path, settings: dict[str, str]) -> Path:
    open_path_to(folder, BIN)
    data = folder / "data"
    if not has_embedded(home):
        _make_cluster(data)
    socket_dir = running_at(data)
    if socket_dir is None:
        socket_dir = _socket_dir(folder)
        clear_after_kill(data)
        _configure(data, socket_dir, settings)
        start_server(data)
    ensure_guarded(home)
    return socket_dir


def _make_cluster(data: Path) -> None:
    # An initdb that was interrupted leaves no PG_VERSION, and nothing worth keeping.
    shutil.rmtree(data, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix="making-", dir=data.parent))
    give_to_server(scratch)
    run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres", "-D", str(scratch))
    scratch.rename(data)


def _socket_dir(folder: Path) -> Path:
    """The folder for the socket: the server's own, or a short one if that path is too long for a socket's name.

    A path with a comma or a quote will not do either: a comma separates the folders of the setting and the hosts of an
    address.
    """
    if (
        len(os.fsencode(folder)) <= SOCKET_PATH_LIMIT
        and str(folder).isprintable()
        and not set(str(folder)) & set(",\"'\\")
    ):
        return folder
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    short = Path(tempfile.gettempdir()) / f"atlas-{os.geteuid()}-{name}"
    short.mkdir(mode=0o700, exist_ok=True)
    # The name can be guessed, and root is about to change the owner: it must be a folder, and one of ours.
    facts = short.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid not in (os.geteuid(), server_ids()[0]):
        raise OSError(f"{short} is a link or belongs to another user")
    give_to_server(short)
    return short


def _configure(data: Path, socket_dir: Path, settings: dict[str, str]) -> None:
    """Write the settings for a queue: memory for the hot tables, few checkpoints, eager vacuum."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    chosen = {
        "listen_addresses": "''",
        "unix_socket_directories": _quoted(str(socket_dir)),
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        "shared_buffers": f"{max(128, min(1024, memory // 8))}MB",
        "wal_buffers": "16MB",
        "max_wal_size": "4GB",
        "min_wal_size": "256MB",
        # Filling each new file of 16 MB with zeros takes as long as draining 800 jobs.
        "wal_init_zero": "off",
        "checkpoint_timeout": "15min",
        "checkpoint_completion_target": "0.9",
        "random_page_cost": "1.1",
        "autovacuum_naptime": "10s",
        "autovacuum_vacuum_cost_limit": "2000",
        "idle_in_transaction_session_timeout": "60s",
        "max_prepared_transactions": "0",
        "timezone": "'UTC'",
        "log_timezone": "'UTC'",
        **_recovery(),
        **settings,
    }
    text = "".join(f"{name} = {value}\n" for name, value in chosen.items())
    own = data / "atlas.conf"
    # On a full disk, writing it anew would leave it empty.
    if not own.exists() or own.read_text(encoding="utf-8") != text:
        own.write_text(text, encoding="utf-8")
    conf = data / "postgresql.conf"
    if "include = 'atlas.conf'" not in conf.read_text(encoding="utf-8"):
        with conf.open("a", encoding="utf-8") as file:
            file.write("\ninclude = 'atlas.conf'\n")
    for path in (own, conf):
        give_to_server(path)


def _recovery() -> dict[str, str]:
    """After a crash the whole file system is synced in one call, where that call returns errors of the disk.

    Otherwise the server opens and syncs each file: a table of history has twelve, and a busy disk takes milliseconds
    for each.
    """
    system, release = os.uname().sysname, re.match(r"(\d+)\.(\d+)", os.uname().release)
    if system != "Linux" or release is None or (int(release[1]), int(release[2])) < (5, 8):
        return {}
    return {"recovery_init_sync_method": "syncfs"}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
