"""Stops the embedded server when its last user has ended.

Several processes share one server. Each holds a shared lock on `postgres.users.lock` for as long as it lives. The
guardian is a small process that is started together with the server. It waits for the exclusive lock, and stops the
server when it gets it. The kernel drops the locks of a process that is killed, so the server stops with its last user,
however that user ended. A new user that arrives during the stop waits for the lock and then starts the server again.

The guardian holds `postgres.guardian.lock`. If it was killed, the next user of the server finds that lock free and
starts another guardian.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from atlas.postgres.pg_ctl import is_running, run


def register_user(home: Path) -> IO[str]:
    """Count as a user of the server until the returned file is closed."""
    users = (home / "postgres.users.lock").open("a")
    fcntl.flock(users, fcntl.LOCK_SH)
    return users


def ensure_guarded(home: Path) -> None:
    """Start a guardian, unless one runs."""
    with (home / "postgres.guardian.lock").open("a") as lock:
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
    # The guardian's lock is released first: a process that waits for the users' lock then starts another guardian.
    with (Path(home) / "postgres.users.lock").open("a") as users, os.fdopen(lock, "a"):
        fcntl.flock(users, fcntl.LOCK_EX)
        if is_running(data):
            run("pg_ctl", "-w", "-s", "-m", "fast", "stop", data=data)
