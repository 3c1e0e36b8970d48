"""Fixtures for workflows."""

import pytest

import tests.engine.workflows.flows  # noqa: F401  # registers the workflows
from atlas.db.pool import Pool
from tests.engine.workflows.kit import Kit


@pytest.fixture
def kit(pool: Pool, database_url: str, online: None) -> Kit:
    """An Atlas that is online."""
    return Kit(pool, database_url)
