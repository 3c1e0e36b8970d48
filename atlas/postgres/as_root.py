"""Run Postgres as a user of its own where Atlas runs as root, since Postgres refuses to run as root.

As an ordinary user every function here does nothing.
"""

import os
import pwd
import stat
import subprocess
from pathlib import Path
from typing import Any

from atlas.errors import EmbeddedPostgresError

SERVER_USER = "pgserver"  # the name that the wheel of Postgres uses as well


def as_server_user() -> dict[str, Any]:
    """The arguments of `subprocess` that start a program as the server's user."""
    if os.geteuid() != 0:
        return {}
    uid, gid = server_ids()
    return {"user": uid, "group": gid, "extra_groups": []}


def server_ids() -> tuple[int, int]:
    """The user and group that the server runs as."""
    entry = pwd.getpwnam(SERVER_USER) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    return entry.pw_uid, entry.pw_gid


def give_to_server(path: Path) -> None:
    """Make the server's user the owner of a path."""
    if os.geteuid() == 0:
        os.chown(path, *server_ids(), follow_symlinks=False)


def open_path_to(folder: Path, programs: Path) -> None:
    """Let the server's user reach its folder and its programs: it may pass through their parents, not list them."""
    if os.geteuid() != 0:
        return
    _ensure_server_user()
    give_to_server(folder)
    for target in (folder, programs):
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
