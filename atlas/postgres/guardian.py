"""Keeps the embedded server running while it has users, and stops it when the last one has ended.

Several processes share one server. Each holds a shared lock on `postgres.users.lock` for as long as it lives. The
guardian is a small process that is started together with the server. It waits for the exclusive lock, and stops the
server when it gets it. The kernel drops the locks of a process that is killed, so the server stops with its last user,
however that user ended. A new user that arrives during the stop waits for the lock and then starts the server again.

Until then it waits for the end of the server as well: one that was killed is started again.

The guardian holds `postgres.guardian.lock`. If it was killed, the next user of the server finds that lock free and
starts another guardian.
"""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from atlas.errors import EmbeddedPostgresError
from atlas.postgres.pg_ctl import clear_after_kill, is_running, run, start_server, wait_for_end

# Held by who starts the server.
START_LOCK = "postgres.start.lock"
USERS_LOCK = "postgres.users.lock"
GUARDIAN_LOCK = "postgres.guardian.lock"
# Between attempts to start a server that does not start, on a full disk for example.
RETRY_SECONDS = 5.0


def register_user(home: Path) -> IO[str]:
    """Count as a user of the server until the returned file is closed."""
    users = (home / USERS_LOCK).open("a")
    fcntl.flock(users, fcntl.LOCK_SH)
    return users


def ensure_guarded(home: Path) -> None:
    """Start a guardian, unless one runs."""
    with (home / GUARDIAN_LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        # The guardian inherits the lock, and so holds it from its start to its end.
        call = "import sys; from atlas.postgres.guardian import guard; guard(sys.argv[1], int(sys.argv[2]))"
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
    """Wait until no process uses the server any more, then stop it. Runs as a process of its own."""
    data = Path(home) / "postgres" / "data"
    restarts = _Restarts(Path(home), data)
    # The guardian's lock is released first: a process that waits for the users' lock then starts another guardian.
    with (Path(home) / USERS_LOCK).open("a") as users, os.fdopen(lock, "a"):
        threading.Thread(target=restarts.run, daemon=True).start()
        fcntl.flock(users, fcntl.LOCK_EX)
        restarts.stop()
        if is_running(data):
            run("pg_ctl", "-w", "-s", "-m", "fast", "stop", data=data)


class _Restarts:
    """Starts the server again whenever it ends, until it is stopped."""

    def __init__(self, home: Path, data: Path) -> None:
        self._home = home
        self._data = data
        self._stopping = threading.Event()
        self._starting = threading.Lock()

    def run(self) -> None:
        while not self._stopping.is_set():
            wait_for_end(self._data)
            try:
                self._start_again()
            except (OSError, EmbeddedPostgresError):
                # The server's log has the reason; a command that needs the server finds out for itself.
                self._stopping.wait(RETRY_SECONDS)

    def stop(self) -> None:
        """Start the server no more. One that is just being started is waited for."""
        self._stopping.set()
        self._starting.acquire()

    def _start_again(self) -> None:
        with self._starting, self._start_lock() as is_held:
            if not is_held:
                return
            if is_running(self._data):
                self._stopping.wait(1)  # Another process has started it, or this kernel cannot wait for its end.
                return
            clear_after_kill(self._data)
            start_server(self._data)

    @contextmanager
    def _start_lock(self) -> Iterator[bool]:
        """The lock of who starts the server; False if the guardian has to stop it meanwhile.

        It is only tried: who holds it may wait for the users' lock, which the guardian takes when it stops the server.
        """
        with (self._home / START_LOCK).open("a") as file:
            while not self._stopping.is_set():
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._stopping.wait(0.1)
                else:
                    yield True
                    return
            yield False
