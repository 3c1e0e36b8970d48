"""Atlas is online, as in the tests of the job verbs."""

from tests.engine.jobs.conftest import online

__all__ = ["online"]
