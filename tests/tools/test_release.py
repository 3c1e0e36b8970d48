"""A release is made from a committed tree whose changelog names the version, once."""

import subprocess
from pathlib import Path

import pytest

from tests.programs import require_program
from tests.support import ROOT
from tools.release import ReleaseRefused, checked_version, try_wheel

DATED = "## [0.2.0] - 2027-01-31\n"


def git(tree: Path, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *who, *arguments], cwd=tree, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A committed tree that is ready for the release of 0.2.0."""
    require_program("git", "--version")
    (tmp_path / "atlas").mkdir()
    (tmp_path / "atlas" / "version.py").write_text('"""The version."""\n\n__version__ = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{DATED}")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Release 0.2.0")
    return tmp_path


def test_a_tree_that_is_ready_has_a_version(tree):
    assert checked_version(tree) == "0.2.0"


def test_uncommitted_changes_are_refused(tree):
    (tree / "new.py").touch()
    with pytest.raises(ReleaseRefused, match="uncommitted"):
        checked_version(tree)


def test_a_changelog_without_the_version_is_refused(tree):
    (tree / "CHANGELOG.md").write_text("## [Unreleased]\n")
    git(tree, "commit", "--quiet", "--all", "--message", "Forget the date")
    with pytest.raises(ReleaseRefused, match=r"\[0\.2\.0\]"):
        checked_version(tree)


def test_a_version_is_released_once(tree):
    git(tree, "tag", "v0.2.0")
    with pytest.raises(ReleaseRefused, match="exists"):
        checked_version(tree)


@pytest.mark.slow
def test_a_wheel_of_this_tree_runs_a_job_in_an_empty_environment(tmp_path):
    subprocess.run(["make", "wheel"], cwd=ROOT, check=True, capture_output=True)
    [wheel] = (ROOT / "dist").glob("*.whl")
    try_wheel(wheel, tmp_path / "try")
