"""Tests skip, with the reason, what this machine has no working program for."""

import pytest

from tests import programs
from tests.conftest import require_room


@pytest.fixture
def path(tmp_path, monkeypatch):
    """An empty folder that is the whole path."""
    monkeypatch.setattr(programs, "PATH", str(tmp_path))
    programs.why_unusable.cache_clear()
    yield tmp_path
    programs.why_unusable.cache_clear()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "docker is not installed"),
        ("#!/bin/sh\nexit 0\n", None),
        ("#!/bin/sh\nexit 1\n", "`docker compose version` ends with 1"),
        ("#!/bin/sh\necho 'unknown command: compose' >&2; exit 125\n", "ends with 125: unknown command: compose"),
        ("#!/no/such/shell\n", "`docker compose version` cannot be run: "),
    ],
)
def test_a_program_is_asked_whether_it_can_do_what_a_test_needs(path, script, reason):
    if script is not None:
        (path / "docker").write_text(script)
        (path / "docker").chmod(0o755)

    found = programs.why_unusable("docker", "compose", "version")

    assert found is None if reason is None else reason in str(found)


def test_no_test_begins_where_the_temporary_folder_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.conftest.ENOUGH_ROOM", 2**80)
    with pytest.raises(pytest.UsageError, match="set TMPDIR to another folder"):
        require_room(tmp_path)
