"""Checks that need no database: Python, the home folder, the disk, the generated Prisma client."""

import os
import platform
import runpy
import shutil
import stat
import sys
from pathlib import Path

from atlas.audit.keys import is_open_to_others, key_file
from atlas.cli.backup.restored import restored_from
from atlas.cli.doctor.finding import Diagnosis, finding
from atlas.db.generated_prisma import FOLDER
from atlas.home.private_folder import open_folders
from atlas.settings import Settings
from atlas.source import IS_CHECKOUT, SOURCE, setup_command

OLDEST_PYTHON = (3, 11)
LITTLE_SPACE = 2**30
NO_SPACE = 100 * 2**20


def check_machine(settings: Settings) -> list[Diagnosis]:
    """All local checks."""
    return [
        _python(),
        _prisma_client(),
        _home(settings.home),
        *_folders(settings.home),
        _disk(settings.home),
        *_audit_key(settings),
        *_restored(settings),
    ]


def _python() -> Diagnosis:
    return finding(
        "python",
        platform.python_version(),
        fail=sys.version_info < OLDEST_PYTHON,
        remedy=f"Install Python 3.11 or newer and run `{setup_command()}` with it.",
    )


def _prisma_client() -> Diagnosis:
    # An installed package was built with its client.
    current = not IS_CHECKOUT or runpy.run_path(str(SOURCE / "tools" / "setup.py"))["client_is_current"](FOLDER)
    return finding(
        "prisma client",
        "generated from the current schema.prisma" if current else "not generated from the current schema.prisma",
        fail=not current,
        remedy=f"Run `{setup_command()}`.",
    )


def _home(home: Path) -> Diagnosis:
    usable = os.access(_nearest(home), os.W_OK | os.X_OK)
    return finding(
        "home",
        f"{home} can{'' if usable else 'not'} be written",
        fail=not usable,
        remedy="Make the folder writable, or set ATLAS_HOME to one that is.",
    )


def _folders(home: Path) -> list[Diagnosis]:
    """The folders of keys and mails that others on this machine may read."""
    wide = [f"{folder} ({stat.S_IMODE(folder.stat().st_mode):o})" for folder, _ in open_folders(home)]
    if not wide:
        return []
    remedy = f"Run `chmod go= {home}`, and the same for `keys` and `outbox` in it, or start a program: it closes them."
    return [finding("folders", f"others on this machine may enter {', '.join(wide)}", warn=True, remedy=remedy)]


def _disk(home: Path) -> Diagnosis:
    free = shutil.disk_usage(_nearest(home)).free
    return finding(
        "disk",
        f"{free / 2**30:.1f} GiB free for {home}",
        fail=free < NO_SPACE,
        warn=free < LITTLE_SPACE,
        remedy="Free some space: a database that cannot write stops.",
    )


def _audit_key(settings: Settings) -> list[Diagnosis]:
    """The permissions of the signing key, if this machine has one."""
    path = key_file(settings)
    if not path.exists():
        return []
    is_open = is_open_to_others(path)
    return [
        finding(
            "audit key",
            f"{path} can{'' if is_open else 'not'} be read by others",
            warn=is_open,
            remedy=f"Run `chmod 600 {path}`: a person with the key can sign a forged audit log.",
        )
    ]


def _nearest(home: Path) -> Path:
    """The folder itself, or the one it would be made in."""
    return next(folder for folder in [home, *home.parents] if folder.exists())


def _restored(settings: Settings) -> list[Diagnosis]:
    """What this home was restored from, if it was."""
    source = restored_from(settings)
    if source is None:
        return []
    text = f"from the backup of {source.taken_at:%Y-%m-%d %H:%M:%S} UTC{'' if source.complete else ', not completed'}"
    return [finding("restored", text, fail=not source.complete, remedy="Run `atlas restore` again.")]
