"""Servers of every version of PostgreSQL that Atlas runs on, as far as this machine has them.

The newest comes with Atlas. Others are looked for where packages put them, and in the folders of ATLAS_TEST_POSTGRES:
`ATLAS_TEST_POSTGRES=/opt/pg16/bin:/opt/pg17/bin make proof`.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from atlas.postgres.as_root import as_server_user, give_to_server, open_path_to
from atlas.postgres.pg_ctl import BIN
from tests.support import free_port

VERSIONS = (15, 16, 17, 18)
PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")


@cache
def installed_versions() -> dict[int, Path]:
    """The folder of the programs by version: those that say which version they are, and can make a database."""
    named = [Path(folder) for folder in os.environ.get("ATLAS_TEST_POSTGRES", "").split(os.pathsep) if folder]
    found = [folder for place in PLACES for folder in sorted(Path("/").glob(place.lstrip("/")))]
    versions = {}
    for folder in (*found, *named, BIN):
        if version := _version(folder):
            versions[version] = folder
    return versions


def _version(folder: Path) -> int | None:
    if not all((folder / program).exists() for program in ("initdb", "pg_ctl", "postgres")):
        return None
    said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\) (\d+)", said)
    return int(found[1]) if found else None


def needs_postgres(*versions: int) -> pytest.MarkDecorator:
    """Skip a test where the machine has no server of these versions."""
    missing = [str(version) for version in versions if version not in installed_versions()]
    return pytest.mark.skipif(bool(missing), reason=f"this machine has no PostgreSQL {' and '.join(missing)}")


@contextmanager
def running_postgres(version: int, folder: Path) -> Iterator[str]:
    """The address of a new server's superuser. Every login may sign in without a password."""
    programs, port, data = installed_versions()[version], free_port(), folder / "data"
    folder.mkdir(parents=True)
    open_path_to(folder, programs)
    give_to_server(folder)
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"
    _call(programs / "initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", data=data)
    _call(programs / "pg_ctl", "-w", "-s", "-l", str(folder / "log"), "-o", options, "start", data=data)
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        _call(programs / "pg_ctl", "-w", "-s", "-m", "immediate", "stop", data=data)


def _call(program: Path, *arguments: str, data: Path) -> None:
    # The server keeps the output of pg_ctl open: it goes nowhere.
    subprocess.run(
        [program, *arguments],
        check=True,
        cwd=data.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", "PGDATA": str(data)},
        **as_server_user(),
    )
