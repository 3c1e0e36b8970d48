"""What the tests of the job verbs start from."""

import pytest


@pytest.fixture(autouse=True)
def online() -> None:
    """Atlas is on, unless a test turns it off."""
