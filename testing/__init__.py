"""A test kit for jobs, workflows and mails: a real database, time that passes on demand, and faults on demand.

Add `pytest_plugins = ["atlas.testing.plugin"]` to your conftest.py and use the fixture `atlas_kit`.
"""

from atlas.extras import require

require("server")

from atlas.testing.kit import AtlasKit  # noqa: E402

__all__ = ["AtlasKit"]
