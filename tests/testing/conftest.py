"""Fixtures for the test kit and the simulation."""

import pytest

from atlas.engine.jobs.handlers.types import registered

# What the tests of this folder register, and what they use of other folders.
OWN = ("kit.", "same.", "test.double", "test.noop", "test.raises")


@pytest.fixture(autouse=True)
def own_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the job types of other tests: the kit's worker serves, and publishes, every type of its process."""
    for key in list(registered()):
        if "." in key and not key.startswith(OWN):
            monkeypatch.delitem(registered(), key)
