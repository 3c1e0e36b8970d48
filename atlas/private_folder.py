"""Folders that only their owner may enter: ATLAS_HOME, and the keys and mails in it."""

from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder with mode 700, and those above it that are missing. One that exists keeps its mode.

    Where Atlas runs as root, the embedded Postgres has a user of its own, which has to pass through ATLAS_HOME: that
    folder is 701 then, which lets others enter what they can name and are allowed to read. See `open_path_to`.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
