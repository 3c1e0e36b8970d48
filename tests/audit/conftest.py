"""Fixtures: an installation with a key of its own."""

from pathlib import Path

import pytest

from tests.audit.given import Installation


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """A key, its state and a folder for checkpoints."""
    return Installation(tmp_path / "home")
