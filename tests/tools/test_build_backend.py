"""The build of the package: `pip install .` of a fresh checkout, and of a source distribution, gives a working Atlas."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT
from tools import build_backend, setup

NOT_IN_A_CHECKOUT = (
    *(".git", ".venv", ".types", ".*_cache", ".hypothesis", ".atlas", "__pycache__"),
    *("build", "dist", "generated", "node_modules", "results", "*.egg-info"),
)
# One file of each: the typed client, the web pages, a migration, a statement.
PARTS = (
    "generated/client.py",
    "web/dist/index.html",
    "migrations/migration_lock.toml",
    "engine/jobs/functions/claim/claim.sql",
)
BUILD_SDIST = "import sys; from tools import build_backend; build_backend.build_sdist(sys.argv[1])"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch) -> Path:
    """The files that the build looks at, without what is generated."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup, "has_node", lambda: True)
    monkeypatch.setattr(setup, "client_is_current", lambda package: False)
    return tmp_path


@pytest.mark.long
def test_a_checkout_asks_for_what_generates_the_client(checkout):
    assert "prisma==0.15.0" in build_backend.get_requires_for_build_wheel()
    assert "prisma==0.15.0" in build_backend.get_requires_for_build_sdist()


@pytest.mark.long
def test_a_machine_without_node_gets_one_for_the_build(checkout, monkeypatch):
    monkeypatch.setattr(setup, "has_node", lambda: False)
    assert any(name.startswith("nodejs") for name in build_backend.get_requires_for_build_wheel())


@pytest.mark.long
def test_an_unpacked_source_distribution_asks_for_nothing(checkout):
    (checkout / "PKG-INFO").touch()
    assert build_backend.get_requires_for_build_wheel() == []


@pytest.mark.long
def test_a_checkout_that_is_set_up_asks_for_nothing():
    assert build_backend.get_requires_for_build_wheel() == []


@pytest.mark.slow
def test_a_fresh_checkout_builds_a_source_distribution_and_that_a_wheel(tmp_path):
    source, dist = tmp_path / "source", tmp_path / "dist"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_IN_A_CHECKOUT))
    subprocess.run([sys.executable, "-c", BUILD_SDIST, dist], cwd=source, check=True, capture_output=True)
    [archive] = dist.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert [part for part in PARTS if part not in names] == []

    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", dist, archive], check=True)
    [wheel] = dist.glob("*.whl")
    assert [part for part in PARTS if f"atlas/{part}" not in zipfile.ZipFile(wheel).namelist()] == []
