"""The source of the version before this one, taken out of the repository's history."""

import io
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.programs import require_program
from tests.support import ROOT
from tests.upgrade.recorded import COMMIT

FLOORS = ("api", "audit", "cli", "engine", "integrations", "scheduler", "testing", "workers")
DATA = ("migrations", "schema.prisma")


@pytest.fixture(scope="session")
def version_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH with the package `atlas` of the recorded commit, laid out as in a wheel."""
    # A checkout may lack the history that reaches back to it.
    require_program("git", "-C", str(ROOT), "cat-file", "-e", COMMIT)
    packed = subprocess.run(
        ["git", "archive", "--format=zip", COMMIT, "atlas", *FLOORS, *DATA], cwd=ROOT, capture_output=True, check=True
    )
    folder = tmp_path_factory.mktemp("version_before")
    with zipfile.ZipFile(io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder)
    for name in (*FLOORS, "migrations"):
        (folder / name).rename(folder / "atlas" / name)
    # The set-up generates it from schema.prisma, with a Node.js. Today's knows at least the columns of then.
    (folder / "atlas" / "generated").symlink_to(ROOT / "generated")
    return folder
