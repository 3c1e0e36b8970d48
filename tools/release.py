"""Makes the packages of a release: `make release`. RELEASING.md says what comes before and after."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
# A job through the new package, in an empty folder, on the embedded Postgres.
APP = """
from atlas import JobContext, job


@job("smoke")
async def smoke(input: dict[str, object], ctx: JobContext) -> dict[str, object]:
    return input
"""
WORK = "worker --app smoke --types smoke --drain"
# A job from the package without extras, as an application enqueues one.
ENQUEUE = """
import asyncio

from atlas import NewJob, enqueue, open_pool


async def main() -> None:
    async with await open_pool() as pool, pool.acquire() as conn:
        await enqueue(conn, NewJob("smoke"), actor="release")


asyncio.run(main())
"""
# Runs a command with the address of the embedded server, which runs for as long.
WITH_SERVER = """
import asyncio, os, subprocess, sys

from atlas.cli.runtime import reach_database
from atlas.settings import load_settings


async def main() -> None:
    async with reach_database(load_settings()) as addresses:
        subprocess.run(sys.argv[1:], env={**os.environ, "DATABASE_URL": addresses.url}, check=True)


asyncio.run(main())
"""


class ReleaseRefused(Exception):
    """The tree is not ready for a release."""


def main() -> int:
    """Check the tree, build, try the wheel, set the tag."""
    try:
        version = release(ROOT)
    except ReleaseRefused as reason:
        sys.stderr.write(f"error: {reason}\n")
        return 1
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"error: `{' '.join(map(str, error.cmd))}` failed; no tag was set. Its output is above.\n")
        return 1
    sys.stderr.write(f"dist/ has the packages of {version}; push the tag v{version}.\n")
    return 0


def release(root: Path) -> str:
    """The packages of the current commit in `dist/`, and its tag; returns the version."""
    version = checked_version(root)
    with tempfile.TemporaryDirectory() as folder:
        clone, dist = Path(folder, "clone"), Path(folder, "dist")
        _run(["git", "clone", "--quiet", "--no-hardlinks", root, clone], cwd=root)
        _run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", dist, clone], cwd=clone)
        _run(
            [sys.executable, "-c", f"from tools.build_backend import build_sdist; build_sdist({str(dist)!r})"],
            cwd=clone,
        )
        try_wheel(next(dist.glob("*.whl")), Path(folder, "try"))
        shutil.copytree(dist, root / "dist", dirs_exist_ok=True)
    _run(["git", "tag", "--annotate", f"v{version}", "--message", f"Atlas {version}"], cwd=root)
    return version


def checked_version(root: Path) -> str:
    """The version of this tree, which must be committed, in the changelog with a date, and not tagged yet."""
    match = VERSION.search((root / "atlas" / "version.py").read_text(encoding="utf-8"))
    version = match[1] if match else ""
    if _output(["git", "status", "--porcelain"], cwd=root):
        raise ReleaseRefused("the tree has uncommitted changes. Commit them, or remove them.")
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        raise ReleaseRefused(f"CHANGELOG.md has no section `## [{version}] - YYYY-MM-DD`. Write it.")
    if _output(["git", "tag", "--list", f"v{version}"], cwd=root):
        raise ReleaseRefused(f"the tag v{version} exists. Raise the version in atlas/version.py.")
    return version


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel into two empty environments: the one without extras enqueues a job, the other runs it."""
    venv, environment = folder / "venv", {**os.environ, "ATLAS_HOME": str(folder / "home")}
    base = folder / "base"
    for place, package in ((venv, f"{wheel}[all]"), (base, str(wheel))):
        _run([sys.executable, "-m", "venv", place], cwd=wheel.parent)
        _run([place / "bin" / "pip", "install", "--quiet", package], cwd=folder)
    (folder / "smoke.py").write_text(APP, encoding="utf-8")
    enqueue = [venv / "bin" / "python", "-c", WITH_SERVER, base / "bin" / "python", "-c", ENQUEUE]
    for command in (["migrate"], ["online"], WORK.split(), enqueue, WORK.split()):
        program = [] if command is enqueue else [venv / "bin" / "atlas"]
        _run([*program, *command], cwd=folder, env=environment)
    listed = _output([str(venv / "bin" / "atlas"), "jobs", "list", "--json"], cwd=folder, env=environment)
    statuses = [job["status"] for job in json.loads(listed)["jobs"]]
    if statuses != ["succeeded"]:
        raise ReleaseRefused(f"a job that ran with the wheel should have succeeded; the jobs are {statuses}")


def _run(command: Sequence[str | Path], *, cwd: Path, env: dict[str, str] | None = None) -> None:
    subprocess.run([str(word) for word in command], cwd=cwd, env=env, check=True)


def _output(command: Sequence[str], *, cwd: Path, env: dict[str, str] | None = None) -> str:
    return subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
