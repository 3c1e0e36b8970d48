"""Fixtures for workflows."""

import pytest

import tests.engine.workflows.flows  # noqa: F401  # registers the workflows
from atlas.db.pool import Pool
from tests.engine.workflows.kit import Kit


@pytest.fixture
async def kit(pool: Pool, database_url: str) -> Kit:
    """An Atlas that is online."""
    made = Kit(pool, database_url)
    await made.online()
    return made
