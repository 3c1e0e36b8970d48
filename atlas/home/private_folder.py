"""Folders that only their owner may enter: ATLAS_HOME, and the keys and mails in it.

Where Atlas runs as root, the embedded Postgres has a user of its own, which has to pass through ATLAS_HOME: that folder
is 701 then, which lets others enter what they can name and are allowed to read. See `open_path_to`.
"""

import os
import stat
from pathlib import Path

from atlas.logs import get_logger

log = get_logger("atlas.home")

PRIVATE = 0o700
PASSABLE = 0o701
# The folders in ATLAS_HOME that hold keys and mails.
KEPT = ("keys", "outbox")


def make_private(folder: Path) -> None:
    """Make a folder with mode 700, and those above it that are missing. One that exists keeps its mode."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=PRIVATE, exist_ok=True)


def open_folders(home: Path) -> list[tuple[Path, int]]:
    """ATLAS_HOME and the folders in it that others may enter or read, each with the mode that it should have."""
    passable = PASSABLE if os.geteuid() == 0 and (home / "postgres").exists() else PRIVATE
    allowed = {home: passable, **{home / name: PRIVATE for name in KEPT}}
    return [
        (folder, mode)
        for folder, mode in allowed.items()
        if folder.is_dir() and stat.S_IMODE(folder.stat().st_mode) & 0o077 & ~mode
    ]


def tighten_home(home: Path) -> None:
    """Close ATLAS_HOME and its folders of keys and mails to others, as a program does when it starts."""
    for folder, allowed in open_folders(home):
        before = stat.S_IMODE(folder.stat().st_mode)
        mode = before & (0o7700 | allowed)
        try:
            folder.chmod(mode)
        except OSError as error:
            log.warning("others can read a folder of Atlas", folder=str(folder), mode=f"{before:o}", reason=str(error))
        else:
            log.warning("closed a folder to others", folder=str(folder), before=f"{before:o}", mode=f"{mode:o}")
