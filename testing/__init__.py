"""A test kit for jobs, workflows and mails: a real database, time that passes on demand, and faults on demand.

Add `pytest_plugins = ["atlas.testing.plugin"]` to your conftest.py and use the fixture `atlas_kit`. A test under
`@simulate` runs in many schedules on a virtual clock, with crashes at every commit.
"""

from atlas.extras import require

require("server")

from atlas.testing.kit import AtlasKit  # noqa: E402
from atlas.testing.simulation.crashes import CrashFinding, crash_everywhere  # noqa: E402
from atlas.testing.simulation.explore import SimulationFailed, replay_schedule, simulate  # noqa: E402
from atlas.testing.simulation.points import LostAnswer  # noqa: E402
from atlas.testing.simulation.simulation import Simulation  # noqa: E402

__all__ = [
    "AtlasKit",
    "CrashFinding",
    "LostAnswer",
    "Simulation",
    "SimulationFailed",
    "crash_everywhere",
    "replay_schedule",
    "simulate",
]
